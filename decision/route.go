package decision

import (
	"time"

	"github.com/holdfast-ai/holdfast/retry"
	"github.com/holdfast-ai/holdfast/signal"
)

// Unhealthy reports whether a failure counts for the breaker of its route (semantics 34): what the provider failed at
// does; what it refuses, a rate and a quota do not.
func Unhealthy(s signal.Signal) bool {
	switch s.Class {
	case signal.ServerError, signal.Overloaded, signal.Timeout, signal.Connection, signal.Unknown:
		return true
	}
	return false
}

// Pressing reports whether an attempt that failed so says that its route has too much to do: quota is no rate, and a request
// too large for the limit says nothing of others.
func Pressing(s signal.Signal) bool {
	switch s.Class {
	case signal.RateLimited, signal.Overloaded, signal.Timeout:
		return s.Retryable
	}
	return false
}

// Cooldown is how long everybody stays away from the route of an attempt that failed so, 0 for not at all, at most
// retry.Longest (semantics 34). A request too large for the limit says nothing of others; quota is no rate.
func Cooldown(s signal.Signal) time.Duration {
	if !s.Retryable || s.Class != signal.RateLimited && s.Class != signal.Overloaded {
		return 0
	}
	wait, _ := s.RetryAfter()
	return min(wait, retry.Longest)
}
