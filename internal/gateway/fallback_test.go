package gateway_test

import (
	"encoding/json"
	"strings"
	"sync"
	"testing"

	"github.com/holdfast-ai/holdfast/fallback"
	"github.com/holdfast-ai/holdfast/intent"
	"github.com/holdfast-ai/holdfast/ledger"
)

// tiered has workflows whose first tier is the one that the tests call, and that differ in the tiers behind it.
const tiered = `
env: test
providers:
  openai: {type: openai, base_url: "SIM/v1", api_key: "sk-a"}
  spare: {type: openai, base_url: "SIM/v1", api_key: "sk-b"}
  claude: {type: anthropic, base_url: "SIM", api_key: "sk-c"}
models:
  local: {context_tokens: 8000, tools: false}
  mute: {input_cost: 1, output_cost: 1}
workflows:
  equal:
    match: {paths: ["/by-name-only"]}
    retry: {max_attempts: 1}
    tiers: [{name: pro, provider: openai, model: gpt-5}, {name: local, provider: spare, model: local}]
  none:
    match: {paths: ["/by-name-only"]}
    retry: {max_attempts: 1}
    tiers: [{name: pro, provider: openai, model: gpt-5}, {name: local, provider: spare, model: local}]
    fallback: {allowed_before_first_token: false}
  unsaid:
    match: {paths: ["/by-name-only"]}
    retry: {max_attempts: 1}
    tiers: [{name: pro, provider: openai, model: gpt-5}, {name: claude, provider: claude, model: claude-haiku-4-5}, {name: mute, provider: spare, model: mute}]
    lanes:
      background_retry: {max_attempts: 1}
      owner_review: {enter_when: [fallback_contract_unknown]}
  cheap:
    match: {paths: ["/by-name-only"]}
    bulkhead: {max_concurrent: 1}
    retry: {max_attempts: 1}
    tiers: [{name: pro, provider: openai, quality_class: a}, {name: local, provider: spare, model: local, quality_class: b}]
    fallback: {on: [server_error], contract: {id: C-7, approver: ada}}
  waits:
    match: {paths: ["/by-name-only"]}
    bulkhead: {max_concurrent: 1, wait: true}
    lanes: {interactive_admission: {max_wait_ms: 60}}
    retry: {max_attempts: 1}
    tiers: [{name: pro, provider: openai, model: gpt-5}, {name: local, provider: spare, model: local}]
    fallback: {on: [server_error]}
  default: {}
`

func tierRig(t *testing.T) *rig {
	return newRig(t, func(c *rigConfig) { c.yaml = tiered })
}

func (r *rig) history(id string) []ledger.Event {
	r.t.Helper()
	events, err := r.store.History(r.t.Context(), id)
	if err != nil {
		r.t.Fatal(err)
	}
	return events
}

// decidedFallback reads from an intent's history what was decided about other tiers, nil where nothing was.
func (r *rig) decidedFallback(id string) (d *fallback.Decision) {
	r.t.Helper()
	for _, e := range r.history(id) {
		var said struct{ Fallback *fallback.Decision }
		if json.Unmarshal(e.Evidence, &said) == nil && said.Fallback != nil {
			if d != nil {
				r.t.Errorf("%s: decided twice", id)
			}
			d = said.Fallback
		}
	}
	return d
}

// Where a call fails at a tier it is decided, and on record, whether another one may answer; its client is told in a header. Where none
// may, the provider's own error is what it gets; where one was tried and failed too, the error of all.
func TestFallbackIsDecided(t *testing.T) {
	const tools = `,"tools":[{"type":"function","function":{"name":"f"}}]`
	r := tierRig(t)
	for op, c := range map[string]struct {
		q      request
		step   string
		status int
		header string
	}{
		"next":  {chat("next").workflow("equal"), `{"status":503}`, 502, "next; tier=local; rule=tiers"},
		"tools": {chat("tools", tools).workflow("equal"), `{"status":503}`, 503, "mismatch; rule=models.tools"},
		"held":  {chat("held", `,"conversation":"c-1"`).workflow("equal"), `{"status":429}`, 429, "mismatch; rule=tiers.provider"},
		"long":  {chat("long", `,"max_tokens":9000`).workflow("equal"), `{"status":503}`, 503, "mismatch; rule=models.context_tokens"},
		"mine":  {chat("mine").workflow("equal"), `{"status":400}`, 400, "denied; rule=fallback.on"},
		"none":  {chat("none").workflow("none"), `{"status":503}`, 503, "denied; rule=fallback.allowed_before_first_token"},
		"mute":  {chat("mute", `,"logprobs":true`).workflow("unsaid"), `{"status":503}`, 503, "unknown; rule=models.context_tokens"},
		"cheap": {chat("cheap").workflow("cheap"), `{"status":500}`, 502, "next; tier=local; rule=tiers"},
		"acts":  {streamed("acts").workflow("equal"), "cut:3", 200, "denied; rule=semantics 22"},
		"plain": {chat("plain"), `{"status":400}`, 400, ""},
	} {
		r.always(op, c.step)
		a := r.must(c.q, c.status)
		id := a.header.Get("Holdfast-Intent")
		if got := a.header.Get("Holdfast-Fallback"); c.status != 200 && got != c.header {
			t.Errorf("%s: header %q, want %q", op, got, c.header)
		}
		d := r.decidedFallback(r.settled(id).ID)
		switch {
		case d == nil && c.header == "":
		case d == nil || !strings.HasPrefix(c.header, string(d.Action)) || !strings.HasSuffix(c.header, "rule="+d.Rule) || d.Reason == "":
			t.Errorf("%s: %+v on record, want %s", op, d, c.header)
		case op == "cheap" && (d.Contract != "C-7" || r.record(id).FallbackOK != "C-7"):
			t.Errorf("%s: contract %q, fallback_allowed %q", op, d.Contract, r.record(id).FallbackOK)
		}
		calls := 1
		if c.status == 502 {
			calls = 2
		}
		if n := int(r.sim.Counts(op).Calls); n != calls {
			t.Errorf("%s: %d calls, want %d", op, n, calls)
		}
	}
}

