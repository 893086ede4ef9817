package gateway_test

import (
	"strings"
	"testing"

	"github.com/holdfast-ai/holdfast/intent"
	"github.com/holdfast-ai/holdfast/ledger"
)

// reviews has pairs of tiers of which the first sees no pictures, and of which one alone has a key of its own.
const reviews = `
env: test
providers:
  openai: {type: openai, base_url: "SIM/v1", headers: {X-Tier: own}}
  spare: {type: openai, base_url: "SIM/v1", api_key: "sk-b", headers: {X-Tier: keyed}}
models:
  blind: {context_tokens: 200000, tools: true, images: false}
  wide: {context_tokens: 200000, tools: true, images: true}
  mute: {context_tokens: 200000}
workflows:
  keyed_last:
    match: {paths: ["/by-name-only"]}
    approval: fallback
    tiers: [{name: own, provider: openai, model: blind}, {name: keyed, provider: spare, model: wide}]
  keyed_first:
    match: {paths: ["/by-name-only"]}
    approval: fallback
    tiers: [{name: keyed, provider: spare, model: blind}, {name: own, provider: openai, model: wide}]
  unknown_last:
    match: {paths: ["/by-name-only"]}
    lanes: {owner_review: {enter_when: [fallback_contract_unknown]}}
    tiers: [{name: own, provider: openai, model: blind}, {name: keyed, provider: spare, model: mute}]
  unknown_first:
    match: {paths: ["/by-name-only"]}
    lanes: {owner_review: {enter_when: [fallback_contract_unknown]}}
    tiers: [{name: keyed, provider: spare, model: blind}, {name: own, provider: openai, model: mute}]
  default: {}
`

// Whether a call can wait for its owner is asked of the tier that it would go to then: a job has no credential of its client's.
func TestOwnersTierHasItsKey(t *testing.T) {
	r := newRig(t, func(c *rigConfig) { c.yaml = reviews })
	for _, w := range []string{"keyed_last", "unknown_last"} {
		q := picture(w).workflow(w).with("Authorization", "Bearer sk-client")
		a := r.must(q, 403)
		id := a.header.Get("Holdfast-Intent")
		if a.code() != "owner_review_required" || id == "" {
			t.Fatalf("%s: %s", w, a.body)
		}
		if err := r.log.Load(r.record(id)).Revive(intent.Revival{By: "owner", Reason: "fine", Rule: "review approve", NotExecuted: true}); err != nil {
			t.Fatal(err)
		}
		r.gw.Jobs().Look(t.Context(), id)
		if rec := r.until(id, settledJob); rec.Outcome != ledger.OutcomeSuccess || rec.Tier != "keyed" {
			t.Errorf("%s: %+v", w, rec.Status)
		}
	}
	for _, w := range []string{"keyed_first", "unknown_first"} {
		a := r.must(picture(w).workflow(w).with("Authorization", "Bearer sk-client"), 502)
		if a.code() != "contract_mismatch" || w == "keyed_first" && !strings.Contains(string(a.body), "providers.openai.api_key") {
			t.Errorf("%s: %s %s", w, a.code(), a.body)
		}
		r.calls(w, 0)
	}
	r.atRest()
}

// Whoever asks while a call is written down for its owner hears what the first one hears, with the job's id.
func TestParkedForItsFollowersToo(t *testing.T) {
	f := &faulty{held: make(chan struct{}, 8)}
	r := newRig(t, func(c *rigConfig) {
		c.yaml = reviews
		c.wrap = func(l ledger.Ledger) ledger.Ledger { f.Ledger = l; return f }
	})
	open := f.shut(t)
	q := picture("parked").workflow("keyed_last").key("k")
	answers := make(chan *answered, 2)
	ask := func() { answers <- r.must(q, 403) }
	go ask()
	<-f.held
	if n := r.gw.Holding().Executions; n != 1 {
		t.Errorf("while the job is written down %d executions hold its key, so that who asks is told of none", n)
	}
	go ask()
	open()
	first, second := <-answers, <-answers
	if id := first.header.Get("Holdfast-Intent"); id == "" || second.header.Get("Holdfast-Intent") != id ||
		first.code() != "owner_review_required" || second.code() != "owner_review_required" {
		t.Errorf("%s %v\n%s %v", first.body, first.header, second.body, second.header)
	}
	r.atRest()
}
