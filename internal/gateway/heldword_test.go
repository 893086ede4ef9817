package gateway_test

import (
	"testing"

	"github.com/holdfast-ai/holdfast/internal/gateway"
)

// A failure that is given again says so, and what stands in its place again says of which operation: nothing tells a client otherwise
// that nobody was asked.
func TestHeldFailureSaysSo(t *testing.T) {
	const tiers = `
env: test
providers:
  openai: {type: openai, base_url: "SIM/v1", api_key: "sk-a"}
  spare: {type: openai, base_url: "SIM/v1", api_key: "sk-b"}
workflows:
  bare:
    match: {paths: ["/by-name-only"]}
    retry: {max_attempts: 1}
    tiers: [{name: pro, provider: openai, model: gpt-5}, {name: mini, provider: spare, model: gpt-5-mini}]
  text:
    match: {paths: ["/by-name-only"]}
    retry: {max_attempts: 1}
    tiers: [{name: pro, provider: openai, model: gpt-5}, {name: mini, provider: spare, model: gpt-5-mini}]
    cache: {default: "Later, please."}
  default: {}
`
	r := newRig(t, func(c *rigConfig) { c.yaml = tiers })
	for name, status := range map[string]int{"bare": 502, "text": 200} {
		r.script(name, "503", "503", "ok", "ok")
		first, again := r.must(chat(name).workflow(name), status), r.must(chat(name).workflow(name), status)
		for _, h := range []string{"Holdfast-Intent", "Holdfast-Trail", "Holdfast-Error"} {
			if got, want := again.header.Get(h), first.header.Get(h); got != want || got == "" {
				t.Errorf("%s: %s is %q, at first %q", name, h, got, want)
			}
		}
		if first.code() != string(gateway.CodeAllTiersFailed) || first.header.Get("Idempotency-Replayed") != "" || first.header.Get("Holdfast-Served-Model") == "gpt-5-mini" {
			t.Errorf("%s at first: %v", name, first.header)
		}
		source := map[string]string{"bare": "replay", "text": "default"}[name]
		if again.header.Get("Holdfast-Source") != source || (again.header.Get("Idempotency-Replayed") == "true") != (name == "bare") ||
			(again.header.Get("Holdfast-Original-Date") != "") != (name == "bare") || again.header.Get("Retry-After") != "" {
			t.Errorf("%s again: %v", name, again.header)
		}
		r.calls(name, 2)
		r.must(chat(name).workflow(name).with("Idempotency-Key", name), 200) // a key of one's own is a new try
		r.calls(name, 3)
	}
}
