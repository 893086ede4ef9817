package ledgertest

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/holdfast-ai/holdfast/ledger"
)

// full returns an insertion with every field set, so that a column forgotten by a driver shows.
func (f *fixture) full() *ledger.Write {
	now := f.Now()
	w := f.created("idem:test:main:key:full")
	i := w.Insert
	i.JobID, i.OwnerKey, i.Fingerprint = "job-1", "owner", [32]byte{1, 2, 3, 31: 9}
	i.Stream, i.Priority, i.FallbackOK, i.EstimatedCost = true, "high", "contract-1", 0.125
	i.PolicyRevision, i.Trigger, i.ParentID, i.Callback = "rev", "retry:1", "parent", "https://shop.example/done?x=1"
	w.Status = ledger.Status{
		Version: 1, State: ledger.Dispatched, Outcome: ledger.OutcomePending, Lane: "background_retry",
		Visibility: ledger.VisPartial, Delivery: ledger.DeliverySent, Attempt: 2, Crashes: 1, RouteKey: "r",
		ServedModel: "m", Tier: "pro", ReadyAt: now.Add(time.Second), ExpiresAt: now.Add(time.Hour),
		RetryAfter: 1500 * time.Millisecond, LeaseOwner: "me", LeaseUntil: now.Add(time.Minute), Partial: true,
		BilledMaybe: 1, LastError: "rate_limit_error", UsageIn: 10, UsageOut: 20, UpdatedAt: now,
	}
	return w
}

func insertIsReadBack(t *testing.T, f *fixture) {
	w := f.commit(f.full())
	f.same("record", &ledger.Record{Intent: *w.Insert, Status: w.Status}, f.get(w.Insert.ID))

	small := f.dispatched("")
	small.Insert.Hold, small.Insert.CreatedAt = false, f.Now()
	f.commit(small)
	f.same("small record", &ledger.Record{Intent: *small.Insert, Status: small.Status}, f.get(small.Insert.ID))
}

func settledIsReadBack(t *testing.T, f *fixture) {
	w := f.commit(f.full())
	s := f.settled(w, time.Hour)
	s.Status.LastError, s.Answer.Events = "", 7
	s.Answer.Header["X-Two"] = []string{"a", "b"}
	f.commit(s)
	f.same("record", &ledger.Record{
		Intent: *w.Insert, Status: s.Status, Answer: s.Answer, SettledAt: s.Status.UpdatedAt, ClaimUntil: s.ClaimUntil,
	}, f.get(s.ID))

	bare := f.commit(f.dispatched("bare"))
	e := f.next(bare, ledger.Settled)
	e.Settle, e.Status.Outcome, e.Claim = true, ledger.OutcomeFailed, ledger.ClaimRelease
	f.commit(e)
	f.same("record without answer", &ledger.Record{Intent: *bare.Insert, Status: e.Status, SettledAt: e.Status.UpdatedAt},
		f.get(e.ID))
}

func settledAtOnce(t *testing.T, f *fixture) {
	w := f.created("once")
	w.Settle, w.Status.State, w.Status.Outcome = true, ledger.Settled, ledger.OutcomeDiscarded
	w.Claim, w.ClaimUntil = ledger.ClaimKeep, f.Now().Add(time.Hour)
	f.commit(w)
	if got := f.get(w.Insert.ID); got.State != ledger.Settled || got.SettledAt.IsZero() {
		t.Errorf("state %v, settled at %v", got.State, got.SettledAt)
	}
	if h, err := f.Holder(f.ctx, "once"); err != nil || h.ID != w.Insert.ID {
		t.Errorf("Holder = %v, %v", h, err)
	}
	events, err := f.History(f.ctx, w.Insert.ID)
	if err != nil || len(events) != 1 {
		t.Errorf("History = %v, %v; want the one event once", events, err)
	}
}

func malformedIsRefused(t *testing.T, f *fixture) {
	good := f.commit(f.created("good"))
	for name, w := range map[string]*ledger.Write{
		"no id":                 func() *ledger.Write { w := f.created(""); w.Insert.ID = ""; return w }(),
		"insert, version 2":     func() *ledger.Write { w := f.created(""); w.Status.Version = 2; return w }(),
		"version skipped":       func() *ledger.Write { w := f.next(good, ledger.Dispatched); w.Status.Version++; return w }(),
		"a lease without owner": f.lease(good, ""),
		"a lease that moves":    func() *ledger.Write { w := f.lease(good, "me"); w.Status.Version++; return w }(),
		"a lease with events":   func() *ledger.Write { w := f.lease(good, "me"); w.Events = good.Events; return w }(),
		"settled, no settle": func() *ledger.Write {
			w := f.next(good, ledger.Settled)
			return w
		}(),
		"a key beside":    beside(f.next(good, ledger.Dispatched), f.created("beside")),
		"a change beside": beside(f.next(good, ledger.Dispatched), f.next(good, ledger.Dispatched)),
		"two beside":      beside(f.next(good, ledger.Dispatched), beside(f.created(""), f.created(""))),
		"evidence not JSON": func() *ledger.Write {
			w := f.next(good, ledger.Dispatched)
			w.Events[0].Evidence = []byte("{")
			return w
		}(),
	} {
		if err := ledger.Commit(f.ctx, f.Ledger, w); err == nil {
			t.Errorf("%s: accepted", name)
		}
	}
	f.same("status", good.Status, f.get(good.Insert.ID).Status)
}

