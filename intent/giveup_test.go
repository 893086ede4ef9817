package intent_test

import (
	"errors"
	"testing"
	"time"

	"github.com/holdfast-ai/holdfast/intent"
	"github.com/holdfast-ai/holdfast/ledger"
)

// An intent that is given up is discarded only where none of its attempts can have reached the far side; behind one that
// may have, it failed, and the attempt stays marked (semantics 2, 8). Either way its key is free.
func TestNothingPossiblySentIsDiscarded(t *testing.T) {
	unmarked := intent.Ending{End: ledger.AttemptUnknown, Reason: "its maker forgot the mark"}
	notSent := func(_ *rig, o *intent.Op) error { return o.NotSent("its client left", "semantics 25") }
	discard := func(_ *rig, o *intent.Op) error { return o.Discard("not admitted in time", "semantics 32") }
	expire := func(r *rig, o *intent.Op) error {
		r.ok(o.Interrupt("its owner stops"))
		r.store.pass(2 * time.Hour)
		_, err := r.logs[0].Expire(r.Context())
		return err
	}
	const unknown, definite = true, false
	for name, c := range map[string]struct {
		first  intent.Ending // of the attempt before; an End of AttemptRunning: its process dies beside it
		second bool          // another attempt is dispatched behind it
		end    func(*rig, *intent.Op) error
		may    bool // the attempt before may have reached the far side
	}{
		"unknown, the next not sent":    {lost, true, notSent, unknown},
		"unknown, waits to be admitted": {lost, false, discard, unknown},
		"unknown, nobody comes":         {lost, false, expire, unknown},
		"unknown without its mark":      {unmarked, true, notSent, unknown},
		"crash, the next not sent":      {intent.Ending{}, true, notSent, unknown},
		"crash, waits to be admitted":   {intent.Ending{}, false, discard, unknown},
		"crash, nobody comes":           {intent.Ending{}, false, expire, unknown},
		"failed, the next not sent":     {failed, true, notSent, definite},
		"failed, waits to be admitted":  {failed, false, discard, definite},
		"failed, nobody comes":          {failed, false, expire, definite},
	} {
		r := newRig(t)
		g := r.engine()
		o := r.begin(g, begin("k", func(b *intent.Begin) { b.ExpiresAt = r.store.Now().Add(time.Hour) }))
		if c.first.End == ledger.AttemptRunning {
			g = r.engine()
			_, err := g.Recover(t.Context())
			r.ok(err)
			o = g.Load(r.get(o.ID()))
		} else {
			r.ok(o.EndAttempt(c.first))
		}
		if c.second {
			r.ok(o.Dispatch(try))
			var illegal *intent.IllegalStepError
			if err := o.Discard("too late", ""); !errors.As(err, &illegal) {
				t.Errorf("%s: discarded beside an attempt: %v", name, err)
			}
		} else {
			r.ok(o.Await(intent.LaneAdmission, r.store.Now(), "no slot", "semantics 32"))
		}
		r.ok(c.end(r, o))
		outcome, billed := ledger.OutcomeDiscarded, 0
		if c.may {
			outcome, billed = ledger.OutcomeFailed, 1
		}
		if rec := r.is(o.ID(), ledger.Settled, outcome); rec.BilledMaybe != billed {
			t.Errorf("%s: marked %d times, want %d", name, rec.BilledMaybe, billed)
		}
		r.free(g, "k", true)
		if t.Failed() {
			t.Fatal(name)
		}
	}
}

