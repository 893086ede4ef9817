package intent_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/holdfast-ai/holdfast/intent"
	"github.com/holdfast-ai/holdfast/ledger"
)

// TestRecovery leaves intents of every kind behind in every unsettled state and starts a second engine
// (semantics 2, 6, 7).
func TestRecovery(t *testing.T) {
	const (
		yes = "the key is free"
		no  = "the key is held"
	)
	cases := []struct {
		name    string
		begin   intent.Begin
		lose    bool
		state   ledger.State
		outcome ledger.Outcome
		key     string
		crashes int
	}{
		{"created", begin("k", waiting), false, ledger.Created, ledger.OutcomePending, no, 1},
		{"created without a key", begin("", waiting), false, ledger.Settled, ledger.OutcomeDiscarded, "", 0},
		{"created, external", begin("k", waiting, held), false, ledger.Created, ledger.OutcomePending, no, 1},
		{"dispatched", begin("k"), false, ledger.Dispatched, ledger.OutcomePending, no, 1},
		{"dispatched without a key", begin(""), false, ledger.Settled, ledger.OutcomeFailed, "", 1},
		{"dispatched stream", begin("k", stream), false, ledger.Settled, ledger.OutcomeFailed, yes, 1},
		{"dispatched, external", begin("k", held), false, ledger.Unknown, ledger.OutcomeUnknown, no, 1},
		{"dispatched stream, external", begin("k", held, stream), false, ledger.Unknown, ledger.OutcomeUnknown, no, 1},
		{"dispatched, external, without a key", begin("", held), false, ledger.Unknown, ledger.OutcomeUnknown, "", 1},
		{"unknown", begin("k", held), true, ledger.Unknown, ledger.OutcomeUnknown, no, 0},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			r := newRig(t)
			o := r.begin(r.engine(), c.begin)
			if c.lose {
				r.ok(o.Lose(lost, nil))
			}
			g := r.engine()
			for range 2 { // a second pass finds nothing more to do
				if _, err := g.Recover(t.Context()); err != nil {
					t.Fatal(err)
				}
			}
			rec := r.is(o.ID(), c.state, c.outcome)
			if rec.Crashes != c.crashes || rec.LeaseOwner != "" && rec.State != ledger.Settled {
				t.Errorf("crashes %d, lease %q", rec.Crashes, rec.LeaseOwner)
			}
			if c.begin.Attempt != nil && rec.BilledMaybe != 1 {
				t.Errorf("possibly billed: %d", rec.BilledMaybe)
			}
			if c.begin.Head.Stream && c.state == ledger.Settled && !rec.Partial {
				t.Errorf("a dispatched stream is assumed partially visible")
			}
			if c.key != "" {
				r.free(g, "k", c.key == yes)
			}
		})
	}
}

// Between two attempts nothing is on its way (semantics 36): a crash there ends no attempt a second time and marks
// nothing more as possibly billed.
func TestRecoveryBetweenAttempts(t *testing.T) {
	for name, c := range map[string]struct {
		begin   intent.Begin
		state   ledger.State
		outcome ledger.Outcome
		found   intent.Recovered
	}{
		"keyed":   {begin("k"), ledger.Dispatched, ledger.OutcomePending, intent.Recovered{Waiting: 1}},
		"keyless": {begin(""), ledger.Settled, ledger.OutcomeFailed, intent.Recovered{Failed: 1}},
		"stream":  {begin("k", stream), ledger.Settled, ledger.OutcomeFailed, intent.Recovered{Failed: 1}},
	} {
		for _, crash := range []bool{true, false} {
			t.Run(fmt.Sprintf("%s/crash=%t", name, crash), func(t *testing.T) {
				r := newRig(t)
				o := r.begin(r.engine(), c.begin)
				r.ok(o.EndAttempt(lost))
				if r.get(o.ID()).ReadyAt.IsZero() {
					t.Error("the status does not say that the attempt has ended")
				}
				g := r.engine()
				if !crash {
					r.ok(o.Interrupt("told to stop"))
				} else if found, err := g.Recover(t.Context()); err != nil || found != c.found {
					t.Fatalf("%+v %v, want %+v", found, err, c.found)
				}
				rec := r.is(o.ID(), c.state, c.outcome)
				if rec.BilledMaybe != 1 || rec.Attempt != 1 || rec.Partial || rec.LastError != lost.Error {
					t.Errorf("%+v", rec.Status)
				}
				if rec.State == ledger.Settled {
					return
				}
				heir := g.Load(rec)
				r.ok(heir.Dispatch(try))
				if rec := r.get(o.ID()); !rec.ReadyAt.IsZero() || rec.LeaseOwner != g.Owner() {
					t.Errorf("the attempt that is on its way does not show: %+v", rec.Status)
				}
				r.ok(heir.Settle(won(r.store.Now().Add(time.Hour)), false, nil))
			})
		}
	}
}

