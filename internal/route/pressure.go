package route

import (
	"sync"
	"sync/atomic"
	"time"

	"github.com/holdfast-ai/holdfast/internal/mutant"
)

// Backpressure on a route, in the order of design.md §4: after a signal that it is too much no new low-urgency work begins
// for a moment; then so much of it at a time as the signals leave, less by half with each, more by one with each round that
// succeeds; what waits is released by its time; at last calls of low priority are shed. Calls that somebody waits for are
// never held back by it.

const (
	// mostBatch is where a limit of low-urgency work is none any more: a queue has no more workers.
	mostBatch = 64
	// firstLimit is what is halved by a first signal that finds no low-urgency work.
	firstLimit = 8
	// holdOff is how long no new low-urgency work begins after a signal that names no time of its own.
	holdOff = time.Second
	// squeezed is how long after a signal that found the least limit calls of low priority are shed.
	squeezed = 10 * time.Second
	// forgotten is how long a limit lasts without a further signal.
	forgotten = 5 * time.Minute
)

// Level is what a route's signals have led to.
type Level string

// The levels.
const (
	Easy     Level = "easy"
	Reduced  Level = "reduced"  // low-urgency work is limited
	Shedding Level = "shedding" // … to one call at a time, and calls of low priority are turned away
)

// Pressure is the backpressure on a route.
type Pressure struct {
	Level Level
	// Limit is how many low-urgency calls may be in progress, 0: without limit; Inside is how many are.
	Limit, Inside int
	// Hold is how long it is until further ones may begin.
	Hold   time.Duration
	Since  time.Time // of the last signal
	Reason string    // what it said
}

type pressure struct {
	on atomic.Bool // there is a limit

	mu     sync.Mutex
	limit  float64
	inside int
	cut    time.Time // of the last signal that lowered it
	tight  time.Time // until when there is too much even at the least limit
	reason string
}

// Push takes a signal that the route has too much to do, from an attempt that was sent at that time. What was sent before
// the limit was lowered last says nothing of the limit that is.
func (r *Route) Push(sent time.Time, reason string) {
	p := &r.pressure
	p.mu.Lock()
	defer p.mu.Unlock()
	now := time.Now()
	p.forget(now)
	if p.limit > 0 && sent.Before(p.cut) {
		return
	}
	switch {
	case p.limit == 1:
		p.tight = now.Add(squeezed)
	case p.limit > 0:
		p.limit = max(1, p.limit/2)
	case p.inside > 0:
		p.limit = max(1, float64(p.inside)/2)
	default:
		p.limit = firstLimit / 2
	}
	p.cut, p.reason = now, reason
	p.on.Store(true)
	r.table.log.Info("a route has too much to do; low-urgency work on it is limited", "route", r.key, "limit", int(p.limit), "reason", reason)
}

// forget lifts a limit of which nothing was heard for long.
func (p *pressure) forget(now time.Time) {
	if p.limit > 0 && now.Sub(p.cut) > forgotten {
		p.lift()
	}
}

func (p *pressure) lift() {
	p.limit, p.reason, p.tight = 0, "", time.Time{}
	p.on.Store(false)
}

// wait is how long it is until a low-urgency call may begin, and whether one may now; 0 where a place decides.
func (p *pressure) wait(now time.Time) (time.Duration, bool) {
	p.forget(now)
	if p.limit == 0 || mutant.On("no-backpressure") {
		return 0, true
	}
	if hold := holdOff - now.Sub(p.cut); hold > 0 {
		return hold, false
	}
	return 0, p.inside < int(p.limit)
}

// BatchFits reports whether a low-urgency call may begin now, and else how long it is until one might, 0 where that is
// for a place. It takes nothing.
func (r *Route) BatchFits() (wait time.Duration, fits bool) {
	if !r.pressure.on.Load() {
		return 0, true
	}
	r.pressure.mu.Lock()
	defer r.pressure.mu.Unlock()
	return r.pressure.wait(time.Now())
}

// TakeBatch counts a low-urgency call in, or says as BatchFits does why not. Each one counted is given back by PutBatch.
func (r *Route) TakeBatch() (wait time.Duration, taken bool) {
	r.pressure.mu.Lock()
	defer r.pressure.mu.Unlock()
	if wait, taken = r.pressure.wait(time.Now()); taken {
		r.pressure.inside++
	}
	return wait, taken
}

// PutBatch counts a low-urgency call out.
func (r *Route) PutBatch() {
	r.pressure.mu.Lock()
	defer r.pressure.mu.Unlock()
	r.pressure.inside--
}

// Ease takes the success of a low-urgency call that was sent at that time: a round of them under the limit raises it by one.
func (r *Route) Ease(sent time.Time) {
	p := &r.pressure
	if !p.on.Load() {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.limit == 0 || sent.Before(p.cut) {
		return
	}
	if p.limit += 1 / p.limit; p.limit >= mostBatch {
		p.lift()
	}
}

// Sheds reports whether calls of low priority are turned away.
func (r *Route) Sheds() bool {
	if !r.pressure.on.Load() {
		return false
	}
	r.pressure.mu.Lock()
	defer r.pressure.mu.Unlock()
	return time.Now().Before(r.pressure.tight)
}

// Pressure says how the route stands.
func (r *Route) Pressure() Pressure {
	p := &r.pressure
	p.mu.Lock()
	defer p.mu.Unlock()
	now := time.Now()
	p.forget(now)
	out := Pressure{Level: Easy, Limit: int(p.limit), Inside: p.inside, Reason: p.reason}
	if p.limit == 0 {
		return out
	}
	out.Level, out.Since, out.Hold = Reduced, p.cut, max(0, holdOff-now.Sub(p.cut))
	if now.Before(p.tight) {
		out.Level = Shedding
	}
	return out
}
