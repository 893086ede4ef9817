package intent_test

import (
	"encoding/json"
	"errors"
	"testing"
	"time"

	"github.com/holdfast-ai/holdfast/intent"
	"github.com/holdfast-ai/holdfast/ledger"
)

const receiver = "https://user:pass@shop.example/done?token=secret"

// called begins a job whose ends are told.
func (r *rig) called(g *intent.Log, key string) *intent.Op {
	r.Helper()
	op, err := g.Begin(begin(key, func(b *intent.Begin) {
		b.Attempt, b.Job, b.Lane, b.Head.Callback = nil, true, intent.LaneBackground, receiver
	}))
	if err != nil {
		r.Fatal(err)
	}
	return op
}

// callbacks are those of a job, the oldest first, and what its history says of them.
func (r *rig) callbacks(job string) (all []*ledger.Record) {
	r.Helper()
	events, err := r.store.History(r.Context(), job)
	if err != nil {
		r.Fatal(err)
	}
	for _, e := range events {
		if e.Kind != intent.CallbackKind {
			continue
		}
		var said struct{ Intent, Type string }
		if err := json.Unmarshal(e.Evidence, &said); err != nil {
			r.Fatal(err)
		}
		rec, err := r.store.Get(r.Context(), said.Intent)
		if err != nil {
			r.Fatalf("%s is in the history and not there: %v", said.Intent, err)
		}
		if rec.Trigger != said.Type {
			r.Errorf("%s, and in the history %s", rec.Trigger, said.Type)
		}
		all = append(all, rec)
	}
	return all
}

func (r *rig) body(id string) (b intent.CallbackBody) {
	r.Helper()
	kept, err := r.store.Body(r.Context(), id, ledger.BodyRequest)
	if err == nil {
		err = json.Unmarshal(kept.Data, &b)
	}
	if err != nil {
		r.Fatal(err)
	}
	return b
}

// Every end of a job has one callback, which is there when the end is, whoever brought it about; nothing else has one.
func TestEveryEndIsTold(t *testing.T) {
	r := newRig(t)
	g := r.engine()
	var announced []string
	g.OnCallback(func(rec *ledger.Record) { announced = append(announced, rec.ID) })
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	op := r.called(g, "a")
	must(op.Lease())
	must(op.Dispatch(try))
	must(op.EndAttempt(intent.Ending{End: ledger.AttemptFailed, Error: "overloaded"}))
	if n := len(r.callbacks(op.ID())); n != 0 {
		t.Fatalf("%d callbacks of a job that goes on", n)
	}
	must(op.Park(intent.Parking{Lane: intent.LaneDead, Reason: "test"}))
	must(op.Revive(intent.Revival{By: "ops", Reason: "again"}))
	must(op.Lease())
	must(op.Dispatch(try))
	must(op.Park(intent.Parking{Lane: intent.LaneReview, Reason: "test", Ending: &intent.Ending{End: ledger.AttemptUnknown}}))
	must(op.Resolve(ledger.OutcomeSuccess, "ops", "it is there", nil, time.Time{}))
	all := r.callbacks(op.ID())
	want := []string{"job.dead_letter", "job.owner_review", "job.settled"}
	if len(all) != len(want) || len(announced) != len(want) {
		t.Fatalf("%d callbacks, %d announced, want %d", len(all), len(announced), len(want))
	}
	for i, rec := range all {
		b := r.body(rec.ID)
		if b.Type != want[i] || rec.Trigger != want[i] || rec.ID != announced[i] || b.Data.ID != op.ID() || b.Data.Callback != rec.ID {
			t.Errorf("%+v of %+v", b, rec.Intent)
		}
		if rec.State != ledger.Created || rec.Lane != intent.LaneBackground || rec.LeaseOwner != "" || rec.Hold || rec.Callback != receiver ||
			!intent.IsCallback(&rec.Intent) || intent.CallbackOf(&rec.Intent) != op.ID() {
			t.Errorf("%+v", rec)
		}
		if rec.Path != "https://shop.example" {
			t.Errorf("shown as %s", rec.Path)
		}
	}
	if b := r.body(all[1].ID); b.Data.State != "unknown" || b.Data.Lane != intent.LaneReview || b.Data.Outcome != "unknown" {
		t.Errorf("%+v", b)
	}
	if b := r.body(all[2].ID); b.Data.Outcome != "success" || b.Data.Attempt != 2 || b.Data.Result != "/holdfast/v1/jobs/"+op.ID()+"/result" {
		t.Errorf("%+v", b)
	}
}

