package ledgertest

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/holdfast-ai/holdfast/ledger"
)

// swept calls Sweep until nothing is left and returns the sums.
func (f *fixture) swept(p ledger.Retention) ledger.Swept {
	f.Helper()
	var sum ledger.Swept
	for range 1000 {
		s, more, err := f.Sweep(f.ctx, p)
		if err != nil {
			f.Fatalf("Sweep: %v", err)
		}
		sum.Claims += s.Claims
		sum.Derived += s.Derived
		sum.Cached += s.Cached
		sum.Bodies += s.Bodies
		sum.Intents += s.Intents
		if !more {
			return sum
		}
	}
	f.Fatal("Sweep never ends")
	return sum
}

// finished commits a whole life that settles with the given ttl of its claim.
func (f *fixture) finished(key string, ttl time.Duration) string {
	f.Helper()
	return f.commit(f.settled(f.commit(f.dispatched(key)), ttl)).ID
}

func sweepKeys(t *testing.T, f *fixture) {
	f.finished("live", time.Hour)
	f.finished("dead", -time.Second)
	held := f.commit(f.dispatched("held"))
	for i, d := range []time.Duration{-time.Second, time.Hour} {
		w := f.dispatched("")
		w.DerivedKey, w.DerivedUntil = fmt.Sprintf("d%d", i), f.Now().Add(d)
		f.commit(w)
	}
	f.same("Swept", ledger.Swept{Claims: 1, Derived: 1}, f.swept(ledger.Retention{Now: f.Now()}))
	f.refused("held", held.Insert.ID)
	if _, err := f.Holder(f.ctx, "live"); err != nil {
		t.Errorf("the live claim is gone: %v", err)
	}
	if recs, err := f.Derived(f.ctx, "d1", 9); err != nil || len(recs) != 1 {
		t.Errorf("the live derived key is gone: %v, %v", recs, err)
	}
	f.commit(f.dispatched("dead"))
}

func sweepBodies(t *testing.T, f *fixture) {
	young := f.finished("young", time.Hour)
	old := f.finished("old", -time.Second)
	open := f.dispatched("open")
	open.Bodies = []ledger.Body{{Kind: ledger.BodyRequest, Data: []byte("asked")}}
	f.commit(open)
	p := ledger.Retention{Now: f.Now().Add(24 * time.Hour), Answers: 24 * time.Hour}
	if s := f.swept(p); s.Bodies != 1 || s.Intents != 0 {
		t.Errorf("Swept = %+v, want one body", s)
	}
	if _, err := f.Body(f.ctx, old, ledger.BodyAnswer); !errors.Is(err, ledger.ErrNotFound) {
		t.Errorf("old body: %v, want ErrNotFound", err)
	}
	if rec := f.get(old); rec.Answer == nil || rec.State != ledger.Settled {
		t.Errorf("the row went with its body: %+v", rec)
	}
	if _, err := f.Body(f.ctx, young, ledger.BodyAnswer); err != nil {
		t.Errorf("a body within its claim and age: %v", err)
	}
	if _, err := f.Body(f.ctx, open.Insert.ID, ledger.BodyRequest); err != nil {
		t.Errorf("an unsettled intent's body: %v", err)
	}
	p.Now = f.Now().Add(1000 * time.Hour)
	if s := f.swept(p); s.Bodies != 1 {
		t.Errorf("later: Swept = %+v, want the other body", s)
	}
	if _, err := f.Body(f.ctx, open.Insert.ID, ledger.BodyRequest); err != nil {
		t.Errorf("an unsettled intent's body, much later: %v", err)
	}
}

