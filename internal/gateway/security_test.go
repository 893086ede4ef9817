package gateway_test

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"sync"
	"testing"

	"github.com/holdfast-ai/holdfast/internal/admin"
	"github.com/holdfast-ai/holdfast/internal/gateway"
	"github.com/holdfast-ai/holdfast/internal/upstream"
	"github.com/holdfast-ai/holdfast/ledger"
)

// journal collects what is logged.
type journal struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (j *journal) Write(p []byte) (int, error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.buf.Write(p)
}

func (j *journal) text() string {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.buf.String()
}

// replaced is the policy of a gateway that holds the providers' credentials itself.
var replaced = strings.NewReplacer(`base_url: "SIM/v1"}`, `base_url: "SIM/v1", api_key: "CANARY-own-openai-9f3e"}`,
	`type: anthropic, base_url: "SIM"}`, `type: anthropic, base_url: "SIM", api_key: "CANARY-own-anthropic-9f3e"}`,
	`type: gemini, base_url: "SIM"}`, `type: gemini, base_url: "SIM", api_key: "CANARY-own-gemini-9f3e"}`).Replace(workflows)

var canaryHeaders = map[string]string{
	"Authorization": "Bearer CANARY-1-9f3e", "Proxy-Authorization": "Basic CANARY-2-9f3e", "X-Api-Key": "CANARY-3-9f3e", "Api-Key": "CANARY-4-9f3e",
	"X-Goog-Api-Key": "CANARY-5-9f3e", "Cookie": "session=CANARY-6-9f3e",
}

const canaryQuery = "key=CANARY-7-9f3e&access_token=CANARY-8-9f3e&api%5fkey=CANARY-9-9f3e&API-KEY=CANARY-10-9f3e"

func withCanaries(q request, op string) request {
	q = q.key("CANARY-key-"+op+"-9f3e").with("Sim-Op", op)
	for k, v := range canaryHeaders {
		q = q.with(k, v)
	}
	if strings.HasPrefix(q.path, "/v1/") && q.header["Anthropic-Version"] == "" {
		q.path = "/openai" + q.path // X-Goog-Api-Key alone would mean Gemini
	}
	joint := "?"
	if strings.Contains(q.path, "?") {
		joint = "&"
	}
	q.path += joint + canaryQuery
	return q
}

// panicky breaks in the middle of a call, with what it was given in its hands.
type panicky struct{ upstream.Client }

func (p panicky) Do(ctx context.Context, r *upstream.Request) (*upstream.Response, error) {
	panic("a defect in the middle of a call")
}

// BR-092: whatever becomes of a call, no secret in it is found in a log, a row, an answer or a byte of the store, and
// the provider gets the credential that is its own and no other.
func TestBR092Canaries(t *testing.T) {
	for _, yaml := range []string{replaced, workflows} {
		logs := &journal{}
		r := newRig(t, func(c *rigConfig) { c.yaml, c.logs = yaml, logs })
		var seen bytes.Buffer
		for i, fault := range []string{"ok", "400", "401", "429", "500", "reply_lost", "garbage", "hang", "cut:2", "ECHO"} {
			for j, wire := range append([]string{"plain"}, wires...) {
				op := fmt.Sprintf("c%d-%d", i, j)
				step := fault
				if fault == "ECHO" {
					step = `{"status":401,"body":"{\"error\":{\"message\":\"Incorrect API key provided: ` + sentCanaries(yaml == replaced, wire) + `\"}}"}`
				}
				r.script(op, step)
				q := chat(op)
				if wire != "plain" {
					q = ask(wire, op)
				}
				workflow := "quick"
				if j == 0 && fault != "hang" {
					workflow = "external"
				}
				for range 2 { // the second is a replay, or a held unknown
					a := r.do(withCanaries(q, op).workflow(workflow))
					fmt.Fprintf(&seen, "%v\n%s\n", a.header, a.body)
				}
			}
		}
		broken, err := gateway.New(t.Context(), gateway.Config{Policy: r.policy, Ledger: r.store, Log: r.log, Upstream: panicky{}, Routes: r.routes,
			Logger: slog.New(slog.NewTextHandler(logs, &slog.HandlerOptions{Level: slog.LevelDebug}))})
		if err != nil {
			t.Fatal(err)
		}
		q := withCanaries(chat("panic"), "panic")
		req := httptest.NewRequest("POST", "http://localhost"+q.path, strings.NewReader(q.body))
		for k, v := range q.header {
			req.Header.Set(k, v)
		}
		answer := httptest.NewRecorder()
		broken.ServeHTTP(answer, req)
		if answer.Code != 502 || !strings.Contains(logs.text(), "panic in an execution") {
			t.Errorf("a panic was answered with %d", answer.Code)
		}
		seen.Write(answer.Body.Bytes())
		r.operator(&seen)
		r.upstreamCredentials(yaml == replaced)
		r.close()
		clean(t, "answers", seen.String())
		clean(t, "log", logs.text())
		for _, suffix := range []string{"", "-wal", "-shm"} {
			if b, err := os.ReadFile(r.path + suffix); err == nil {
				clean(t, "store"+suffix, string(b))
			}
		}
	}
}

