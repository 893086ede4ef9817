package gateway_test

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"github.com/holdfast-ai/holdfast/internal/gateway"
	"github.com/holdfast-ai/holdfast/ledger"
)

// Paths that no table knows pass through: reads without a row, the rest on record and once, kept only under a key.
func TestUnknownPathsPass(t *testing.T) {
	r := newRig(t)
	r.must(request{method: "GET", path: "/v1/files/f-1?op=get"}, 200)
	r.must(request{method: "HEAD", path: "/v1/models"}, 200)
	if n := r.rows(); n != 0 {
		t.Errorf("%d rows of reads", n)
	}
	up := request{path: "/v1/files", body: `{"x":"op=upload"}`}
	for range 2 {
		a := r.must(up, 200)
		if a.header.Get("Idempotency-Replayed") != "" || a.header.Get("Holdfast-Recorded") != "no" {
			t.Errorf("%v", a.header)
		}
		if rec := r.settled(a.header.Get("Holdfast-Intent")); rec.Outcome != ledger.OutcomeSuccess || rec.Attempt != 1 || rec.Answer != nil {
			t.Errorf("%+v", rec.Status)
		}
	}
	r.calls("upload", 2)
	first := r.must(up.key("k"), 200)
	if again := r.must(up.key("k"), 200); !bytes.Equal(first.body, again.body) || again.header.Get("Idempotency-Replayed") != "true" {
		t.Errorf("an unknown path with a key is not replayed: %v", again.header)
	}
	r.calls("upload", 3)
	r.must(request{method: "DELETE", path: "/v1/files/f-1?op=delete"}, 200)
	r.calls("delete", 1)
	r.atRest()
}

// What is passed on is judged as any other call (semantics 3), and a shutdown knows of it.
func TestPassedCallsAreJudged(t *testing.T) {
	r := newRig(t)
	for fault, want := range map[string]ledger.State{"500": ledger.Unknown, "reply_lost": ledger.Unknown, "400": ledger.Settled, "rate_limited": ledger.Settled} {
		r.script("p"+fault, fault)
		r.do(request{path: "/v1/files", body: "op=p" + fault}.workflow("external"))
		wait(t, func() bool {
			list, err := r.store.List(context.Background(), ledger.Filter{Limit: 1})
			return err == nil && len(list) == 1 && list[0].State == want
		})
	}
	r.script("held", `{"hold":"pass"}`)
	answer := make(chan *answered)
	go func() { answer <- r.do(request{path: "/v1/files", body: "op=held"}) }()
	if err := r.sim.WaitHeld(t.Context(), "pass", 1); err != nil {
		t.Fatal(err)
	}
	drained := make(chan struct{})
	go func() { r.gw.Drain(t.Context()); close(drained) }()
	wait(t, func() bool { return r.gw.Ready() != nil })
	if a := r.must(request{path: "/v1/files", body: "op=late"}, 503); a.code() != string(gateway.CodeDraining) {
		t.Errorf("%v", a.header)
	}
	select {
	case <-drained:
		t.Error("drained while a call was on its way")
	default:
	}
	r.sim.Release("pass")
	if a := <-answer; a.status != 200 {
		t.Errorf("%d", a.status)
	}
	<-drained
}

// Prefixes name providers, Azure's path stays whole, and our own credential replaces the caller's on all of them.
func TestPrefixesAndAzure(t *testing.T) {
	r := newRig(t, func(c *rigConfig) {
		c.yaml = strings.Replace(c.yaml, `gemini: {type`, `azure: {type: openai, base_url: "SIM", api_key: "azure-key-123", auth_header: api-key}
  gemini: {type`, 1)
	})
	body := chat("x").body
	for path, want := range map[string]string{
		"/openai/v1/chat/completions": "/v1/chat/completions", "/azure/openai/deployments/d/chat/completions?api-version=1&key=client": "/openai/deployments/d/chat/completions",
		"/anthropic/v1/messages": "/v1/messages", "/openai/deployments/d/chat/completions": "/v1/openai/deployments/d/chat/completions",
	} {
		r.sim.Reset()
		r.must(request{path: path, body: strings.Replace(body, `"model"`, `"max_tokens":9,"model"`, 1)}.with("Authorization", "Bearer client-credential"), 200)
		call := r.sim.Calls("")[0]
		if call.Path != want {
			t.Errorf("%s went to %s, want %s", path, call.Path, want)
		}
		if azure := strings.HasPrefix(path, "/azure"); azure && (call.Headers["Api-Key"] == "" || call.Headers["Authorization"] != "" || strings.Contains(call.Query, "key=")) {
			t.Errorf("azure: %v %s", call.Headers, call.Query)
		}
	}
}

