package gateway_test

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/holdfast-ai/holdfast/internal/gateway"
	"github.com/holdfast-ai/holdfast/internal/provider/jsonarray"
	"github.com/holdfast-ai/holdfast/internal/sse"
)

// ends are the offsets behind each event of a stream.
func ends(wire string, body []byte) (at []int64) {
	if wire == "gemini-array" {
		var s jsonarray.Scanner
		_ = s.Feed(body, func(_ []byte, _, end int64) error { at = append(at, end); return nil })
		return at
	}
	var p sse.Parser
	_ = p.Feed(body, func(e sse.Event) error { at = append(at, e.End); return nil })
	return at
}

// The bytes behind the n-th event are those of the recording, while it runs, afterwards and after a restart.
func TestResume(t *testing.T) {
	r := newRig(t)
	for _, wire := range wires {
		whole := r.must(ask(wire, wire).key(wire), 200)
		r.settled(whole.header.Get("Holdfast-Intent"))
		at := ends(wire, whole.body)
		for n, end := range append([]int64{0}, at...) {
			a := r.must(ask(wire, wire).key(wire).with("Last-Event-ID", fmt.Sprint(n)), 200)
			if !bytes.Equal(a.body, whole.body[end:]) {
				t.Errorf("%s after %d:\n%q\nwant\n%q", wire, n, a.body, whole.body[end:])
			}
		}
		r.must(ask(wire, wire).key(wire).with("Last-Event-ID", fmt.Sprint(len(at)+1)), 409)
		r.must(ask(wire, wire).key(wire).with("Last-Event-ID", "-1"), 400)
		if a := r.must(ask(wire, wire).key("other").with("Last-Event-ID", "2"), 409); a.code() != string(gateway.CodeStreamLost) {
			t.Errorf("%v", a.header)
		}
		r.calls(wire, 1)
	}
	r.close()
	r.start(rigConfig{})
	for _, wire := range wires {
		whole := r.must(ask(wire, wire).key(wire), 200)
		a := r.must(ask(wire, wire).key(wire).with("Last-Event-ID", "2"), 200)
		if !bytes.Equal(a.body, whole.body[ends(wire, whole.body)[1]:]) {
			t.Errorf("%s after a restart: %q", wire, a.body)
		}
		r.calls(wire, 1)
	}
}

func TestResumeWhileItRuns(t *testing.T) {
	r := newRig(t)
	for _, key := range []string{"", "k"} {
		op := "run" + key
		r.script(op, `{"chunks":8,"hold":"half","hold_at":"event","hold_n":5}`)
		q := streamed(op)
		if key != "" {
			q = q.key(key)
		}
		q = q.with("Holdfast-Stream-Ids", "1")
		ctx, leave := context.WithCancel(t.Context())
		first := q
		first.ctx = ctx
		resp, err := r.open(first)
		if err != nil {
			t.Fatal(err)
		}
		got := make([]byte, 1)
		for !bytes.Contains(got, []byte("id: 3\n")) {
			p := make([]byte, 4096)
			n, err := resp.Body.Read(p)
			got = append(got, p[:n]...)
			if err != nil {
				t.Fatalf("%q %v", got, err)
			}
		}
		leave()
		_ = resp.Body.Close()
		if key == "" {
			wait(t, func() bool { return gateway.Lost(r.gw) == 1 })
		}
		rest := make(chan *answered)
		go func() { rest <- r.do(q.with("Last-Event-ID", "3")) }()
		if err := r.sim.WaitHeld(t.Context(), "half", 1); err != nil {
			t.Fatal(err)
		}
		r.sim.Release("half")
		a := <-rest
		if a.status != 200 || !bytes.HasPrefix(a.body, []byte("id: 4\n")) || !bytes.Contains(a.body, []byte("[DONE]")) || bytes.Contains(a.body, []byte("id: 3\n")) {
			t.Errorf("%d %v %q", a.status, a.header, a.body)
		}
		r.calls(op, 1)
	}
	if a := r.must(streamed("never").with("Last-Event-ID", "1"), 409); a.code() != string(gateway.CodeStreamLost) {
		t.Errorf("%v", a.header)
	}
}

