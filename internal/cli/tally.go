package cli

import (
	"encoding/json"
	"time"

	"github.com/holdfast-ai/holdfast/internal/admin"
	"github.com/holdfast-ai/holdfast/ledger"
)

// verdict says in a word what a trace found.
type verdict string

const (
	executedOnce     verdict = "executed once as asked"
	infrastructure   verdict = "duplicate by infrastructure"
	executedMore     verdict = "executed more than once"
	perhapsMore      verdict = "possibly executed more than once"
	unknownNow       verdict = "unknown"
	failedPerhapsRun verdict = "failed, possibly executed"
	notExecuted      verdict = "not executed"
	inProgress       verdict = "in progress"
)

// tally counts what the histories of operations with one key say.
type tally struct {
	calls                                        int
	succeeded, failed, unknown, notSent, running int // calls by their end; one that evidence or a person cleared up by that
	settledGood, settledBad                      int // of succeeded and failed: calls that had ended as unknown
	billed, duplicates                           int
	held, open                                   int // operations that are unknown now, that are not settled otherwise
	periods                                      []unknownPeriod
	lastEnd                                      *ledger.Event // of the last call that failed or was lost
	checks                                       []checkLine   // looks of reconcilers at far sides
	asked                                        []time.Time   // a person
	late                                         int           // pieces of evidence that came by themselves
}

// unknownPeriod is a time in which an operation was held as unknown, or a call whose outcome stayed unknown while
// the operation went on (on_unknown: retry), which has no end.
type unknownPeriod struct {
	Intent  string     `json:"intent"`
	Call    int        `json:"call"`
	Held    bool       `json:"held"`
	From    time.Time  `json:"from"`
	Until   *time.Time `json:"until"`
	Reason  string     `json:"reason"`
	Rule    string     `json:"rule"`
	EndedBy string     `json:"ended_by,omitempty"`
	Because string     `json:"because,omitempty"`
	Outcome string     `json:"outcome,omitempty"`
	tool    bool       // an MCP call
}

func tallyOf(ops []admin.Intent) tally {
	t := tally{periods: []unknownPeriod{}}
	for i := range ops {
		t.add(&ops[i])
	}
	return t
}

// add reads one operation's history.
func (t *tally) add(v *admin.Intent) {
	switch v.State {
	case ledger.Unknown.String():
		t.held++
	case ledger.Settled.String():
	default:
		t.open++
	}
	t.billed += v.PossiblyBilled
	running := 0 // calls of this operation without an end; at most one at a time is
	for i := range v.History {
		e := &v.History[i]
		switch e.Kind {
		case "attempt":
			t.calls++
			running++
		case "attempt_end":
			running--
			t.end(v, e)
		case "duplicate":
			t.duplicates += repeats(e)
		case "transition":
			t.move(v, e)
		default:
			t.look(v, e)
		}
	}
	t.running += max(0, running)
}

// repeats is how many requests an event of duplicates stands for.
func repeats(e *ledger.Event) int {
	var n struct {
		Requests int `json:"requests"`
	}
	if json.Unmarshal(e.Evidence, &n) != nil || n.Requests < 1 {
		return 1
	}
	return n.Requests
}

// end counts how a call ended.
func (t *tally) end(v *admin.Intent, e *ledger.Event) {
	switch e.End {
	case ledger.AttemptSuccess:
		t.succeeded++
		return
	case ledger.AttemptFailed:
		t.failed++
	case ledger.AttemptNotSent:
		t.notSent++
	case ledger.AttemptUnknown:
		t.unknown++
		t.periods = append(t.periods, unknownPeriod{Intent: v.ID, Call: e.Attempt, From: e.At, Reason: e.Reason, Rule: e.Rule, tool: isTool(v)})
	}
	t.lastEnd = e
}

// move follows an operation into unknown and out of it. What ends it says what became of the call that was lost.
func (t *tally) move(v *admin.Intent, e *ledger.Event) {
	last := len(t.periods) - 1
	if last < 0 || t.periods[last].Intent != v.ID {
		return
	}
	p := &t.periods[last]
	switch {
	case e.To == ledger.Unknown:
		p.Held, p.From = true, e.At
	case e.From == ledger.Unknown && e.To != ledger.Unknown && p.Held:
		at := e.At
		p.Until, p.EndedBy, p.Because, p.Outcome = &at, e.Actor, e.Reason, v.Outcome
		t.unknown--
		if e.To == ledger.Confirmed && v.Outcome == ledger.OutcomeSuccess.String() {
			t.succeeded++
			t.settledGood++
		} else {
			p.Outcome = ledger.OutcomeFailed.String() // it did not happen: back to where nothing was sent, or given up
			t.failed++
			t.settledBad++
		}
	}
}

func (t *tally) ends() map[string]int {
	return map[string]int{"success": t.succeeded, "failed": t.failed, "unknown": t.unknown, "not_sent": t.notSent, "running": t.running}
}

// verdict is the word for the whole.
func (t *tally) verdict() verdict {
	switch {
	case t.held > 0:
		return unknownNow
	case t.succeeded > 1:
		return executedMore
	case t.open > 0:
		return inProgress
	case t.succeeded == 1 && t.unknown > 0 || t.unknown > 1:
		return perhapsMore
	case t.unknown == 1:
		return failedPerhapsRun
	case t.succeeded == 0:
		return notExecuted
	case t.duplicates > 0:
		return infrastructure
	}
	return executedOnce
}
