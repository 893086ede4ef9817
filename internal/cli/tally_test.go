package cli

import (
	"strings"
	"testing"
	"time"

	"github.com/holdfast-ai/holdfast/internal/admin"
	"github.com/holdfast-ai/holdfast/ledger"
)

var noon = time.Date(2026, 11, 29, 12, 0, 0, 0, time.UTC)

// op is an operation whose history is written as words: "call", an end of a call, a move to a state, "duplicate".
func op(id, state, outcome string, history ...string) admin.Intent {
	at, n := noon, 0
	v := admin.Intent{ID: id, State: state, Outcome: outcome, KeyOrigin: "caller", CreatedAt: &at, Tenant: "main"}
	was := ledger.State(0)
	for i, word := range history {
		e := ledger.Event{At: noon.Add(time.Duration(i) * time.Second), Actor: "engine", Reason: "because"}
		var to ledger.State
		switch {
		case word == "call":
			n++
			e.Kind, e.Attempt = "attempt", n
		case word == "duplicate":
			e.Kind = word
		case strings.HasPrefix(word, "end:"):
			e.Kind, e.Attempt = "attempt_end", n
			if err := e.End.UnmarshalText([]byte(word[4:])); err != nil {
				panic(err)
			}
		case strings.HasPrefix(word, "alice:"):
			word, e.Actor = word[6:], "alice"
			fallthrough
		default:
			if err := to.UnmarshalText([]byte(word)); err != nil {
				panic(err)
			}
			e.Kind, e.From, e.To, was = "transition", was, to, to
		}
		v.History = append(v.History, e)
	}
	return v
}