// A long wait is bridged with signs of life, never with the lead-in; facts follow as trailers.
func TestBridge(t *testing.T) {
	r := newRig(t, func(c *rigConfig) {
		c.yaml = strings.Replace(c.yaml, "  default: {retry: {max_attempts: 1}}", "  default: {bridge_after: 50ms, retry: {max_attempts: 1}, timeouts: {first_token: 2s}}", 1)
	})
	for _, wire := range wires {
		r.script(wire, `{"chunks":4,"hold":"lead","hold_at":"event","hold_n":1}`)
		resp, err := r.open(ask(wire, wire).key(wire))
		if err != nil {
			t.Fatal(err)
		}
		first := make([]byte, 4096)
		n, err := resp.Body.Read(first)
		if err != nil {
			t.Fatal(err)
		}
		if wire != "gemini-sse" && wire != "gemini-array" { // there the first event has content
			if s := string(first[:n]); strings.Contains(s, "chunk") || strings.Contains(s, "created") || strings.Contains(s, "message_start") {
				t.Errorf("%s: the lead-in of an attempt bridges the wait: %q", wire, s)
			}
		}
		if err := r.sim.WaitHeld(t.Context(), "lead", 1); err != nil {
			t.Fatal(err)
		}
		r.sim.Release("lead")
		rest, err := io.ReadAll(resp.Body)
		if err != nil {
			t.Errorf("%s: %v", wire, err)
		}
		_ = resp.Body.Close()
		if strings.HasPrefix(wire, "gemini") {
			continue
		}
		if resp.Trailer.Get("Holdfast-Intent") == "" || resp.Trailer.Get("Holdfast-Source") == "" {
			t.Errorf("%s: trailers %v", wire, resp.Trailer)
		}
		r.settled(resp.Trailer.Get("Holdfast-Intent"))
		again := r.must(ask(wire, wire).key(wire), 200)
		if !bytes.HasSuffix(append(first[:n:n], rest...), again.body) {
			t.Errorf("%s: the bridged answer is not the recording behind signs of life", wire)
		}
	}
}

// Behind a bridge a failure is an event.
func TestBridgedFailure(t *testing.T) {
	r := newRig(t, func(c *rigConfig) {
		c.yaml = strings.Replace(c.yaml, "  default: {retry: {max_attempts: 1}}", "  default: {bridge_after: 50ms, retry: {max_attempts: 1}, timeouts: {first_token: 2s, attempt: 2s, total: 2500ms, request: 5s}}", 1)
	})
	var all sync.WaitGroup
	defer all.Wait()
	for _, wire := range wires {
		for fault, want := range map[string]string{"hang": string(gateway.CodeDeadline), `{"status":429,"delay_ms":200}`: "error", `{"fault":"reply_lost","work_ms":200}`: string(gateway.CodeAllTiersFailed)} {
			op := fmt.Sprintf("%s-%d", wire, len(fault))
			r.script(op, fault)
			all.Go(func() {
				a := r.do(ask(wire, op).key(op))
				if a.status != 200 || !strings.Contains(string(a.body), want) || a.err != nil {
					t.Errorf("%s %s: %d %q %v", wire, fault, a.status, a.body, a.err)
				}
			})
		}
	}
}

// A plain call ends before the time-out that the SDK announced (semantics 31).
func TestAnnouncedTimeout(t *testing.T) {
	r := newRig(t)
	for _, name := range []string{"X-Stainless-Timeout", "X-Stainless-Read-Timeout", "X-Server-Timeout"} {
		r.script(name, "hang")
		began := time.Now()
		a := r.must(chat(name).with(name, "0.3"), 504)
		if took := time.Since(began); a.code() != string(gateway.CodeDeadline) || took > time.Minute {
			t.Errorf("%s: %v after %s", name, a.header, took)
		}
	}
	r.must(chat("plain").with("X-Stainless-Timeout", "nonsense"), 200)
	r.must(chat("plain").with("X-Stainless-Timeout", "1e300"), 200)
}

// BR-097: a silent minute of thinking keeps its connection alive, and the limits to the first content, between
// events and of the whole are apart.
func TestBR097SilenceAndLimits(t *testing.T) {
	r := newRig(t, func(c *rigConfig) {
		c.yaml = strings.Replace(c.yaml, "  default: {retry: {max_attempts: 1}}", "  default: {bridge_after: 30ms, timeouts: {first_token: 9s, idle: 2s, stream: 4s}}", 1)
	})
	for _, wire := range []string{"openai-chat", "anthropic"} {
		r.script(wire, `{"first_ms":300,"chunks":3}`)
		a := r.must(ask(wire, wire).key(wire), 200)
		signs := strings.Count(string(a.body), ": keep-alive") + strings.Count(string(a.body), "event: ping")
		if signs < 2 {
			t.Errorf("%s: %d signs of life in %q", wire, signs, a.body)
		}
		again := r.must(ask(wire, wire).key(wire), 200)
		if strings.Contains(string(again.body), "keep-alive") || !bytes.HasSuffix(a.body, again.body) {
			t.Errorf("%s: signs of life are part of the answer: %q", wire, again.body)
		}
	}
	r.script("trickle", `{"chunks":30,"event_ms":400}`)
	if a := r.must(streamed("trickle"), 200); !strings.Contains(string(a.body), string(gateway.CodeDeadline)) || !strings.Contains(string(a.body), "timeouts.stream") {
		t.Errorf("%q", tail(a.body))
	}
}