// sentCanaries are the credentials that reach the provider, which it may echo.
func sentCanaries(own bool, wire string) string {
	switch {
	case !own:
		return "CANARY-1-9f3e CANARY-3-9f3e CANARY-4-9f3e CANARY-5-9f3e CANARY-7-9f3e CANARY-8-9f3e CANARY-9-9f3e"
	case wire == "anthropic":
		return "CANARY-own-anthropic-9f3e"
	case strings.HasPrefix(wire, "gemini"):
		return "CANARY-own-gemini-9f3e"
	}
	return "CANARY-own-openai-9f3e"
}

func clean(t *testing.T, what, text string) {
	t.Helper()
	if i := strings.Index(text, "CANARY"); i >= 0 {
		t.Errorf("a secret is in the %s: …%s…", what, text[max(0, i-150):min(len(text), i+60)])
	}
}

// operator reads everything that the admin API shows.
func (r *rig) operator(to io.Writer) {
	api := admin.New(admin.Config{Ledger: r.store, Log: r.log, Policy: r.inForce, Logger: slog.New(slog.DiscardHandler)})
	h := api.Operators(r.gw.Guard, r.gw.Readiness, http.NotFoundHandler())
	list, err := r.store.List(context.Background(), ledger.Filter{Limit: 1000})
	if err != nil {
		r.t.Fatal(err)
	}
	paths := []string{"/holdfast/v1/intents?all=1&limit=1000"}
	for _, rec := range list {
		paths = append(paths, "/holdfast/v1/intents/"+rec.ID)
	}
	for _, path := range paths {
		w := httptest.NewRecorder()
		h.ServeHTTP(w, httptest.NewRequest("GET", "http://127.0.0.1"+path, nil))
		if w.Code != 200 {
			r.t.Errorf("%s: %d", path, w.Code)
		}
		_, _ = to.Write(w.Body.Bytes())
	}
}

// upstreamCredentials holds what the provider got: its own credential where one is configured, else the client's.
func (r *rig) upstreamCredentials(own bool) {
	for _, call := range r.sim.Calls("") {
		if call.Headers["Cookie"] != "" || call.Headers["Proxy-Authorization"] != "" {
			r.t.Errorf("cookies or proxy credentials were passed on: %v", call.Headers)
		}
		if strings.Contains(call.Query, "access_token") == own {
			r.t.Errorf("own credential %t, query %q", own, call.Query)
		}
		carried := 0
		for _, name := range []string{"Authorization", "X-Api-Key", "Api-Key", "X-Goog-Api-Key"} {
			if call.Headers[name] != "" {
				carried++
			}
		}
		if own && (carried != 1 || strings.Contains(strings.ToLower(call.Query), "key")) || !own && carried != 4 {
			r.t.Errorf("%d credentials went out: %v %q", carried, call.Headers, call.Query)
		}
	}
}

// spy is a listener that nobody is configured to call.
func spy(t *testing.T) (addr string, heard func() int) {
	l, err := net.Listen("tcp", "127.0.0.2:0")
	if err != nil {
		t.Skip("no second loopback address here")
	}
	var mu sync.Mutex
	n := 0
	done := make(chan struct{})
	go func() {
		defer close(done)
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			mu.Lock()
			n++
			mu.Unlock()
			_ = c.Close()
		}
	}()
	t.Cleanup(func() { _ = l.Close(); <-done })
	return l.Addr().String(), func() int { mu.Lock(); defer mu.Unlock(); return n }
}

