package gateway_test

import (
	"strings"
	"testing"

	"github.com/holdfast-ai/holdfast/internal/sim"
)

// closing are workflows whose fixed text may stand in for a failure, but for what each one says.
const closing = `
env: test
providers:
  openai: {type: openai, base_url: "SIM/v1", api_key: sk-a}
  anthropic: {type: anthropic, base_url: "SIM", api_key: sk-b}
embedders: {near: {type: ngram}}
workflows:
  used_up:
    match: {paths: ["/by-name-only"]}
    retry: {max_attempts: 1}
    cache: {semantic: {embedder: near}, default: "We are busy."}
    fail_closed_when: [max_attempts_exhausted]
  used_up_behind:
    match: {paths: ["/by-name-only"]}
    retry: {max_attempts: 1}
    tiers: [{name: pro, provider: openai, model: gpt-5}, {name: flash, provider: openai, model: gpt-5-mini}]
    cache: {default: "We are busy."}
    fail_closed_when: [max_attempts_exhausted]
  pause:
    match: {paths: ["/by-name-only"]}
    retry: {max_attempts: 2, base: 1ms}
    cache: {default: "We are busy."}
    fail_closed_when: [retry_after_exceeds_deadline]
  mismatch:
    match: {paths: ["/by-name-only"]}
    retry: {max_attempts: 1}
    tiers: [{name: pro, provider: openai, model: gpt-5, quality_class: a}, {name: flash, provider: openai, model: gpt-5-mini, quality_class: b}]
    cache: {default: "We are busy."}
    fail_closed_when: [fallback_contract_unknown]
  spend:
    match: {paths: ["/by-name-only"]}
    spend: {per_request: 0.000001}
    cache: {default: "We are busy."}
    fail_closed_when: [quota_or_spend_exhausted]
  default: {retry: {max_attempts: 1}, cache: {default: "We are busy."}}
`

// What a policy has fail closed its client sees, whatever might stand in its place, also where it is told again; and another failure
// of the same workflow is answered (semantics 37).
func TestFailsClosed(t *testing.T) {
	r := newRig(t, func(c *rigConfig) { c.yaml = closing })
	ask := func(workflow, text string) request {
		return chat(text).workflow(workflow).vary(`"model"`, `"max_tokens":100,"model"`)
	}
	r.down(`{"status":503}`)
	for name, c := range map[string]struct {
		workflow string
		status   int
		code     string
	}{
		"alone": {"used_up", 503, ""}, "behind tiers": {"used_up_behind", 502, "all_tiers_failed"}, "no tier": {"mismatch", 503, ""}, "dear": {"spend", 429, "spend_exceeded"},
	} {
		for range 3 {
			a := r.do(ask(c.workflow, "x"))
			if a.status != c.status || a.code() != c.code || strings.Contains(string(a.body), "We are busy") {
				t.Errorf("%s: %d %v %s", name, a.status, a.header, a.body)
			}
		}
	}
	r.source(r.must(ask("pause", "y"), 200), "default")
	r.source(r.must(ask("default", "y"), 200), "default")
	r.sim.Reset()
	if err := r.sim.AddRules(sim.Rule{Match: sim.Match{Op: "wait"}, Steps: []sim.Step{r.step(`{"status":429,"headers":{"Retry-After":"900"}}`)}, Times: -1}); err != nil {
		t.Fatal(err)
	}
	for range 2 { // of the provider, then of the route that pauses
		if a := r.must(ask("pause", "wait"), 429); strings.Contains(string(a.body), "We are busy") {
			t.Errorf("%v %s", a.header, a.body)
		}
	}
	r.source(r.must(ask("default", "wait"), 200), "default")
}
