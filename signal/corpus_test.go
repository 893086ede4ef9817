package signal_test

import (
	"bufio"
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"os"
	"slices"
	"testing"

	"github.com/holdfast-ai/holdfast/signal"
)

type caseOf struct {
	ID        string         `json:"id"`
	Kind      string         `json:"kind"`
	Provider  string         `json:"provider"`
	Expected  map[string]any `json:"expected"`
	Debatable []string       `json:"debatable"`
	line      []byte
}

func corpus(t testing.TB) []caseOf {
	t.Helper()
	data, err := os.ReadFile("testdata/signals.jsonl")
	if err != nil {
		t.Fatal(err)
	}
	var out []caseOf
	for sc := bufio.NewScanner(bytes.NewReader(data)); sc.Scan(); {
		c := caseOf{line: slices.Clone(sc.Bytes())}
		if err := json.Unmarshal(c.line, &c); err != nil {
			t.Fatal(err)
		}
		out = append(out, c)
	}
	return out
}

// half tells on which side of the hold-out split a case lies.
func (c caseOf) half() string {
	if sha256.Sum256([]byte(c.ID))[0]%2 == 0 {
		return "a"
	}
	return "b"
}

func TestCorpus(t *testing.T) {
	for _, c := range corpus(t) {
		t.Run(c.half()+"/"+c.ID, func(t *testing.T) {
			_, a, err := signal.ParseAnswer(c.line)
			if err != nil {
				t.Fatal(err)
			}
			got := asMap(t, signal.Classify(a))
			for field, want := range c.Expected {
				have, there := got[field]
				if !there {
					t.Errorf("%s is missing", field)
				} else if have != want && slices.Contains(c.Debatable, field) {
					t.Logf("debatable: %s = %v, corpus %v", field, have, want)
				} else if have != want {
					t.Errorf("%s = %v, want %v", field, have, want)
				}
			}
		})
	}
}

func asMap(t testing.TB, s signal.Signal) map[string]any {
	t.Helper()
	b, err := json.Marshal(s)
	if err != nil {
		t.Fatal(err)
	}
	var m map[string]any
	if err := json.Unmarshal(b, &m); err != nil {
		t.Fatal(err)
	}
	return m
}
