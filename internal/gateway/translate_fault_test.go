package gateway_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/tidwall/gjson"

	"github.com/holdfast-ai/holdfast/fallback"
	"github.com/holdfast-ai/holdfast/internal/gateway"
	"github.com/holdfast-ai/holdfast/internal/policy"
	"github.com/holdfast-ai/holdfast/internal/provider"
	"github.com/holdfast-ai/holdfast/ledger"
)

// What the far side refuses is refused in the client's words, with the status that its API has for it; how long to wait is read in
// the far side's.
func TestTranslatedErrors(t *testing.T) {
	r := newRig(t, translating)
	for _, d := range directions {
		overloaded := 503
		if d.client == "anthropic" {
			overloaded = 529
		}
		for _, stream := range []bool{false, true} {
			d.refused(t, r, stream, `{"status":400,"message":"that is wrong"}`, 400)
			d.refused(t, r, stream, `{"status":500,"message":"oh"}`, 500)
			d.refused(t, r, stream, `{"status":502,"body":"<html>bad gateway</html>","headers":{"Content-Type":"text/html"}}`, 502)
			d.refused(t, r, stream, `{"status":503,"message":"too much to do"}`, overloaded)
		}
		for _, stream := range []bool{false, true} {
			busy := newRig(t, translating) // its route cools down
			a := d.refused(t, busy, stream, `{"status":429,"headers":{"Retry-After":"77"},"message":"slow down please"}`, 429)
			if wait := a.header.Get("Retry-After"); wait != "77" && wait != "76" {
				t.Errorf("%v: Retry-After %q", d, wait)
			}
		}
	}
}

func (d direction) refused(t *testing.T, r *rig, stream bool, step string, status int) *answered {
	t.Helper()
	op := fmt.Sprintf("%s-%s-%v-%d", d.client, d.far, stream, status)
	r.script(op, step)
	a := r.must(d.ask(op, stream), status)
	doc := gjson.ParseBytes(a.body)
	if !doc.Get("error.message").Exists() || (d.client == "anthropic") != (doc.Get("type").Str == "error") || a.header.Get("Content-Type") != "application/json" {
		t.Errorf("%v: %s %v", d, a.body, a.header)
	}
	if m := gjson.Get(step, "message"); m.Exists() && doc.Get("error.message").Str != m.Str {
		t.Errorf("%v: the far side's words are lost: %s", d, a.body)
	}
	if rec := r.settled(a.header.Get("Holdfast-Intent")); rec.Outcome != ledger.OutcomeFailed {
		t.Errorf("%v: on record as %v", d, rec.Outcome)
	}
	return a
}

// A stream that breaks before its first content is an error instead; behind it the client gets what came, and exactly one error that
// its client raises; never an end.
func TestTranslatedBroken(t *testing.T) {
	r := newRig(t, translating)
	for _, d := range directions {
		for _, how := range []string{"cut:%d", "reset:%d", "clean:%d", "error:%d"} {
			early, late := fmt.Sprintf(how, 0), fmt.Sprintf(how, 4)
			op := d.client + "-" + d.far + "-" + how[:3]
			r.script(op+"-early", early)
			a := r.do(d.ask(op+"-early", true))
			if a.status < 400 || d.hear(t, a).err == "" {
				t.Errorf("%v %s: %d %s", d, early, a.status, a.body)
			}
			r.script(op+"-late", late)
			a = r.must(d.ask(op+"-late", true), 200)
			if got := d.hear(t, a); got.text == "" || got.err == "" || got.ended || got.finish != "" || strings.Count(string(a.body), `"error"`) > 2 {
				t.Errorf("%v %s: %+v in %s", d, late, got, a.body)
			}
		}
	}
}

