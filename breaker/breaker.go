// Package breaker stops calls to a provider that fails, and lets one probe at a time find out whether it still does.
//
// The rules (semantics 33, 34):
//
//   - Closed, it counts the results of calls. FailureThreshold failures in a row open it; so does a share of FailureRate among
//     at least MinCalls results in Window, where that is configured.
//   - Open, it refuses every call for ResetTimeout. A breaker that was tripped by hand refuses until it is reset by hand.
//   - Half-open, it lets exactly one call through, the probe, and refuses all others at once. Success closes it, failure opens it
//     for another ResetTimeout, and a result that says nothing (Ignored) gives the slot to the next caller.
//   - A probe holds its slot for at most ProbeLease, so that an endless stream or a lost caller cannot keep it. Its verdict still
//     counts when it comes, as long as the breaker is half-open: else a provider whose answers take longer than the
//     lease could never close it.
//   - A result of a call that began before the breaker last opened, closed or was reset from open is no news, and changes nothing.
//   - What a result means is the caller's to say: only what tells of the provider's health is a Success or a Failure.
package breaker

import (
	"sync"
	"sync/atomic"
	"time"

	"github.com/holdfast-ai/holdfast/internal/mutant"
)

// What a zero Config means.
const (
	DefaultFailureThreshold = 10
	DefaultResetTimeout     = 30 * time.Second
	DefaultWindow           = time.Minute
	DefaultMinCalls         = 20
)

// Config says when a breaker opens and for how long. Zero or negative fields mean the default.
type Config struct {
	// FailureThreshold is the number of failures in a row that opens it; 10.
	FailureThreshold int
	// ResetTimeout is how long it stays open before it lets a probe through; 30 s.
	ResetTimeout time.Duration
	// ProbeLease is how long a probe that does not come back holds its slot; ResetTimeout.
	ProbeLease time.Duration

	// FailureRate opens it when this share of the results within Window (one minute), of which there are at least MinCalls (20),
	// are failures. 0 switches the rule off. It costs each call the reading of a clock and a lock of this breaker's own.
	FailureRate float64
	Window      time.Duration
	MinCalls    int

	// Replicas is the number of processes among which callers are spread; each opens at its share of FailureThreshold and
	// MinCalls, rounded down so that together they stay within them, and at least 1. Where a Store that counts for all of them says so
	// (see Fleet), FailureThreshold is not divided.
	Replicas int

	// Shared asks a Store that can for the state of all replicas together; see Sharer.
	Shared bool

	// Store holds the state; nil means this breaker's own memory. It is read by New alone.
	Store Store

	// OnChange is told of each change of state, by the goroutine that made it and outside of any lock. It must not block.
	// Two changes made at the same time may be told in either order; Change.Seq has the true one.
	OnChange func(Change)
}

func (c Config) withDefaults() Config {
	c.FailureThreshold = share(positive(c.FailureThreshold, DefaultFailureThreshold), c.Replicas)
	c.ResetTimeout = positive(c.ResetTimeout, DefaultResetTimeout)
	c.ProbeLease = positive(c.ProbeLease, c.ResetTimeout)
	c.Window = positive(c.Window, DefaultWindow)
	c.MinCalls = share(positive(c.MinCalls, DefaultMinCalls), c.Replicas)
	return c
}

func positive[T int | time.Duration](v, otherwise T) T {
	if v > 0 {
		return v
	}
	return otherwise
}

func share(n, replicas int) int { return max(1, n/max(1, replicas)) }

// Result is what the end of a call says of the provider's health.
type Result uint8

// The results. Ignored, the zero Result, says nothing of it: a 4xx, a cancel of the client's or of ours, a deadline too short to be fair,
// a limit of rate or quota.
const (
	Ignored Result = iota
	Success
	Failure
)

// Breaker guards one route. It is safe for concurrent use; a call that succeeds takes no lock and allocates nothing.
type Breaker struct {
	config atomic.Pointer[Config]
	whole  atomic.Pointer[Config] // the same for a Fleet: its FailureThreshold is that of all replicas together
	store  Store
	window window
	calls  sync.Pool  // of *call
	held   sync.Mutex // of a mutant alone
}

// call makes one pass end once: only who moves turn on from the pass's own number has ended it.
type call struct{ turn atomic.Uint64 }

// New returns a closed breaker, or one in the state that c.Store holds.
func New(c Config) *Breaker {
	b := &Breaker{store: c.Store}
	if b.store == nil {
		b.store = NewStore()
	}
	b.Configure(c)
	return b
}

// Configure replaces the configuration but for its Store. The state stays as it is: what was opened for the old ResetTimeout
// stays open until then.
func (b *Breaker) Configure(c Config) {
	if s, ok := b.store.(Sharer); ok {
		s.Share(c.Shared)
	}
	whole := c.withDefaults()
	whole.FailureThreshold = positive(c.FailureThreshold, DefaultFailureThreshold)
	b.whole.Store(&whole)
	c = c.withDefaults()
	if old := b.config.Swap(&c); old != nil && old.Window != c.Window {
		b.window.forget()
	}
}

// rules are those in force.
func (b *Breaker) rules() *Config {
	if f, ok := b.store.(Fleet); ok && f.Fleet() {
		return b.whole.Load()
	}
	return b.config.Load()
}

// Leave ends the sharing of the state for a breaker that is not used any more.
func (b *Breaker) Leave() {
	if s, ok := b.store.(Sharer); ok {
		s.Share(false)
	}
}