// The verdicts by what happened, and the first words of the answer to: did it run more than once?
func TestVerdict(t *testing.T) {
	once := op("1", "settled", "success", "intent_created", "dispatched", "call", "end:success", "confirmed", "settled")
	repeated := op("1", "settled", "success", "intent_created", "dispatched", "call", "duplicate", "end:success", "confirmed", "settled", "duplicate")
	retried := op("1", "settled", "success", "intent_created", "dispatched", "call", "end:failed", "intent_created", "dispatched", "call", "end:success", "confirmed", "settled")
	paidTwice := op("1", "settled", "success", "intent_created", "dispatched", "call", "end:unknown", "dispatched", "dispatched", "call", "end:success", "confirmed", "settled")
	lost := op("2", "settled", "failed", "intent_created", "dispatched", "call", "end:unknown", "confirmed", "settled")
	held := op("1", "unknown", "unknown", "intent_created", "dispatched", "call", "end:unknown", "unknown", "duplicate")
	happened := op("1", "settled", "success", "intent_created", "dispatched", "call", "end:unknown", "unknown", "alice:confirmed", "settled")
	happenedNot := op("1", "settled", "failed", "intent_created", "dispatched", "call", "end:unknown", "unknown", "alice:confirmed", "settled")
	returned := op("1", "intent_created", "pending", "intent_created", "dispatched", "call", "end:unknown", "unknown", "intent_created")
	flying := op("1", "dispatched", "pending", "intent_created", "dispatched", "call")
	again := op("1", "dispatched", "pending", "intent_created", "dispatched", "call", "end:unknown", "dispatched", "call")
	for name, c := range map[string]struct {
		ops  []admin.Intent
		want verdict
		says string
	}{
		"once":                      {[]admin.Intent{once}, executedOnce, "No: it was executed once.\n1 upstream call (1 succeeded); no repeated"},
		"repeated":                  {[]admin.Intent{repeated}, infrastructure, "No: it was executed once.\n1 upstream call (1 succeeded); 2 repeated requests"},
		"retried after a failure":   {[]admin.Intent{retried}, executedOnce, "No: it was executed once.\n2 upstream calls (1 succeeded, 1 failed for certain)"},
		"paid twice":                {[]admin.Intent{paidTwice}, perhapsMore, "Possibly: one call succeeded, and of 1 other"},
		"lost, then asked again":    {[]admin.Intent{lost, once}, perhapsMore, "Possibly: one call succeeded"},
		"lost twice":                {[]admin.Intent{lost, lost}, perhapsMore, "Possibly: of 2 calls"},
		"lost":                      {[]admin.Intent{lost}, failedPerhapsRun, "No: at most once."},
		"held":                      {[]admin.Intent{held}, unknownNow, "No: at most once."},
		"held beside an older one":  {[]admin.Intent{once, held}, unknownNow, "Possibly: one call succeeded"},
		"resolved: it happened":     {[]admin.Intent{happened}, executedOnce, "No: it was executed once.\n1 upstream call (1 unknown at first, then settled as a success)"},
		"resolved: it did not":      {[]admin.Intent{happenedNot}, notExecuted, "No: it was not executed at all. The last call: because.\n1 upstream call (1 unknown at first, then settled as a failure)"},
		"evidence: it did not":      {[]admin.Intent{returned}, inProgress, "No: it was not executed at all."},
		"two operations":            {[]admin.Intent{once, once}, executedMore, "Yes: 2 calls succeeded. The key was free each time"},
		"refused, then good":        {[]admin.Intent{op("0", "settled", "failed", "dispatched", "call", "end:failed", "settled"), once}, executedOnce, "No: it was executed once."},
		"never sent":                {[]admin.Intent{op("1", "settled", "discarded", "dispatched", "call", "end:not_sent", "intent_created", "settled")}, notExecuted, "No: it was not executed at all."},
		"discarded":                 {[]admin.Intent{op("1", "settled", "discarded", "intent_created", "settled")}, notExecuted, "No: it was not executed at all.\n0 upstream calls"},
		"on its way":                {[]admin.Intent{flying}, inProgress, "No: its only call that may act is on its way."},
		"on its way a second time":  {[]admin.Intent{again}, inProgress, "Possibly: a further call is on its way."},
		"waiting after a crash":     {[]admin.Intent{op("1", "dispatched", "pending", "dispatched", "call", "end:unknown")}, inProgress, "No: at most once."},
		"swept of all its history?": {[]admin.Intent{op("1", "settled", "success")}, notExecuted, "No: it was not executed at all.\n0 upstream calls"},
	} {
		tr := &trace{asked: c.ops[len(c.ops)-1], ops: c.ops, tally: tallyOf(c.ops)}
		if got := tr.verdict(); got != c.want {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
		if got := tr.sayRuns(); !strings.HasPrefix(got, c.says) {
			t.Errorf("%s: %q does not begin with %q", name, got, c.says)
		}
	}
}

func TestUnknownPeriods(t *testing.T) {
	for name, c := range map[string]struct {
		op   admin.Intent
		says string
	}{
		"never": {op("1", "settled", "success", "dispatched", "call", "end:success"), "No."},
		"still": {op("1", "unknown", "unknown", "dispatched", "call", "end:unknown", "unknown"),
			"Yes, since 2026-11-29 12:00:03.000Z (57s ago) and still: call 1 ended without a known outcome: because []. "},
		"ended": {op("1", "settled", "success", "dispatched", "call", "end:unknown", "unknown", "alice:confirmed", "settled"),
			"Yes, for 1.0s from 2026-11-29 12:00:03.000Z: call 1 ended without a known outcome: because [].\nalice ended it as success: because."},
		"given up": {op("1", "settled", "failed", "dispatched", "call", "end:unknown", "unknown", "alice:confirmed", "settled"), "Yes, for 1.0s"},
		"retried": {op("1", "settled", "success", "dispatched", "call", "end:unknown", "dispatched", "call", "end:success", "settled"),
			"Yes, call 1 ended without a known outcome: because []. It may have been billed"},
	} {
		tr := &trace{asked: c.op, ops: []admin.Intent{c.op}, tally: tallyOf([]admin.Intent{c.op})}
		if got := tr.sayUnknown(noon.Add(time.Minute)); !strings.HasPrefix(got, c.says) {
			t.Errorf("%s: %q does not begin with %q", name, got, c.says)
		}
	}
}

func TestTimelineKeepsTheOrderOfTime(t *testing.T) {
	a := op("a", "settled", "success", "intent_created", "dispatched", "call")
	b := op("b", "settled", "success", "intent_created", "dispatched")
	list := timelineOf([]admin.Intent{a, b})
	var got []string
	for _, m := range list {
		got = append(got, m.Intent+" "+m.what())
	}
	want := "a intent_created|b intent_created|a intent_created → dispatched|b intent_created → dispatched|a call 1 sent"
	if s := strings.Join(got, "|"); s != want {
		t.Errorf("%s\nwant %s", s, want)
	}
}