// What cannot be told is refused before anything is sent, by the field and the rule.
func TestNotTranslated(t *testing.T) {
	r := newRig(t, translating)
	signed := `{"model":"claude-opus-4-5","max_tokens":9000,"messages":[{"role":"user","content":"a"},
		{"role":"assistant","content":[{"type":"thinking","thinking":"hm","signature":"c2ln"},{"type":"tool_use","id":"toolu_1","name":"f","input":{}}]},
		{"role":"user","content":[{"type":"tool_result","tool_use_id":"toolu_1","content":"1"}]}],"tools":[{"name":"f","input_schema":{"type":"object"}}]}`
	for _, x := range []struct {
		name  string
		q     request
		field string
	}{
		{"BR-058 a signed thought", request{path: "/v1/messages", body: signed}.with("Anthropic-Version", "2023-06-01").workflow("openai"), "messages[1].content[0]"},
		{"BR-058 a signed thought", request{path: "/v1/messages", body: signed}.with("Anthropic-Version", "2023-06-01").workflow("gemini"), "messages[1].content[0]"},
		{"a hosted tool", direction{"anthropic", "openai"}.ask("x", false, `,"tools":[{"type":"web_search_20250305","name":"web_search"}]`), "tools[0]"},
		{"an unknown field", direction{"openai", "anthropic"}.ask("x", false, `,"never_heard_of":1`), "never_heard_of"},
		{"what is stored", direction{"openai", "gemini"}.ask("x", false, `,"store":true`), "store"},
		{"responses", request{path: "/v1/responses", body: `{"model":"gpt-5","input":"op=x"}`}.workflow("anthropic"), "responses"},
		{"embeddings", request{path: "/v1/embeddings", body: `{"model":"e","input":"op=x"}`}.workflow("gemini"), "embeddings"},
		{"tokens", request{path: "/v1/messages/count_tokens", body: `{"model":"c","messages":[]}`}.with("Anthropic-Version", "2023-06-01").workflow("openai"), "speaks"},
		{"mode: observe", direction{"openai", "observed"}.ask("x", false), "speaks"},
	} {
		a := r.must(x.q, http.StatusBadGateway)
		if a.code() != string(gateway.CodeContract) || !strings.Contains(string(a.body), x.field) || a.header.Get("Holdfast-Safe-To-Retry") != "no" {
			t.Errorf("%s: %v %s", x.name, a.header, a.body)
		}
	}
	if n := r.sim.Stats().Total.Calls; n > 0 {
		t.Errorf("%d calls were sent", n)
	}
	a := r.must(direction{"openai", "anthropic"}.ask("x", false, `,`), http.StatusBadGateway)
	if a.code() != string(gateway.CodeContract) {
		t.Errorf("a request that is no document: %s", a.body)
	}
}

// BR-058: where only its own provider can read a history, no other tier is asked, by field and rule; and the provider, once it is back, gets
// the request as it came, whatever another tier would have been told.
func TestBR058HistoryOfOneProvider(t *testing.T) {
	r := newRig(t, func(c *rigConfig) {
		translating(c)
		c.yaml = strings.Replace(c.yaml, "  default:   {", `  both: {match: {paths: ["/by-name-only"]}, retry: {max_attempts: 1}, tiers: [{name: own, provider: anthropic, model: claude-opus-4-5}, {name: far, provider: openai, model: gpt-5-mini}]}
  default:   {`, 1)
	})
	const history = `{"model":"claude-opus-4-5","max_tokens":9000,"messages":[{"role":"user","content":"a op=%s"},{"role":"assistant","content":[%s{"type":"tool_use","id":"toolu_1","name":"f","input":{"b":1}}]},` +
		`{"role":"user","content":[{"type":"tool_result","tool_use_id":"toolu_1","content":"1"}]}],"tools":[{"name":"f","input_schema":{"type":"object","properties":{}},"cache_control":{"type":"ephemeral"}}]}`
	ask := func(op, thought string) request {
		return request{path: "/v1/messages", body: fmt.Sprintf(history, op, thought)}.with("Anthropic-Version", "2023-06-01").workflow("both")
	}
	const thought = `{"type":"thinking","thinking":"hm","signature":"c2ln"},`
	r.script("signed", "503", "ok")
	a := r.must(ask("signed", thought), http.StatusServiceUnavailable)
	if trail := a.header.Get("Holdfast-Trail"); !strings.Contains(trail, "far; skipped; rule=tiers.provider") {
		t.Errorf("%v %s", a.header, a.body)
	}
	r.must(ask("signed", thought).with("Holdfast-Fresh", "1"), 200)
	if calls := r.sim.Calls("signed"); len(calls) != 2 || calls[1].Wire != "anthropic" || calls[1].Body != ask("signed", thought).body {
		t.Errorf("%+v", calls)
	}
	// Without the thought another tier answers, and pairs result and call.
	r.script("plain", "503", "ok", "ok")
	a = r.must(ask("plain", ""), 200)
	calls := r.sim.Calls("plain")
	if a.header.Get("Holdfast-Source") != "far" || len(calls) != 2 || calls[1].Wire != "openai" || !strings.Contains(calls[1].Body, `"tool_call_id":"toolu_1"`) {
		t.Errorf("%v, %+v", a.header, calls)
	}
	if !slices.ContainsFunc(r.history(r.settled(a.header.Get("Holdfast-Intent")).ID), func(e ledger.Event) bool { return strings.Contains(string(e.Evidence), "cache_control") }) {
		t.Error("what was left out is not on record")
	}
	if r.must(ask("plain", "").with("Holdfast-Fresh", "1"), 200); r.sim.Calls("plain")[2].Body != ask("plain", "").body {
		t.Errorf("sent as %s", r.sim.Calls("plain")[2].Body)
	}
}