// BR-094: nothing that a caller or a provider says makes a request leave for a host that is not configured.
func TestBR094NothingLeavesElsewhere(t *testing.T) {
	addr, heard := spy(t)
	r := newRig(t, func(c *rigConfig) { c.yaml = replaced })
	r.client.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	evil := "http://" + addr + "/"
	for _, field := range []string{"api_base", "base_url", "url", "endpoint", "extra_body"} {
		r.do(chat("body", `,"`+field+`":"`+evil+`"`))
		q := chat("query")
		q.path += "?" + field + "=" + evil
		r.do(q)
		r.do(chat("header").with(field, evil, "X-"+field, evil, "X-Forwarded-Host", addr, "Forwarded", "host="+addr, "X-Original-Url", evil))
	}
	for _, path := range []string{"//" + addr + "/v1/x", "/@" + addr + "/v1/x", "/openai/@" + addr + "/", "/openai//" + addr + "/x", "/%2f%2f" + addr + "/x",
		"/openai/%40" + addr, "/\\" + addr + "/x", "/openai/http://" + addr + "/x", "/v1/..%2f..%2f" + addr, "/:80@" + addr} {
		for _, method := range []string{"GET", "POST"} {
			r.raw(method + " " + path + " HTTP/1.1\r\nHost: localhost\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")
		}
	}
	for _, line := range []string{"GET " + evil + "v1/models", "POST " + evil + "v1/chat/completions", "CONNECT " + addr, "GET http://localhost@" + addr + "/"} {
		answer := r.raw(line + " HTTP/1.1\r\nHost: localhost\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")
		if strings.HasPrefix(answer, "HTTP/1.1 200") && !strings.HasPrefix(line, "GET http://127.") {
			t.Errorf("%s: %s", line, answer)
		}
	}
	for _, status := range []string{"301", "302", "303", "307", "308"} {
		r.script("redirect"+status, `{"status":`+status+`,"headers":{"Location":"`+evil+`"}}`)
		if a := r.do(chat("redirect" + status)); a.err == nil && a.status == 200 {
			t.Errorf("%s was followed: %s", status, a.body)
		}
		r.script("moved"+status, `{"status":`+status+`,"headers":{"Location":"`+evil+`"}}`)
		r.do(request{method: "GET", path: "/v1/models"}.with("Sim-Op", "moved"+status))
		r.script("passed"+status, `{"status":`+status+`,"headers":{"Location":"`+evil+`"}}`)
		r.do(request{path: "/v1/files", body: "x"}.with("Sim-Op", "passed"+status))
	}
	if n := heard(); n != 0 {
		t.Errorf("%d connections to a host that is not configured", n)
	}
}

// The listener answers to its own names and to pages of its own origin, and to health checks whoever asks.
func TestHosts(t *testing.T) {
	r := newRig(t, func(c *rigConfig) {
		c.yaml = strings.Replace(c.yaml, "env: test", "env: test\nauth: {hosts: [gateway.internal]}", 1)
	})
	for _, c := range []struct {
		host, origin, path string
		status             int
	}{
		{"localhost:8787", "", "/v1/models", 200}, {"127.0.0.1", "", "/v1/models", 200}, {"[::1]:1", "", "/v1/models", 200},
		{"gateway.internal", "", "/v1/models", 200}, {"GATEWAY.internal.:80", "", "/v1/models", 200},
		{"evil.example", "", "/v1/models", 403}, {"localhost.evil.example", "", "/v1/models", 403}, {"127.0.0.1.evil.example", "", "/v1/models", 403},
		{"evil.example", "", "/healthz", 200}, {"evil.example", "http://evil.example", "/readyz", 200},
		{"localhost", "http://evil.example", "/v1/models", 403}, {"localhost", "null", "/v1/models", 403},
		{"localhost:8787", "http://localhost:3000", "/v1/models", 403}, {"localhost:8787", "http://localhost:8787", "/v1/models", 200},
		{"127.0.0.1:8787", "http://127.0.0.1:3000", "/v1/models", 403}, {"evil.example", "http://evil.example", "/v1/models", 403},
		{"localhost", "https://gateway.internal", "/v1/models", 200}, {"evil.example", "", "/holdfast/v1/intents", 403},
	} {
		text := "GET " + c.path + " HTTP/1.1\r\nHost: " + c.host + "\r\nConnection: close\r\n"
		if c.origin != "" {
			text += "Origin: " + c.origin + "\r\n"
		}
		if answer := r.raw(text + "\r\n"); !strings.HasPrefix(answer, fmt.Sprintf("HTTP/1.1 %d", c.status)) {
			t.Errorf("Host %s, Origin %s, %s: %.60q, want %d", c.host, c.origin, c.path, answer, c.status)
		}
	}
	if answer := r.raw("GET /healthz HTTP/1.0\r\n\r\n"); !strings.Contains(answer, "200") {
		t.Errorf("a health check without a host: %s", answer)
	}
}

