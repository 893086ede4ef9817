package cache_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-ai/holdfast/cache"
	"github.com/holdfast-ai/holdfast/internal/embed"
)

// pair is two prompts, and whether the answer to one answers the other.
type pair struct {
	ID   string `json:"id"`
	Kind string `json:"kind"`
	Lang string `json:"lang"`
	A    string `json:"a"`
	B    string `json:"b"`
	Same bool   `json:"same"`
	Why  string `json:"why"`
}

func readPairs(t *testing.T, file string) (all []pair) {
	t.Helper()
	b, err := os.ReadFile("testdata/" + file)
	if err != nil {
		t.Fatal(err)
	}
	for line := range bytes.Lines(b) {
		var p pair
		if err := json.Unmarshal(line, &p); err != nil || p.ID == "" || p.A == "" || p.B == "" {
			t.Fatalf("%s: %v", line, err)
		}
		all = append(all, p)
	}
	return all
}

// embedder gives the vectors of two texts.
type embedder func(a, b string) (va, vb []float32)

// near finds any two texts as near as 0.99: behind it the guard alone stands.
func near(_, _ string) (va, vb []float32) {
	const cosine = 0.99
	return []float32{1, 0}, []float32{cosine, float32(math.Sqrt(1 - cosine*cosine))}
}

// hits says whether the question b is answered by an index that has the answer to a.
func hits(t *testing.T, a, b string, embed embedder) bool {
	t.Helper()
	const threshold, space = 0.95, "an embedder"
	made := time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)
	now := made.Add(time.Second)
	scope := cache.Scope{Env: "test", Tenant: "one", Workflow: "chat"}
	va, vb := embed(a, b)
	var index cache.Index
	q := cache.Ask(&scope, nil, a)
	index.Put(&cache.Entry{Intent: "i-1", Tenant: "one", Workflow: "chat", Kind: cache.Semantic, Key: q.SemanticKey(space, made), Partition: q.Partition,
		Vector: quantized(t, va), Made: made, Expires: made.Add(time.Hour)}, cache.Bounds{})
	q = cache.Ask(&scope, nil, b)
	e, why := index.Candidate("one", "chat", q.Partition, q.SemanticKey(space, now), now)
	if why != cache.Found {
		return false
	}
	_, why = cache.Confirm(e, quantized(t, vb), threshold)
	return why == cache.Found
}

func quantized(t *testing.T, v []float32) cache.Vector {
	t.Helper()
	q, err := cache.Quantize(v)
	if err != nil {
		t.Fatal(err)
	}
	return q
}

// nearDuplicate finds texts as near as the built-in embedder does.
func nearDuplicate(t *testing.T) embedder {
	return func(a, b string) (va, vb []float32) {
		var err error
		if va, err = (embed.NGram{}).Embed(t.Context(), a); err != nil {
			t.Fatal(err)
		}
		if vb, err = (embed.NGram{}).Embed(t.Context(), b); err != nil {
			t.Fatal(err)
		}
		return va, vb
	}
}

// Pairs that were written without a look at the guard: none that asks something else is a hit, in either order, however near an
// embedder finds the two. Of those that ask the same as many as can be are; how many is printed.
func TestPairsOfOthers(t *testing.T) {
	t.Run("an embedder that finds all near", func(t *testing.T) { tryPairs(t, near, 39) })
	t.Run("near duplicates", func(t *testing.T) { tryPairs(t, nearDuplicate(t), 10) })
}

// tryPairs tries every pair, of which at least so many of a hundred are found that may be.
func tryPairs(t *testing.T, embed embedder, atLeast int) {
	found, same, other := map[string]int{}, map[string]int{}, 0
	for _, p := range readPairs(t, "pairs.jsonl") {
		hit, back := hits(t, p.A, p.B, embed), hits(t, p.B, p.A, embed)
		if hit != back {
			t.Errorf("%s: a hit in one order only: %q, %q", p.ID, p.A, p.B)
		}
		if !p.Same {
			if other++; hit {
				t.Errorf("%s: a wrong hit: %q answers %q, although %s", p.ID, p.A, p.B, p.Why)
			}
			continue
		}
		if same[p.Kind]++; hit {
			found[p.Kind]++
		} else {
			t.Logf("missed: %s: %q, %q", p.ID, p.A, p.B)
		}
	}
	hit, of := 0, 0
	var shares strings.Builder
	for _, kind := range slices.Sorted(maps.Keys(same)) {
		hit, of = hit+found[kind], of+same[kind]
		fmt.Fprintf(&shares, "%-14s %3d of %3d\n", kind, found[kind], same[kind])
	}
	t.Logf("%d pairs that differ; of %d that do not, %d are hits (%d %%)\n%s", other, of, hit, 100*hit/of, &shares)
	for _, kind := range []string{"identical", "space"} { // BR-061
		if found[kind] < same[kind] {
			t.Errorf("%s: %d of %d pairs are hits", kind, found[kind], same[kind])
		}
	}
	if other < 321 || of < 93 || 100*hit < atLeast*of {
		t.Errorf("%d pairs that differ, %d that do not, %d hits", other, of, hit)
	}
}

// Pairs made against the guard's own rules: what a rule takes for nothing is in each of them what is asked.
func TestPairsAgainstTheRules(t *testing.T) {
	for _, p := range readPairs(t, "rules.jsonl") {
		if hits(t, p.A, p.B, near) || hits(t, p.B, p.A, near) {
			t.Errorf("%s: a wrong hit: %q answers %q, although %s", p.ID, p.A, p.B, p.Why)
		}
	}
}
