package ledgertest

import (
	"errors"
	"testing"
	"time"

	"github.com/holdfast-ai/holdfast/ledger"
)

// generated is dispatched for an intent that generates: of others no answer is given to other requests.
func (f *fixture) generated(tenant string) *ledger.Write {
	w := f.dispatched("")
	w.Insert.Tenant, w.Insert.Effect, w.Insert.Hold = tenant, ledger.EffectGeneration, false
	return w
}

// withCached adds a row of the index over answers to w.
func (f *fixture) withCached(w *ledger.Write, kind ledger.CachedKind, ttl time.Duration) *ledger.Write {
	w.Cached = append(w.Cached, ledger.Cached{CachedRef: ledger.CachedRef{Kind: kind}, Partition: [32]byte{7}, Data: []byte{1, 2, 3},
		ExpiresAt: f.Now().Add(ttl)})
	return w
}

// cachedAnswer commits a whole life with an answer that other requests find.
func (f *fixture) cachedAnswer(tenant string, kind ledger.CachedKind, ttl time.Duration) string {
	f.Helper()
	return f.commit(f.withCached(f.settled(f.commit(f.generated(tenant)), 0), kind, ttl)).ID
}

func (f *fixture) cached(filter ledger.CachedFilter) []ledger.Cached {
	f.Helper()
	rows, err := f.Cached(f.ctx, filter)
	if err != nil {
		f.Fatal(err)
	}
	return rows
}

func cachedGoesWithAnswer(t *testing.T, f *fixture) {
	id := f.cachedAnswer("acme", ledger.CachedTemplate, time.Hour)
	later := f.withCached(&ledger.Write{ID: id, Append: true}, ledger.CachedSemantic, 2*time.Hour)
	later.Cached[0].Data = nil
	f.commit(later)
	rows := f.cached(ledger.CachedFilter{Intent: id})
	if len(rows) != 2 {
		t.Fatalf("Cached = %v, want two rows", rows)
	}
	settled := f.get(id).SettledAt
	f.same("rows", []ledger.Cached{
		{CachedRef: ledger.CachedRef{Intent: id, Kind: ledger.CachedSemantic}, Partition: [32]byte{7}, ExpiresAt: later.Cached[0].ExpiresAt,
			Tenant: "acme", Workflow: "chat", SettledAt: settled},
		{CachedRef: ledger.CachedRef{Intent: id, Kind: ledger.CachedTemplate}, Partition: [32]byte{7}, Data: []byte{1, 2, 3},
			ExpiresAt: rows[1].ExpiresAt, Tenant: "acme", Workflow: "chat", SettledAt: settled},
	}, rows)
}

func cachedRefused(t *testing.T, f *fixture) {
	open := f.commit(f.generated("acme"))
	failed := f.withCached(f.settled(open, 0), ledger.CachedTemplate, time.Hour)
	failed.Status.Outcome = ledger.OutcomeFailed
	bodiless := f.withCached(f.settled(open, 0), ledger.CachedTemplate, time.Hour)
	bodiless.Bodies = nil
	endless := f.withCached(f.settled(open, 0), ledger.CachedTemplate, time.Hour)
	endless.Cached[0].ExpiresAt = time.Time{}
	large := f.withCached(f.settled(open, 0), ledger.CachedTemplate, time.Hour)
	large.Cached[0].Data = make([]byte, ledger.CachedMax+1)
	kindless := f.withCached(f.settled(open, 0), 0, time.Hour)
	for name, w := range map[string]*ledger.Write{
		"a failure": failed, "no body": bodiless, "no end": endless, "too large": large, "no kind": kindless,
		"a move": f.withCached(f.next(open, ledger.Unknown), ledger.CachedTemplate, time.Hour),
	} {
		if err := ledger.Commit(f.ctx, f.Ledger, w); err == nil {
			t.Errorf("%s: accepted", name)
		}
	}
	event := []ledger.Event{{At: f.Now(), Kind: "note", Reason: "beside it"}}
	failing := f.settled(f.commit(f.generated("acme")), 0)
	failing.Status.Outcome, failing.Answer, failing.Bodies = ledger.OutcomeFailed, nil, nil
	f.commit(failing)
	for name, id := range map[string]string{"unsettled": open.Insert.ID, "failed": failing.ID, "absent": f.id()} {
		w := f.withCached(&ledger.Write{ID: id, Append: true, Events: event}, ledger.CachedSemantic, time.Hour)
		if err := ledger.Commit(f.ctx, f.Ledger, w); !errors.Is(err, ledger.ErrNotFound) {
			t.Errorf("%s: %v, want ErrNotFound", name, err)
		}
	}
	if events, err := f.History(f.ctx, open.Insert.ID); err != nil || len(events) != 3 {
		t.Errorf("a refused append left something: %v, %v", events, err)
	}
	if rows := f.cached(ledger.CachedFilter{}); len(rows) > 0 {
		t.Errorf("Cached = %v", rows)
	}
}

