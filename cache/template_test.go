package cache_test

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/holdfast-ai/holdfast/cache"
)

func TestMatch(t *testing.T) {
	long := strings.Repeat("x", cache.MaxValue)
	for _, c := range []struct {
		pattern, text string
		want          []string // nil: no match
	}{
		{"商品 {product} の魅力を教えて", "商品 急須 の魅力を教えて", []string{"急須"}},
		{"商品 {product} の魅力を教えて", "  商品  急須 \n の魅力を教えて ", []string{"急須"}},
		{"商品 {product} の魅力を教えて", "商品 急須 の魅力を教えてください", nil},
		{"商品 {product} の魅力を教えて", "次の商品 急須 の魅力を教えて", nil},
		{"商品 {product} の魅力を教えて", "商品  の魅力を教えて", nil},
		{"Tell me about {product}", "Tell me about tea pots", []string{"tea pots"}},
		{"Tell me about {product}", "Tell me\n about  tea \t pots", []string{"tea pots"}},
		{"run {code} now", "run if a:\n  b\n  c now", []string{"if a:\n  b\n  c"}},
		{"run {code} now", "run if a:\n  b\nc now", []string{"if a:\n  b\nc"}},
		{"run {code} now", "run\n\n  a  b \r\n\n\tc\nnow", []string{"  a b\n\n\tc"}},
		{"run {code} now", "run\na b\n\n\tc now ", []string{"a b\n\n\tc"}},
		{"{code} is what?", "  ü\n  b  is what?", []string{"  ü\n  b"}},
		{"{code} is what?", " ü  b\nis what?", []string{"ü b"}},
		{"Tell me about {product}", "tell me about tea pots", nil},
		{"Tell me about {product}", "Tell me about", nil},
		{"Tell me about {product}", "Tell me about " + long, []string{long}},
		{"Tell me about {product}", "Tell me about " + long + "x", nil},
		{"{a} and {b} now", "x and y now", []string{"x", "y"}},
		{"{a} and {b} now", "x and y and z now", []string{"x", "y and z"}},
		{"{a} and {b} now", "x or y now", nil},
		{"{a} and {b} now", " and y now", nil},
		{"from {a} to {b}", "from b to a", []string{"b", "a"}},
		{"set {{x}} to {v}", "set {x} to 1", []string{"1"}},
		{"x{a}x", "x", nil},
		{"ab {v} ab", "ab ab", nil},
	} {
		p, err := cache.ParsePattern("t", c.pattern)
		if err != nil {
			t.Errorf("%q: %v", c.pattern, err)
			continue
		}
		m, ok := p.Match(c.text)
		if ok != (c.want != nil) || ok && !slices.Equal(m.Values, c.want) {
			t.Errorf("%q, %.60q: %v %v, want %.60q", c.pattern, c.text, m, ok, c.want)
		}
	}
}

func TestPatternsRefused(t *testing.T) {
	for _, pattern := range []string{"", "no value", "{}", "{a b} x", "{a", "a}", "{a{b}} x", "{a}{b} x", "{a} {b} x", "x {a} y {a}", "{a}", " {a} ! ", "\xff {a}", strings.Repeat("x", 1024) + "{a}"} {
		if p, err := cache.ParsePattern("t", pattern); !errors.Is(err, cache.ErrPattern) {
			t.Errorf("%.40q: %v %v", pattern, p, err)
		} else if !strings.Contains(err.Error(), ";") {
			t.Errorf("%.40q: %v says no next step", pattern, err)
		}
	}
}

func TestTemplateKeys(t *testing.T) {
	q := cache.Ask(&chat, []byte("rest"), "x")
	key := func(template string, names, values []string) cache.Key {
		return q.TemplateKey(&cache.Match{Template: template, Names: names, Values: values})
	}
	ab := []string{"a", "b"}
	base := key("t", ab, []string{"1", "2"})
	for name, other := range map[string]cache.Key{
		"template": key("u", ab, []string{"1", "2"}), "value": key("t", ab, []string{"1", "3"}), "order": key("t", ab, []string{"2", "1"}),
		"border": key("t", ab, []string{"12", ""}), "kind": q.SemanticKey("t", noon),
	} {
		if other == base {
			t.Errorf("another %s has the same key", name)
		}
	}
	if p, _ := cache.ParsePattern("x", "Tell {a} now"); p.Skeleton() != "Tell {} now" {
		t.Errorf("%q", p.Skeleton())
	}
}

// FuzzMatch puts the values that a match found back into the pattern: they are the text, so two texts never share them.
func FuzzMatch(f *testing.F) {
	f.Add("商品 {product} の魅力を教えて", "商品 急須 の魅力を教えて")
	f.Add("{a} and {b} now", "x and y and z now")
	f.Add("{{{a}}}x", "{ }x")
	f.Add("0{0}", "00\x82")
	f.Fuzz(func(t *testing.T, pattern, text string) {
		p, err := cache.ParsePattern("t", pattern)
		if err != nil {
			return
		}
		m, ok := p.Match(text)
		if !ok {
			return
		}
		var back strings.Builder
		for i, part := range strings.Split(p.Skeleton(), "{}") {
			if strings.Contains(strings.Join(m.Values, ""), "{}") || strings.Contains(pattern, "{{}}") {
				return // the skeleton's own marks
			}
			back.WriteString(part)
			if i < len(m.Values) {
				back.WriteString(m.Values[i])
			}
		}
		if got, want := strings.Join(strings.Fields(back.String()), " "), strings.Join(strings.Fields(text), " "); got != want {
			t.Errorf("%q matches %q with %q: %q", pattern, text, m.Values, got)
		}
	})
}
