package intent_test

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/holdfast-ai/holdfast/intent"
	"github.com/holdfast-ai/holdfast/ledger"
)

func job(b *intent.Begin) { b.Job, b.Attempt, b.Lane = true, nil, intent.LaneBackground }

func (r *rig) begun(g *intent.Log, key string, change ...func(*intent.Begin)) *intent.Op {
	r.Helper()
	op, err := g.Begin(begin(key, append([]func(*intent.Begin){job}, change...)...))
	if err != nil {
		r.Fatal(err)
	}
	return op
}

// What an attempt costs is on record before it is made: a job that kills its worker gets no attempt for nothing.
func TestAttemptIsCountedBeforeTheWork(t *testing.T) {
	r := newRig(t)
	op := r.begun(r.engine(), "idem:test:main:key:a")
	if rec := r.get(op.ID()); rec.JobID != op.ID() || rec.LeaseOwner != "" || rec.Attempt != 0 {
		t.Errorf("%+v", rec)
	}
	r.ok(op.Lease())
	r.ok(op.Dispatch(try))
	if rec := r.get(op.ID()); rec.Attempt != 1 || rec.State != ledger.Dispatched {
		t.Errorf("while it is worked on: %+v", rec.Status)
	}
	r.ok(op.EndAttempt(intent.Ending{End: ledger.AttemptFailed, Free: true, ReadyAt: r.store.Now().Add(time.Minute)}))
	if rec := r.get(op.ID()); rec.Attempt != 1 || rec.LeaseOwner != "" || rec.State != ledger.Created {
		t.Errorf("behind it: %+v", rec.Status)
	}
}

// A lease that ran out while it was held is a crash; what was given back is none (semantics 10).
func TestCrashesAreCountedApart(t *testing.T) {
	r := newRig(t)
	g := r.engine()
	held, freed, sent := r.begun(g, "idem:test:main:key:a"), r.begun(g, "idem:test:main:key:b"), r.begun(g, "idem:test:main:key:c")
	for _, op := range []*intent.Op{held, freed, sent} {
		r.ok(op.Lease())
	}
	r.ok(freed.Release(r.store.Now(), "the process ends", "semantics 10"))
	r.ok(sent.Dispatch(try))
	if _, err := r.engine().Recover(t.Context()); err != nil {
		t.Fatal(err)
	}
	for op, want := range map[*intent.Op][2]int{held: {0, 1}, freed: {0, 0}, sent: {1, 1}} {
		if rec := r.get(op.ID()); rec.Attempt != want[0] || rec.Crashes != want[1] || rec.LeaseOwner != "" {
			t.Errorf("attempts and crashes %v: %+v", want, rec.Status)
		}
	}
	if rec := r.get(sent.ID()); rec.State != ledger.Dispatched || rec.BilledMaybe != 1 {
		t.Errorf("what was on its way: %+v", rec.Status)
	}
	if err := sent.Settle(intent.Settlement{Ending: intent.Ending{End: ledger.AttemptSuccess}, Outcome: ledger.OutcomeSuccess}, false, nil); !errors.Is(err, ledger.ErrStale) {
		t.Errorf("the late result of a lost lease: %v", err)
	}
}

// A job whose attempt was on its way with a dead process is held, where its effect may not be repeated.
func TestJobThatActsIsHeldAfterACrash(t *testing.T) {
	r := newRig(t)
	op := r.begun(r.engine(), "idem:test:main:key:a", held)
	r.ok(op.Lease())
	r.ok(op.Dispatch(try))
	if _, err := r.engine().Recover(t.Context()); err != nil {
		t.Fatal(err)
	}
	if rec := r.get(op.ID()); rec.State != ledger.Unknown || rec.Crashes != 1 {
		t.Errorf("%+v", rec.Status)
	}
}

