package idempotency_test

import (
	"encoding/json"
	"os"
	"testing"

	"github.com/holdfast-ai/holdfast/idempotency"
)

// decided lists the debatable pairs where we choose otherwise than the corpus suggests. docs/keys.md says why.
var decided = map[string]bool{ // id: same
	"num-beyond-double":                false,
	"str-trailing-space":               true,
	"default-stream-false":             false,
	"default-tool-choice":              false,
	"default-temperature":              false,
	"null-vs-absent":                   false,
	"anthropic-system-string-vs-block": false,
	"openai-content-string-vs-part":    false,
	"openai-stop-string-vs-list":       false,
	"embeddings-string-vs-list":        false,
	"gemini-role-omitted":              false,
	"tool-empty-args":                  false,
}

func TestCorpusPairs(t *testing.T) {
	const index = "testdata/requests/index.json"
	must := corpus(t, index)
	k, err := idempotency.New(idempotency.Config{})
	if err != nil {
		t.Fatal(err)
	}
	seen := 0
	err = k.Pairs(index, func(r idempotency.PairResult) error {
		seen++
		p, ok := must[r.ID]
		if !ok {
			t.Errorf("%s: not in the index", r.ID)
		}
		want := p.Must == "same"
		if d, ok := decided[r.ID]; ok {
			if !p.Debatable {
				t.Errorf("%s: not ours to decide", r.ID)
			}
			want = d
		}
		if r.Same != want || r.Refused != "" {
			t.Errorf("%s: same = %v, must be %v (debatable: %v)\n  %s\n  %s %s", r.ID, r.Same, want, p.Debatable, r.A, r.B, r.Refused)
		}
		return nil
	})
	if err != nil || seen != len(must) {
		t.Fatalf("%d of %d pairs, %v", seen, len(must), err)
	}
}

type pair struct {
	ID        string
	Must      string
	Debatable bool
}

func corpus(t *testing.T, index string) map[string]pair {
	data, err := os.ReadFile(index)
	if err != nil {
		t.Fatal(err)
	}
	var doc struct{ Pairs []pair }
	if err := json.Unmarshal(data, &doc); err != nil {
		t.Fatal(err)
	}
	out := map[string]pair{}
	for _, p := range doc.Pairs {
		out[p.ID] = p
	}
	return out
}
