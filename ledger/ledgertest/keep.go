package ledgertest

import (
	"bytes"
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/holdfast-ai/holdfast/ledger"
)

func owners(t *testing.T, f *fixture) {
	now := f.Now()
	dead, live := ledger.Owner{ID: "dead", Until: now.Add(-time.Hour)}, ledger.Owner{ID: "live", Until: now.Add(time.Minute), Info: []byte(`{"at":"here"}`)}
	for _, o := range []ledger.Owner{dead, {ID: "live", Until: now.Add(time.Second), Info: []byte("before")}, live} {
		if err := f.Beat(f.ctx, o); err != nil {
			t.Fatal(err)
		}
	}
	got, err := f.Owners(f.ctx)
	if err != nil {
		t.Fatal(err)
	}
	f.same("Owners", []ledger.Owner{dead, live}, got)
}

func cooldowns(t *testing.T, f *fixture) {
	now := f.Now()
	set := func(d time.Duration, want time.Duration) {
		t.Helper()
		got, err := f.Cooldown(f.ctx, "r", now.Add(d), "429")
		if err != nil {
			t.Fatal(err)
		}
		f.same("Cooldown", now.Add(want), got)
	}
	set(time.Minute, time.Minute)
	set(time.Second, time.Minute) // never shortened
	set(time.Hour, time.Hour)
	if _, err := f.Cooldown(f.ctx, "past", now.Add(-time.Hour), ""); err != nil {
		t.Fatal(err)
	}
	var wg sync.WaitGroup
	for i := range 20 {
		wg.Go(func() {
			if _, err := f.Cooldown(f.ctx, "many", now.Add(time.Duration(1+i*7%20)*time.Minute), ""); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	got, err := f.Cooldowns(f.ctx)
	if err != nil {
		t.Fatal(err)
	}
	f.same("Cooldowns", map[string]time.Time{"r": now.Add(time.Hour), "many": now.Add(20 * time.Minute)}, got)
	if err := f.ClearCooldown(f.ctx, "r"); err != nil {
		t.Fatal(err)
	}
	if got, err = f.Cooldowns(f.ctx); err != nil || len(got) != 1 {
		t.Errorf("after ClearCooldown: %v, %v", got, err)
	}
	set(time.Minute, time.Minute) // cleared is forgotten
}

func policy(t *testing.T, f *fixture) {
	for range 2 {
		if err := f.PutPolicy(f.ctx, "rev", []byte("workflow: chat")); err != nil {
			t.Fatal(err)
		}
	}
	if err := f.PutPolicy(f.ctx, "empty", nil); err != nil {
		t.Fatal(err)
	}
}

func secret(t *testing.T, f *fixture) {
	salt, err := f.Secret(f.ctx, "salt")
	if err != nil || len(salt) != 32 {
		t.Fatalf("Secret = %d bytes, %v", len(salt), err)
	}
	other, err := f.Secret(f.ctx, "other")
	if err != nil || len(other) != 32 || bytes.Equal(salt, other) {
		t.Fatalf("another secret: %d bytes, equal %t, %v", len(other), bytes.Equal(salt, other), err)
	}
	for name, want := range map[string][]byte{"salt": salt, "other": other} {
		if got, err := f.Secret(f.ctx, name); err != nil || !bytes.Equal(got, want) {
			t.Errorf("Secret(%s) changed, %v", name, err)
		}
	}
}

func notes(t *testing.T, f *fixture) {
	n, ok := f.Ledger.(ledger.Noter)
	if !ok {
		return // an ability that a driver may do without
	}
	for _, step := range []struct{ was, value, now string }{
		{"", "", ""}, {"x", "y", ""}, {"", "a", "a"}, {"", "b", "a"}, {"x", "b", "a"}, {"a", "b", "b"}, {"", "", "b"},
	} {
		if now, err := n.Note(f.ctx, "n", step.was, step.value); err != nil || now != step.now {
			t.Errorf("%q in the place of %q: %q, %v; want %q", step.value, step.was, now, err, step.now)
		}
	}
	if now, err := n.Note(f.ctx, "another", "", ""); err != nil || now != "" {
		t.Errorf("another note: %q, %v", now, err)
	}
}

func clockNeverBack(t *testing.T, f *fixture) {
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			last := f.Now()
			for range 2000 {
				now := f.Now()
				if now.Before(last) {
					t.Errorf("%v after %v", now, last)
					return
				}
				last = now
			}
		})
	}
	wg.Wait()
}

