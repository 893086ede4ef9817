package gateway_test

import (
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"testing"
)

// everyWire has two tiers for each format.
const everyWire = `
env: test
providers:
  openai: {type: openai, base_url: "SIM/v1", api_key: "sk-a", headers: {X-Tier: pro}}
  openai2: {type: openai, base_url: "SIM/v1", api_key: "sk-b", headers: {X-Tier: flash}}
  anthropic: {type: anthropic, base_url: "SIM", api_key: "sk-c", headers: {X-Tier: pro}}
  anthropic2: {type: anthropic, base_url: "SIM", api_key: "sk-d", headers: {X-Tier: flash}}
  gemini: {type: gemini, base_url: "SIM", api_key: "sk-e", headers: {X-Tier: pro}}
  gemini2: {type: gemini, base_url: "SIM", api_key: "sk-f", headers: {X-Tier: flash}}
models:
  m: {context_tokens: 100000}
workflows:
  openai:
    match: {paths: ["/by-name-only"]}
    retry: {max_attempts: 1}
    idempotency: {derive: "off"}
    breaker: {failure_threshold: 100000}
    fallback: {on: [rate_limited, overloaded, server_error, timeout, connection_error, unknown_outcome, quota_exhausted, not_found, auth, content_filter, context_length]}
    tiers: [{name: pro, provider: openai, model: m}, {name: flash, provider: openai2, model: m}]
  anthropic:
    match: {paths: ["/by-name-only"]}
    retry: {max_attempts: 1}
    idempotency: {derive: "off"}
    breaker: {failure_threshold: 100000}
    tiers: [{name: pro, provider: anthropic, model: m}, {name: flash, provider: anthropic2, model: m}]
  gemini:
    match: {paths: ["/by-name-only"]}
    retry: {max_attempts: 1}
    idempotency: {derive: "off"}
    breaker: {failure_threshold: 100000}
    tiers: [{name: pro, provider: gemini, model: m}, {name: flash, provider: gemini2, model: m}]
  default: {}
`

// recording is a line of the corpus's index.
type recording struct {
	File, Provider, API, Format, Ends string
	Events                            int
}

func (c *recording) request() (q request, ok bool) {
	switch {
	case c.API == "chat.completions":
		return streamed("corpus").workflow("openai"), true
	case c.API == "responses":
		return request{path: "/v1/responses", body: `{"model":"m","stream":true,"input":"op=corpus"}`}.workflow("openai"), true
	case c.API == "messages":
		return request{path: "/v1/messages", body: `{"model":"m","stream":true,"max_tokens":9,"messages":[{"role":"user","content":"op=corpus"}]}`}.
			with("Anthropic-Version", "2023-06-01").workflow("anthropic"), true
	case c.API == "streamGenerateContent" && c.Format == "sse":
		return request{path: "/v1beta/models/m:streamGenerateContent?alt=sse", body: `{"contents":[{"parts":[{"text":"op=corpus"}]}]}`}.workflow("gemini"), true
	case c.API == "streamGenerateContent":
		return request{path: "/v1beta/models/m:streamGenerateContent", body: `{"contents":[{"parts":[{"text":"op=corpus"}]}]}`}.workflow("gemini"), true
	}
	return q, false
}

// Every stream of the corpus is cut at every event. Before the boundary its client sees one good answer, the next tier's; behind it what
// it has seen of the first one's, and never a word of a second model's.
func TestCorpusOverTiers(t *testing.T) {
	text, err := os.ReadFile("../sim/testdata/corpus/index.json")
	if err != nil {
		t.Fatal(err)
	}
	var all []recording
	if err := json.Unmarshal(text, &all); err != nil {
		t.Fatal(err)
	}
	r := newRig(t, func(c *rigConfig) { c.yaml = everyWire })
	answered, streams := map[string]int{}, 0
	for _, c := range all {
		q, ok := c.request()
		if !ok {
			continue
		}
		streams++
		for n := range c.Events + 1 {
			r.sim.Reset()
			step := fmt.Sprintf(`{"stream":%q,"cut":{"at":"event","n":%d,"how":"reset"}}`, c.File, n)
			if n == c.Events {
				step = fmt.Sprintf(`{"stream":%q}`, c.File)
			}
			r.atTier("corpus", "pro", step)
			r.atTier("corpus", "flash", `{"text":"the second model"}`)
			a := r.do(q)
			source, second := a.header.Get("Holdfast-Source"), strings.Contains(string(a.body), "sec") && strings.Contains(string(a.body), "model")
			answered[source]++
			switch {
			case a.status != 200:
				t.Errorf("%s cut at %d: %d %s", c.File, n, a.status, a.body)
			case source == "flash" && (a.err != nil || !strings.HasPrefix(a.header.Get("Holdfast-Trail"), "pro; ") || r.sim.Counts("corpus").Calls != 2):
				t.Errorf("%s cut at %d: %v %v %s", c.File, n, a.err, a.header, a.body)
			case source == "pro" && r.sim.Counts("corpus").Calls != 1:
				t.Errorf("%s cut at %d: a second model was asked behind the boundary (%v)\n%s", c.File, n, second, a.body)
			case source != "pro" && source != "flash":
				t.Errorf("%s cut at %d: source %q", c.File, n, source)
			}
		}
	}
	if streams < 50 || answered["pro"] == 0 || answered["flash"] < streams {
		t.Errorf("%d streams, answered by %v", streams, answered)
	}
	r.atRest()
}