// A further attempt is on its way again, and a crash marks it as well.
func TestRecoveryOfAFurtherAttempt(t *testing.T) {
	r := newRig(t)
	o := r.begin(r.engine(), begin("k"))
	r.ok(o.EndAttempt(lost))
	r.ok(o.Dispatch(try))
	if found, err := r.engine().Recover(t.Context()); err != nil || found != (intent.Recovered{Waiting: 1}) {
		t.Fatalf("%+v %v", found, err)
	}
	if rec := r.is(o.ID(), ledger.Dispatched, ledger.OutcomePending); rec.BilledMaybe != 2 || rec.Attempt != 2 {
		t.Errorf("%+v", rec.Status)
	}
}

// What waits for its turn in a lane, undispatched, stays there for a request with its key until it expires
// (semantics 7), when its process dies as when it is told to stop.
func TestRecoveryOfWhatWaitsInALane(t *testing.T) {
	for _, crash := range []bool{true, false} {
		r := newRig(t)
		admitted := func(b *intent.Begin) {
			b.Lane, b.ExpiresAt = "interactive_admission", r.store.Now().Add(time.Minute)
		}
		fresh := r.begin(r.engine(), begin("fresh", waiting, admitted))
		tried := r.begin(r.engine(), begin("tried", admitted))
		again := failed
		again.Lane = "interactive_admission"
		r.ok(tried.EndAttempt(again))
		g := r.engine()
		if !crash {
			r.ok(fresh.Interrupt("told to stop"))
			r.ok(tried.Interrupt("told to stop"))
		} else if found, err := g.Recover(t.Context()); err != nil || found != (intent.Recovered{Waiting: 2}) {
			t.Fatalf("%+v %v", found, err)
		}
		for _, o := range []*intent.Op{fresh, tried} {
			rec := r.is(o.ID(), ledger.Created, ledger.OutcomePending)
			if rec.LeaseOwner != "" || rec.Lane != "interactive_admission" || rec.BilledMaybe != 0 {
				t.Errorf("%+v", rec.Status)
			}
			r.free(g, rec.Key, false)
		}
		r.store.pass(2 * time.Minute)
		if n, err := g.Expire(t.Context()); err != nil || n != 2 {
			t.Errorf("expired %d, %v; want 2", n, err)
		}
		r.is(fresh.ID(), ledger.Settled, ledger.OutcomeDiscarded)
		r.is(tried.ID(), ledger.Settled, ledger.OutcomeDiscarded)
	}
}