// Now is the time that the breaker's records are stamped with.
func (b *Breaker) Now() time.Time { return b.store.Now() }

// Acquire lets a call begin or returns an *OpenError. Every Pass must be ended by Done, best in a defer, so that a panic ends it too.
func (b *Breaker) Acquire() (Pass, error) {
	if mutant.On("breaker-lock-during-call") {
		b.held.Lock()
	}
	r := b.store.Load()
	if r.State == Closed {
		return b.pass(r, 0), nil
	}
	c := b.config.Load()
	for ; ; r = b.store.Load() {
		now := b.store.Now()
		next, refusal := r.acquire(now, c)
		switch {
		case refusal != nil:
			return Pass{}, refusal
		case next == r:
			return b.pass(r, 0), nil
		case b.store.Swap(r, next):
			b.changed(c, r, next, now)
			return b.pass(next, next.Probe), nil
		}
	}
}

func (b *Breaker) pass(r *Record, probe uint64) Pass {
	c, ok := b.calls.Get().(*call)
	if !ok {
		c = new(call)
	}
	return Pass{b: b, call: c, turn: c.turn.Load(), generation: r.Generation, probe: probe}
}

// Pass is the right to make one call. The zero Pass is of no breaker: it is not live, and ending it does nothing.
type Pass struct {
	b          *Breaker
	call       *call
	turn       uint64
	generation uint64
	probe      uint64 // 0: not a probe
}

// Probe reports whether this is the one call that finds out about the provider's health: a single attempt, never an inner retry.
func (p Pass) Probe() bool { return p.probe != 0 }

// Live reports whether a further attempt may be made under this pass: it is no probe, and the breaker has not opened since.
func (p Pass) Live() bool {
	return p.b != nil && p.probe == 0 && p.b.store.Load().Generation == p.generation
}

// Answered says that the provider has begun to answer. A probe gives up its slot then, without a verdict: a stream has one
// when it ends, and until then nobody else would find out. Done is still to come, and counts.
func (p Pass) Answered() {
	if p.b == nil || p.probe == 0 || p.call.turn.Load() != p.turn {
		return
	}
	for {
		r := p.b.store.Load()
		if r.State != HalfOpen || r.Generation != p.generation || r.Probe != p.probe {
			return
		}
		now := p.b.store.Now()
		if p.b.store.Swap(r, r.with(func(n *Record) { n.Probe, n.Until = 0, now })) {
			return
		}
	}
}

// Done ends the call with what it says of the provider. Only the first Done of a pass counts.
func (p Pass) Done(res Result) {
	if p.b == nil || !p.call.turn.CompareAndSwap(p.turn, p.turn+1) {
		return
	}
	p.b.done(p, res)
	p.b.calls.Put(p.call)
}

func (b *Breaker) done(p Pass, res Result) {
	r, c := b.store.Load(), b.rules()
	reason := ""
	if c.FailureRate > 0 && res != Ignored && p.probe == 0 && r.Generation == p.generation {
		reason = b.window.add(p.generation, res, b.store.Now(), c)
	}
	if reason == "" && res == Success && r.State == Closed && r.Failures == 0 {
		return // nothing to write
	}
	for ; ; r = b.store.Load() {
		now := b.store.Now()
		next := r.done(p, res, now, c, reason)
		if next == r {
			return
		}
		if b.store.Swap(r, next) {
			b.changed(c, r, next, now)
			return
		}
	}
}

// Trip opens the breaker by hand; it stays open until Reset, whatever the time or late results say.
func (b *Breaker) Trip(reason string) {
	b.force(func(r *Record, now time.Time) *Record {
		return &Record{State: Open, Forced: true, Reason: reason, Since: now, Generation: r.Generation + 1, Probes: r.Probes}
	})
}

// Reset closes the breaker by hand and forgets what it has counted.
func (b *Breaker) Reset() {
	b.force(func(r *Record, now time.Time) *Record {
		if r.State == Closed {
			return r.with(func(n *Record) { n.Failures = 0 })
		}
		return &Record{State: Closed, Reason: "reset by hand", Since: now, Generation: r.Generation + 1, Probes: r.Probes}
	})
	b.window.forget()
}

func (b *Breaker) force(to func(*Record, time.Time) *Record) {
	for {
		r, now := b.store.Load(), b.store.Now()
		next := to(r, now)
		if b.store.Swap(r, next) {
			b.changed(b.config.Load(), r, next, now)
			return
		}
	}
}

// State returns the state at this moment. A breaker whose time has come stays Open until a call asks, which makes it the probe.
func (b *Breaker) State() State { return b.store.Load().State }

// Snapshot returns the whole state, as State does.
func (b *Breaker) Snapshot() Record { return *b.store.Load() }

// Change is one change of a breaker's state.
type Change struct {
	From, To State
	At       time.Time
	Reason   string // why, for people; for a trip what its author gave
	Forced   bool   // by hand
	Seq      uint64 // rises with each change of this breaker
}

func (b *Breaker) changed(c *Config, from, to *Record, now time.Time) {
	if c.OnChange == nil || from.State == to.State && from.Forced == to.Forced {
		return
	}
	c.OnChange(Change{From: from.State, To: to.State, At: now, Reason: to.Reason, Forced: to.Forced || from.Forced, Seq: to.Generation})
}
