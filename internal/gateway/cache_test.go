package gateway_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/holdfast-ai/holdfast/internal/sim"
	"github.com/holdfast-ai/holdfast/ledger"
	"github.com/holdfast-ai/holdfast/ledger/sqlite"
)

// caching has workflows that differ in what of a cache they have. SIM is provider and embedder.
const caching = `
env: test
providers:
  openai: {type: openai, base_url: "SIM/v1", api_key: sk-a}
  anthropic: {type: anthropic, base_url: "SIM", api_key: sk-b}
  gemini: {type: gemini, base_url: "SIM", api_key: sk-c}
embedders:
  main: {provider: openai, model: text-embedding-3-small, timeout: 2s}
  near: {type: ngram}
auth:
  keys:
    - {key: key-a, tenant: a}
    - {key: key-b, tenant: b}
workflows:
  first:
    match: {paths: ["/by-name-only"]}
    retry: {max_attempts: 1}
    cache: {first: true, semantic: {embedder: main}}
  sampled:
    match: {paths: ["/by-name-only"]}
    retry: {max_attempts: 1}
    cache: {first: true, sampled: true, semantic: {embedder: main}}
  small:
    match: {paths: ["/by-name-only"]}
    retry: {max_attempts: 1}
    cache: {first: true, semantic: {embedder: main, max_entries: 2}}
  near:
    match: {paths: ["/by-name-only"]}
    durability: strict
    retry: {max_attempts: 1}
    cache: {first: true, semantic: {embedder: near}, template: [{name: charm, pattern: "Why buy {product}?"}]}
  cross:
    match: {paths: ["/by-name-only"]}
    retry: {max_attempts: 1}
    tiers: [{name: far, provider: anthropic, model: claude-haiku-4-5}]
    cache: {first: true, semantic: {embedder: near}}
  charm:
    match: {paths: ["/by-name-only"]}
    retry: {max_attempts: 1}
    cache: {template: [{name: charm, pattern: "Why buy {product}?", ttl: 24h}], default: "We are busy just now."}
  last:
    match: {paths: ["/by-name-only"]}
    retry: {max_attempts: 1}
    cache: {semantic: {embedder: main}, default: "We are busy just now."}
  narrow:
    match: {paths: ["/by-name-only"]}
    retry: {max_attempts: 1}
    bulkhead: {max_concurrent: 1}
    cache: {default: "We are busy just now."}
  keyed:
    match: {paths: ["/by-name-only"]}
    retry: {max_attempts: 1}
    idempotency: {derive: always}
    cache: {first: true, semantic: {embedder: main}}
  keyless:
    match: {paths: ["/by-name-only"]}
    retry: {max_attempts: 1}
    idempotency: {derive: "off"}
    cache: {first: true, semantic: {embedder: main}, template: [{name: charm, pattern: "Why buy {product}?"}]}
  bridged:
    match: {paths: ["/by-name-only"]}
    retry: {max_attempts: 1}
    bridge_after: 20ms
    cache: {default: "We are busy just now."}
  apart:
    match: {paths: ["/by-name-only"]}
    retry: {max_attempts: 1}
    tiers: [{name: pro, provider: openai, model: gpt-5}, {name: flash, provider: openai, model: gpt-5-mini}]
    cache: {first: true, semantic: {embedder: main}}
  equal:
    match: {paths: ["/by-name-only"]}
    retry: {max_attempts: 1}
    tiers: [{name: pro, provider: openai, model: gpt-5, quality_class: a}, {name: flash, provider: openai, model: gpt-5-mini, quality_class: a}]
    cache: {first: true, semantic: {embedder: main}}
  always:
    match: {paths: ["/by-name-only"]}
    retry: {max_attempts: 1}
    idempotency: {derive: always}
    cache: {default: "We are busy just now."}
  default: {retry: {max_attempts: 1}}
`

