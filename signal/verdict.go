package signal

import "strings"

// flags are what a rule knows beside the class.
type flags uint8

const (
	processed  flags = 1 << iota // the provider may have processed the request
	never                        // the same request cannot succeed
	again                        // retryable although its class is not
	review                       // for the owner although its class is not
	background                   // retryable, but not within an interactive wait
	refused                      // certainly not processed, whatever the status suggests
)

// verdict is the outcome of the rules.
type verdict struct {
	class Class
	limit Limit
	flags flags
}

func (v verdict) has(f flags) bool { return v.flags&f != 0 }

func (v verdict) retryable() bool {
	if v.has(again) {
		return true
	}
	switch v.class {
	case RateLimited, Overloaded, ServerError, Timeout, Connection, Unknown:
		return !v.has(never)
	case QuotaExhausted:
		// A day's allowance comes back by itself, money does not.
		return v.limit == RequestsPerDay || v.limit == TokensPerDay || v.has(background)
	}
	return false
}

// ownersMatter: an account, key, configuration or money problem.
func (v verdict) ownersMatter() bool {
	switch v.class {
	case Auth, Permission, QuotaExhausted:
		return true
	}
	return v.has(review)
}

// Waits beyond which a request leaves the interactive path, and beyond which no policy should accept it
// (a route's cool-down is capped at the same 24 h: semantics 34).
const (
	inPlaceMS = 30_000
	acceptMS  = 24 * 3600 * 1000
)

func lane(v verdict, s *Signal, forbidden bool) Lane {
	switch {
	case forbidden:
		return DeadLetter
	case !s.Retryable && v.ownersMatter():
		return OwnerReview
	case !s.Retryable:
		return Fail
	case s.RetryAfterMS != nil && *s.RetryAfterMS > acceptMS:
		return OwnerReview
	case v.class == QuotaExhausted || v.has(background):
		return BackgroundRetry
	case s.RetryAfterMS != nil && *s.RetryAfterMS > inPlaceMS:
		return BackgroundRetry
	}
	return RetryInPlace
}

// applyShouldRetry obeys x-should-retry as the official clients do: exact lower-case words that override the
// status. It does not make a request succeed that is wrong in itself, nor pay a bill.
func applyShouldRetry(word string, v verdict, s *Signal) (forbidden bool) {
	switch strings.TrimSpace(word) {
	case "false":
		forbidden = s.Retryable && v.class != RateLimited && v.class != QuotaExhausted
		s.Retryable = false
	case "true":
		if v.class == InvalidRequest && !v.has(review) {
			s.Retryable = true
		}
	}
	return forbidden
}