// A recovered intent that waits for its key goes on with its second attempt, once.
func TestTakeOver(t *testing.T) {
	r := newRig(t)
	o := r.begin(r.engine(), begin("k"))
	g := r.engine()
	if found, err := g.Recover(t.Context()); err != nil || found != (intent.Recovered{Waiting: 1}) {
		t.Fatalf("%+v %v", found, err)
	}
	a, b := g.Load(r.get(o.ID())), g.Load(r.get(o.ID()))
	r.ok(a.Dispatch(try))
	if err := b.Dispatch(try); !errors.Is(err, ledger.ErrStale) {
		t.Errorf("two took the same intent over: %v", err)
	}
	r.ok(a.Settle(won(r.store.Now().Add(time.Hour)), false, nil))
	if rec := r.is(o.ID(), ledger.Settled, ledger.OutcomeSuccess); rec.Attempt != 2 || rec.BilledMaybe != 1 {
		t.Errorf("%+v", rec.Status)
	}
	r.free(g, "k", false)
}

// The lease of a living owner is nobody else's; a dead one's runs out with its heartbeat (semantics 6).
func TestLeaseOfALivingOwner(t *testing.T) {
	r := newRig(t)
	shared := func(c *intent.Config) { c.Exclusive, c.Beat = false, time.Second }
	first, second := r.engine(shared), r.engine(shared)
	r.ok(r.store.Beat(t.Context(), ledger.Owner{ID: first.Owner(), Until: r.store.Now().Add(3 * time.Second)}))
	o := r.begin(first, begin("k", held))
	if found, err := second.Recover(t.Context()); err != nil || found != (intent.Recovered{}) {
		t.Fatalf("took from the living: %+v %v", found, err)
	}
	r.is(o.ID(), ledger.Dispatched, ledger.OutcomePending)
	r.store.pass(4 * time.Second)
	if found, err := second.Recover(t.Context()); err != nil || found != (intent.Recovered{Unknown: 1}) {
		t.Fatalf("%+v %v", found, err)
	}
	// The zombie's late result is evidence, never state.
	if err := o.Settle(won(r.store.Now().Add(time.Hour)), false, nil); !errors.Is(err, ledger.ErrStale) {
		t.Errorf("a zombie settled: %v", err)
	}
	r.ok(o.Evidence(intent.Ending{End: ledger.AttemptSuccess, Status: 200, Reason: "late"}, &ledger.Body{Data: []byte("late answer")}))
	r.is(o.ID(), ledger.Unknown, ledger.OutcomeUnknown)
	body, err := r.store.Body(t.Context(), o.ID(), ledger.BodyLate)
	if err != nil || string(body.Data) != "late answer" {
		t.Errorf("the evidence is not kept: %v", err)
	}
	if _, err := r.store.Body(t.Context(), o.ID(), ledger.BodyAnswer); !errors.Is(err, ledger.ErrNotFound) {
		t.Errorf("the late answer is an answer: %v", err)
	}
	r.free(second, "k", false)
}

func TestExpiry(t *testing.T) {
	r := newRig(t)
	g := r.engine()
	in := func(d time.Duration) func(*intent.Begin) {
		at := r.store.Now().Add(d)
		return func(b *intent.Begin) { b.ExpiresAt = at }
	}
	created := r.begin(g, begin("created", waiting, in(time.Minute)))
	sent := r.begin(g, begin("sent", in(time.Minute)))
	later := r.begin(g, begin("later", in(time.Hour)))
	unknown := r.begin(g, begin("unknown", held, in(time.Minute)))
	next := r.engine()
	if _, err := next.Recover(t.Context()); err != nil {
		t.Fatal(err)
	}
	working := r.begin(next, begin("working", in(time.Minute)))
	for want := 0; want <= 2; want += 2 {
		if n, err := next.Expire(t.Context()); err != nil || n != want {
			t.Errorf("expired %d, %v; want %d", n, err, want)
		}
		r.store.pass(2 * time.Minute)
	}
	r.is(created.ID(), ledger.Settled, ledger.OutcomeDiscarded)
	r.is(sent.ID(), ledger.Settled, ledger.OutcomeFailed)
	r.is(later.ID(), ledger.Dispatched, ledger.OutcomePending)
	r.is(working.ID(), ledger.Dispatched, ledger.OutcomePending)
	r.is(unknown.ID(), ledger.Unknown, ledger.OutcomeUnknown)
	r.free(next, "created", true)
	r.free(next, "sent", true)
	r.free(next, "unknown", false)
}