func cacheRig(t *testing.T) *rig {
	t.Helper()
	// The embedder's connections, which nobody needs any more, are the default transport's.
	t.Cleanup(func() { http.DefaultTransport.(*http.Transport).CloseIdleConnections() })
	return newRig(t, withCache)
}

func withCache(c *rigConfig) { c.yaml = caching }

// question is a chat of one tenant with temperature 0.
func question(workflow, text string) request {
	body, err := json.Marshal(text)
	if err != nil {
		panic(err)
	}
	return request{path: "/v1/chat/completions", header: map[string]string{"Authorization": "Bearer key-a", "Holdfast-Workflow": workflow},
		body: fmt.Sprintf(`{"model":"gpt-5","temperature":0,"messages":[{"role":"user","content":%s}]}`, body)}
}

func (q request) vary(old, new string) request {
	q.body = strings.Replace(q.body, old, new, 1)
	return q
}

func (q request) streams() request { return q.vary(`"temperature":0`, `"temperature":0,"stream":true`) }

// indexed are the rows of the index over answers.
func (r *rig) indexed(f ledger.CachedFilter) []ledger.Cached {
	r.t.Helper()
	rows, err := r.store.Cached(context.Background(), f)
	if err != nil {
		r.t.Fatal(err)
	}
	return rows
}

// cachedFor asks, and waits until the answer is found by its meaning.
func (r *rig) cachedFor(q request) *answered {
	r.t.Helper()
	a := r.must(q, 200)
	r.findable(a)
	return a
}

// findable waits until an answer is found by others: until then it may be taking the place of an earlier one, which is a miss.
func (r *rig) findable(a *answered) {
	r.t.Helper()
	wait(r.t, func() bool {
		rows := r.indexed(ledger.CachedFilter{Intent: a.header.Get("Holdfast-Intent")})
		return len(rows) > 0 && r.gw.Findable(&rows[0])
	})
}

// source fails the test unless the answer comes from there.
func (r *rig) source(a *answered, want string) {
	r.t.Helper()
	if got := a.header.Get("Holdfast-Source"); got != want || a.status != 200 {
		r.t.Errorf("status %d from %q, want %q; %s", a.status, got, want, a.body)
	}
}

// upstream counts the completions that the provider was asked for meanwhile.
func (r *rig) upstream(f func()) (n int) {
	count := func() (n int) {
		for _, c := range r.sim.Calls("") {
			if c.Endpoint != "embeddings" {
				n++
			}
		}
		return n
	}
	before := count()
	f()
	return count() - before
}

// vector is what the embedder makes of texts that hold these words.
func (r *rig) vector(words string, v ...float32) {
	r.t.Helper()
	if err := r.sim.AddRules(sim.Rule{Match: sim.Match{Endpoint: "embeddings", Body: words}, Steps: []sim.Step{{Vector: v}}, Times: -1}); err != nil {
		r.t.Fatal(err)
	}
}

// TestBR061: no nearness of two vectors makes a question another one's; and what only its form changes is the same.
func TestBR061(t *testing.T) {
	r := cacheRig(t)
	for _, pair := range [][2]string{{"enable 2FA", "disable 2FA"}, {"refund order 1041", "refund order 1014"}, {"price in EUR", "price in USD"},
		{"can I take it with alcohol", "can't I take it without alcohol"}} {
		made := r.cachedFor(question("first", pair[0]))
		r.source(r.must(question("first", pair[1]), 200), "openai")
		again := r.must(question("first", "  "+strings.ToUpper(strings.ReplaceAll(pair[0], " ", "   "))+" "), 200)
		r.source(again, "cache:semantic")
		said := again.header.Get("Holdfast-Cache")
		if !strings.Contains(said, "kind=semantic; similarity=1.0000; entry="+made.header.Get("Holdfast-Intent")) || string(again.body) != string(made.body) {
			t.Errorf("%s: %q, %s", pair[0], said, again.body)
		}
		if again.header.Get("Holdfast-Intent") != "" {
			t.Error("a hit left a row")
		}
	}
}

