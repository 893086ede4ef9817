package explain_test

import (
	"testing"

	"github.com/holdfast-ai/holdfast/internal/explain"
	"github.com/holdfast-ai/holdfast/internal/policy"
)

const tiered = `providers:
  openai: {}
  spare: {type: openai, base_url: "http://127.0.0.1:9"}
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
		{"chat", `{"model":"gpt-5","messages":[]}`, 500, "next", "h.yaml:8:5"},
		{"chat", tools, 500, "mismatch", ""},
		{"chat", `{"model":"gpt-5","messages":[]}`, 404, "denied", "h.yaml:12:7"},
		{"eval", `{"model":"gpt-5","messages":[]}`, 500, "denied", "h.yaml:15:16"},
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
