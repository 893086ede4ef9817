package signal_test

import (
	"bytes"
	"flag"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/holdfast-ai/holdfast/signal"
)

var update = flag.Bool("update", false, "write the tables of docs/signals.md anew")

const (
	docPath  = "../docs/signals.md"
	docBegin = "<!-- table: begin (go test ./signal -run TestDocs -update) -->\n"
	docEnd   = "<!-- table: end -->\n"
)

// row is one line of the table: what a provider's failures of one class and treatment look like.
type row struct {
	provider, class, treatment string
	seen, types                []string
}

// TestDocs: the table of the documentation is what Classify does with the corpus, case by case.
func TestDocs(t *testing.T) {
	doc, err := os.ReadFile(docPath)
	if err != nil {
		t.Fatal(err)
	}
	head, rest, ok := bytes.Cut(doc, []byte(docBegin))
	_, tail, ok2 := bytes.Cut(rest, []byte(docEnd))
	if !ok || !ok2 {
		t.Fatalf("%s has no table marks", docPath)
	}
	want := slices.Concat(head, []byte(docBegin), []byte(table(t)), []byte(docEnd), tail)
	if *update {
		if err := os.WriteFile(docPath, want, 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	if !bytes.Equal(doc, want) {
		t.Errorf("%s is not what the code does; run go test ./signal -run TestDocs -update", docPath)
	}
}

func table(t *testing.T) string {
	rows := map[string]*row{}
	for _, c := range corpus(t) {
		_, a, err := signal.ParseAnswer(c.line)
		if err != nil {
			t.Fatal(err)
		}
		s := signal.Classify(a)
		provider := c.Provider
		if a.Phase == signal.NoResponse {
			provider = "any, no response"
		}
		r := row{provider: provider, class: string(s.Class), treatment: treatment(s)}
		key := provider + "|" + r.class + "|" + r.treatment
		if rows[key] == nil {
			rows[key] = &r
		}
		rows[key].seen = appendNew(rows[key].seen, seen(a))
		rows[key].types = appendNew(rows[key].types, "`"+s.ProviderErrorType+"`")
	}
	var lines []string
	for _, r := range rows {
		slices.Sort(r.seen)
		slices.Sort(r.types)
		lines = append(lines, fmt.Sprintf("| %s | %s | %s | %s | %s |\n", r.provider, r.class, strings.Join(r.seen, ", "), strings.Join(r.types, ", "), r.treatment))
	}
	slices.Sort(lines)
	return "| provider | class | seen as | `provider_error_type` | suggested |\n|---|---|---|---|---|\n" + strings.Join(lines, "")
}

func seen(a signal.Answer) string {
	switch {
	case a.Phase == signal.NoResponse:
		return string(a.Transport.RequestBytesSent) + " sent"
	case a.Phase == signal.MidStream:
		return strconv.Itoa(a.Status) + " mid stream"
	}
	return strconv.Itoa(a.Status)
}

func treatment(s signal.Signal) string {
	out := string(s.SuggestedLane)
	if !s.OutcomeKnown {
		out += ", outcome unknown"
	}
	return out
}

func appendNew(list []string, s string) []string {
	if slices.Contains(list, s) {
		return list
	}
	return append(list, s)
}
