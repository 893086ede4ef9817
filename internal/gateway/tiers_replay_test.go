package gateway_test

import (
	"testing"
)

// What answered is said again of a replay.
func TestTierOfAReplay(t *testing.T) {
	r := tiersRig(t, "")
	r.atTier("again", "pro", `{"status":503}`)
	q := chat("again").workflow("pair").key("k")
	a := r.must(q, 200)
	r.settled(a.header.Get("Holdfast-Intent"))
	b := r.must(q, 200)
	for _, h := range []string{"Holdfast-Served-Model", "Holdfast-Fallback-Reason", "Holdfast-Notice", "Holdfast-Attempts"} {
		if a.header.Get(h) != b.header.Get(h) || a.header.Get(h) == "" {
			t.Errorf("%s: %q, then %q", h, a.header.Get(h), b.header.Get(h))
		}
	}
	if b.header.Get("Holdfast-Original-Source") != "flash" || b.header.Get("Holdfast-Source") != "replay" {
		t.Errorf("%v", b.header)
	}
	r.calls("again", 2)
}

// So it is where the answer is still in memory, right behind it.
func TestTierOfAnEarlyReplay(t *testing.T) {
	for _, q := range []request{chat("early"), streamed("early")} {
		for name, again := range map[string]request{"key": q.key("k"), "count": q.with("X-Stainless-Retry-Count", "1")} {
			r := tiersRig(t, "")
			r.atTier("early", "pro", `{"status":503}`)
			first := q
			if name == "key" {
				first = again
			}
			r.must(first.workflow("pair"), 200)
			b := r.must(again.workflow("pair"), 200)
			if b.header.Get("Holdfast-Source") != "replay" || b.header.Get("Holdfast-Original-Source") != "flash" || b.header.Get("Holdfast-Original-Date") == "" {
				t.Errorf("%s: %v", name, b.header)
			}
			r.atRest()
			r.calls("early", 2)
		}
	}
}