// What is below the threshold is another question, however equal the words.
func TestCacheThreshold(t *testing.T) {
	r := cacheRig(t)
	r.vector("the first", 1, 0)
	r.cachedFor(question("first", "is it the first?"))
	r.vector("THE FIRST", 0.9, 0.436)
	r.source(r.cachedFor(question("first", "IS IT THE FIRST?")), "openai")
	r.vector("the  first", 0.96, 0.28)
	r.source(r.must(question("first", "is it the  first?"), 200), "cache:semantic")
}

// TestBR063: whatever changes the answer is another question.
func TestBR063(t *testing.T) {
	r := cacheRig(t)
	base := question("first", "yes, do it").vary(`"messages":[`, `"max_tokens":16,"messages":[{"role":"system","content":"s"},{"role":"user","content":"a"},{"role":"assistant","content":"b"},`)
	r.cachedFor(base)
	r.source(r.must(base, 200), "cache:semantic")
	for _, change := range [][2]string{{`"max_tokens":16`, `"max_tokens":4000`}, {`"temperature":0,`, ``}, {`"temperature":0`, `"temperature":0.1`},
		{`"temperature":0`, `"temperature":0,"seed":1`}, {`"temperature":0`, `"temperature":0,"stop":["x"]`}, {`"temperature":0`, `"temperature":0,"top_p":0.5`},
		{`"temperature":0`, `"temperature":0,"n":2`}, {`"temperature":0`, `"temperature":0,"tool_choice":"none"`},
		{`"temperature":0`, `"temperature":0,"response_format":{"type":"json_object"}`},
		{`"temperature":0`, `"temperature":0,"tools":[{"type":"function","function":{"name":"f","parameters":{}}}]`},
		{`"content":"s"`, `"content":"t"`}, {`"content":"a"`, `"content":"c"`}, {`"content":"b"`, `"content":"c"`}, {`"gpt-5"`, `"gpt-5-mini"`}} {
		if a := r.must(base.vary(change[0], change[1]), 200); strings.HasPrefix(a.header.Get("Holdfast-Source"), "cache") {
			t.Errorf("%s is the same question as %s", change[1], change[0])
		}
	}
}

// Without a temperature, and with tools or what they answered, no earlier answer is given first: neither is one of many draws,
// nor may what acts be answered by what acted before.
func TestCacheFirstIsForOneAnswer(t *testing.T) {
	r := cacheRig(t)
	absent := question("first", "tell me a joke").vary(`"temperature":0,`, ``)
	tools := question("first", "order it").vary(`"temperature":0`, `"temperature":0,"tools":[{"type":"function","function":{"name":"order","parameters":{}}}],"tool_choice":"none"`)
	told := question("first", "and now?").vary(`"messages":[`, `"messages":[{"role":"user","content":"order it"},{"role":"assistant","tool_calls":[{"id":"c","type":"function","function":{"name":"order","arguments":"{}"}}]},{"role":"tool","tool_call_id":"c","content":"done"},`)
	r.cachedFor(absent) // for the last resort
	for _, q := range []request{absent, tools, told} {
		if n := r.upstream(func() {
			for range 3 {
				r.source(r.must(q, 200), "openai")
			}
		}); n != 3 {
			t.Errorf("%s: %d calls, want 3", q.body, n)
		}
	}
	drawn := question("sampled", "tell me a joke").vary(`"temperature":0,`, ``)
	r.cachedFor(drawn)
	r.source(r.must(drawn, 200), "cache:semantic")
	r.source(r.must(drawn.with("Holdfast-Fresh", "1"), 200), "openai")
	r.source(r.must(drawn.with("Cache-Control", "no-cache"), 200), "openai")
}