func cachedReplaced(t *testing.T, f *fixture) {
	id := f.cachedAnswer("acme", ledger.CachedSemantic, time.Hour)
	w := f.withCached(&ledger.Write{ID: id, Append: true}, ledger.CachedSemantic, 3*time.Hour)
	w.Cached[0].Data = []byte{9}
	f.commit(w)
	if rows := f.cached(ledger.CachedFilter{}); len(rows) != 1 || len(rows[0].Data) != 1 || !rows[0].ExpiresAt.After(f.Now().Add(2*time.Hour)) {
		t.Errorf("Cached = %v", rows)
	}
}

func cachedPaging(t *testing.T, f *fixture) {
	var want []ledger.CachedRef
	for i := range 7 {
		id := f.cachedAnswer([]string{"a", "b"}[i%2], ledger.CachedTemplate, time.Hour)
		f.commit(f.withCached(&ledger.Write{ID: id, Append: true}, ledger.CachedSemantic, time.Hour))
		want = append([]ledger.CachedRef{{Intent: id, Kind: ledger.CachedSemantic}, {Intent: id, Kind: ledger.CachedTemplate}}, want...)
	}
	var got []ledger.CachedRef
	page := ledger.CachedFilter{Limit: 3}
	for {
		rows := f.cached(page)
		for _, r := range rows {
			got = append(got, r.CachedRef)
		}
		if len(rows) < page.Limit {
			break
		}
		page.Before = got[len(got)-1]
	}
	f.same("all", want, got)
	for filter, n := range map[ledger.CachedFilter]int{{Tenant: "a"}: 8, {Tenant: "b"}: 6, {Tenant: "c"}: 0, {Workflow: "chat"}: 14, {Workflow: "x"}: 0,
		{Tenant: "b", Intent: want[0].Intent}: 0, {Tenant: "a", Intent: want[0].Intent}: 2} {
		if rows := f.cached(filter); len(rows) != n {
			t.Errorf("%+v: %d rows, want %d", filter, len(rows), n)
		}
	}
}

func uncached(t *testing.T, f *fixture) {
	kept, gone := f.cachedAnswer("a", ledger.CachedTemplate, time.Hour), f.cachedAnswer("a", ledger.CachedTemplate, time.Hour)
	if err := f.Uncache(f.ctx, []ledger.CachedRef{{Intent: gone, Kind: ledger.CachedTemplate}, {Intent: kept, Kind: ledger.CachedSemantic},
		{Intent: f.id(), Kind: ledger.CachedTemplate}}); err != nil {
		t.Fatal(err)
	}
	if rows := f.cached(ledger.CachedFilter{}); len(rows) != 1 || rows[0].Intent != kept {
		t.Errorf("Cached = %v", rows)
	}
	if _, err := f.Body(f.ctx, gone, ledger.BodyAnswer); err != nil {
		t.Errorf("the answer went with its row: %v", err)
	}
	if err := f.Uncache(f.ctx, nil); err != nil {
		t.Error(err)
	}
}

// sweepKeepsCached: what the index leads to is kept until the row's time is over, and goes then as if it had not been there.
func sweepKeepsCached(t *testing.T, f *fixture) {
	id := f.cachedAnswer("a", ledger.CachedTemplate, 100*time.Hour)
	p := ledger.Retention{Now: f.Now().Add(90 * time.Hour), Answers: time.Hour, Rows: 2 * time.Hour}
	if s := f.swept(p); s != (ledger.Swept{}) {
		t.Errorf("Swept = %+v within the row's time", s)
	}
	if _, err := f.Body(f.ctx, id, ledger.BodyAnswer); err != nil {
		t.Errorf("its answer: %v", err)
	}
	p.Now = f.Now().Add(101 * time.Hour)
	f.same("Swept", ledger.Swept{Cached: 1, Bodies: 1, Intents: 1, Claims: 0}, f.swept(p))
	if rows := f.cached(ledger.CachedFilter{}); len(rows) > 0 {
		t.Errorf("Cached = %v", rows)
	}
}

// sweepTakesCached: a store that may hold no more takes the answer, and no row is left that leads to it.
func sweepTakesCached(t *testing.T, f *fixture) {
	id := f.cachedAnswer("a", ledger.CachedTemplate, time.Hour)
	if s := f.swept(ledger.Retention{Now: f.Now(), MaxBytes: 1}); s.Intents != 1 {
		t.Errorf("Swept = %+v, want the one intent", s)
	}
	if rows := f.cached(ledger.CachedFilter{}); len(rows) > 0 {
		t.Errorf("Cached = %v", rows)
	}
	w := f.withCached(&ledger.Write{ID: id, Append: true}, ledger.CachedSemantic, time.Hour)
	if err := ledger.Commit(f.ctx, f.Ledger, w); !errors.Is(err, ledger.ErrNotFound) {
		t.Errorf("a row for what was swept: %v, want ErrNotFound", err)
	}
}
