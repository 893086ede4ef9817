package gateway_test

import (
	"bytes"
	"context"
	"crypto/tls"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/holdfast-ai/holdfast/internal/sim"
	"github.com/holdfast-ai/holdfast/ledger"
)

// tiers has workflows of two and three tiers at providers of one format, which the simulator tells apart by their X-Tier; ODD is an
// address that a test brings.
const tiers = `
env: test
providers:
  openai: {type: openai, base_url: "SIM/v1", api_key: "sk-a", headers: {X-Tier: pro}}
  spare: {type: openai, base_url: "SIM/v1", api_key: "sk-b", headers: {X-Tier: flash}}
  third: {type: openai, base_url: "SIM/v1", api_key: "sk-c", headers: {X-Tier: last}}
  odd: {type: openai, base_url: "ODD/v1", api_key: "sk-d"}
  keyless: {type: openai, base_url: "SIM/v1", headers: {X-Tier: keyless}}
models:
  big: {context_tokens: 200000, tools: true, images: true}
  small: {context_tokens: 64000, tools: true, images: false}
  wide: {context_tokens: 200000, tools: true, images: true}
  texty: {context_tokens: 200000, tools: false, images: false, json_schema: false}
workflows:
  pair:
    match: {paths: ["/by-name-only"]}
    retry: {max_attempts: 1}
    breaker: {failure_threshold: 5}
    tiers: [{name: pro, provider: openai, model: big}, {name: flash, provider: spare, model: wide, notice: "Kurze Antwort: 100 % ehrlich, für Sie"}]
  retried:
    match: {paths: ["/by-name-only"]}
    retry: {max_attempts: 2, base: 1ms, max: 1ms}
    tiers: [{name: pro, provider: openai, model: big}, {name: flash, provider: spare, model: wide}]
  filtered:
    match: {paths: ["/by-name-only"]}
    fallback: {on: [content_filter]}
    tiers: [{name: pro, provider: openai, model: big}, {name: flash, provider: spare, model: wide}]
  jobs:
    match: {paths: ["/by-name-only"]}
    retry: {max_attempts: 1}
    lanes: {background_retry: {max_attempts: 1}, dead_letter: {enter_when: [max_attempts_exhausted]}}
    tiers: [{name: pro, provider: openai, model: big}, {name: flash, provider: spare, model: wide, bulkhead: {max_concurrent: 1, interactive_reserve: 0}}]
  narrow:
    match: {paths: ["/by-name-only"]}
    retry: {max_attempts: 1}
    tiers: [{name: a, provider: openai, model: big}, {name: b, provider: spare, model: small}, {name: c, provider: third, model: wide}]
  dead_end:
    match: {paths: ["/by-name-only"]}
    retry: {max_attempts: 1}
    tiers: [{name: a, provider: openai, model: big}, {name: b, provider: spare, model: small}]
  small_first:
    match: {paths: ["/by-name-only"]}
    retry: {max_attempts: 1}
    tiers: [{name: b, provider: spare, model: small}, {name: c, provider: third, model: wide}]
  small_only:
    match: {paths: ["/by-name-only"]}
    tiers: [{name: b, provider: spare, model: small}, {name: b2, provider: third, model: small}]
  able:
    match: {paths: ["/by-name-only"]}
    retry: {max_attempts: 1}
    breaker: {failure_threshold: 1000}
    tiers: [{name: a, provider: openai, model: big}, {name: b, provider: spare, model: texty}]
  slots:
    match: {paths: ["/by-name-only"]}
    retry: {max_attempts: 1}
    tiers:
      - {name: pro, provider: openai, model: big, bulkhead: {max_concurrent: 1}}
      - {name: flash, provider: spare, model: wide, bulkhead: {max_concurrent: 1, wait: true}}
    lanes: {interactive_admission: {max_wait_ms: 60000}}
  both:
    match: {paths: ["/by-name-only"]}
    retry: {max_attempts: 1}
    bulkhead: {max_concurrent: 1, wait: true}
    tiers: [{name: pro, provider: openai, model: big}, {name: flash, provider: spare, model: wide}]
    lanes: {interactive_admission: {max_wait_ms: 60000}}
  odd:
    match: {paths: ["/by-name-only"]}
    retry: {max_attempts: 1}
    tiers: [{name: pro, provider: odd, model: big, timeouts: {first_token: 300ms, attempt: 300ms}}, {name: flash, provider: spare, model: wide}]
  varied:
    match: {paths: ["/by-name-only"]}
    retry: {max_attempts: 1}
    tiers:
      - {name: pro, provider: openai, model: big, prompt: {system: "Long."}}
      - {name: flash, provider: spare, model: wide, prompt: {template: "Q: {input} A:"}}
      - {name: last, provider: third, model: wide}
  shots:
    match: {paths: ["/by-name-only"]}
    tiers: [{name: pro, provider: openai, model: big, prompt: {examples: 1}}]
  unkeyed:
    match: {paths: ["/by-name-only"]}
    retry: {max_attempts: 1}
    tiers: [{name: pro, provider: openai, model: big}, {name: k, provider: keyless, model: wide}, {name: last, provider: third, model: wide}]
  default: {}
`

