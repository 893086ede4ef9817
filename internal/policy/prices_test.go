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
	for name, able := range abilities {
		if _, ok := listedAs(listed, name); !ok || able&(tools|images) == 0 || strings.Contains(name, "embedding") {
			t.Errorf("%s: %b, price known: %v", name, able, ok)
		}
	}
	for name := range windows {
		if abilities[name] == 0 {
			t.Errorf("%s: of a window is known, and nothing of what it can do", name)
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

// What is known of a model beside its price: what is written of it, or of the longest name that it is a version of, and else what the
// built-in list says. A yes is listed, a no is written.
func TestKnown(t *testing.T) {
	c, faults := Parse("x.yaml", []byte(`models: {gpt-5: {tools: false}, local: {context_tokens: 8000, images: true}}`), noEnv)
	if c == nil {
		t.Fatal(faults)
	}
	for _, w := range []struct {
		model                           string
		context                         int64
		tools, images, schema, parallel string
	}{
		{"gpt-5-2026-08-07", 400_000, "no", "yes", "yes", "yes"}, {"gpt-5-mini", 400_000, "yes", "yes", "yes", "yes"},
		{"local", 8000, "", "yes", "", ""}, {"local2", 0, "", "", "", ""}, {"gpt-5-turbo", 0, "", "", "", ""},
		{"claude-sonnet-4-5-20250929", 200_000, "yes", "yes", "yes", "yes"}, {"claude-sonnet-4", 200_000, "yes", "yes", "", "yes"},
		{"gpt-4o-2024-05-13", 128_000, "yes", "yes", "", "yes"}, {"gpt-4o-2024-08-06", 128_000, "yes", "yes", "yes", "yes"},
		{"o3-mini", 200_000, "yes", "", "yes", ""}, {"text-embedding-3-small", 0, "", "", "", ""},
	} {
		m := c.Known(w.model)
		n := int64(0)
		if m.ContextTokens != nil {
			n = *m.ContextTokens
		}
		if m.Name != w.model || n != w.context || word(m.Tools) != w.tools || word(m.Images) != w.images || word(m.JSONSchema) != w.schema || word(m.ParallelTools) != w.parallel {
			t.Errorf("%s: %d tokens, tools %q, images %q, schema %q, parallel %q", w.model, n, word(m.Tools), word(m.Images), word(m.JSONSchema), word(m.ParallelTools))
		}
	}
}

func word(b *bool) string {
	switch {
	case b == nil:
		return ""
	case *b:
		return "yes"
	}
	return "no"
}