// However many operations wait for a person, or are worked on beyond their time, they do not keep others from
// expiring; and however many expire, one call settles them all.
func TestNothingStarvesExpiry(t *testing.T) {
	r := newRig(t)
	g := r.engine(func(c *intent.Config) { c.CommitWait = time.Minute })
	soon := r.store.Now().Add(time.Minute)
	crowd := func(n int, then func(*intent.Op) error, change ...func(*intent.Begin)) {
		var all sync.WaitGroup // together they share the store's commits
		for i := range n {
			all.Go(func() {
				b := begin(fmt.Sprintf("%p-%d", then, i), change...)
				b.ExpiresAt = soon
				o, err := g.Begin(b)
				if err == nil && then != nil {
					err = then(o)
				}
				if err != nil {
					t.Error(err)
				}
			})
		}
		all.Wait()
	}
	crowd(510, func(o *intent.Op) error { return o.Lose(lost, nil) }, held)
	crowd(510, nil)
	const waiting = 1010
	crowd(waiting, func(o *intent.Op) error { return o.Interrupt("stopped") })
	r.store.pass(2 * time.Minute)
	if n, err := g.Expire(t.Context()); err != nil || n != waiting {
		t.Errorf("expired %d, %v; want %d", n, err, waiting)
	}
	if counts, err := r.store.Counts(t.Context()); err != nil || counts[ledger.Unknown] != 510 || counts[ledger.Dispatched] != 510 {
		t.Errorf("%v, %v", counts, err)
	}
}

func TestResolve(t *testing.T) {
	for outcome, free := range map[ledger.Outcome]bool{ledger.OutcomeSuccess: false, ledger.OutcomeFailed: true} {
		r := newRig(t)
		g := r.engine()
		o := r.begin(g, begin("k", held))
		until := r.store.Now().Add(time.Hour)
		var illegal *intent.IllegalStepError
		if err := o.Resolve(outcome, "ada", "looked", nil, until); !errors.As(err, &illegal) {
			t.Errorf("resolved while it runs: %v", err)
		}
		r.ok(o.Lose(lost, &ledger.Body{Kind: ledger.BodyPartial, Data: []byte("half")}))
		if err := o.Resolve(ledger.OutcomeDiscarded, "ada", "looked", nil, until); err == nil {
			t.Error("an unknown was resolved as discarded")
		}
		other := g.Load(r.get(o.ID()))
		r.ok(o.Resolve(outcome, "ada", "the ledger of the bank says so", []byte(`{"seen":1}`), until))
		if err := other.Resolve(ledger.OutcomeFailed, "bob", "me too", nil, until); !errors.Is(err, ledger.ErrStale) {
			t.Errorf("resolved twice: %v", err)
		}
		r.is(o.ID(), ledger.Settled, outcome)
		history, err := r.store.History(t.Context(), o.ID())
		if err != nil {
			t.Fatal(err)
		}
		said := history[len(history)-2]
		if said.Actor != "ada" || said.Reason != "the ledger of the bank says so" || string(said.Evidence) != `{"seen":1}` {
			t.Errorf("the history does not say who and why: %+v", said)
		}
		r.free(g, "k", free)
	}
}