// The ledger's clock says when a lease is over, wherever the wall clock of a process stands.
func TestLeaseGoesByLedgerTime(t *testing.T) {
	r := newRig(t)
	r.store.pass(time.Hour)
	beside := func(c *intent.Config) { c.Exclusive = false }
	g := r.engine(beside)
	ctx, stop := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() { _ = g.Run(ctx); close(done) }()
	defer func() { stop(); <-done }()
	for {
		if owners, err := r.store.Owners(t.Context()); err != nil {
			t.Fatal(err)
		} else if slices.ContainsFunc(owners, func(o ledger.Owner) bool { return o.ID == g.Owner() }) {
			break
		}
	}
	op := r.begun(g, "idem:test:main:key:a")
	r.ok(op.Lease())
	other := r.engine(beside)
	r.ok(reclaim(t, r, other))
	if rec := r.get(op.ID()); rec.LeaseOwner != g.Owner() || rec.Crashes != 0 {
		t.Errorf("a living engine lost its lease: %+v", rec.Status)
	}
	r.store.pass(time.Minute) // no heartbeat in all that time
	r.ok(reclaim(t, r, other))
	if rec := r.get(op.ID()); rec.LeaseOwner != "" || rec.Crashes != 1 {
		t.Errorf("a dead engine kept its lease: %+v", rec.Status)
	}
	if err := op.Dispatch(try); !errors.Is(err, ledger.ErrStale) {
		t.Errorf("a zombie dispatched: %v", err)
	}
}

// What nobody came to in time is parked, or given up where the policy says so; what is worked on is left alone.
func TestJobsAge(t *testing.T) {
	r := newRig(t)
	lane := intent.LaneDead
	g := r.engine(func(c *intent.Config) { c.Lane = func(*ledger.Record) string { return lane } })
	aging := func(b *intent.Begin) { b.ExpiresAt = r.store.Now().Add(time.Minute) }
	first, leased := r.begun(g, "idem:test:main:key:a", aging), r.begun(g, "idem:test:main:key:b", aging)
	r.ok(leased.Lease())
	r.store.pass(2 * time.Minute)
	if n, err := g.Expire(t.Context()); err != nil || n != 1 {
		t.Fatalf("%d, %v", n, err)
	}
	if rec := r.get(first.ID()); rec.Lane != intent.LaneDead || rec.State != ledger.Created || !rec.ExpiresAt.IsZero() {
		t.Errorf("%+v", rec.Status)
	}
	lane = ""
	r.ok(leased.Release(r.store.Now(), "", ""))
	if n, err := g.Expire(t.Context()); err != nil || n != 1 {
		t.Fatalf("%d, %v", n, err)
	}
	if rec := r.get(leased.ID()); rec.State != ledger.Settled || rec.Outcome != ledger.OutcomeDiscarded {
		t.Errorf("%+v", rec.Status)
	}
}

// A parked job leaves by a person's word alone, as a new generation of itself; what may have happened takes a vouch.
func TestRevive(t *testing.T) {
	r := newRig(t)
	g := r.engine()
	plain, acts := r.begun(g, "idem:test:main:key:a"), r.begun(g, "idem:test:main:key:b", held)
	for _, op := range []*intent.Op{plain, acts} {
		r.ok(op.Lease())
		r.ok(op.Dispatch(try))
	}
	r.ok(plain.Park(intent.Parking{Lane: intent.LaneDead, Ending: &intent.Ending{End: ledger.AttemptFailed}, Reason: "x"}))
	r.ok(acts.Park(intent.Parking{Lane: intent.LaneReview, Ending: &intent.Ending{End: ledger.AttemptUnknown, Billed: true}, Reason: "x"}))
	if rec := r.get(plain.ID()); rec.State != ledger.Created || rec.Lane != intent.LaneDead {
		t.Errorf("%+v", rec.Status)
	}
	if rec := r.get(acts.ID()); rec.State != ledger.Unknown || rec.Lane != intent.LaneReview {
		t.Errorf("%+v", rec.Status)
	}
	if err := plain.Lease(); err == nil {
		t.Error("a parked job was leased")
	}
	if err := acts.Revive(intent.Revival{By: "ops"}); !errors.Is(err, intent.ErrHeld) {
		t.Errorf("what may have happened was sent again: %v", err)
	}
	r.ok(acts.Revive(intent.Revival{By: "ops", NotExecuted: true}))
	r.ok(plain.Revive(intent.Revival{By: "ops", Reason: "fixed", Evidence: json.RawMessage(`{"route_override":"b"}`)}))
	for _, op := range []*intent.Op{plain, acts} {
		events, err := r.store.History(t.Context(), op.ID())
		if err != nil {
			t.Fatal(err)
		}
		if l := intent.LifeOf(events); l.Generation != 2 || l.Attempts != 1 {
			t.Errorf("%+v", l)
		}
		if rec := r.get(op.ID()); rec.Lane != intent.LaneBackground || rec.State != ledger.Created || rec.Outcome != ledger.OutcomePending {
			t.Errorf("%+v", rec.Status)
		}
		r.ok(op.Lease())
		r.ok(op.Dispatch(try))
		r.ok(op.Settle(intent.Settlement{Ending: intent.Ending{End: ledger.AttemptSuccess}, Outcome: ledger.OutcomeSuccess}, false, nil))
	}
	if err := plain.Revive(intent.Revival{By: "ops"}); err == nil {
		t.Error("what is settled was revived")
	}
}

