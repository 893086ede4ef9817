package cli

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-ai/holdfast/decision"
	"github.com/holdfast-ai/holdfast/internal/admin"
	"github.com/holdfast-ai/holdfast/internal/policy"
	"github.com/holdfast-ai/holdfast/ledger"
	"github.com/holdfast-ai/holdfast/signal"
)

// replayRig is a tally of one policy.
type replayRig struct {
	t *testing.T
	*replayTally
	ids int
}

func newReplayRig(t *testing.T, text string) *replayRig {
	t.Helper()
	cfg, faults := policy.Parse("new.yaml", []byte(text), func(string) (string, bool) { return "", false })
	if cfg == nil {
		t.Fatal(faults)
	}
	return &replayRig{t: t, replayTally: newReplayTally(cfg, "new.yaml", time.Unix(0, 0))}
}

var begun = time.Date(2026, 11, 29, 20, 0, 0, 0, time.UTC)

// op is an operation of workflow default whose attempts ended so.
func (r *replayRig) op(ends ...ledger.Event) *admin.Intent {
	r.ids++
	at := begun
	v := &admin.Intent{ID: fmt.Sprintf("id-%d", r.ids), Workflow: "default", Effect: "generation", RequestedModel: "m", CreatedAt: &at, Attempt: len(ends), Outcome: "failed"}
	for i, e := range ends {
		e.Kind, e.Attempt = "attempt_end", i+1
		if e.At.IsZero() {
			e.At = begun.Add(time.Second)
		}
		v.History = append(v.History, ledger.Event{Kind: "attempt", Attempt: i + 1, At: begun}, e)
		if e.End == ledger.AttemptSuccess {
			v.Outcome, v.UsageUnits = "success", admin.Usage{Input: 1_000_000, Output: 100_000}
		}
	}
	return v
}

var success = ledger.Event{End: ledger.AttemptSuccess}

// failed is an attempt's end as the gateway logs it.
func (r *replayRig) failed(status, attempt int, then decision.Action, change ...func(*decision.Facts)) ledger.Event {
	r.t.Helper()
	f := decision.Facts{Signal: signal.Signal{Class: signal.ServerError, Retryable: true}, Status: status, End: decision.Failed, Attempt: attempt, Remaining: time.Minute, Roll: 0.5}
	for _, c := range change {
		c(&f)
	}
	evidence, err := json.Marshal(map[string]any{"facts": f, "decision": decision.Decision{Action: then, Rule: "then"}})
	if err != nil {
		r.t.Fatal(err)
	}
	return ledger.Event{End: ledger.AttemptFailed, Status: status, Evidence: evidence}
}

func (r *replayRig) counts() replayCounts {
	r.t.Helper()
	report := r.report()
	if len(report.Workflows) != 1 {
		r.t.Fatalf("%+v", report)
	}
	return report.Workflows[0].replayCounts
}

// A call that the policy would not have made takes with it all that followed.
func TestReplaySavesWhatFollows(t *testing.T) {
	r := newReplayRig(t, "workflows: {default: {retry: {max_attempts: 2}}}\nmodels: {m: {input_cost: 1, output_cost: 10}}")
	billed := r.failed(503, 2, decision.Retry)
	billed.Billed, billed.End = true, ledger.AttemptUnknown
	r.add(r.op(r.failed(503, 1, decision.Retry), billed, r.failed(503, 3, decision.Retry), success))
	r.add(r.op(success))
	got := r.counts()
	want := replayCounts{Operations: 2, Attempts: 5, Changed: 1, Saved: 2, LostSuccesses: 1, Billed: 1}
	if got != want {
		t.Errorf("%+v\nwant %+v", got, want)
	}
	cost := r.report().Workflows[0].Cost
	if cost.Seen != 4 || cost.Saved != 2 || cost.AddedAtMost != 0 || cost.Unpriced != 0 {
		t.Errorf("%+v", cost)
	}
}

func TestReplayAdds(t *testing.T) {
	r := newReplayRig(t, "workflows: {default: {retry: {max_attempts: 5}}}\nmodels: {m: {input_cost: 1, output_cost: 10}}")
	r.add(r.op(r.failed(503, 1, decision.Retry), r.failed(503, 2, decision.Fail)))
	r.add(r.op(success))
	got := r.counts()
	want := replayCounts{Operations: 2, Attempts: 3, Changed: 1, AddedAtLeast: 1, AddedAtMost: 3, TriedAgain: 1}
	if got != want {
		t.Errorf("%+v\nwant %+v", got, want)
	}
	if cost := r.report().Workflows[0].Cost; cost.AddedAtLeast != 2 || cost.AddedAtMost != 6 {
		t.Errorf("%+v", cost)
	}
}

