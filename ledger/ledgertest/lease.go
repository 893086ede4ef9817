package ledgertest

import (
	"errors"
	"testing"
	"time"

	"github.com/holdfast-ai/holdfast/ledger"
)

// lease returns the write that gives what w left to owner.
func (f *fixture) lease(w *ledger.Write, owner string) *ledger.Write {
	n := &ledger.Write{ID: w.ID, Version: w.Status.Version, Lease: true, Status: w.Status}
	if w.Insert != nil {
		n.ID = w.Insert.ID
	}
	n.Status.LeaseOwner, n.Status.LeaseUntil, n.Status.ReadyAt = owner, f.Now().Add(time.Minute), f.Now()
	return n
}

// leased holds that a lease has one owner, and moves nothing.
func leased(t *testing.T, f *fixture) {
	w := f.created("lease")
	first := f.lease(w, "me")
	second := f.lease(w, "another")
	done := []<-chan struct{}{f.Enqueue(w), f.Enqueue(first), f.Enqueue(second)} // together, and in this order
	for _, d := range done {
		<-d
	}
	if w.Err != nil || first.Err != nil || !errors.Is(second.Err, ledger.ErrStale) {
		t.Fatalf("insertion %v, lease %v, another's lease %v; want none, none and ErrStale", w.Err, first.Err, second.Err)
	}
	f.same("leased", first.Status, f.get(first.ID).Status)
	if events, err := f.History(f.ctx, first.ID); err != nil || len(events) != len(w.Events) {
		t.Errorf("History = %v, %v; want what the insertion said", events, err)
	}
	moved := f.commit(f.next(w, ledger.Dispatched)) // from the version that was leased, by whoever has it
	if got := f.get(first.ID); got.Version != 2 || got.LeaseOwner != "" {
		t.Errorf("moved on: %+v", got.Status)
	}
	end := f.settled(moved, time.Hour)
	for what, l := range map[string]*ledger.Write{"an older version": f.lease(w, "late"), "nobody": f.lease(f.created(""), "late"),
		"what is settled": f.lease(f.commit(end), "late")} {
		if err := ledger.Commit(f.ctx, f.Ledger, l); !errors.Is(err, ledger.ErrStale) {
			t.Errorf("a lease on %s: %v, want ErrStale", what, err)
		}
	}
	f.same("settled", end.Status, f.get(first.ID).Status)
}
