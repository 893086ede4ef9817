package idempotency_test

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
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

// The index's form, beyond what the corpus uses of it.
func TestPairsReadsRequestsAsHTTPDoes(t *testing.T) {
	dir := t.TempDir()
	write := func(name, text string) {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("a.json", `{"a":1}`)
	write("b.json", `{"a":2}`)
	write("index.json", `{"pairs":[
		{"id":"same key","a":{"file":"a.json","endpoint":"POST /x","headers":{"idempotency-key":" k "}},"b":{"file":"a.json","endpoint":"POST /x","headers":{"Idempotency-Key":["k"]}}},
		{"id":"conflict","a":{"file":"a.json","endpoint":"POST /x","headers":{"idempotency-key":"k"}},"b":{"file":"b.json","endpoint":"POST /x","headers":{"idempotency-key":"k"}}},
		{"id":"refused","a":{"file":"a.json","endpoint":"POST /x","headers":{"idempotency-key":""}},"b":{"file":"a.json","endpoint":"POST /x"}},
		{"id":"one with a key","a":{"file":"a.json","endpoint":"POST /x","headers":{"idempotency-key":"k"}},"b":{"file":"a.json","endpoint":"POST /x"}},
		{"id":"credential","a":{"file":"a.json","endpoint":"POST /x","headers":{"authorization":"Bearer c"}},"b":{"file":"a.json","endpoint":"POST /x","headers":{"x-api-key":"c"}}},
		{"id":"owner","a":{"file":"a.json","endpoint":"POST /x","headers":{"holdfast-owner":"a"}},"b":{"file":"a.json","endpoint":"POST /x","headers":{"holdfast-owner":"b"}}},
		{"id":"workflow","a":{"file":"a.json","endpoint":"POST /x","headers":{"holdfast-workflow":"a"}},"b":{"file":"a.json","endpoint":"POST /x"}}
	]}`)
	var got []string
	k := keyer(t, idempotency.Config{})
	err := k.Pairs(filepath.Join(dir, "index.json"), func(r idempotency.PairResult) error {
		got = append(got, fmt.Sprintf("%s: %v %v %v", r.ID, r.Same, r.Conflict, r.Refused != ""))
		return nil
	})
	want := []string{
		"same key: true false false", "conflict: false true false", "refused: false false true", "one with a key: false false false",
		"credential: true false false", "owner: false false false", "workflow: false false false",
	}
	if err != nil || !slices.Equal(got, want) {
		t.Errorf("%q, %v", got, err)
	}
	write("index.json", `{"pairs":[{"id":"p","a":{"file":"none.json"},"b":{"file":"a.json"}}]}`)
	if err := k.Pairs(filepath.Join(dir, "index.json"), nil); err == nil || !strings.Contains(err.Error(), "pair 1: p: ") {
		t.Error(err)
	}
}

// The same Idempotency-Key with another request is reported as a conflict.
func TestCorpusConflicts(t *testing.T) {
	k := keyer(t, idempotency.Config{})
	n := 0
	err := k.Pairs("testdata/requests/index.json", func(r idempotency.PairResult) error {
		if r.Conflict != (r.ID == "hdr-idempotency-same-tool") {
			t.Errorf("%+v", r)
		}
		n++
		return nil
	})
	if err != nil || n == 0 {
		t.Error(n, err)
	}
}