// A commit that lands after its caller was refused leaves the intent in nobody's hands: a request with its key goes on
// from there, and what was never sent and never claimed by anybody else is over (semantics 9).
func TestLateCommitsAreNobodys(t *testing.T) {
	admit := func(o *intent.Op) error {
		return o.Await(intent.LaneAdmission, time.Now().Add(time.Hour), "no slot", "semantics 32")
	}
	send := func(o *intent.Op) error { return o.Dispatch(try) }
	end := func(e intent.Ending) func(*intent.Op) error {
		return func(o *intent.Op) error {
			err := o.EndAttempt(e)
			// Who was refused settles what it has: on top of a status that is none any more.
			if last := o.Settle(intent.Settlement{Ending: e, Outcome: ledger.OutcomeFailed}, false, nil); !errors.Is(last, intent.ErrCommitWait) {
				t.Errorf("settled beside what is pending: %v", last)
			}
			return err
		}
	}
	for name, c := range map[string]struct {
		hold   bool
		before []intent.Ending // of the attempts so far; an End of AttemptRunning still runs
		late   func(*intent.Op) error
		state  ledger.State
	}{
		"wait":                        {false, []intent.Ending{failed}, admit, ledger.Created},
		"wait behind unknown":         {false, []intent.Ending{lost}, admit, ledger.Dispatched},
		"failed":                      {false, []intent.Ending{{}}, end(failed), ledger.Created},
		"failed, of an effect":        {true, []intent.Ending{{}}, end(failed), ledger.Created},
		"failed behind unknown":       {false, []intent.Ending{lost, {}}, end(failed), ledger.Dispatched},
		"unknown":                     {false, []intent.Ending{{}}, end(lost), ledger.Dispatched},
		"next attempt":                {false, []intent.Ending{failed}, send, ledger.Created},
		"next attempt of an effect":   {true, []intent.Ending{failed}, send, ledger.Created},
		"next attempt behind unknown": {false, []intent.Ending{lost}, send, ledger.Dispatched},
	} {
		r := newRig(t)
		g, hasty := r.engine(), r.engine(func(c *intent.Config) { c.CommitWait = time.Millisecond })
		b := begin("k")
		b.Head.Hold = c.hold
		o := r.begin(g, b)
		for i, e := range c.before {
			if i > 0 {
				r.ok(o.Dispatch(try))
			}
			if e.End != ledger.AttemptRunning {
				r.ok(o.EndAttempt(e))
			}
		}
		attempts := len(c.before)
		late, gate := hasty.Load(r.get(o.ID())), make(chan struct{})
		r.store.hold(gate)
		if err := c.late(late); !errors.Is(err, intent.ErrCommitWait) {
			t.Fatalf("%s: %v", name, err)
		}
		r.store.hold(nil)
		close(gate)
		rec := r.ownerless(o.ID())
		if rec.State != c.state {
			t.Errorf("%s: %s, want %s", name, rec.State, c.state)
		}
		next := g.Load(rec)
		r.ok(next.Dispatch(try))
		if rec := r.is(o.ID(), ledger.Dispatched, ledger.OutcomePending); rec.Attempt <= attempts {
			t.Errorf("%s: %d attempts", name, rec.Attempt)
		}
		r.ok(next.NotSent("a test looked", ""))
		r.free(g, "k", true)
		if t.Failed() {
			t.Fatal(name)
		}
	}
}

// An intent that was to wait for its first attempt, and whose commit came after its caller was refused, is over.
func TestLateCommitOfWhatWaits(t *testing.T) {
	r := newRig(t)
	g := r.engine(func(c *intent.Config) { c.CommitWait = time.Millisecond })
	gate := make(chan struct{})
	r.store.hold(gate)
	if _, err := g.Begin(begin("k", waiting)); !errors.Is(err, intent.ErrCommitWait) {
		t.Fatal(err)
	}
	r.store.hold(nil)
	close(gate)
	if rec := r.newest(ledger.Settled); rec.Outcome != ledger.OutcomeDiscarded || rec.Attempt != 0 {
		t.Errorf("%+v", rec.Status)
	}
	r.free(r.engine(), "k", true)
}

// ownerless waits until nobody holds an intent. Its patience is only there to name the test that hangs.
func (r *rig) ownerless(id string) *ledger.Record {
	r.Helper()
	for end := time.Now().Add(time.Minute); time.Now().Before(end); <-time.After(time.Millisecond) {
		if rec := r.get(id); rec.LeaseOwner == "" {
			return rec
		}
	}
	r.Fatalf("it stays in the hands of an owner who does nothing with it: %+v", r.get(id).Status)
	return nil
}

// A settlement that is no step from where the intent stands is told to whoever waits for its end.
func TestRefusedSettlementIsTold(t *testing.T) {
	r := newRig(t)
	o := r.begin(r.engine(), begin("k"))
	r.ok(o.EndAttempt(failed))
	for _, relaxed := range []bool{false, true} {
		var told error
		err := o.Settle(intent.Settlement{Ending: failed, Outcome: ledger.OutcomeFailed}, relaxed, func(err error) { told = err })
		var illegal *intent.IllegalStepError
		if !errors.As(err, &illegal) || !errors.As(told, &illegal) {
			t.Errorf("%v, told %v", err, told)
		}
	}
}
