package retry

import (
	"math"
	"sync/atomic"

	"github.com/holdfast-ai/holdfast/internal/mutant"
)

const (
	// capacity is how many tokens a bucket holds and begins with (semantics 35).
	capacity = 10
	// unit is one token: shares are exact to a billionth.
	unit = 1_000_000_000
)

// Budget is the token bucket that bounds the retries of one route (semantics 35): it holds and begins with ten
// tokens, each first attempt adds a share of one, each retry takes one. However calls interleave, the retries are
// never more than 10 + share × first attempts, so that an outage is not answered with a multiple of the traffic.
//
// It is safe for concurrent use, takes no lock and allocates nothing. A full bucket, which is what healthy traffic
// has, is only read.
type Budget struct {
	share  int64
	tokens atomic.Int64
}

// NewBudget is a full bucket to which each first attempt adds share tokens. With a share of 0 (less, or no number,
// is 0) the ten tokens of the start are all there are until the process ends: few failures are still retried, an
// outage is not. A policy that wants no retries at all says max_attempts: 1. A share above 10 is 10.
func NewBudget(share float64) *Budget {
	b := &Budget{share: units(share)}
	b.tokens.Store(capacity * unit)
	return b
}

// First counts a first attempt.
func (b *Budget) First() { b.add(b.share) }

// Take takes the token of one retry and reports whether there was one. Without it the retry is not sent.
func (b *Budget) Take() bool {
	for {
		have := b.tokens.Load()
		if have < unit && !mutant.On("retry-beyond-share") {
			return false
		}
		if b.tokens.CompareAndSwap(have, have-unit) {
			return true
		}
	}
}

// Put returns the token of a retry that was taken and then not sent.
func (b *Budget) Put() { b.add(unit) }

// Tokens is what the bucket holds now, for people to read.
func (b *Budget) Tokens() float64 { return float64(b.tokens.Load()) / unit }

func (b *Budget) add(n int64) {
	for {
		have := b.tokens.Load()
		next := min(have+n, capacity*unit)
		if next == have || b.tokens.CompareAndSwap(have, next) {
			return
		}
	}
}

// units is a share of a token in units of the bucket; a share that is no number, or below zero, is none.
func units(share float64) int64 {
	if !(share > 0) {
		return 0
	}
	return int64(math.Round(min(share, capacity) * unit))
}
