package cli

import (
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/holdfast-ai/holdfast/internal/admin"
	"github.com/holdfast-ai/holdfast/ledger"
)

// checkLine is one look of a reconciler at the far side, as the log has it.
type checkLine struct {
	Intent   string          `json:"intent"`
	Check    int             `json:"check"`
	At       time.Time       `json:"at"`
	By       string          `json:"by"`
	Found    string          `json:"found"` // what followed: happened, did_not_happen, cannot_tell
	Read     string          `json:"read"`  // what the read said by itself
	Reason   string          `json:"reason"`
	Evidence json.RawMessage `json:"evidence,omitempty"`
}

// checkOf reads a check's line.
func checkOf(id string, e *ledger.Event) checkLine {
	c := checkLine{Intent: id, At: e.At, By: e.Actor, Reason: e.Reason}
	var in struct {
		Check       int
		Found, Read string
		Evidence    json.RawMessage
	}
	if json.Unmarshal(e.Evidence, &in) == nil {
		c.Check, c.Found, c.Read, c.Evidence = in.Check, in.Found, in.Read, in.Evidence
	}
	return c
}

// look counts what was done about an unknown outcome.
func (t *tally) look(v *admin.Intent, e *ledger.Event) {
	switch e.Kind {
	case "check":
		t.checks = append(t.checks, checkOf(v.ID, e))
	case "alert":
		t.asked = append(t.asked, e.At)
	case "evidence":
		t.late++
	}
}

// checkQuestion is asked only of operations whose outcome was looked for.
const checkQuestion = "Who looked for its effect, and what was found?"

// sayChecks answers it.
func (t *tally) sayChecks(now time.Time) string {
	var b strings.Builder
	for i := range t.checks {
		c := &t.checks[i]
		fmt.Fprintf(&b, "%s, check %d, %s: %s: %s.", c.By, c.Check, stampAgo(&c.At, now), foundWords[c.Found], or(c.Reason))
		if len(c.Evidence) > 0 {
			fmt.Fprintf(&b, " Evidence: %s", clean(string(c.Evidence), evidenceMax))
		}
		b.WriteByte('\n')
	}
	if t.late > 0 {
		fmt.Fprintf(&b, "The far side's own answer came late: %s of evidence.\n", plural(t.late, "piece"))
	}
	switch {
	case len(t.asked) > 0:
		fmt.Fprintf(&b, "No check could tell; a person was asked %s.", stampAgo(&t.asked[len(t.asked)-1], now))
	case b.Len() == 0:
		b.WriteString("Nobody: no reconciler is configured for it, and a person decides.")
	}
	return strings.TrimSuffix(b.String(), "\n")
}

var foundWords = map[string]string{"happened": "the effect took place", "did_not_happen": "there is no effect", "cannot_tell": "cannot tell"}

// held says that an operation was unknown at any time and not only in passing.
func (t *tally) everHeld() bool {
	for i := range t.periods {
		if t.periods[i].Held {
			return true
		}
	}
	return false
}

// looked is a check as the timeline has it.
func (m *moment) looked() string {
	c := checkOf(m.Intent, &m.Event)
	s := foundWords[c.Found]
	if c.Reason != "" {
		s += ": " + c.Reason
	}
	if len(c.Evidence) > 0 {
		s += ", evidence " + clean(string(c.Evidence), evidenceMax)
	}
	return s
}
