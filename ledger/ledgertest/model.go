package ledgertest

import (
	"errors"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/holdfast-ai/holdfast/ledger"
)

// modelIntent is what the model knows of an intent.
type modelIntent struct {
	last   *ledger.Write
	key    string
	events int
}

// machine drives a ledger and a map side by side.
type machine struct {
	f       *fixture
	intents map[string]*modelIntent
	claims  map[string]string // live ones
	order   []string
	prefix  string
}

// model applies random writes, right and wrong ones, and compares with a map after each.
func model(t *testing.T, f *fixture) {
	run := 0
	rapid.Check(t, func(rt *rapid.T) {
		run++
		m := &machine{
			f: f, intents: map[string]*modelIntent{}, claims: map[string]string{},
			prefix: f.id(),
		}
		rt.Repeat(map[string]func(*rapid.T){
			"insert": m.insert,
			"change": m.change,
			"settle": m.settle,
			"stale":  m.stale,
			"":       m.check,
		})
	})
}

func (m *machine) pick(t *rapid.T) (string, *modelIntent) {
	if len(m.order) == 0 {
		t.Skip("no intents yet")
	}
	id := rapid.SampledFrom(m.order).Draw(t, "intent")
	return id, m.intents[id]
}

func (m *machine) insert(t *rapid.T) {
	key := rapid.SampledFrom([]string{"", "a", "b", "c"}).Draw(t, "key")
	if key != "" {
		key = m.prefix + key
	}
	w := m.f.dispatched(key)
	w.Relaxed = rapid.Bool().Draw(t, "relaxed")
	<-m.f.Enqueue(w)
	if holder, held := m.claims[key]; key != "" && held {
		if !errors.Is(w.Err, ledger.ErrClaimed) || w.Holder != holder {
			t.Fatalf("claim of a held key: %v, holder %q, want %q", w.Err, w.Holder, holder)
		}
		return
	}
	if w.Err != nil {
		t.Fatal(w.Err)
	}
	if key != "" {
		m.claims[key] = w.Insert.ID
	}
	m.order = append(m.order, w.Insert.ID)
	m.intents[w.Insert.ID] = &modelIntent{last: w, key: key, events: len(w.Events)}
}

func (m *machine) change(t *rapid.T) {
	_, in := m.pick(t)
	w := m.f.next(in.last, rapid.SampledFrom([]ledger.State{ledger.Dispatched, ledger.Unknown, ledger.Confirmed}).Draw(t, "to"))
	w.Events = w.Events[:rapid.IntRange(0, 1).Draw(t, "events")]
	m.apply(t, in, w)
}

func (m *machine) settle(t *rapid.T) {
	_, in := m.pick(t)
	w := m.f.settled(in.last, time.Hour)
	keep := rapid.SampledFrom([]string{"keep", "release", "expired"}).Draw(t, "claim")
	switch keep {
	case "release":
		w.Claim = ledger.ClaimRelease
	case "expired":
		w.ClaimUntil = m.f.Now().Add(-time.Second)
	}
	if m.apply(t, in, w) && keep != "keep" && in.key != "" {
		delete(m.claims, in.key)
	}
}

// apply commits w and expects it to be taken exactly while the intent is unsettled.
func (m *machine) apply(t *rapid.T, in *modelIntent, w *ledger.Write) bool {
	<-m.f.Enqueue(w)
	if in.last.Settle {
		if !errors.Is(w.Err, ledger.ErrStale) {
			t.Fatalf("change of a settled intent: %v", w.Err)
		}
		return false
	}
	if w.Err != nil {
		t.Fatal(w.Err)
	}
	in.last, in.events = w, in.events+len(w.Events)
	return true
}

func (m *machine) stale(t *rapid.T) {
	_, in := m.pick(t)
	w := m.f.next(in.last, ledger.Dispatched)
	off := rapid.SampledFrom([]int64{-1, 1, 7}).Draw(t, "off")
	w.Version, w.Status.Version = w.Version+off, w.Status.Version+off
	if w.Version < 1 {
		t.Skip("no such version")
	}
	if <-m.f.Enqueue(w); !errors.Is(w.Err, ledger.ErrStale) {
		t.Fatalf("change of version %d where %d stands: %v", w.Version, in.last.Status.Version, w.Err)
	}
}

func (m *machine) check(t *rapid.T) {
	for id, in := range m.intents {
		rec, err := m.f.Get(m.f.ctx, id)
		if err != nil {
			t.Fatal(err)
		}
		if rec.Version != in.last.Status.Version || rec.State != in.last.Status.State || (rec.Answer != nil) != in.last.Settle {
			t.Fatalf("intent %s is at version %d, %v; want %d, %v", id, rec.Version, rec.State,
				in.last.Status.Version, in.last.Status.State)
		}
		if events, err := m.f.History(m.f.ctx, id); err != nil || len(events) != in.events {
			t.Fatalf("History has %d events, %v; want %d", len(events), err, in.events)
		}
	}
	for _, key := range []string{"a", "b", "c"} {
		key = m.prefix + key
		h, err := m.f.Holder(m.f.ctx, key)
		if want, held := m.claims[key]; held && (err != nil || h.ID != want) || !held && !errors.Is(err, ledger.ErrNotFound) {
			t.Fatalf("Holder(%s) = %v, %v; want %q", key, h, err, want)
		}
	}
	m.checkOpen(t)
}

func (m *machine) checkOpen(t *rapid.T) {
	var want []string
	for _, id := range m.order {
		if !m.intents[id].last.Settle {
			want = append(want, id)
		}
	}
	if len(m.order) == 0 {
		return
	}
	recs, err := m.f.Open(m.f.ctx, m.prefix, 1000)
	if err != nil || !slices.Equal(want, ids(recs)) {
		t.Fatalf("Open = %v, %v; want %v", ids(recs), err, want)
	}
}