// A lease moves nothing: its line comes with the next move, once, and whoever moves the job first leaves it behind.
func TestLeaseIsToldWithTheNextMove(t *testing.T) {
	r := newRig(t)
	g := r.engine()
	told := func(op *intent.Op) (n int) {
		events, err := r.store.History(t.Context(), op.ID())
		if err != nil {
			t.Fatal(err)
		}
		for i, e := range events {
			if e.Reason == "leased by a worker" {
				n++
				if i == 0 || i+1 < len(events) && events[i+1].At.Before(e.At) {
					t.Errorf("out of its place: %+v", events)
				}
			}
		}
		return n
	}
	sent, freed, taken := r.begun(g, "idem:test:main:key:a"), r.begun(g, "idem:test:main:key:b"), r.begun(g, "idem:test:main:key:c")
	first := r.begun(g, "idem:test:main:key:d", func(b *intent.Begin) { b.Leased = true })
	for _, op := range []*intent.Op{sent, freed, taken} {
		r.ok(op.Lease())
		if rec := r.get(op.ID()); rec.LeaseOwner != g.Owner() || rec.Version != 1 || told(op) != 0 {
			t.Errorf("leased: %+v, told %d times", rec.Status, told(op))
		}
		if err := g.Load(r.get(op.ID())).Lease(); err == nil {
			t.Error("a second hand leased it")
		}
	}
	r.ok(sent.Evidence(intent.Ending{End: ledger.AttemptUnknown}, nil))
	r.ok(sent.Dispatch(try))
	r.ok(sent.Settle(won(time.Time{}), false, nil))
	r.ok(freed.Release(r.store.Now(), "", ""))
	r.ok(freed.Lease())
	r.ok(freed.Release(r.store.Now(), "", ""))
	for op, want := range map[*intent.Op]int{sent: 1, freed: 2, first: 1} {
		if n := told(op); n != want {
			t.Errorf("told %d times, want %d", n, want)
		}
	}
	stale := g.Load(r.get(taken.ID()))
	r.ok(stale.GiveUp("caller", "cancelled", ""))
	if err := taken.Dispatch(try); !errors.Is(err, ledger.ErrStale) {
		t.Errorf("what was cancelled in a worker's hands was sent: %v", err)
	}
	if rec := r.get(first.ID()); rec.LeaseOwner != g.Owner() || rec.Version != 1 || rec.JobID != rec.ID {
		t.Errorf("leased from the beginning: %+v", rec.Status)
	}
	if _, err := r.engine().Recover(t.Context()); err != nil {
		t.Fatal(err)
	}
	if rec := r.get(first.ID()); rec.LeaseOwner != "" || rec.Crashes != 1 || rec.Attempt != 0 {
		t.Errorf("behind a crash: %+v", rec.Status)
	}
}

// Where an intent stands that has been put before a person is not overruled by who has just lost it out of hand.
func TestShelvedBehindItsEnd(t *testing.T) {
	r := newRig(t)
	g := r.engine()
	for _, lane := range []string{intent.LaneStream, ""} {
		o := r.begin(g, begin("k"+lane, held, stream))
		o.Shelve("aside", "a client left", "semantics 25")
		r.ok(o.Lose(intent.Ending{Error: "timeout", Billed: true, Reason: "cut", Lane: intent.LaneReview}, nil))
		o.Shelve(lane, "a client left, or came", "semantics 25")
		r.ok(o.Evidence(intent.Ending{End: ledger.AttemptUnknown}, nil)) // behind it
		if rec := r.is(o.ID(), ledger.Unknown, ledger.OutcomeUnknown); rec.Lane != intent.LaneReview {
			t.Errorf("it stands in %q", rec.Lane)
		}
	}
}

// reclaim has g take over what dead owners hold, as a sweep of the log does.
func reclaim(t *testing.T, r *rig, g *intent.Log) error {
	t.Helper()
	records, err := r.store.Open(t.Context(), "", 1000)
	if err == nil {
		_, err = g.Reclaim(t.Context(), records)
	}
	return err
}
