package route

import (
	"sync"
	"sync/atomic"
	"time"

	"github.com/holdfast-ai/holdfast/internal/mutant"
)

// Backpressure on a route, in the order of design.md §4: after a signal that it is too much no new low-urgency work begins
// for a moment, or for the time that the signal names; then so much of it at a time as the signals leave, less by half with each, more by one with each round that
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
	// strained is the share of low-urgency calls that must find the route overloaded, or not in time, for that to be no chance;
	// of at least fewestStrained, among about lately.
	strained       = 0.2
	fewestStrained = 3
	lately         = 50
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
	hold   time.Time // until then no low-urgency call begins
	ok     float64   // low-urgency calls lately that succeeded
	bad    float64   // … that found it overloaded, or not in time
	tight  time.Time // until when there is too much even at the least limit
	reason string
}

// Push takes the word of a route that it is asked too much, from an attempt that was sent at that time; cooled says that the
// route's cool-down has the time which it named. What was sent before the limit was lowered last says nothing of the limit
// that is.
func (r *Route) Push(sent time.Time, cooled bool, reason string) {
	p := &r.pressure
	p.mu.Lock()
	defer p.mu.Unlock()
	r.lower(sent, cooled, reason)
}

// Strain takes a low-urgency call that found the route overloaded, or did not end in time. One alone may be chance.
func (r *Route) Strain(sent time.Time, cooled bool, reason string) {
	p := &r.pressure
	p.mu.Lock()
	defer p.mu.Unlock()
	p.count(&p.bad)
	if p.bad >= fewestStrained && p.bad >= strained*(p.ok+p.bad) {
		p.ok, p.bad = 0, 0
		r.lower(sent, cooled, reason)
	}
}

// count counts one end of a low-urgency call, and lets those of before fade.
func (p *pressure) count(what *float64) {
	if *what++; p.ok+p.bad > lately {
		p.ok, p.bad = p.ok/2, p.bad/2
	}
}

func (r *Route) lower(sent time.Time, cooled bool, reason string) {
	p, now := &r.pressure, time.Now()
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
	if p.cut, p.reason = now, reason; !cooled {
		p.hold = now.Add(holdOff)
	}
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
	p.limit, p.reason, p.tight, p.hold = 0, "", time.Time{}, time.Time{}
	p.on.Store(false)
}

// relieve is an operator's word that what was heard is over.
func (p *pressure) relieve() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.ok, p.bad = 0, 0
	p.lift()
}

// wait is how long it is until a low-urgency call may begin, and whether one may now; 0 where a place decides.
func (p *pressure) wait(now time.Time) (time.Duration, bool) {
	p.forget(now)
	if p.limit == 0 || mutant.On("no-backpressure") {
		return 0, true
	}
	if hold := p.hold.Sub(now); hold > 0 {
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
	p.mu.Lock()
	defer p.mu.Unlock()
	p.count(&p.ok)
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
	out.Level, out.Since, out.Hold = Reduced, p.cut, max(0, p.hold.Sub(now))
	if now.Before(p.tight) {
		out.Level = Shedding
	}
	return out
}