// A refused move leaves no trace: not in the state, not in the claim, not in the history.
func TestIllegalMovesWriteNothing(t *testing.T) {
	r := newRig(t)
	g := r.engine()
	moves := map[string]func(*intent.Op) error{
		"discard dispatched":   func(o *intent.Op) error { return o.Discard("", "") },
		"dispatch held again":  func(o *intent.Op) error { return o.Dispatch(try) },
		"continue held":        func(o *intent.Op) error { return o.EndAttempt(lost) },
		"resolve dispatched":   func(o *intent.Op) error { return o.Resolve(ledger.OutcomeFailed, "a", "b", nil, time.Time{}) },
		"lose twice":           func(o *intent.Op) error { r.ok(o.Lose(lost, nil)); return o.Lose(lost, nil) },
		"interrupt unknown":    func(o *intent.Op) error { return o.Interrupt("") },
		"not sent, of unknown": func(o *intent.Op) error { return o.NotSent("", "") },
	}
	o := r.begin(g, begin("k", held))
	for _, name := range []string{"discard dispatched", "dispatch held again", "continue held", "resolve dispatched", "lose twice",
		"interrupt unknown", "not sent, of unknown"} {
		var illegal *intent.IllegalStepError
		if err := moves[name](o); !errors.As(err, &illegal) && !errors.Is(err, intent.ErrHeld) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if rec := r.is(o.ID(), ledger.Unknown, ledger.OutcomeUnknown); rec.Version != 2 {
		t.Errorf("version %d, want 2", rec.Version)
	}
	r.free(g, "k", false)
}

// A commit that lands after its caller was refused was never sent, and says so (semantics 9).
func TestLateCommitIsNotSent(t *testing.T) {
	r := newRig(t)
	g := r.engine(func(c *intent.Config) { c.CommitWait = time.Millisecond })
	gate := make(chan struct{})
	r.store.hold(gate)
	_, err := g.Begin(begin("k", held))
	if !errors.Is(err, intent.ErrCommitWait) || !errors.Is(err, ledger.ErrUnavailable) {
		t.Fatalf("%v", err)
	}
	r.store.hold(nil)
	close(gate)
	rec := r.newest(ledger.Settled)
	if rec.Outcome != ledger.OutcomeDiscarded || rec.Attempt != 1 || rec.BilledMaybe != 0 {
		t.Errorf("%+v", rec.Status)
	}
	history, err := r.store.History(t.Context(), rec.ID)
	if err != nil {
		t.Fatal(err)
	}
	notSent := 0
	for _, e := range history {
		if e.Kind == "attempt_end" && e.End == ledger.AttemptNotSent {
			notSent++
		}
	}
	if notSent != 1 {
		t.Errorf("the history does not say that nothing was sent: %+v", history)
	}
}

// newest waits for the newest intent to reach state. Its patience is only there to name the test that hangs.
func (r *rig) newest(state ledger.State) *ledger.Record {
	r.Helper()
	for end := time.Now().Add(2 * time.Minute); time.Now().Before(end); <-time.After(time.Millisecond) {
		list, err := r.store.List(context.Background(), ledger.Filter{Limit: 1})
		r.ok(err)
		if len(list) == 1 && list[0].State == state {
			return list[0]
		}
	}
	r.Fatalf("no intent came to be %s", state)
	return nil
}

// An interruption is no crash (semantics 10); what was sent goes by semantics 2.
func TestInterrupt(t *testing.T) {
	r := newRig(t)
	g := r.engine()
	for name, c := range map[string]struct {
		begin   intent.Begin
		state   ledger.State
		outcome ledger.Outcome
	}{
		"plain":    {begin("plain"), ledger.Dispatched, ledger.OutcomePending},
		"stream":   {begin("stream", stream), ledger.Settled, ledger.OutcomeFailed},
		"external": {begin("external", held), ledger.Unknown, ledger.OutcomeUnknown},
		"keyless":  {begin(""), ledger.Settled, ledger.OutcomeFailed},
	} {
		o := r.begin(g, c.begin)
		r.ok(o.Interrupt("told to stop"))
		rec := r.is(o.ID(), c.state, c.outcome)
		if rec.Crashes != 0 || rec.BilledMaybe != 1 || rec.LastError != "interrupted" {
			t.Errorf("%s: %+v", name, rec.Status)
		}
	}
}