func tiersRig(t *testing.T, odd string, options ...option) *rig {
	if odd == "" {
		odd = "http://127.0.0.1:9"
	}
	return newRig(t, append([]option{func(c *rigConfig) { c.yaml = strings.ReplaceAll(tiers, "ODD", odd) }}, options...)...)
}

// at lets every call of an operation at one tier go the same way.
func (r *rig) atTier(op, tier, step string) {
	r.t.Helper()
	rule := sim.Rule{Match: sim.Match{Op: op, Header: map[string]string{"X-Tier": tier}}, Steps: []sim.Step{r.step(step)}, Times: -1}
	if err := r.sim.AddRules(rule); err != nil {
		r.t.Fatal(err)
	}
}

// Where the first tier fails for good the second answers, plain and streamed: the answer says so, and the record too.
func TestTierAnswersForAnother(t *testing.T) {
	for name, step := range map[string]string{"503": `{"status":503}`, "429": `{"status":429}`, "reset": "reset_after_body", "cut": "cut:0", "quiet": "fin_after_body"} {
		for _, q := range []request{chat(name).workflow("pair"), streamed(name).workflow("pair")} {
			r := tiersRig(t, "")
			r.atTier(name, "pro", step)
			if name == "cut" && !strings.Contains(q.body, "stream") {
				continue
			}
			a := r.must(q, 200)
			id := a.header.Get("Holdfast-Intent")
			for h, want := range map[string]string{"Holdfast-Source": "flash", "Holdfast-Attempts": "2", "Holdfast-Requested-Model": "gpt-5", "Holdfast-Served-Model": "wide",
				"Holdfast-Notice": "Kurze Antwort: 100 %25 ehrlich, f%C3%BCr Sie"} {
				if got := a.header.Get(h); got != want {
					t.Errorf("%s: %s is %q, want %q", name, h, got, want)
				}
			}
			if why := a.header.Get("Holdfast-Fallback-Reason"); !strings.HasPrefix(why, "pro: ") {
				t.Errorf("%s: reason %q", name, why)
			}
			rec := r.settled(id)
			if rec.Tier != "flash" || rec.ServedModel != "wide" || rec.Attempt != 2 || rec.Outcome != ledger.OutcomeSuccess {
				t.Errorf("%s: %+v", name, rec.Status)
			}
			if d := r.decidedFallback(id); d == nil || d.Tier != "flash" {
				t.Errorf("%s: %+v on record", name, d)
			}
			r.atRest()
		}
	}
}