// A WebSocket is tunnelled, unlogged.
func TestTunnel(t *testing.T) {
	far := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !strings.EqualFold(r.Header.Get("Upgrade"), "websocket") || !strings.EqualFold(r.Header.Get("Connection"), "upgrade") {
			w.WriteHeader(http.StatusUpgradeRequired)
			return
		}
		conn, rw, err := http.NewResponseController(w).Hijack()
		if err != nil {
			return
		}
		defer conn.Close()
		_, _ = io.WriteString(conn, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n")
		line, _ := rw.ReadString('\n')
		_, _ = io.WriteString(conn, "you said "+line)
	}))
	defer far.Close()
	r := newRig(t, func(c *rigConfig) { c.yaml = strings.Replace(c.yaml, "SIM/v1", far.URL+"/v1", 1) })
	conn, err := net.Dial("tcp", r.server.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	_, _ = io.WriteString(conn, "GET /v1/realtime?model=m HTTP/1.1\r\nHost: localhost\r\nConnection: keep-alive, Upgrade\r\nUpgrade: websocket\r\n\r\n")
	reader := bufio.NewReader(conn)
	resp, err := http.ReadResponse(reader, nil)
	if err != nil || resp.StatusCode != http.StatusSwitchingProtocols {
		t.Fatalf("%v %v", resp, err)
	}
	_, _ = io.WriteString(conn, "hello\n")
	if line, err := reader.ReadString('\n'); line != "you said hello\n" {
		t.Errorf("%q %v", line, err)
	}
	if n := r.rows(); n != 0 {
		t.Errorf("%d rows", n)
	}
}

// An Upgrade that is only offered opens no way round the log: Java's client offers h2c with its first POST.
func TestUpgradeIsNoWayRound(t *testing.T) {
	r := newRig(t)
	for i, upgrade := range []string{"h2c", "websocket", "x"} {
		for range 2 {
			q := chat("h2c").key(fmt.Sprint(i)).with("Upgrade", upgrade, "Connection", "Upgrade, HTTP2-Settings", "Http2-Settings", "AAMAAABkAAQAoAAAAAIAAAAA")
			a := r.must(q, 200)
			if a.header.Get("Holdfast-Intent") == "" {
				t.Errorf("%s: not on record", upgrade)
			}
		}
	}
	r.calls("h2c", 3)
	for _, call := range r.sim.Calls("h2c") {
		if call.Headers["Upgrade"] != "" || call.Headers["Http2-Settings"] != "" {
			t.Errorf("hop-by-hop headers were passed on: %v", call.Headers)
		}
	}
}

// mode: observe changes nothing of a call: bytes, status, how often.
func TestObserveChangesNothing(t *testing.T) {
	r := newRig(t)
	for _, fault := range []string{"ok", "400", "500", `{"body":"<html>","headers":{"Content-Type":"text/html"}}`} {
		for _, q := range []request{chat("see"), streamed("see")} {
			r.sim.Reset()
			r.script("see", fault, fault)
			first := r.do(q.key("k").workflow("watch"))
			second := r.do(q.key("k").workflow("watch"))
			if first.err != nil || first.status != second.status || second.header.Get("Idempotency-Replayed") != "" {
				t.Errorf("%s: %d %d %v", fault, first.status, second.status, second.header)
			}
			if fault == "400" && first.header.Get("Holdfast-Error") != "" {
				t.Errorf("%v", first.header)
			}
			r.calls("see", 2)
		}
	}
	other := r.do(chat("other").key("k").workflow("watch"))
	if other.status != 200 {
		t.Errorf("a reused key was refused: %d", other.status)
	}
	r.atRest()
}

// Credentials are masked in errors of reads and of passed calls too.
func TestErrorsOfReadsAreMasked(t *testing.T) {
	r := newRig(t, func(c *rigConfig) { c.yaml = replaced })
	step := `{"status":401,"body":"{\"error\":{\"message\":\"bad key CANARY-own-openai-9f3e\"}}"}`
	for i, q := range []request{{method: "GET", path: "/v1/models"}, {path: "/v1/files", body: "x"}, {method: "GET", path: "/v1/files"}} {
		op := fmt.Sprint("mask", i)
		r.script(op, step)
		a := r.must(q.with("Sim-Op", op), 401)
		if !strings.Contains(string(a.body), "bad key ****") || strings.Contains(string(a.body), "CANARY") {
			t.Errorf("%s %s: %s", q.method, q.path, a.body)
		}
	}
}

// Duplicates that come while the first is still being claimed learn of it without a race.
func TestDuplicatesDuringTheClaim(t *testing.T) {
	r := newRig(t)
	var clients sync.WaitGroup
	for i := range 200 {
		clients.Go(func() {
			a := r.do(chat("early").workflow("conflict").key(fmt.Sprint("k", i%20)))
			if a.status != 200 && a.status != 409 {
				t.Errorf("%d %s", a.status, a.body)
			}
		})
	}
	clients.Wait()
	if n := r.sim.Counts("early").Calls; n != 20 {
		t.Errorf("%d calls of 20 keys", n)
	}
}
