// Package deadline is the one budget of time that every attempt, wait and tier of an operation spends.
package deadline

import (
	"math"
	"time"

	"github.com/holdfast-ai/holdfast/internal/mutant"
)

// Budget is the time that one operation has from its beginning. It is a value: copies are the same budget, since
// what is spent follows from the clock alone. The zero value is spent.
//
// Every now should carry the reading of the monotonic clock that time.Now gives. One that lies before the beginning
// counts as the beginning, so that a wall clock stepped back never lengthens a budget.
type Budget struct {
	start time.Time
	total time.Duration
}

// New begins a budget of total at now. A total below zero is spent at once; the largest Duration is no limit that
// anybody lives to see.
func New(now time.Time, total time.Duration) Budget {
	return Budget{start: now, total: max(0, total)}
}

// Total is the whole budget.
func (b Budget) Total() time.Duration { return b.total }

// End is when the budget is over, for a context or a timer.
func (b Budget) End() time.Time { return b.start.Add(b.total) }

// Within is the budget shortened to total from the same beginning; a longer total leaves it as it is. The least of
// several limits is the one that holds, in whatever order they become known (semantics 31).
func (b Budget) Within(total time.Duration) Budget {
	b.total = min(b.total, max(0, total))
	return b
}

// Remaining is what is left of the budget at now, never below zero.
func (b Budget) Remaining(now time.Time) time.Duration {
	if mutant.On("budget-for-each-attempt") {
		return b.total
	}
	spent := max(0, now.Sub(b.start)) // Sub saturates, and total is not negative: no overflow
	return max(0, b.total-spent)
}

// Over reports whether nothing is left.
func (b Budget) Over(now time.Time) bool { return b.Remaining(now) == 0 }

// Attempt is how long an attempt with this limit of its own may take from now; a limit of zero or less is none.
// Whole is false when the budget ends the attempt before its own limit would: then its time-out says something of
// the caller's patience and nothing of the provider's health.
func (b Budget) Attempt(now time.Time, limit time.Duration) (d time.Duration, whole bool) {
	if limit <= 0 {
		limit = math.MaxInt64
	}
	left := b.Remaining(now)
	return min(left, limit), limit <= left
}

// Affords reports whether after wait at least the time least remains, and any at all: a wait that leaves nothing for
// what it is waited for is not begun. Negative values count as zero.
func (b Budget) Affords(now time.Time, wait, least time.Duration) bool {
	left := b.Remaining(now) - max(0, wait)
	return left > 0 && left >= least
}
