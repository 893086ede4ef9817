package cli

import (
	"fmt"
	"strings"
	"time"

	"github.com/holdfast-ai/holdfast/intent"
	"github.com/holdfast-ai/holdfast/internal/mcp"
	"github.com/holdfast-ai/holdfast/ledger"
)

// sayRuns answers whether the operation ran more than once.
func (t *trace) sayRuns() string {
	var first string
	switch {
	case t.succeeded > 1:
		first = fmt.Sprintf("Yes: %d calls succeeded.", t.succeeded) + t.sayWhyAgain()
	case t.succeeded == 1 && t.unknown > 0:
		first = fmt.Sprintf("Possibly: one call succeeded, and of %s the outcome is not known.", plural(t.unknown, "other"))
	case t.running > 0 && t.succeeded+t.unknown > 0:
		first = "Possibly: a further call is on its way."
	case t.running > 0:
		first = "No: its only call that may act is on its way."
	case t.succeeded == 1:
		first = "No: it was executed once."
	case t.unknown > 1:
		first = fmt.Sprintf("Possibly: of %d calls the outcome is not known.", t.unknown)
	case t.unknown == 1:
		first = "No: at most once. Of the one call that may have acted the outcome is not known."
	default:
		first = "No: it was not executed at all." + t.sayWhyNot()
	}
	return first + "\n" + t.sayCounts()
}

// sayCounts are the numbers behind the answer.
func (t *trace) sayCounts() string {
	var ends []string
	for _, c := range []struct {
		n    int
		what string
	}{{t.succeeded - t.settledGood, "succeeded"}, {t.settledGood, "unknown at first, then settled as a success"}, {t.failed - t.settledBad, "failed for certain"},
		{t.settledBad, "unknown at first, then settled as a failure"}, {t.unknown, "unknown"}, {t.notSent, "never sent"}, {t.running, "on its way"}} {
		if c.n > 0 {
			ends = append(ends, fmt.Sprintf("%d %s", c.n, c.what))
		}
	}
	s := plural(t.calls, "upstream call")
	if len(ends) > 0 {
		s += " (" + strings.Join(ends, ", ") + ")"
	}
	if t.billed > 0 && !isTool(&t.asked) {
		s += fmt.Sprintf(", %d possibly billed without an answer", t.billed)
	}
	if len(t.ops) > 1 {
		s += fmt.Sprintf(", in %d operations with this key", len(t.ops))
	}
	switch {
	case t.duplicates > 0:
		s += "; " + t.repeated() + " with this key came and caused no call."
	default:
		s += "; no repeated request is on record."
	}
	return s
}

// repeated counts the repetitions; beyond eight the log has a line at each doubling only.
func (t *trace) repeated() string {
	s := plural(t.duplicates, "repeated request")
	if t.duplicates > 8 {
		return "at least " + s
	}
	return s
}

// sayWhyAgain says why the key did not keep a second operation from running.
func (t *trace) sayWhyAgain() string {
	switch {
	case len(t.ops) == 1:
		return ""
	case t.asked.KeyOrigin == "caller":
		return " The key was free each time: the answer before was not kept, its ttl had run out, or its workflow only observes."
	}
	return " A derived key makes a request a duplicate within its window, and under derive: retries only where the answer before it never arrived."
}

func (t *trace) sayWhyNot() string {
	if v := &t.asked; v.State == ledger.Created.String() && intent.Parked(v.Lane) {
		return " It waits for a person (" + v.Lane + ")."
	}
	if e := t.lastEnd; e != nil && e.Reason != "" {
		return " The last call: " + e.Reason + "."
	}
	return ""
}

// sayUnknown answers whether an outcome was ever unknown, and how that ended.
func (t *trace) sayUnknown(now time.Time) string {
	if len(t.periods) == 0 {
		return "No."
	}
	lines := make([]string, len(t.periods))
	for i := range t.periods {
		lines[i] = t.periods[i].say(now, len(t.ops) > 1, t.store)
	}
	return strings.Join(lines, "\n")
}

func (p *unknownPeriod) say(now time.Time, several bool, store string) string {
	call := fmt.Sprintf("call %d", p.Call)
	if several {
		call += " of …" + tail(p.Intent)
	}
	why := fmt.Sprintf("%s ended without a known outcome: %s [%s].", call, p.Reason, p.Rule)
	switch {
	case !p.Held && p.tool:
		return "Yes, " + why + " It may have taken effect; by its policy (on_unknown: retry) that held nothing up."
	case !p.Held:
		return "Yes, " + why + " It may have been billed; by its policy (on_unknown: retry) that held nothing up."
	case p.Until == nil:
		return fmt.Sprintf("Yes, since %s (%s) and still: %s Nothing is sent until evidence or a person ends it:\n%s",
			stamp(p.From), ago(&p.From, now), why, mcp.ResolveLine(p.Intent, store))
	}
	return fmt.Sprintf("Yes, for %s from %s: %s\n%s ended it as %s: %s.", span(p.Until.Sub(p.From)), stamp(p.From), why, p.EndedBy, p.Outcome, or(p.Because))
}

// sayKey answers where the key comes from.
func (t *trace) sayKey() string {
	v := &t.asked
	switch v.KeyOrigin {
	case "":
		return "It has none: no other request can be its duplicate."
	case "caller":
		return fmt.Sprintf("It is the caller's own Idempotency-Key, for tenant %s: %s\nThe same key with another path or body is refused; fingerprint of this one: %s",
			v.Tenant, v.IdempotencyKey, v.Fingerprint)
	}
	if isTool(v) {
		return fmt.Sprintf("It is derived from the call's arguments, or from those that the tool's key: names, on MCP server %s: %s\n"+
			"Fingerprint of server, tool and arguments: %s; docs/mcp.md says when two calls are one.", v.Workflow, v.IdempotencyKey, v.Fingerprint)
	}
	return fmt.Sprintf("It is derived from what the request means to workflow %s: %s\nFingerprint %s; `holdfast key` shows what of a body is hashed.",
		v.Workflow, v.IdempotencyKey, v.Fingerprint)
}
