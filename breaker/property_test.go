package breaker

import (
	"cmp"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// world is a provider that is up or down in turns, and callers who come at random and break off at random.
type world struct {
	t       *testing.T
	rng     *rand.Rand
	c       Config
	b       *Breaker
	mu      sync.Mutex
	told    sync.Mutex
	changes []Change
	holder  int       // the call that has the probe's slot, 0: none
	lease   time.Time // until when it has
	period  uint64    // the generation in which it is a probe; the breaker opens anew when an earlier, slower one has failed
	calls   int
	down    bool
	longest time.Duration
}

func newWorld(t *testing.T, seed uint64) *world {
	w := &world{t: t, rng: rand.New(rand.NewPCG(seed, 7)), longest: 45 * time.Second}
	w.c = Config{FailureThreshold: 1 + w.rng.IntN(5), ResetTimeout: 10 * time.Second, ProbeLease: 15 * time.Second,
		OnChange: func(c Change) {
			w.told.Lock()
			defer w.told.Unlock()
			w.changes = append(w.changes, c)
		}}
	if w.rng.IntN(2) == 0 {
		w.c.FailureRate, w.c.MinCalls = 0.5, 4
	}
	w.b = New(w.c)
	return w
}

// run lives through ten minutes: one caller each half second, every call with a length and an end of its own.
func (w *world) run() {
	var all sync.WaitGroup
	for range 1200 {
		time.Sleep(500 * time.Millisecond)
		if w.rng.IntN(100) == 0 {
			w.down = !w.down
		}
		w.calls++
		call, length, res := w.calls, time.Duration(w.rng.Int64N(int64(w.longest))), w.result()
		all.Go(func() { w.call(call, length, res) })
		synctest.Wait()
	}
	all.Wait()
}

func (w *world) result() Result {
	switch {
	case w.rng.IntN(5) == 0:
		return Ignored
	case w.down:
		return Failure
	}
	return Success
}

func (w *world) call(call int, length time.Duration, res Result) {
	p, err := w.b.Acquire()
	w.mu.Lock()
	if err == nil && p.Probe() {
		if w.holder != 0 && w.period == p.generation && time.Now().Before(w.lease) {
			w.t.Errorf("calls %d and %d are probes of the same half-open breaker", w.holder, call)
		}
		w.holder, w.lease, w.period = call, time.Now().Add(w.c.ProbeLease), p.generation
	}
	w.mu.Unlock()
	if err != nil {
		return
	}
	time.Sleep(length)
	w.mu.Lock()
	defer w.mu.Unlock()
	before := w.b.Snapshot()
	if w.holder == call {
		w.holder = 0
	}
	p.Done(res)
	if after := w.b.Snapshot(); before.Generation != p.generation && after != before {
		w.t.Errorf("the result of a call from generation %d changes %+v to %+v", p.generation, before, after)
	}
}

// check holds the history to the diagram of the states.
func (w *world) check() {
	legal := map[[2]State]bool{{Closed, Open}: true, {Open, HalfOpen}: true, {HalfOpen, Open}: true, {HalfOpen, Closed}: true}
	state, at, seq := Closed, time.Time{}, uint64(0)
	slices.SortFunc(w.changes, func(a, b Change) int { return cmp.Compare(a.Seq, b.Seq) })
	for _, c := range w.changes {
		if c.From != state || !legal[[2]State{c.From, c.To}] || c.Seq <= seq {
			w.t.Errorf("%+v after %v, %d", c, state, seq)
		}
		if c.From == Open && c.At.Sub(at) < w.c.ResetTimeout {
			w.t.Errorf("half-open %v after it opened", c.At.Sub(at))
		}
		state, at, seq = c.To, c.At, c.Seq
	}
	if state != w.b.State() {
		w.t.Errorf("%v after changes that end with %v", w.b.State(), state)
	}
}

// recovers shows that no history leaves the breaker shut for a provider that is well.
func (w *world) recovers() {
	time.Sleep(w.c.ResetTimeout + w.c.ProbeLease)
	p, err := w.b.Acquire()
	if err != nil {
		w.t.Fatalf("nobody is let in although all calls have ended long ago: %v", err)
	}
	p.Done(Success)
	if w.b.State() != Closed {
		w.t.Errorf("%v after a success", w.b.State())
	}
}

func TestHistories(t *testing.T) {
	changes := 0
	for seed := range uint64(60) {
		synctest.Test(t, func(t *testing.T) {
			w := newWorld(t, seed)
			w.run()
			w.check()
			w.recovers()
			changes += len(w.changes)
		})
		if t.Failed() {
			t.Fatalf("seed %d", seed)
		}
	}
	if changes < 1000 {
		t.Errorf("%d changes of state in all histories, which shows little", changes)
	}
}