// BR-060: whatever the transport does, the second tier answers; nobody hears of addresses or of Go.
func TestBR060TransportFailures(t *testing.T) {
	refused := func() string {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		defer l.Close()
		return "http://" + l.Addr().String()
	}()
	closes := raw(t, func(c net.Conn) { _ = c.Close() })
	silent := raw(t, func(c net.Conn) { t.Cleanup(func() { _ = c.Close() }) })
	other := httptest.NewUnstartedServer(http.NotFoundHandler())
	other.TLS = &tls.Config{MinVersion: tls.VersionTLS12}
	other.Config.ErrorLog = nil
	other.StartTLS()
	t.Cleanup(other.Close)
	for name, c := range map[string]struct {
		url     string
		flagged bool
	}{
		"refused": {refused, false}, "dns": {"http://no-such-host.invalid", true}, "tls": {other.URL, true}, "eof": {closes, false}, "blackhole": {silent, false},
	} {
		var logs journal
		r := tiersRig(t, c.url, func(rc *rigConfig) { rc.logs = &logs })
		for _, q := range []request{chat(name).workflow("odd"), streamed(name + "-s").workflow("odd")} {
			a := r.must(q, 200)
			if a.header.Get("Holdfast-Source") != "flash" {
				t.Errorf("%s: %v", name, a.header)
			}
			trail := a.header.Get("Holdfast-Trail")
			if host := strings.TrimPrefix(strings.TrimPrefix(c.url, "http://"), "https://"); strings.Contains(fmt.Sprint(a.header), host) || !strings.HasPrefix(trail, "pro; ") {
				t.Errorf("%s: %v", name, a.header)
			}
		}
		failures := 0
		for _, info := range r.routes.List() {
			failures += info.Breaker.Failures
		}
		if failures != 2 {
			t.Errorf("%s: %d failures counted for the breaker, want 2", name, failures)
		}
		if got := strings.Contains(logs.text(), "a provider's address is wrong"); got != c.flagged {
			t.Errorf("%s: flagged %v", name, got)
		}
	}
}

// raw is a listener that does as it likes with each connection.
func raw(t *testing.T, handle func(net.Conn)) string {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			handle(c)
		}
	}()
	t.Cleanup(func() { _ = l.Close(); <-done })
	return "http://" + l.Addr().String()
}

// Several tiers that were tried and failed are one error that lists them, and names no address.
func TestAllTiersFailed(t *testing.T) {
	r := tiersRig(t, "")
	r.atTier("all", "pro", `{"status":503}`)
	r.atTier("all", "flash", `{"status":500}`)
	for _, q := range []request{chat("all").workflow("pair"), chat("all").workflow("pair").key("k-all"), streamed("all").workflow("pair")} {
		a := r.must(q, 502)
		if a.code() != "all_tiers_failed" || !strings.Contains(string(a.body), "pro: the provider answered 503; flash: the provider answered 500") ||
			a.header.Get("Holdfast-Trail") != "pro; overloaded; status=503, flash; server_error; status=500" {
			t.Errorf("%s %s %v", a.code(), a.body, a.header)
		}
		if rec := r.settled(a.header.Get("Holdfast-Intent")); rec.Outcome != ledger.OutcomeFailed || rec.Attempt != 2 || !rec.ClaimUntil.IsZero() && rec.Explicit && rec.ClaimUntil.After(time.Now()) {
			t.Errorf("%+v", rec.Status)
		}
	}
	r.atRest()
}

// BR-056: a tier that the request does not fit into is skipped without a call; where no other is left its client gets the first one's own error.
func TestBR056ContextTooSmall(t *testing.T) {
	r := tiersRig(t, "")
	long := chat("long").workflow("narrow")
	long.body = strings.Replace(long.body, "hello", strings.Repeat("word. ", 62500), 1)
	r.atTier("long", "pro", `{"status":429,"headers":{"Retry-After":"30"}}`)
	a := r.must(long, 200)
	if a.header.Get("Holdfast-Source") != "c" || !strings.Contains(a.header.Get("Holdfast-Trail"), "b; skipped; rule=models.context_tokens") {
		t.Errorf("%v", a.header)
	}
	if d := r.decidedFallback(r.settled(a.header.Get("Holdfast-Intent")).ID); d == nil || len(d.Skipped) != 1 || !strings.Contains(d.Skipped[0].Reason, "context is too small") {
		t.Errorf("%+v", d)
	}
	for _, call := range r.sim.Calls("long") {
		if call.Model == "small" {
			t.Error("the small tier was called")
		}
	}
	other := tiersRig(t, "")
	other.atTier("long", "pro", `{"status":429,"headers":{"Retry-After":"30"}}`)
	a = other.must(long.workflow("dead_end"), 429)
	if a.header.Get("Retry-After") != "30" || !strings.Contains(a.header.Get("Holdfast-Trail"), "b; skipped; rule=models.context_tokens") || a.code() != "" {
		t.Errorf("%v", a.header)
	}
	other.calls("long", 1)
}

