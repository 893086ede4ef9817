package policy

import (
	"strings"
	"testing"
	"time"
)

const aloneYAML = `
providers:
  openai: {type: openai, api_key: "literal-secret"}
  claude: {type: anthropic}
auth: {keys: [{key: "abc-client-key", name: one}]}
workflows:
  chat:
    match: {paths: ["/v1/chat/completions"]}
    mode: observe
    approval: dispatch
    timeouts: {first_token: 10s, attempt: 20s, total: 25s, request: 30s}
    bulkhead: {max_concurrent: 2}
    spend: {per_request: 0.5, per_day: 1}
    cache: {default: "sorry"}
    idempotency: {derive: always}
    tiers:
      - {name: pro, provider: openai, model: gpt-5, prompt: {system: "Be brief."}, timeouts: {attempt: 5s}}
      - {name: flash, provider: claude, model: claude-haiku-4-5, bulkhead: {max_concurrent: 1}}
`

func TestAlone(t *testing.T) {
	cfg, faults := Parse("holdfast.yaml", []byte(aloneYAML), func(string) (string, bool) { return "", false })
	if cfg == nil {
		t.Fatal(faults)
	}
	before := string(cfg.Print())
	alone, names := cfg.Alone("chat")
	if strings.Join(names, " ") != "chat/pro chat/flash" {
		t.Fatalf("names are %q", names)
	}
	for i, name := range names {
		w := alone.Workflow(name)
		if w == nil || len(w.Tiers) != 1 || w.Tiers[0].Name != cfg.Workflow("chat").Tiers[i].Name {
			t.Fatalf("%s is %+v", name, w)
		}
		if w.Mode != Enforce || w.Approval != ApproveNone || w.Idempotency.Derive != DeriveOff || w.Cache.Default != "" ||
			w.Bulkhead.MaxConcurrent != 0 || w.Tiers[0].Bulkhead != nil || w.Spend.PerDay != 0 || w.Breaker.FailureThreshold < 1e6 {
			t.Errorf("%s lets something but its tier decide: %+v", name, w)
		}
		if w.Spend.PerRequest != 0.5 || w.Timeouts.Attempt != 20*time.Second || w.Lanes.InteractiveAdmission.MaxWait != 25*time.Second {
			t.Errorf("%s lost what belongs to a call: %+v", name, w)
		}
	}
	if p := alone.Workflow("chat/pro").Tiers[0].Prompt; p == nil || p.System != "Be brief." {
		t.Errorf("the prompt of pro is %+v", p)
	}
	if len(alone.Auth.Keys) != 0 || alone.Provider("openai").APIKey.Reveal() != "literal-secret" {
		t.Error("clients prove themselves, or the provider's key is lost")
	}
	if string(cfg.Print()) != before {
		t.Error("the configuration itself has changed")
	}
}

func TestAloneWithoutTiers(t *testing.T) {
	cfg := Default(func(string) (string, bool) { return "", false })
	alone, names := cfg.Alone(DefaultWorkflow)
	if len(names) != 1 || names[0] != DefaultWorkflow || alone.Workflow(DefaultWorkflow).Idempotency.Derive != DeriveOff {
		t.Errorf("%q: %+v", names, alone)
	}
	if _, names := cfg.Alone("nothing"); names != nil {
		t.Errorf("a workflow that is not there has tiers: %q", names)
	}
}