// What the engine ends by itself is told as well, and a callback tells nobody of its own end.
func TestEndsWithoutAWorkerAreTold(t *testing.T) {
	r := newRig(t)
	g := r.engine(func(c *intent.Config) { c.Lane = func(*ledger.Record) string { return intent.LaneDead } })
	op, err := g.Begin(begin("aged", func(b *intent.Begin) {
		b.Attempt, b.Job, b.Lane, b.Head.Callback, b.ExpiresAt = nil, true, intent.LaneBackground, receiver, r.store.Now().Add(time.Minute)
	}))
	if err != nil {
		t.Fatal(err)
	}
	held, err := g.Begin(begin("held", func(b *intent.Begin) {
		b.Attempt, b.Job, b.Lane, b.Head.Callback, b.Head.Hold = nil, true, intent.LaneBackground, receiver, true
	}))
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(held.Lease(), held.Dispatch(try)); err != nil {
		t.Fatal(err)
	}
	r.store.pass(2 * time.Minute)
	next := r.engine(func(c *intent.Config) { c.Lane = func(*ledger.Record) string { return intent.LaneDead } }) // the first one's process is dead
	if _, err := next.Recover(t.Context()); err != nil {
		t.Fatal(err)
	}
	if n, err := next.Expire(t.Context()); n != 1 || err != nil {
		t.Fatalf("%d, %v", n, err)
	}
	aged, crashed := r.callbacks(op.ID()), r.callbacks(held.ID())
	if len(aged) != 1 || aged[0].Trigger != "job.dead_letter" || len(crashed) != 1 || crashed[0].Trigger != "job.unknown" {
		t.Fatalf("%v %v", aged, crashed)
	}
	if _, err := next.Recover(t.Context()); err != nil || len(r.callbacks(held.ID())) != 1 {
		t.Errorf("a second recovery tells again: %v", err)
	}
	call := next.Load(aged[0])
	if err := errors.Join(call.Lease(), call.Dispatch(try), call.Park(intent.Parking{Lane: intent.LaneDead, Reason: "test",
		Ending: &intent.Ending{End: ledger.AttemptFailed}})); err != nil {
		t.Fatal(err)
	}
	if n := len(r.callbacks(call.ID())); n != 0 {
		t.Errorf("%d callbacks of a callback", n)
	}
}

// A job that waits for its owner from its beginning is told of with it.
func TestJobBegunInReviewIsTold(t *testing.T) {
	r := newRig(t)
	op, err := r.engine().Begin(begin("asks", func(b *intent.Begin) {
		b.Attempt, b.Job, b.Lane, b.Head.Callback = nil, true, intent.LaneReview, receiver
	}))
	if err != nil {
		t.Fatal(err)
	}
	if all := r.callbacks(op.ID()); len(all) != 1 || all[0].Trigger != "job.owner_review" || r.body(all[0].ID).Data.State != "intent_created" {
		t.Errorf("%v", all)
	}
}

// A submission that was refused and landed late is no job of anybody's: its end is told to nobody.
func TestLateSubmissionIsNotTold(t *testing.T) {
	r := newRig(t)
	g := r.engine(func(c *intent.Config) { c.CommitWait = time.Millisecond })
	gate := make(chan struct{})
	r.store.hold(gate)
	_, err := g.Begin(begin("late", func(b *intent.Begin) {
		b.Attempt, b.Job, b.Lane, b.Head.Callback = nil, true, intent.LaneBackground, receiver
	}))
	if !errors.Is(err, intent.ErrCommitWait) {
		t.Fatal(err)
	}
	close(gate)
	g.Close()
	r.logs = nil
	all, err := r.store.List(t.Context(), ledger.Filter{})
	if err != nil || len(all) != 1 || all[0].Outcome != ledger.OutcomeDiscarded {
		t.Fatalf("%v %v", all, err)
	}
}