// Two tenants with one Idempotency-Key never meet: not by auth.keys, not by forwarded credentials.
func TestTenantsNeverMeet(t *testing.T) {
	keys := newRig(t, func(c *rigConfig) {
		c.yaml = strings.Replace(c.yaml, "env: test", `env: test
auth: {keys: [{key: "key-of-one-1", tenant: one}, {key: "key-of-two-2", tenant: two}, {key: "key-of-one-3", tenant: one, workflows: [strict]}]}`, 1)
	})
	forwarded := newRig(t)
	for name, r := range map[string]*rig{"auth.keys": keys, "forwarded": forwarded} {
		as := func(cred string) request { return chat("t").key("k").with("Authorization", "Bearer "+cred) }
		one, two := r.must(as("key-of-one-1"), 200), r.must(as("key-of-two-2"), 200)
		if bytes.Equal(one.body, two.body) || two.header.Get("Idempotency-Replayed") != "" {
			t.Errorf("%s: the tenants met", name)
		}
		if again := r.must(as("key-of-one-1"), 200); !bytes.Equal(again.body, one.body) {
			t.Errorf("%s: a tenant does not meet itself", name)
		}
		r.calls("t", 2)
	}
	for _, c := range []struct {
		q      request
		status int
	}{
		{chat("no"), 401}, {chat("no").with("Authorization", "Bearer key-of-one"), 401}, {chat("no").with("X-Api-Key", "key-of-one-1x"), 401},
		{chat("no").with("Authorization", "Bearer key-of-one-3"), 403}, {request{method: "GET", path: "/v1/models"}, 401},
		{request{path: "/v1/files", body: "x"}, 401}, {request{method: "GET", path: "/anything"}, 401},
		{request{method: "GET", path: "/v1/realtime", header: map[string]string{"Connection": "Upgrade", "Upgrade": "websocket"}}, 401},
	} {
		keys.must(c.q, c.status)
	}
	keys.calls("no", 0)
	for _, call := range keys.sim.Calls("") {
		if call.Headers["Authorization"] != "" {
			t.Errorf("our own client credential was passed on")
		}
	}
}

// Whose credential goes out decides whose tenant a call is. It goes to the provider that the path names, and to no tier elsewhere.
func TestTenantOfATier(t *testing.T) {
	const providers = `openai: {type: openai, base_url: "SIM/v1"}`
	tiered := func(own, spare, tiers string) *rig {
		return newRig(t, func(c *rigConfig) {
			c.yaml = strings.NewReplacer(providers, `openai: {type: openai, base_url: "SIM/v1"`+own+`}
  second: {type: openai, base_url: "SIM/v1"`+spare+`}`, "default: {retry: {max_attempts: 1}}", "default: {tiers: ["+tiers+"]}").Replace(c.yaml)
		})
	}
	for name, c := range map[string]struct {
		r      *rig
		status int
		tenant string
	}{
		"another's, without a key": {tiered(`, api_key: "ours-12345"`, "", "{name: only, provider: second, model: other}"), 502, ""},
		"another's, with a key":    {tiered("", `, api_key: "ours-12345"`, "{name: only, provider: second, model: other}"), 200, "main"},
		"first its own":            {tiered("", `, api_key: "ours-12345"`, "{name: a, provider: openai}, {name: b, provider: second}"), 200, "c-"},
		"last its own":             {tiered("", `, api_key: "ours-12345"`, "{name: b, provider: second}, {name: a, provider: openai}"), 200, "c-"},
	} {
		for i, cred := range []string{"first-client", "second-client"} {
			a := c.r.must(chat("tier").key("k").with("Authorization", "Bearer "+cred), c.status)
			if replayed := a.header.Get("Idempotency-Replayed") != ""; replayed != (i == 1 && c.tenant == "main") {
				t.Errorf("%s: replayed %v", name, replayed)
			}
			if c.status != 200 {
				if a.code() != "contract_mismatch" || !strings.Contains(string(a.body), "api_key") {
					t.Errorf("%s: %s", name, a.body)
				}
				continue
			}
			if rec := c.r.record(a.header.Get("Holdfast-Intent")); !strings.HasPrefix(rec.Tenant, c.tenant) {
				t.Errorf("%s: tenant %s", name, rec.Tenant)
			}
		}
	}
}