// A success decides nothing.
func TestFallbackOfASuccess(t *testing.T) {
	r := tierRig(t)
	a := r.must(chat("ok").workflow("equal"), 200)
	if d := r.decidedFallback(r.settled(a.header.Get("Holdfast-Intent")).ID); d != nil || a.header.Get("Holdfast-Fallback") != "" {
		t.Errorf("%+v, %v", d, a.header)
	}
}

// A full bulkhead leads to the next tier whatever fallback.on lists (semantics 33); nothing is written of who is refused by all.
func TestFallbackOfARefusal(t *testing.T) {
	r := tierRig(t)
	r.always("busy", `{"hold":"gate"}`)
	var all sync.WaitGroup
	all.Go(func() { r.must(chat("busy").workflow("cheap"), 200) })
	r.held("gate")
	all.Go(func() {
		if a := r.must(chat("busy").workflow("cheap"), 200); a.header.Get("Holdfast-Source") != "local" {
			t.Errorf("%v", a.header)
		}
	})
	if err := r.sim.WaitHeld(t.Context(), "gate", 2); err != nil {
		t.Fatal(err)
	}
	a := r.do(chat("full").workflow("cheap"))
	if got := a.header.Get("Holdfast-Trail"); a.code() != "bulkhead_full" || got != "pro; bulkhead_full, local; bulkhead_full" || a.header.Get("Holdfast-Intent") != "" {
		t.Errorf("%v", a.header)
	}
	r.sim.Release("gate")
	all.Wait()
	r.calls("full", 0)
	r.atRest()
}

// What waited to be admitted, and was not, has its reasons on record.
func TestFallbackOfAnAdmission(t *testing.T) {
	r := tierRig(t)
	r.always("busy", `{"hold":"gate"}`)
	var all sync.WaitGroup
	for range 2 {
		all.Go(func() { r.must(chat("busy").workflow("waits"), 200) })
	}
	if err := r.sim.WaitHeld(t.Context(), "gate", 2); err != nil {
		t.Fatal(err)
	}
	a := r.do(chat("late").workflow("waits"))
	if a.code() != "admission_timeout" || a.status != 503 {
		t.Errorf("%d %v", a.status, a.header)
	}
	decided := 0
	for _, e := range r.history(r.settled(a.header.Get("Holdfast-Intent")).ID) {
		if strings.Contains(string(e.Evidence), `"fallback"`) && strings.Contains(e.Reason, "tier local") {
			decided++
		}
	}
	if decided != 2 { // before the claim, and behind the wait
		t.Errorf("%d decisions on record", decided)
	}
	r.sim.Release("gate")
	all.Wait()
	r.calls("late", 0)
	r.atRest()
}

// Of a job whose first tier has failed, and of which nobody knows whether another one keeps the contract, its owner decides.
func TestUnknownContractIsReviewed(t *testing.T) {
	r := tierRig(t)
	r.always("j", `{"status":503}`)
	rec := r.until(r.submit(chat("j", `,"logprobs":true`).workflow("unsaid")), inLane(intent.LaneReview))
	if rec.State != ledger.Created || rec.Attempt != 1 {
		t.Errorf("%+v", rec.Status)
	}
	parked := ""
	for _, e := range r.history(rec.ID) {
		if strings.HasPrefix(e.Reason, fallback.ContractUnknown) {
			parked = e.Rule
		}
	}
	if d := r.decidedFallback(rec.ID); parked != "models.context_tokens" || d == nil || len(d.Skipped) != 2 {
		t.Errorf("parked by %q: %+v", parked, d)
	}
	if id := r.submit(chat("k").workflow("equal")); r.until(id, settledJob).Outcome != ledger.OutcomeSuccess {
		t.Error("an untroubled job")
	}
}

// A policy that has no other route answer is kept by a person's route_override as well.
func TestOverrideAgainstThePolicy(t *testing.T) {
	r := tierRig(t)
	head := ledger.Intent{Workflow: "none", Provider: "openai", Path: "/v1/chat/completions", Method: "POST"}
	if err := r.gw.CheckOverride(&head, "spare"); err == nil || !strings.Contains(err.Error(), "allowed_before_first_token") {
		t.Errorf("%v", err)
	}
	if err := r.gw.CheckOverride(&head, "same"); err != nil {
		t.Error(err)
	}
	if head.Workflow = "equal"; r.gw.CheckOverride(&head, "spare") != nil {
		t.Error("a policy that says nothing against it")
	}
}
