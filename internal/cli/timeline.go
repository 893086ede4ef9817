package cli

import (
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/holdfast-ai/holdfast/internal/admin"
	"github.com/holdfast-ai/holdfast/ledger"
)

// moment is one line of a history, and whose it is.
type moment struct {
	Intent string `json:"intent"`
	ledger.Event
	tool bool // of an MCP call
}

// timelineOf merges histories in the order of time; within one operation the log's own order stands.
func timelineOf(ops []admin.Intent) []moment {
	list := []moment{}
	for _, v := range ops {
		for _, e := range v.History {
			list = append(list, moment{v.ID, e, isTool(&v)})
		}
	}
	slices.SortStableFunc(list, func(a, b moment) int { return a.At.Compare(b.At) })
	return list
}

// writeTimeline prints a history; several operations are told apart by the ends of their ids.
func writeTimeline(out io.Writer, list []moment) error {
	if len(list) == 0 {
		_, err := fmt.Fprintln(out, "no history is kept")
		return err
	}
	several := slices.ContainsFunc(list, func(m moment) bool { return m.Intent != list[0].Intent })
	if _, err := fmt.Fprintf(out, "since %s\n", stamp(list[0].At)); err != nil {
		return err
	}
	return table(out, func(w io.Writer) {
		for _, m := range list {
			fmt.Fprintf(w, "  +%s\t", offset(m.At.Sub(list[0].At)))
			if several {
				fmt.Fprintf(w, "…%s\t", tail(m.Intent))
			}
			fmt.Fprintf(w, "%s\t%s\n", m.what(), m.detail())
		}
	})
}

func tail(id string) string { return id[max(0, len(id)-6):] }

func offset(d time.Duration) string {
	if d < 10*time.Second {
		return fmt.Sprintf("%dms", d.Milliseconds())
	}
	return span(d)
}

// what names the event.
func (m *moment) what() string {
	switch m.Kind {
	case "transition":
		switch {
		case m.From == 0:
			return m.To.String()
		case m.From == m.To:
			return m.To.String() + " still"
		}
		return m.From.String() + " → " + m.To.String()
	case "attempt":
		return fmt.Sprintf("call %d sent", m.Attempt)
	case "attempt_end":
		return fmt.Sprintf("call %d %s", m.Attempt, endWords[m.End])
	case "duplicate":
		return "repeated request"
	case "check":
		return "looked for its effect"
	case "callback":
		return "told"
	case "alert":
		return "a person is asked"
	}
	return clean(m.Kind, 20)
}

var endWords = map[ledger.AttemptEnd]string{
	ledger.AttemptRunning: "running", ledger.AttemptSuccess: "succeeded", ledger.AttemptFailed: "failed",
	ledger.AttemptUnknown: "unknown", ledger.AttemptNotSent: "not sent",
}

// duplicateWords say when a repeated request came.
var duplicateWords = map[string]string{
	"in_flight": "came while the first still ran", "unknown": "came while the outcome was unknown", "settled": "came after it was settled",
}

func (m *moment) reason() string {
	if words := duplicateWords[m.Reason]; m.Kind == "duplicate" && words != "" {
		return words
	}
	return m.Reason
}

// evidenceMax bounds what of a piece of evidence is shown; JSON has the whole.
const evidenceMax = 160

// decided reads the record of a decision: what followed a call, and by which rule. It is "" for other evidence.
func decided(evidence []byte) string {
	var e struct {
		Decision struct {
			Action       string
			Rule, Reason string
			Delay        time.Duration `json:"delay_ns"`
		}
	}
	if json.Unmarshal(evidence, &e) != nil || e.Decision.Action == "" {
		return ""
	}
	d := &e.Decision
	s := "so " + d.Action
	if d.Delay > 0 {
		s += " in " + span(d.Delay)
	}
	if d.Reason != "" {
		s += ": " + d.Reason
	}
	if d.Rule != "" {
		s += " [" + d.Rule + "]"
	}
	return s
}

func (m *moment) detail() string {
	var parts []string
	add := func(format, s string) {
		if s != "" {
			parts = append(parts, fmt.Sprintf(format, s))
		}
	}
	if m.Actor != "engine" {
		add("by %s", m.Actor)
	}
	if m.Kind == "check" {
		parts = append(parts, m.looked())
		return clean(strings.Join(parts, ", "), 0)
	}
	add("route %s", m.Route)
	add("tier %s", m.Tier)
	if m.Status != 0 {
		parts = append(parts, fmt.Sprintf("status %d", m.Status))
	}
	add("%s", m.Error)
	add("%s", m.reason())
	if m.Billed && !m.tool { // a tool sends no bill; unknown is said already
		parts = append(parts, "possibly billed")
	}
	add("[%s]", m.Rule)
	if len(m.Evidence) > 0 {
		switch n := repeats(&m.Event); {
		case m.Kind == "duplicate" && n > 1:
			parts = append(parts, plural(n, "request"))
		case m.Kind != "duplicate":
			parts = append(parts, cmp.Or(decided(m.Evidence), "evidence "+clean(string(m.Evidence), evidenceMax)))
		}
	}
	return clean(strings.Join(parts, ", "), 0)
}
