package gateway_test

import (
	"testing"

	"github.com/holdfast-ai/holdfast/ledger"
)

// What one gateway's answer is found by is found at the others a moment later, and no longer once it is purged.
func TestAcrossCacheIsLearned(t *testing.T) {
	f := newFleet(t, 2, withCache)
	a, b := f.nodes[0], f.nodes[1]
	q := question("near", "Why buy a kettle?")
	first := a.must(q, 200)
	id := first.header.Get("Holdfast-Intent")
	var rows []ledger.Cached
	wait(t, func() bool {
		rows = a.indexed(ledger.CachedFilter{Intent: id})
		return len(rows) > 0 && b.gw.Findable(&rows[0])
	})
	if n := a.upstream(func() { b.source(b.must(q, 200), "cache:template") }); n != 0 {
		t.Errorf("%d upstream calls for what is known", n)
	}
	refs := make([]ledger.CachedRef, len(rows))
	for i := range rows {
		refs[i] = rows[i].CachedRef
	}
	if err := a.store.Uncache(t.Context(), refs); err != nil {
		t.Fatal(err)
	}
	if n := a.upstream(func() { b.must(q, 200) }); n != 1 {
		t.Errorf("%d upstream calls behind a purge, want 1", n)
	}
}