func staleChangesNothing(t *testing.T, f *fixture) {
	w := f.commit(f.created("stale"))
	first, second := f.next(w, ledger.Dispatched), f.settled(w, time.Hour)
	f.commit(first)
	if err := ledger.Commit(f.ctx, f.Ledger, second); !errors.Is(err, ledger.ErrStale) {
		t.Fatalf("second change of one version: %v, want ErrStale", err)
	}
	f.same("status", first.Status, f.get(first.ID).Status)
	if _, err := f.Body(f.ctx, first.ID, ledger.BodyAnswer); !errors.Is(err, ledger.ErrNotFound) {
		t.Errorf("the refused write left its body: %v", err)
	}
	if events, _ := f.History(f.ctx, first.ID); len(events) != 2 {
		t.Errorf("the refused write left events: %v", events)
	}
	if h, err := f.Holder(f.ctx, "stale"); err != nil || h.State != ledger.Dispatched {
		t.Errorf("the refused write touched the claim: %v, %v", h, err)
	}
	ghost := &ledger.Write{ID: f.id(), Version: 1, Status: ledger.Status{Version: 2, State: ledger.Dispatched}}
	if err := ledger.Commit(f.ctx, f.Ledger, ghost); !errors.Is(err, ledger.ErrStale) {
		t.Errorf("change of no intent: %v, want ErrStale", err)
	}
}

func settledIsFinal(t *testing.T, f *fixture) {
	w := f.commit(f.dispatched("final"))
	s := f.commit(f.settled(w, time.Hour))
	again := f.next(s, ledger.Dispatched)
	again.Settle = false
	if err := ledger.Commit(f.ctx, f.Ledger, again); !errors.Is(err, ledger.ErrStale) {
		t.Fatalf("change of a settled intent: %v, want ErrStale", err)
	}
	if err := ledger.Commit(f.ctx, f.Ledger, f.settled(s, time.Hour)); !errors.Is(err, ledger.ErrStale) {
		t.Fatalf("second settling: %v, want ErrStale", err)
	}
}

// sameInsertTwice: a writer that gave up waiting may queue its insertion again.
func sameInsertTwice(t *testing.T, f *fixture) {
	w := f.commit(f.created(""))
	again := f.created("other key")
	again.Insert.ID = w.Insert.ID
	if err := ledger.Commit(f.ctx, f.Ledger, again); !errors.Is(err, ledger.ErrStale) {
		t.Fatalf("second insertion of an id: %v, want ErrStale", err)
	}
	if _, err := f.Holder(f.ctx, "other key"); !errors.Is(err, ledger.ErrNotFound) {
		t.Errorf("the refused insertion left its claim: %v", err)
	}
}

func refusalsLeaveNeighbours(t *testing.T, f *fixture) {
	held := f.commit(f.created("held"))
	twice := f.created("twice")
	twice.Insert.ID = held.Insert.ID
	var good, bad []*ledger.Write
	var waits []<-chan struct{}
	for i := range 20 {
		g := f.dispatched(fmt.Sprintf("good-%d", i))
		good = append(good, g)
		waits = append(waits, f.Enqueue(g))
		b := f.dispatched("held")
		bad = append(bad, b)
		waits = append(waits, f.Enqueue(b))
		if i == 10 {
			bad = append(bad, twice)
			waits = append(waits, f.Enqueue(twice))
		}
	}
	for _, w := range waits {
		<-w
	}
	for i, w := range good {
		if w.Err != nil {
			t.Errorf("good write %d: %v", i, w.Err)
		}
		f.get(w.Insert.ID)
	}
	for i, w := range bad {
		switch {
		case w == twice && !errors.Is(w.Err, ledger.ErrStale):
			t.Errorf("second insertion: %v, want ErrStale", w.Err)
		case w != twice && !errors.Is(w.Err, ledger.ErrClaimed):
			t.Errorf("bad write %d: %v, want ErrClaimed", i, w.Err)
		case w != twice && w.Holder != held.Insert.ID:
			t.Errorf("bad write %d: holder %q, want %q", i, w.Holder, held.Insert.ID)
		}
	}
}

// orderPerIntent queues a whole life without waiting, its steps relaxed and not.
func orderPerIntent(t *testing.T, f *fixture) {
	var all []*ledger.Write
	var done []<-chan struct{}
	for i := range 30 {
		w := f.created(fmt.Sprintf("order-%d", i))
		d := f.next(w, ledger.Dispatched)
		d.Relaxed = i%2 == 0
		c := f.next(d, ledger.Confirmed)
		c.Relaxed = i%3 == 0
		s := f.settled(c, time.Hour)
		s.Relaxed = true
		for _, x := range []*ledger.Write{w, d, c, s} {
			all = append(all, x)
			done = append(done, f.Enqueue(x))
		}
	}
	for _, d := range done {
		<-d
	}
	for i, w := range all {
		if w.Err != nil {
			t.Errorf("write %d: %v", i, w.Err)
		}
	}
	events, err := f.History(f.ctx, all[3].ID)
	if err != nil || len(events) != 4 {
		t.Fatalf("History = %v, %v", events, err)
	}
	for i, to := range []ledger.State{ledger.Created, ledger.Dispatched, ledger.Confirmed, ledger.Settled} {
		if events[i].To != to {
			t.Errorf("event %d leads to %v, want %v", i, events[i].To, to)
		}
	}
}

