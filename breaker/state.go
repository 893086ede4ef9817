package breaker

import (
	"errors"
	"fmt"
	"time"

	"github.com/holdfast-ai/holdfast/internal/mutant"
)

// State is what a breaker does with the next call. The values are those of the metric holdfast.breaker.state.
type State uint8

// The states, and what leads from one to the next; there is no other way.
//
//	         FailureThreshold in a row, FailureRate, Trip
//	Closed ────────────────────────────────────────────► Open ◄── Trip
//	  ▲ ▲                                                │  ▲
//	  │ └──────────────── Reset ─────────────────────────┤  │ the probe fails, Trip
//	  │                                 ResetTimeout is  │  │
//	  │     the probe succeeds, Reset   over, one asks   ▼  │
//	  └─────────────────────────────────────────────── HalfOpen
const (
	Closed   State = 0
	HalfOpen State = 1
	Open     State = 2
)

// String returns "closed", "half-open" or "open".
func (s State) String() string {
	switch s {
	case Closed:
		return "closed"
	case HalfOpen:
		return "half-open"
	case Open:
		return "open"
	}
	return fmt.Sprintf("state %d", uint8(s))
}

// Record is a breaker's whole state but for its window of results. A Record that a Store holds is never changed, only replaced.
type Record struct {
	State State
	Since time.Time // when State began; zero for a breaker that never opened
	// Until is when an open breaker lets a probe through, and when a half-open one's probe loses its slot; zero when closed or forced.
	Until    time.Time
	Failures int    // in a row, and those of probes since
	Forced   bool   // opened by hand
	Reason   string // why State began, for people

	// Generation rises with each change of State; a call's result counts only in the generation that it began in.
	Generation uint64
	// Probe is the number of the probe that has the slot, 0 when the next caller may have it; Probes is the last number given.
	Probe, Probes uint64
}

// ErrOpen is what every *OpenError wraps.
var ErrOpen = errors.New("breaker: open")

// OpenError refuses a call.
type OpenError struct {
	// RetryAfter is the time after which asking again makes sense: until the next probe is let through or the present one
	// has lost its slot. Nobody can say when a breaker that was tripped by hand is reset; it has ResetTimeout there.
	RetryAfter time.Duration
	// Forced says that it was tripped by hand, Reason why it is open.
	Forced bool
	Reason string
}

// Error implements error.
func (e *OpenError) Error() string {
	if e.Forced {
		return fmt.Sprintf("%v: tripped by hand (%s); it stays so until it is reset", ErrOpen, e.Reason)
	}
	return fmt.Sprintf("%v: %s; ask again in %v", ErrOpen, e.Reason, e.RetryAfter)
}

// Unwrap returns ErrOpen.
func (e *OpenError) Unwrap() error { return ErrOpen }

// with returns a changed copy.
func (r *Record) with(change func(*Record)) *Record {
	n := *r
	change(&n)
	return &n
}

// acquire returns the record after a call was let through, r itself when nothing changes, or the refusal.
func (r *Record) acquire(now time.Time, c *Config) (*Record, *OpenError) {
	switch {
	case r.State == Closed:
		return r, nil
	case r.Forced:
		return nil, &OpenError{RetryAfter: c.ResetTimeout, Forced: true, Reason: r.Reason}
	case r.State == HalfOpen && r.Probe == 0:
	case now.Before(r.Until):
		return nil, &OpenError{RetryAfter: r.Until.Sub(now), Reason: r.Reason}
	}
	return r.with(func(n *Record) {
		if r.State == Open {
			n.State, n.Since, n.Generation = HalfOpen, now, r.Generation+1
		}
		n.Probes++
		n.Probe, n.Until = n.Probes, now.Add(c.ProbeLease)
	}), nil
}

// done returns the record after the call of p ended, or r itself when that says nothing. A reason that is not empty opens a
// closed breaker.
func (r *Record) done(p Pass, res Result, now time.Time, c *Config, reason string) *Record {
	if r.Generation != p.generation && (!mutant.On("late-result-closes") || r.State != HalfOpen) {
		return r
	}
	if r.State == HalfOpen {
		return r.verdict(p, res, now, c)
	}
	failures := r.Failures
	switch res {
	case Success:
		failures = 0
	case Failure:
		failures++
	}
	switch {
	case reason != "":
		return r.open(now, c, failures, reason)
	case failures >= c.FailureThreshold && res == Failure:
		return r.open(now, c, failures, fmt.Sprintf("failures in a row: %d", failures))
	case failures != r.Failures:
		return r.with(func(n *Record) { n.Failures = failures })
	}
	return r
}

// verdict is done for a probe. That of one which has lost its slot by its lease counts as well, but gives nobody's slot back.
func (r *Record) verdict(p Pass, res Result, now time.Time, c *Config) *Record {
	switch {
	case res == Success:
		return &Record{State: Closed, Since: now, Reason: "the probe succeeded", Generation: r.Generation + 1, Probes: r.Probes}
	case res == Failure:
		return r.open(now, c, r.Failures+1, "the probe failed")
	case r.Probe == p.probe && !mutant.On("probe-slot-lost"):
		return r.with(func(n *Record) { n.Probe, n.Until = 0, now })
	}
	return r
}

func (r *Record) open(now time.Time, c *Config, failures int, reason string) *Record {
	return &Record{State: Open, Since: now, Until: now.Add(c.ResetTimeout), Failures: failures, Reason: reason,
		Generation: r.Generation + 1, Probes: r.Probes}
}
