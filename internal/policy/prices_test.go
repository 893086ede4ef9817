package policy

import (
	"os"
	"strings"
	"testing"
)

// A price is the one written for the name, or for the name without its date; what is left out comes from the list, and what
// nobody knows is not guessed.
func TestPrice(t *testing.T) {
	c, faults := Parse("x.yaml", []byte(`models: {gpt-5: {input_cost: 2}, mine: {input_cost: 0, output_cost: 0}, half: {input_cost: 1}, "gpt-5-mini-2026-01-01": {input_cost: 7, output_cost: 8}}`), noEnv)
	if c == nil {
		t.Fatal(faults)
	}
	for _, w := range []struct {
		model   string
		in, out float64
		known   bool
	}{{"gpt-5", 2, 10, true}, {"gpt-5-2026-08-07", 2, 10, true}, {"mine", 0, 0, true}, {"half", 0, 0, false}, {"gpt-5-mini", 0.25, 2, true},
		{"gpt-5-mini-2026-01-01", 7, 8, true}, {"claude-haiku-4-5-20251001", 1, 5, true}, {"gpt-5-turbo", 0, 0, false}, {"", 0, 0, false},
		{"claude-haiku-4-5@20251001", 1, 5, true}} {
		if in, out, known := c.Price(w.model); in != w.in || out != w.out || known != w.known {
			t.Errorf("%q: %v, %v, %v", w.model, in, out, known)
		}
	}
}

// The built-in table is one of list prices, whose month the documentation names; a window is of a model that has a price.
func TestBuiltInTable(t *testing.T) {
	for name, p := range listed {
		if p[0] <= 0 || p[1] != 0 && p[1] < p[0] || p[1] == 0 && !strings.Contains(name, "embedding") {
			t.Errorf("%s: %v", name, p)
		}
	}
	for name, tokens := range windows {
		if _, ok := listed[name]; !ok || tokens < 100_000 {
			t.Errorf("%s: %d tokens, price known: %v", name, tokens, ok)
		}
	}
	page, err := os.ReadFile("../../docs/spend.md")
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(string(page), "public prices of "+PricesAsOf) {
		t.Errorf("docs/spend.md does not say that the prices are of %s", PricesAsOf)
	}
}

// What is known of a model beside its price: what is written of it, or of the longest name that it is a version of, and else the
// built-in size of its window.
func TestKnown(t *testing.T) {
	c, faults := Parse("x.yaml", []byte(`models: {gpt-5: {tools: false}, local: {context_tokens: 8000, images: true}}`), noEnv)
	if c == nil {
		t.Fatal(faults)
	}
	for _, w := range []struct {
		model   string
		context int64
		tools   bool // somebody has said something of them
		images  bool
	}{{"gpt-5-2026-08-07", 400_000, true, false}, {"gpt-5-mini", 400_000, false, false}, {"local", 8000, false, true}, {"local2", 0, false, false}} {
		m := c.Known(w.model)
		n := int64(0)
		if m.ContextTokens != nil {
			n = *m.ContextTokens
		}
		if m.Name != w.model || n != w.context || (m.Tools != nil) != w.tools || (m.Images != nil) != w.images {
			t.Errorf("%s: %+v, %d tokens", w.model, m, n)
		}
	}
}