// A call begins at the first tier that keeps its contract; where none does it is not sent.
func TestTierBeginsByContract(t *testing.T) {
	const image = `{"model":"m","messages":[{"role":"user","content":[{"type":"text","text":"op=%s"},{"type":"image_url","image_url":{"url":"https://x.test/y.png"}}]}]}`
	r := tiersRig(t, "")
	a := r.must(request{path: "/v1/chat/completions", body: fmt.Sprintf(image, "img")}.workflow("small_first"), 200)
	if a.header.Get("Holdfast-Source") != "c" || a.header.Get("Holdfast-Attempts") != "1" || a.header.Get("Holdfast-Trail") != "b; skipped; rule=models.images" {
		t.Errorf("%v", a.header)
	}
	a = r.must(request{path: "/v1/chat/completions", body: fmt.Sprintf(image, "none")}.workflow("small_only"), 502)
	if a.code() != "contract_mismatch" || !strings.Contains(string(a.body), "models.images") || !strings.Contains(string(a.body), "b2") {
		t.Errorf("%s %s", a.code(), a.body)
	}
	r.calls("none", 0)
	if a := r.must(chat("text").workflow("small_only"), 200); a.header.Get("Holdfast-Source") != "b" {
		t.Errorf("%v", a.header)
	}
	r.atRest()
}

// A refusal by a provider's policy on content is an answer, unless the policy has another tier asked; then the last one's is.
func TestTierOfARefusal(t *testing.T) {
	for q, step := range map[*request]string{
		{path: "/v1/chat/completions", body: chat("no").body}:     `{"text":"","chunks":0,"finish":"content_filter"}`,
		{path: "/v1/chat/completions", body: streamed("no").body}: `{"headers":{"Content-Type":"text/event-stream"},"body":"data: {\"object\":\"chat.completion.chunk\",\"choices\":[{\"index\":0,\"delta\":{},\"finish_reason\":\"content_filter\"}]}\n\ndata: [DONE]\n\n"}`,
	} {
		r := tiersRig(t, "")
		r.atTier("no", "pro", step)
		if a := r.must(q.workflow("pair"), 200); a.header.Get("Holdfast-Source") != "pro" {
			t.Errorf("%v", a.header)
		}
		a := r.must(q.workflow("filtered"), 200)
		if a.header.Get("Holdfast-Source") != "flash" || !strings.HasPrefix(a.header.Get("Holdfast-Trail"), "pro; content_filter") {
			t.Errorf("%v %s", a.header, a.body)
		}
		r.atTier("no2", "pro", step)
		r.atTier("no2", "flash", step)
		q.body = strings.Replace(q.body, "op=no", "op=no2", 1)
		if a := r.must(q.workflow("filtered"), 200); a.header.Get("Holdfast-Source") != "flash" || !strings.Contains(string(a.body), "content_filter") {
			t.Errorf("%v %s", a.header, a.body)
		}
	}
}

// BR-021: retries are counted for each tier, and the header says how many calls there were.
func TestBR021AttemptsOfTiers(t *testing.T) {
	r := tiersRig(t, "")
	r.atTier("count", "pro", `{"status":500}`)
	r.atTier("count", "flash", `{"status":500}`)
	a := r.must(chat("count").workflow("retried"), 502)
	if a.header.Get("Holdfast-Attempts") != "4" {
		t.Errorf("%v", a.header)
	}
	r.calls("count", 4)
	var by []string
	for _, e := range r.history(r.settled(a.header.Get("Holdfast-Intent")).ID) {
		if e.Kind == "attempt" {
			by = append(by, e.Tier)
		}
	}
	if strings.Join(by, " ") != "pro pro flash flash" {
		t.Errorf("attempts by %v", by)
	}
}

// BR-051: no tier is asked for a client that left.
func TestBR051NoTierForNobody(t *testing.T) {
	for _, q := range []request{chat("left"), streamed("left")} {
		r := tiersRig(t, "")
		r.atTier("left", "pro", `{"hold":"gate","hold_at":"head","status":503}`)
		ctx, leave := context.WithCancel(t.Context())
		q.ctx = ctx
		var all sync.WaitGroup
		all.Go(func() {
			if resp, err := r.open(q.workflow("pair")); err == nil {
				_ = resp.Body.Close()
			}
		})
		r.held("gate")
		leave()
		all.Wait()
		wait(t, func() bool { return r.gw.Holding().Drains == 1 || r.gw.Holding().Executions == 0 })
		r.sim.Release("gate")
		r.atRest()
		r.calls("left", 1)
	}
}