func sweepRows(t *testing.T, f *fixture) {
	old := f.finished("old", -time.Second)
	keyed := f.finished("keyed", 2000*time.Hour)
	open := f.commit(f.next(f.commit(f.dispatched("open")), ledger.Unknown))
	p := ledger.Retention{Now: f.Now().Add(1000 * time.Hour), Rows: 100 * time.Hour, Answers: time.Hour}
	if s := f.swept(p); s.Intents != 1 {
		t.Errorf("Swept = %+v, want one intent", s)
	}
	if _, err := f.Get(f.ctx, old); !errors.Is(err, ledger.ErrNotFound) {
		t.Errorf("old intent: %v, want ErrNotFound", err)
	}
	if _, err := f.History(f.ctx, old); !errors.Is(err, ledger.ErrNotFound) {
		t.Errorf("old history: %v, want ErrNotFound", err)
	}
	f.get(open.ID)
	f.get(keyed) // its claim still replays
	if events, err := f.History(f.ctx, open.ID); err != nil || len(events) != 4 {
		t.Errorf("History of the unsettled one = %v, %v", events, err)
	}
}

func sweepDeadLetter(t *testing.T, f *fixture) {
	w := f.dispatched("")
	w.Status.Lane = "dead_letter"
	f.commit(w)
	s := f.settled(w, 0)
	s.Claim = ledger.ClaimRelease
	f.commit(s)
	p := ledger.Retention{Now: f.Now().Add(10 * time.Hour), Answers: time.Hour, Rows: time.Hour, DeadLetter: 30 * time.Hour}
	if got := f.swept(p); got.Bodies != 0 || got.Intents != 0 {
		t.Errorf("Swept = %+v before the dead letter's time", got)
	}
	p.Now = f.Now().Add(31 * time.Hour)
	if got := f.swept(p); got.Bodies != 1 || got.Intents != 1 {
		t.Errorf("Swept = %+v after the dead letter's time", got)
	}
}

func sweepBound(t *testing.T, f *fixture) {
	first := f.commit(f.dispatched("first")) // created first, settled last
	var settled, keys []string
	for i := range 30 {
		keys = append(keys, f.together("first", fmt.Sprintf("b%d", i)))
		settled = append(settled, f.finished(keys[i], time.Hour))
	}
	f.commit(f.settled(first, time.Hour))
	open := f.commit(f.dispatched("open"))
	p := ledger.Retention{Now: f.Now(), MaxBytes: 1 << 40, Batch: 10}
	if s := f.swept(p); s.Intents != 0 {
		t.Fatalf("Swept = %+v below the bound", s)
	}
	p.MaxBytes = 1
	s, more, err := f.Sweep(f.ctx, p)
	if err != nil || s.Intents != 10 || !more {
		t.Fatalf("Sweep = %+v, %t, %v; want a batch of 10 and more", s, more, err)
	}
	for i, id := range settled {
		if _, err := f.Get(f.ctx, id); (err == nil) != (i >= 10) {
			t.Errorf("settled %d: %v", i, err)
		}
	}
	f.get(first.Insert.ID)
	f.commit(f.dispatched(keys[0])) // the claim went with its intent
	f.swept(p)
	f.get(open.Insert.ID) // never anything unsettled, however small the bound
	if _, err := f.Get(f.ctx, first.Insert.ID); !errors.Is(err, ledger.ErrNotFound) {
		t.Errorf("the last settled one: %v, want ErrNotFound", err)
	}
}

func sweepBatches(t *testing.T, f *fixture) {
	for i := range 25 {
		f.finished(fmt.Sprintf("k%d", i), -time.Second)
	}
	p := ledger.Retention{Now: f.Now().Add(1000 * time.Hour), Answers: time.Hour, Rows: time.Hour, Batch: 10}
	s, more, err := f.Sweep(f.ctx, p)
	if err != nil || !more || s.Claims > 10 || s.Bodies > 10 || s.Intents > 10 {
		t.Errorf("Sweep = %+v, %t, %v; want at most 10 of each and more", s, more, err)
	}
	rest := f.swept(p)
	if s.Intents+rest.Intents != 25 {
		t.Errorf("first %+v, rest %+v; want 25 intents in all", s, rest)
	}
	for i := range 25 {
		f.commit(f.dispatched(fmt.Sprintf("k%d", i))) // no claim outlived its intent
	}
}