// settlingsAreSeenAtOnce queues without waiting: what comes behind a settling sees it, also in the same transaction.
func settlingsAreSeenAtOnce(t *testing.T, f *fixture) {
	first, second := f.dispatched("expired"), f.dispatched("expired")
	ended := f.settled(first, time.Hour)
	ended.ClaimUntil = f.Now().Add(-time.Second)
	late := f.dispatched("expired")
	kept := f.dispatched("kept")
	note := &ledger.Write{ID: kept.Insert.ID, Append: true, Events: []ledger.Event{{At: f.Now(), Kind: "note"}}}
	keeps := f.settled(kept, time.Hour)
	again := f.dispatched("kept")
	var done []<-chan struct{}
	for _, w := range []*ledger.Write{first, kept, keeps, ended, second, late, note, again} {
		done = append(done, f.Enqueue(w))
	}
	for _, d := range done {
		<-d
	}
	for name, w := range map[string]*ledger.Write{"ended": ended, "second": second, "keeps": keeps, "note": note} {
		if w.Err != nil {
			t.Errorf("%s: %v", name, w.Err)
		}
	}
	for _, c := range []struct{ refused, holder *ledger.Write }{{late, second}, {again, kept}} {
		if !errors.Is(c.refused.Err, ledger.ErrClaimed) || c.refused.Holder != c.holder.Insert.ID {
			t.Errorf("claim of %s: %v, holder %q; want ErrClaimed by %s", c.refused.ClaimKey, c.refused.Err,
				c.refused.Holder, c.holder.Insert.ID)
		}
	}
	events, err := f.History(f.ctx, keeps.ID)
	if n := len(events); err != nil || n == 0 || events[n-1].Kind != "note" {
		t.Errorf("History = %v, %v; want the note last", events, err)
	}
}

// relaxedIsCommitted: nobody else writes, and still it becomes durable.
func relaxedIsCommitted(t *testing.T, f *fixture) {
	w := f.created("relaxed")
	w.Relaxed = true
	f.commit(w)
	f.get(w.Insert.ID)
}

func cancelledWaiter(t *testing.T, f *fixture) {
	ctx, cancel := context.WithCancel(f.ctx)
	cancel()
	w := f.created("cancelled")
	w.Relaxed = true
	if err := ledger.Commit(ctx, f.Ledger, w); err != nil && !errors.Is(err, context.Canceled) {
		t.Fatalf("Commit = %v", err)
	}
	// The queue of an intent is in order: afterwards the first one is through.
	f.commit(&ledger.Write{ID: w.Insert.ID, Append: true, Events: []ledger.Event{{At: f.Now(), Kind: "note"}}})
	f.get(w.Insert.ID)
}

// appendInAnyState: what is appended moves nothing, and stands in the history where it came.
func appendInAnyState(t *testing.T, f *fixture) {
	w := f.commit(f.dispatched("a"))
	note := func(reason string, bodies ...ledger.Body) []ledger.Event {
		n := &ledger.Write{ID: w.Insert.ID, Append: true, Bodies: bodies,
			Events: []ledger.Event{{At: f.Now(), Kind: "note", Reason: reason}}}
		return f.commit(n).Events
	}
	want := append(w.Events, note("one")...)
	want = append(want, note("two")...)
	f.same("status", w.Status, f.get(w.Insert.ID).Status)
	c := f.commit(f.next(w, ledger.Confirmed))
	want = append(append(want, c.Events...), note("three")...)
	s := f.commit(f.settled(c, time.Hour))
	want = append(append(want, s.Events...), note("four")...)
	want = append(want, note("five", ledger.Body{Kind: ledger.BodyLate, Data: []byte("too late")})...)
	got, err := f.History(f.ctx, s.ID)
	if err != nil {
		t.Fatal(err)
	}
	f.same("History", want, got)
	f.same("settled status", s.Status, f.get(s.ID).Status)
	if b, err := f.Body(f.ctx, s.ID, ledger.BodyLate); err != nil || string(b.Data) != "too late" {
		t.Errorf("late body = %v, %v", b, err)
	}
	if b, err := f.Body(f.ctx, s.ID, ledger.BodyAnswer); err != nil || string(b.Data) != `{"ok":true}` {
		t.Errorf("answer = %v, %v", b, err)
	}
	ghost := &ledger.Write{ID: f.id(), Append: true, Events: []ledger.Event{{Kind: "note"}}}
	if err := ledger.Commit(f.ctx, f.Ledger, ghost); !errors.Is(err, ledger.ErrNotFound) {
		t.Errorf("append to no intent: %v, want ErrNotFound", err)
	}
}