// What holdfast explain says of a tier of another API is what a call would find.
func TestTranslationExplained(t *testing.T) {
	cfg, faults := policy.Parse("test.yaml", []byte(`
env: test
providers: {openai: {type: openai}, anthropic: {type: anthropic, api_key: "sk-of-the-gateway"}}
workflows:
  both: {tiers: [{name: own, provider: openai, model: gpt-5-mini}, {name: far, provider: anthropic, model: claude-haiku-4-5}]}
  default: {}
`), func(string) (string, bool) { return "", false })
	if cfg == nil {
		t.Fatal(faults)
	}
	for _, x := range []struct {
		endpoint, body string
		action         fallback.Action
		reason         string
	}{
		{"chat.completions", `{"model":"gpt-5-mini","messages":[{"role":"user","content":"a"}]}`, fallback.Next, ""},
		{"chat.completions", `{"model":"gpt-5-mini","messages":[{"role":"user","content":"a"}],"n":2}`, fallback.Mismatch, "n cannot go"},
		{"chat.completions", ``, fallback.Next, ""},
		{"responses", `{"model":"gpt-5-mini","input":"a"}`, fallback.Mismatch, "only chat completions and messages are translated"},
		{"responses", ``, fallback.Mismatch, "speaks anthropic"},
	} {
		plan := gateway.NewPlan(cfg, cfg.Workflow("both"), gateway.Planned{Call: &provider.Call{Wire: provider.OpenAI, Endpoint: x.endpoint, Known: true},
			Body: []byte(x.body), Provider: "openai", Model: "gpt-5-mini"})
		d := plan.Fails(plan.TierOf("openai", "gpt-5-mini"), gateway.Failing{Failure: "overloaded", Remaining: time.Minute})
		if d.Action != x.action || !strings.Contains(d.Reason, x.reason) {
			t.Errorf("%s %s: %+v", x.endpoint, x.body, d)
		}
	}
}

// What the far side answers with and nobody can read is no answer: a page, a coding that was not asked for, half a document, more
// than may be held, and what the client's API has no words for.
func TestTranslatedNoAnswer(t *testing.T) {
	r := newRig(t, translating)
	d := direction{"openai", "anthropic"}
	for name, x := range map[string]struct {
		step string
		code gateway.Code
	}{
		"page":     {`{"body":"<html>hello</html>","headers":{"Content-Type":"text/html"}}`, gateway.CodeIncomplete},
		"coding":   {`{"headers":{"Content-Encoding":"gzip"}}`, gateway.CodeIncomplete},
		"half":     {`{"body":"{\"type\":\"message\",","headers":{"Content-Type":"application/json"}}`, gateway.CodeIncomplete},
		"empty":    {`{"body":""}`, gateway.CodeIncomplete},
		"large":    {`{"size":100000}`, gateway.CodeAnswerTooLarge},
		"wordless": {`{"finish":"pause_turn"}`, gateway.CodeContract},
		"cut":      {"cut:1", gateway.CodeIncomplete},
	} {
		r.script(name, x.step)
		a := r.must(d.ask(name, false), http.StatusBadGateway)
		if a.code() != string(x.code) {
			t.Errorf("%s: %v %s", name, a.header, a.body)
		}
	}
	// A stream that is too large to keep is passed on whole.
	r.script("flood", `{"size":300000,"chunks":100}`)
	a := r.must(d.ask("flood", true), 200)
	if got := d.hear(t, a); len(got.text) < 300000 || !got.ended {
		t.Errorf("%d bytes of text, %v", len(got.text), got.ended)
	}
}

// An error inside a stream is judged by the far side's own words: a 529 of Anthropic's is tried again, whatever OpenAI calls it.
func TestTranslatedErrorIsTheFarSides(t *testing.T) {
	r := newRig(t, translating)
	d := direction{"openai", "again"}
	r.script("in", `{"error_event":0,"error":"overloaded_error","message":"Overloaded"}`, "ok")
	a := r.must(d.ask("in", true), 200)
	if a.header.Get("Holdfast-Attempts") != "2" || !d.hear(t, a).ended {
		t.Errorf("%v %s", a.header, a.body)
	}
	events, err := r.store.History(t.Context(), a.header.Get("Holdfast-Intent"))
	if err != nil {
		t.Fatal(err)
	}
	if b, _ := json.Marshal(events); !strings.Contains(string(b), "overloaded_error") {
		t.Errorf("%s", b)
	}
}