func closed(t *testing.T, f *fixture) {
	f.commit(f.dispatched("k"))
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	w := f.dispatched("")
	if <-f.Enqueue(w); !errors.Is(w.Err, ledger.ErrClosed) {
		t.Errorf("write after Close: %v, want ErrClosed", w.Err)
	}
	if _, err := f.Holder(context.Background(), "k"); !errors.Is(err, ledger.ErrClosed) {
		t.Errorf("read after Close: %v, want ErrClosed", err)
	}
	if err := f.Beat(context.Background(), ledger.Owner{ID: "o", Until: f.Now()}); !errors.Is(err, ledger.ErrClosed) {
		t.Errorf("Beat after Close: %v, want ErrClosed", err)
	}
	if err := f.Close(); err != nil {
		t.Errorf("second Close: %v", err)
	}
}

func reopenState(t *testing.T, open func() ledger.Ledger) {
	f := newFixture(t, open())
	unsettled := f.commit(f.full())
	s := f.commit(f.withCached(f.settled(f.commit(f.dispatched("kept")), time.Hour), ledger.CachedTemplate, time.Hour))
	want := f.get(s.ID)
	if _, err := f.Cooldown(f.ctx, "r", f.Now().Add(time.Hour), "429"); err != nil {
		t.Fatal(err)
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	g := newFixture(t, open())
	defer g.Close()
	g.same("settled intent", want, g.get(s.ID))
	g.same("unsettled intent", unsettled.Status, g.get(unsettled.Insert.ID).Status)
	g.refused("kept", s.ID)
	g.refused(unsettled.ClaimKey, unsettled.Insert.ID)
	if b, err := g.Body(g.ctx, s.ID, ledger.BodyAnswer); err != nil || string(b.Data) != `{"ok":true}` {
		t.Errorf("Body = %v, %v", b, err)
	}
	if rows := g.cached(ledger.CachedFilter{}); len(rows) != 1 || rows[0].Intent != s.ID {
		t.Errorf("Cached = %v", rows)
	}
	if cds, err := g.Cooldowns(g.ctx); err != nil || len(cds) != 1 {
		t.Errorf("Cooldowns = %v, %v", cds, err)
	}
}

func reopenClock(t *testing.T, open func() ledger.Ledger) {
	f := newFixture(t, open())
	future := f.Now().Add(time.Hour)
	w := f.created("")
	w.Status.UpdatedAt = future // as if the machine's clock had been an hour ahead then
	f.commit(w)
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	g := newFixture(t, open())
	defer g.Close()
	if now := g.Now(); now.Before(future.Truncate(time.Microsecond)) {
		t.Errorf("Now() = %v, the store holds a stamp of %v", now, future)
	}
}

func reopenSecret(t *testing.T, open func() ledger.Ledger) {
	l := open()
	want, err := l.Secret(t.Context(), "hmac")
	if err != nil {
		t.Fatal(err)
	}
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	l = open()
	defer l.Close()
	if got, err := l.Secret(t.Context(), "hmac"); err != nil || !bytes.Equal(got, want) {
		t.Errorf("the secret changed over a reopening, %v", err)
	}
}

func closeCommits(t *testing.T, open func() ledger.Ledger) {
	f := newFixture(t, open())
	w := f.dispatched("")
	w.Relaxed = true
	done := f.Enqueue(w)
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	if <-done; w.Err != nil {
		t.Fatalf("queued before Close: %v", w.Err)
	}
	g := newFixture(t, open())
	defer g.Close()
	g.get(w.Insert.ID)
}
