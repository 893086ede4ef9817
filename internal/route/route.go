package route

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/holdfast-ai/holdfast/breaker"
	"github.com/holdfast-ai/holdfast/retry"
)

// Route is the live state of one route. It is safe for concurrent use; entering one in health takes no lock and
// allocates nothing.
type Route struct {
	key      string
	table    *Table
	breaker  *breaker.Breaker
	budget   atomic.Pointer[retry.Budget]
	share    atomic.Pointer[float64]
	paused   atomic.Pointer[string] // the reason
	fault    atomic.Pointer[injection]
	gate     gate
	row      row
	used     atomic.Bool
	pressure pressure
	epoch    atomic.Uint64 // of the configuration it has
}

// Kind says which gate refuses.
type Kind uint8

// The gates, in the order in which a call meets them.
const (
	Paused Kind = iota + 1
	Cooling
	Open
)

// Refusal says why a call may not enter, and when it is worth asking again.
type Refusal struct {
	Kind Kind
	// Wait is the time until then; 0 where nobody knows, because a person decides (Paused) or a probe's end (Cooling).
	Wait   time.Duration
	Reason string // for people
	// Changed is closed when it is worth asking again although Wait is not over: a cool-down's probe has ended, or it was
	// reset. It is nil for the other kinds.
	Changed <-chan struct{}
	// Forced says that the breaker was tripped by hand; Wait is then no more than a guess.
	Forced bool
}

// Ticket is the right to make one call, with attempts as long as it is Live. The zero Ticket is of no route: it is not
// live, and ending it does nothing.
type Ticket struct {
	route *Route
	pass  breaker.Pass
	probe uint64 // of a cool-down; 0: none
}

// Enter lets a call begin or says which gate refuses. Every Ticket must be ended by Done, best in a defer.
func (r *Route) Enter() (Ticket, *Refusal) { return r.enter(0) }

func (r *Route) enter(held uint64) (Ticket, *Refusal) {
	if reason := r.paused.Load(); reason != nil {
		return Ticket{}, &Refusal{Kind: Paused, Reason: *reason}
	}
	probe, refusal := r.gate.enter(held)
	if refusal != nil {
		if r.breaker.Snapshot().Forced { // a person's word goes before a cool-down: nobody waits for what will not come
			_, err := r.breaker.Acquire()
			return Ticket{}, openRefusal(err)
		}
		return Ticket{}, refusal
	}
	pass, err := r.breaker.Acquire()
	if err == nil {
		return Ticket{route: r, pass: pass, probe: probe}, nil
	}
	if probe != held {
		r.gate.leave(probe, breaker.Ignored)
	}
	return Ticket{}, openRefusal(err)
}

// Live reports whether a further attempt may be made: the ticket is no probe of the breaker, and the breaker has not
// opened since.
func (t Ticket) Live() bool { return t.pass.Live() }

// Probe reports whether the call is the half-open breaker's one probe: a single attempt, never an inner retry.
func (t Ticket) Probe() bool { return t.pass.Probe() }

// Answered says that the provider has taken the call, as the head of a successful answer does: if it was the probe after
// a cool-down, that is over now, and others need not wait for the end of a long stream. Done is still to come.
func (t Ticket) Answered() {
	t.pass.Answered()
	if t.probe != 0 {
		t.route.gate.leave(t.probe, breaker.Success)
	}
}

// Renew asks the gates again before a further attempt of the same call. When they let it in, t has ended without a
// verdict and the ticket returned stands for it; when they do not, t is as it was. A call that is the probe after a
// cool-down is not refused by its own place.
func (t Ticket) Renew() (Ticket, *Refusal) {
	if t.route == nil {
		return Ticket{}, &Refusal{Kind: Open, Reason: "this ticket is of no route"}
	}
	next, refusal := t.route.enter(t.probe)
	if refusal != nil {
		return Ticket{}, refusal
	}
	t.pass.Done(breaker.Ignored)
	if t.probe != next.probe && t.probe != 0 {
		t.route.gate.leave(t.probe, breaker.Ignored)
	}
	return next, nil
}

// Done ends the call with what it says of the provider's health. Only the first Done of a ticket counts.
func (t Ticket) Done(res breaker.Result) {
	if t.route == nil {
		return
	}
	t.pass.Done(res)
	if t.probe != 0 {
		t.route.gate.leave(t.probe, res)
	}
}

// Key names the route: what Get was asked for, shortened where that was too long.
func (r *Route) Key() string { return r.key }

// Budget returns the bucket that all retries on this route take from (semantics 35).
func (r *Route) Budget() *retry.Budget { return r.budget.Load() }

// Cool sets the cool-down that a rate limit asks for: until now + wait, at most 24 h, unless a later one is in force
// already. It returns the ledger time in force, zero when there is none. The others obey at once; the row is waited for
// a moment, and a store that cannot take it is logged.
func (r *Route) Cool(wait time.Duration, reason string) time.Time {
	r = r.table.current(r)
	if wait > 0 {
		wait = min(wait, maxCooldown)
		if r.gate.close(wait, reason) {
			r.save(wait, reason)
		}
	}
	return r.table.ledgerTime(r.gate.remaining())
}

// current returns the route that new calls find under r's key: r itself, unless it was evicted while this call ran.
func (t *Table) current(r *Route) *Route {
	if now := t.peek(r.key); now != nil {
		return now
	}
	return t.add(r.key)
}

// ledgerTime is when a wait from now ends, zero for none.
func (t *Table) ledgerTime(wait time.Duration) time.Time {
	if wait <= 0 {
		return time.Time{}
	}
	return t.now().Add(wait)
}

func (t *Table) now() time.Time {
	if t.cfg.Cooldowns == nil {
		return time.Now()
	}
	return t.cfg.Cooldowns.Now()
}

func (r *Route) configure(epoch uint64, b breaker.Config, share float64) {
	r.table.mu.Lock()
	defer r.table.mu.Unlock()
	if r.epoch.Load() >= epoch {
		return
	}
	b = r.breakerConfig(b)
	r.breaker.Configure(b)
	if old := r.share.Load(); old == nil || *old != share {
		r.share.Store(&share)
		r.budget.Store(retry.NewBudget(share))
	}
	r.epoch.Store(epoch)
}

func (r *Route) breakerConfig(b breaker.Config) breaker.Config {
	if tell := r.table.cfg.OnBreaker; tell != nil {
		b.OnChange = func(c breaker.Change) { tell(r.key, c) }
	}
	return b
}

// atRest reports whether forgetting the route loses nothing but the tokens of its budget.
func (r *Route) atRest() bool {
	s := r.breaker.Snapshot()
	automatic := s.State == breaker.Closed && s.Failures == 0 || s.Forced // what was forced is kept by pattern
	return automatic && r.gate.atRest() && r.Pressure().Level == Easy
}

// Load takes over the cool-downs of the ledger, at start.
func (t *Table) Load(ctx context.Context) error {
	if t.cfg.Cooldowns == nil {
		return nil
	}
	rows, err := t.cfg.Cooldowns.Cooldowns(ctx)
	if err != nil {
		return fmt.Errorf("route: the ledger's cool-downs cannot be read: %w", err)
	}
	now := t.cfg.Cooldowns.Now()
	for key, until := range rows {
		if wait := min(until.Sub(now), maxCooldown); wait > 0 {
			t.add(key).gate.close(wait, "since before the restart")
		}
	}
	return nil
}