// TestBR064: another tenant never learns of an entry, nor does another user or env.
func TestBR064(t *testing.T) {
	r := cacheRig(t)
	r.script("mine", `{"text":"balance of A: 4711"}`)
	q := question("first", "show my account balance op=mine")
	made := r.cachedFor(q)
	r.source(r.must(q, 200), "cache:semantic")
	r.always("mine", `{"text":"balance of B: 1"}`)
	for name, other := range map[string]request{
		"tenant": q.with("Authorization", "Bearer key-b"),
		"forged": q.with("Authorization", "Bearer key-b", "Holdfast-Tenant", "a", "Holdfast-Owner", "a"),
		"owner":  q.with("Holdfast-Owner", "second"),
		"user":   q.vary(`"temperature":0`, `"temperature":0,"user":"second"`),
	} {
		a := r.must(other, 200)
		if strings.Contains(string(a.body), "4711") || a.header.Get("Holdfast-Source") != "openai" || a.header.Get("Holdfast-Cache") != "" ||
			strings.Contains(fmt.Sprint(a.header), made.header.Get("Holdfast-Intent")) {
			t.Errorf("%s: %v %s", name, a.header, a.body)
		}
	}
}

// TestBR066: what is no whole answer is given to nobody else.
func TestBR066(t *testing.T) {
	broken := `{"error":{"message":"overloaded","type":"server_error","code":"server_error"}}`
	noFinish := "data: {\"id\":\"c\",\"object\":\"chat.completion.chunk\",\"model\":\"gpt-5\",\"choices\":[{\"index\":0,\"delta\":{\"role\":\"assistant\",\"content\":\"half\"},\"finish_reason\":null}]}\n\ndata: [DONE]\n\n"
	for name, c := range map[string]struct {
		step    string
		streams bool
	}{
		"A":       {`cut:3`, true},
		"B":       {`{"headers":{"Content-Type":"text/event-stream"},"body":` + jsonText(noFinish) + `}`, true},
		"C":       {`{"body":` + jsonText(broken) + `}`, false},
		"D":       {`{"finish":"length"}`, true},
		"plain":   {`{"finish":"length"}`, false},
		"filter":  {`{"finish":"content_filter"}`, false},
		"refusal": {`{"body":` + jsonText(`{"id":"c","object":"chat.completion","model":"gpt-5","choices":[{"index":0,"message":{"role":"assistant","content":null,"refusal":"I will not"},"finish_reason":"stop"}]}`) + `}`, false},
		"tool":    {`{"body":` + jsonText(`{"id":"c","object":"chat.completion","model":"gpt-5","choices":[{"index":0,"message":{"role":"assistant","content":"x","tool_calls":[{"id":"t","type":"function","function":{"name":"f","arguments":"{}"}}]},"finish_reason":"stop"}]}`) + `}`, false},
	} {
		t.Run(name, func(t *testing.T) {
			r := cacheRig(t)
			q := question("first", "say it op=x")
			if c.streams {
				q = q.streams()
			}
			r.script("x", c.step)
			a := r.do(q)
			id := a.header.Get("Holdfast-Intent")
			if rec := r.settled(id); name == "A" && rec.Outcome != ledger.OutcomeFailed {
				t.Errorf("half an answer settled as %s", rec.Outcome)
			}
			for range 3 {
				again := r.must(q.with("Holdfast-Fresh", "0"), 200)
				if got := again.header.Get("Holdfast-Cache"); strings.Contains(got, id) {
					t.Errorf("what was no whole answer was given again: %q %s", got, again.body)
				}
			}
			r.close()
			r.rowless(id)
		})
	}
}

func jsonText(s string) string {
	b, err := json.Marshal(s)
	if err != nil {
		panic(err)
	}
	return string(b)
}

// rowless reads the store beside the closed gateway.
func (r *rig) rowless(id string) {
	r.t.Helper()
	l, err := sqlite.OpenReadOnly(context.Background(), r.path)
	if err != nil {
		r.t.Fatal(err)
	}
	defer l.Close()
	rows, err := l.Cached(context.Background(), ledger.CachedFilter{Intent: id})
	if err != nil || len(rows) > 0 {
		r.t.Errorf("rows %v, %v", rows, err)
	}
}