// What the log does not have is not guessed.
func TestReplayOfOlderRows(t *testing.T) {
	r := newReplayRig(t, "workflows: {default: {retry: {max_attempts: 1}}}")
	for _, evidence := range []string{"", "null", "7", `"x"`, "{}", `{"facts":null,"decision":{}}`, `{"facts":{"attempt":"x"},"decision":{}}`, `{"facts":{}}`} {
		r.add(r.op(ledger.Event{End: ledger.AttemptFailed, Evidence: json.RawMessage(evidence)}, success))
	}
	v := r.op(success)
	v.History = append(v.History, ledger.Event{Kind: "attempt", Attempt: 2})
	v.Attempt = 2
	r.add(v)
	r.add(&admin.Intent{ID: "x", Workflow: "default"})
	got := r.counts()
	if got.NotReplayable != 8 || got.Saved != 0 || got.Changed != 0 || got.Running != 1 || got.Operations != 10 {
		t.Errorf("%+v", got)
	}
	if cost := r.report().Workflows[0].Cost; cost.Unpriced != 9 || cost.Seen != 0 || len(cost.UnpricedModels) != 1 {
		t.Errorf("%+v", cost)
	}
}

// The budget that a shorter timeouts.total leaves, and on_unknown, are the new policy's.
func TestReplayFollowsThePolicy(t *testing.T) {
	late := func(e ledger.Event) ledger.Event { e.At = begun.Add(9900 * time.Millisecond); return e }
	unknown := func(hold bool) func(*decision.Facts) {
		return func(f *decision.Facts) { f.End, f.Hold = decision.Unknown, hold }
	}
	for _, c := range []struct {
		policy string
		change func(*decision.Facts)
		effect string
		want   decision.Action
	}{
		{"timeouts: {total: 10s}", func(*decision.Facts) {}, "generation", decision.Fail},
		{"timeouts: {total: 30s}", func(*decision.Facts) {}, "generation", decision.Retry},
		{"timeouts: {total: 30s}", func(f *decision.Facts) { f.Remaining = 50 * time.Millisecond }, "generation", decision.Fail},
		{"on_unknown: hold", unknown(false), "generation", decision.Hold},
		{"on_unknown: retry", unknown(true), "external", decision.Retry},
		{"mode: enforce", unknown(true), "generation", decision.Hold},
		{"mode: enforce", unknown(false), "external", decision.Hold},
		{"mode: enforce", unknown(false), "generation", decision.Retry},
	} {
		r := newReplayRig(t, "workflows: {default: {"+c.policy+"}}")
		v := r.op(late(r.failed(503, 1, decision.Queue, c.change)))
		v.Effect = c.effect
		r.add(v)
		if d := r.report().Workflows[0].Decisions; len(d) != 1 || d[0].Now.Action != c.want || d[0].Then.Action != decision.Queue {
			t.Errorf("%s: %+v, want %s", c.policy, d, c.want)
		}
	}
}

// However much is in the log, and whatever, little is kept of it.
func TestReplayIsBounded(t *testing.T) {
	r := newReplayRig(t, "workflows: {default: {}}")
	for i := range 2000 {
		e := r.failed(503, 1, decision.Action(fmt.Sprint("action-", i)))
		v := r.op(e)
		v.RequestedModel, v.UsageUnits.Input = fmt.Sprint("model-", i), 1
		r.add(v)
		r.add(&admin.Intent{ID: "x", Workflow: fmt.Sprint("gone-", i), Attempt: 1})
	}
	w := r.workflows["default"]
	if len(w.decisions) > maxRulings+1 || len(w.models) > maxModels+1 || len(r.left) > maxLeftOut || r.counts().Attempts != 2000 {
		t.Errorf("%d decisions, %d models, %d workflows left out", len(w.decisions), len(w.models), len(r.left))
	}
	var out strings.Builder
	if err := writeReplay(&out, r.report()); err != nil || strings.Count(out.String(), "\n") > 1000 {
		t.Errorf("%v, %d lines", err, strings.Count(out.String(), "\n"))
	}
}

func TestSince(t *testing.T) {
	now := time.Date(2026, 11, 30, 0, 0, 0, 0, time.UTC)
	for in, want := range map[string]time.Duration{"7d": 7 * 24 * time.Hour, "2w": 14 * 24 * time.Hour, "0.5d": 12 * time.Hour, "90m": 90 * time.Minute, "0s": 0,
		"2026-11-29T20:00:00Z": 4 * time.Hour} {
		if got, err := sinceWhen(in, now); err != nil || now.Sub(got) != want {
			t.Errorf("%s: %v, %v", in, got, err)
		}
	}
	for _, in := range []string{"", "d", "-1d", "1e9d", "NaNd", "infd", "yesterday", "7", "-3h", "2026-11-29"} {
		if got, err := sinceWhen(in, now); err == nil {
			t.Errorf("%q is %v", in, got)
		}
	}
}

func TestPrices(t *testing.T) {
	cfg := newReplayRig(t, "models: {gpt-5: {input_cost: 1, output_cost: 2}, gpt-5-mini: {input_cost: 3, output_cost: 4}, half: {input_cost: 1}}").cfg
	for model, want := range map[string]float64{"gpt-5": 1, "gpt-5-2026-08-07": 1, "gpt-5-mini": 3, "gpt-5-mini-2026-08-07": 3, "gpt-5@20260807": 1,
		"gpt-5-nano": 0, "gpt-51": 0, "gpt": 0, "half": 0, "": 0, "gpt-5-": 0} {
		if in, _, ok := price(cfg, model); in != want || ok != (want > 0) {
			t.Errorf("%s: %v, %v", model, in, ok)
		}
	}
}