// BR-058: each tier's request is made from the one that came.
func TestBR058VariantsDoNotLeak(t *testing.T) {
	r := tiersRig(t, "")
	r.atTier("vary", "pro", `{"status":503}`)
	r.atTier("vary", "flash", `{"status":503}`)
	q := request{path: "/v1/chat/completions", body: `{"model":"m","messages":[{"role":"system","content":"Be kind."},{"role":"user","content":"op=vary"}]}`}
	a := r.must(q.workflow("varied"), 200)
	if a.header.Get("Holdfast-Source") != "last" {
		t.Errorf("%v", a.header)
	}
	calls := r.sim.Calls("vary")
	for i, want := range []string{
		`{"messages":[{"content":"Long.","role":"system"},{"content":"op=vary","role":"user"}],"model":"big"}`,
		`{"messages":[{"content":"Be kind.","role":"system"},{"content":"Q: op=vary A:","role":"user"}],"model":"wide"}`,
		`{"model":"wide","messages":[{"role":"system","content":"Be kind."},{"role":"user","content":"op=vary"}]}`,
	} {
		if calls[i].Body != want {
			t.Errorf("tier %d was sent %s", i, calls[i].Body)
		}
	}
}

// A client's credential goes to the provider that its path names, and to no other.
func TestTierCredentials(t *testing.T) {
	r := tiersRig(t, "")
	r.atTier("cred", "pro", `{"status":503}`)
	a := r.must(chat("cred").workflow("unkeyed").with("Authorization", "Bearer sk-client"), 200)
	if a.header.Get("Holdfast-Source") != "last" || !strings.Contains(a.header.Get("Holdfast-Trail"), "k; skipped; rule=providers.keyless.api_key") {
		t.Errorf("%v", a.header)
	}
	for _, call := range r.sim.Calls("cred") {
		if auth := call.Headers["Authorization"]; auth == sim.Fingerprint("Bearer sk-client") || auth == sim.Fingerprint("sk-client") {
			t.Errorf("%s was sent the client's credential", call.Headers["X-Tier"])
		}
	}
	if rec := r.settled(a.header.Get("Holdfast-Intent")); rec.Tenant != "main" {
		t.Errorf("tenant %s", rec.Tenant)
	}
}

// Behind the boundary no other tier answers.
func TestNoTierBehindTheBoundary(t *testing.T) {
	r := tiersRig(t, "")
	r.atTier("cut", "pro", "cut:3")
	a := r.must(streamed("cut").workflow("pair"), 200)
	if !bytes.Contains(a.body, []byte("upstream_incomplete")) || a.header.Get("Holdfast-Source") != "pro" {
		t.Errorf("%s", a.body)
	}
	r.atRest()
	r.calls("cut", 1)
}

// Of the examples that a request says it has, a tier keeps as many as its prompt says.
func TestExamplesOfATier(t *testing.T) {
	r := tiersRig(t, "")
	turn := func(role, text string) string { return `{"content":"` + text + `","role":"` + role + `"}` }
	a, b, q := turn("user", "1")+","+turn("assistant", "one"), turn("user", "2")+","+turn("assistant", "two"), turn("user", "op=shots")
	all := request{path: "/v1/chat/completions", body: `{"messages":[` + a + "," + b + "," + q + `],"model":"m"}`}.workflow("shots")
	for _, c := range []struct{ said, want string }{{"2", a + "," + q}, {"", a + "," + b + "," + q}, {"1", a + "," + b + "," + q}} {
		r.sim.Reset()
		send := all
		if c.said != "" {
			send = all.with("Holdfast-Examples", c.said)
		}
		r.must(send, 200)
		if got, want := r.sim.Calls("shots")[0].Body, `{"messages":[`+c.want+`],"model":"big"}`; got != want {
			t.Errorf("%q: sent %s, want %s", c.said, got, want)
		}
	}
	if a := r.must(all.with("Holdfast-Examples", "3"), 502); a.code() != "contract_mismatch" || !strings.Contains(string(a.body), "tiers.prompt") {
		t.Errorf("%s", a.body)
	}
	for _, bad := range []string{"", "-1", "many", "99999"} {
		if a := r.must(all.with("Holdfast-Examples", bad), 400); a.code() != "invalid_request" {
			t.Errorf("%q: %s", bad, a.body)
		}
	}
}
