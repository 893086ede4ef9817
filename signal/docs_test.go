package signal_test

import (
	"flag"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/holdfast-ai/holdfast/internal/doctable"
	"github.com/holdfast-ai/holdfast/signal"
)

var update = flag.Bool("update", false, "write the tables of docs/signals.md anew")

// command writes the table anew; the page names it.
const command = "go test ./signal -run TestDocs -update"

// row is one line of the table: what a provider's failures of one class and treatment look like.
type row struct {
	provider, class, treatment string
	seen, types                []string
}

// TestDocs: the table of the documentation is what Classify does with the corpus, case by case.
func TestDocs(t *testing.T) {
	doctable.Check(t, "../docs/signals.md", "<!-- table: begin ("+command+") -->\n", "<!-- table: end -->\n", table(t), *update, command)
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
