package explain_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/holdfast-ai/holdfast/internal/explain"
	"github.com/holdfast-ai/holdfast/internal/policy"
)

const tiered = `providers:
  openai: {}
  spare: {type: openai, base_url: "http://127.0.0.1:9", api_key: "any-word-will-do-here"}
  bare: {type: openai, base_url: "http://127.0.0.1:9"}
models:
  local: {context_tokens: 8000, tools: false}
workflows:
  chat:
    tiers:
      - {name: pro, provider: openai, model: gpt-5}
      - {name: local, provider: spare, model: local}
    fallback:
      on: [server_error]
  eval:
    tiers: [{name: pro, provider: openai}, {name: local, provider: spare, model: local}]
    fallback: {allowed_before_first_token: false}
  three:
    tiers:
      - {name: pro, provider: openai, model: gpt-5}
      - {name: local, provider: spare, model: local}
      - {name: deaf, provider: spare, model: deaf}
  bare:
    tiers: [{name: pro, provider: openai, model: gpt-5}, {name: bare, provider: bare, model: local}]
  worded:
    tiers: [{name: pro, provider: openai, model: gpt-5}, {name: local, provider: spare, model: local, prompt: {template: "Q: {input}"}}]
`

// What is decided about other tiers is explained as it is decided for traffic, with the line of the policy.
func TestFallback(t *testing.T) {
	cfg, faults := policy.Parse("h.yaml", []byte(tiered), noEnv)
	if cfg == nil {
		t.Fatal(faults)
	}
	const tools = `{"model":"gpt-5","messages":[],"tools":[{"type":"function"}]}`
	for _, c := range []struct {
		workflow, request string
		status            int
		action, at        string
	}{
		{"chat", `{"model":"gpt-5","messages":[]}`, 500, "next", "h.yaml:9:5"},
		{"chat", tools, 500, "mismatch", "h.yaml:6:33"},
		{"chat", `{"model":"gpt-5","messages":[]}`, 404, "denied", "h.yaml:13:7"},
		{"eval", `{"model":"gpt-5","messages":[]}`, 500, "denied", "h.yaml:16:16"},
		{"default", `{"model":"gpt-5","messages":[]}`, 404, "", ""},
		{"chat", `{"model":"gpt-5","messages":[]}`, 200, "", ""},
	} {
		q := answered(c.workflow, c.status)
		q.Request, q.Answer.Provider, q.Attempt = c.request, "openai", 3
		if c.status == 200 {
			q.Answer.Body = []byte(`{"id":"x","object":"chat.completion","choices":[{"index":0,"message":{"role":"assistant","content":"hi"},"finish_reason":"stop"}]}`)
		}
		f := ask(t, cfg, q).Fallback
		if f == nil {
			f = &explain.Fallback{}
		}
		b := ask(t, cfg, q).Begins
		if want := c.workflow != "default"; (b != nil) != want || want && (b.Tier != "pro" || b.Words == "") {
			t.Errorf("%s %d: begins %+v", c.workflow, c.status, b)
		}
		if string(f.Action) != c.action || f.Place.At != c.at || (f.Words == "") != (c.action == "") {
			t.Errorf("%s %d: %+v, want %s at %q", c.workflow, c.status, f, c.action, c.at)
		}
	}
}

// A tier is asked about by its name, and what stands in the way of the next one is named with what to write. What traffic skips is skipped:
// both go by the same course.
func TestTier(t *testing.T) {
	cfg, faults := policy.Parse("h.yaml", []byte(tiered), noEnv)
	if cfg == nil {
		t.Fatal(faults)
	}
	const plain = `{"model":"gpt-5","messages":[{"role":"user","content":"hi"}]}`
	const silent = `{"model":"gpt-5","messages":[]}`
	for _, c := range []struct {
		workflow, tier, request string
		at                      string
		action, rule            string
		path, say               string
		next                    string
	}{
		{"three", "", plain, "pro", "next", "tiers", "", "", "local"},
		{"three", "local", plain, "local", "unknown", "models.context_tokens", "models.deaf.context_tokens", "nobody has said it; write models.deaf.context_tokens", ""},
		{"three", "deaf", plain, "deaf", "", "", "", "", ""},
		{"bare", "", plain, "pro", "mismatch", "providers.bare.api_key", "providers.bare.api_key", "not written; write providers.bare.api_key", ""},
		{"worded", "", plain, "pro", "next", "tiers", "", "", "local"},
		{"worded", "", silent, "pro", "mismatch", "tiers.prompt", "workflows.worded.tiers[1].prompt", "h.yaml:", ""},
	} {
		q := answered(c.workflow, 500)
		q.Request, q.Tier, q.Attempt = c.request, c.tier, 3
		x := ask(t, cfg, q)
		f := x.Fallback
		if f == nil {
			f = &explain.Fallback{}
		}
		if x.Tier != c.at || string(f.Action) != c.action || f.Rule != c.rule || c.path != "" && f.Place.Path != c.path || !strings.HasPrefix(f.Place.Say(), c.say) {
			t.Errorf("%s at %q: at %s %+v", c.workflow, c.tier, x.Tier, f)
		}
		d := x.Decisions[len(x.Decisions)-1]
		if told := strings.Contains(d.Words, "client is told"); d.NextTier != c.next || told == (c.next != "") {
			t.Errorf("%s at %q: %+v", c.workflow, c.tier, d)
		}
		if goesOn := x.Key == "held"; goesOn != (c.next != "") {
			t.Errorf("%s at %q: its key is %s", c.workflow, c.tier, x.Key)
		}
	}
	q := answered("three", 500)
	q.Tier = "locla"
	if _, err := explain.Explain(cfg, q); !errors.Is(err, explain.ErrQuestion) || !strings.Contains(err.Error(), "tiers are pro, local, deaf") {
		t.Error(err)
	}
}
