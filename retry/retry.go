// Package retry says when a failed attempt may be made again.
package retry

import (
	"math/rand/v2"
	"time"

	"github.com/holdfast-ai/holdfast/internal/mutant"
)

// The defaults of a Policy.
const (
	DefaultMaxAttempts = 3
	DefaultBase        = 500 * time.Millisecond
	DefaultMax         = 8 * time.Second
)

// Longest bounds the floor and Policy.Max: nobody is told to wait longer than a day before he asks again, as no
// cool-down of a route lasts longer (semantics 34).
const Longest = 24 * time.Hour

// Policy is how often one operation is attempted and how long it waits between. A field of zero or less means its
// default.
type Policy struct {
	// MaxAttempts counts all attempts, the first one included; 1 never retries.
	MaxAttempts int
	// Base is the largest wait after the first failure. It doubles with each further one, up to Max.
	Base, Max time.Duration
}

func (p Policy) filled() Policy {
	if p.MaxAttempts <= 0 {
		p.MaxAttempts = DefaultMaxAttempts
	}
	if p.Base <= 0 {
		p.Base = DefaultBase
	}
	if p.Max <= 0 {
		p.Max = DefaultMax
	}
	p.Max = min(p.Max, Longest)
	p.Base = min(p.Base, p.Max)
	return p
}

// More reports whether the policy has an attempt left after so many were made.
func (p Policy) More(made int) bool { return made < p.filled().MaxAttempts }

// Delay is the wait before the next attempt, after failed attempts (at least 1) have failed: full jitter, that is
// anything from nothing to Base·2^(failed−1), or Max where that is less, with equal chance. Others that failed in
// the same instant come back spread over that time.
//
// Floor is the wait that the far side asked for (its Retry-After); zero and less are none. The delay is never less:
// it is drawn from floor up to where it would end without one, or up to floor + Base where that is later, since all
// who were told the same second would otherwise return in it together. A floor above Longest counts as Longest. So
// the result is never negative, never shorter than the floor by overflow, and never more than Longest + Base,
// whatever the far side says.
//
// Random returns a number in [0, n) for n > 0, and is asked once; nil is math/rand/v2.
func (p Policy) Delay(failed int, floor time.Duration, random func(n int64) int64) time.Duration {
	if random == nil {
		random = rand.Int64N
	}
	p = p.filled()
	floor = min(max(0, floor), Longest)
	if mutant.On("jitter-without-floor") {
		floor = 0
	}
	end := max(p.window(failed), floor+p.Base) // both at most 2 × Longest
	return floor + time.Duration(random(int64(end-floor)+1))
}

// window is the longest wait after so many failures.
func (p Policy) window(failed int) time.Duration {
	doublings := max(1, failed) - 1
	if doublings >= 63 || p.Base > p.Max>>doublings {
		return p.Max
	}
	return p.Base << doublings
}
