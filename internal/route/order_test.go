package route

import (
	"errors"
	"fmt"
	"path"
	"strings"
	"testing"

	"github.com/holdfast-ai/holdfast/breaker"
)

func TestOrders(t *testing.T) {
	paused := func(table *Table, key string) bool {
		_, refusal := table.Get(key, breaker.Config{}, 0).Enter()
		return refusal != nil && refusal.Kind == Paused
	}
	for _, c := range []struct {
		said                 string // + pauses, - resumes, in this order
		openai, other, stand bool   // which are paused then, and whether anything is left standing
	}{
		{"+openai/*", true, false, true},
		{"+openai/* -openai/*", false, false, false},
		{"+*", true, true, true},
		{"+* -openai/*", false, true, true},
		{"+* -openai/* -*", false, false, false},
		{"+* -openai/* +openai/*", true, true, true},
		{"+openai/* -*", false, false, false},
		{"-openai/*", false, false, false},
		{"+openai/gpt/a/b -openai/*", false, false, true},
	} {
		for _, seen := range []bool{true, false} {
			table := New(Config{})
			if seen {
				paused(table, "openai/gpt/a/b")
				paused(table, "google/gemini/a/b")
			}
			for s := range strings.FieldsSeq(c.said) {
				if s[0] == '+' {
					must(t)(table.Pause(s[1:], "why"))
				} else {
					must(t)(table.Resume(s[1:]))
				}
			}
			if a, b := paused(table, "openai/gpt/a/b"), paused(table, "google/gemini/a/b"); a != c.openai || b != c.other {
				t.Errorf("%s (seen before: %v): paused openai %v, google %v", c.said, seen, a, b)
			}
			if got := len(table.Orders()) > 0; got != c.stand {
				t.Errorf("%s: orders %+v", c.said, table.Orders())
			}
			table.Close()
		}
	}
}

func TestTripHoldsForRoutesNotSeenYet(t *testing.T) {
	table := New(Config{})
	defer table.Close()
	n, err := table.Trip("openai/*", "incident")
	if n != 0 || err != nil {
		t.Fatal(n, err)
	}
	r := table.Get("openai/gpt/chat/1", breaker.Config{}, 0)
	if _, refusal := r.Enter(); refusal == nil || refusal.Kind != Open || !refusal.Forced || refusal.Reason != "incident" {
		t.Errorf("refused with %+v", refusal)
	}
	if info := table.List()[0]; info.Breaker.State != breaker.Open || !info.Breaker.Forced {
		t.Errorf("listed as %+v", info)
	}
	must(t)(table.Reset(t.Context(), "*"))
	if _, refusal := r.Enter(); refusal != nil || len(table.Orders()) != 0 {
		t.Errorf("after the reset: %+v, %v", refusal, table.Orders())
	}
}

func TestPatternsAreBounded(t *testing.T) {
	table := New(Config{})
	defer table.Close()
	for _, p := range []string{"", strings.Repeat("*a", 300)} {
		if _, err := table.Pause(p, ""); !errors.Is(err, ErrPattern) {
			t.Errorf("%.10q: %v", p, err)
		}
	}
	var err error
	for i := 0; err == nil && i < 2*maxOrders; i++ {
		_, err = table.Pause(fmt.Sprint(i), "")
	}
	if n := len(table.Orders()); !errors.Is(err, ErrPattern) || n != maxOrders {
		t.Errorf("%d orders, %v", n, err)
	}
	must(t)(table.Resume("*"))
	if len(table.Orders()) != 0 {
		t.Error("orders stand although all were resumed")
	}
}

func TestMatch(t *testing.T) {
	for _, c := range []struct {
		pattern, s string
		want       bool
	}{
		{"*", "", true}, {"*", "a/b", true}, {"openai/*", "openai/meta/llama/chat/1", true}, {"openai/*", "openai", false},
		{"a", "a", true}, {"a", "ab", false}, {"*/chat/*", "p/m/chat/c", true}, {"a*a", "a", false}, {"a*a", "aa", true},
		{"*b", "ab", true}, {"*b", "abc", false}, {"a**c", "abc", true}, {"*ab*ab", "abab", true}, {"*ab*ab", "ab", false},
		{"[a]", "a", false}, {"m?", "m1", false}, {"m?", "m?", true},
	} {
		if got := match(c.pattern, c.s); got != c.want {
			t.Errorf("match(%q, %q) = %v", c.pattern, c.s, got)
		}
	}
}

// FuzzMatch holds match to path.Match, with characters that mean nothing to either.
func FuzzMatch(f *testing.F) {
	f.Add("a*b*", "acbd")
	f.Add("**a", "bba")
	f.Fuzz(func(t *testing.T, pattern, s string) {
		if strings.Trim(pattern, "ab*") != "" || strings.Trim(s, "ab") != "" || len(pattern) > 16 {
			t.Skip() // the oracle has more special characters
		}
		want, err := path.Match(pattern, s)
		if err != nil || match(pattern, s) != want {
			t.Errorf("match(%q, %q) = %v, want %v (%v)", pattern, s, !want, want, err)
		}
	})
}
