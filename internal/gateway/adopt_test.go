package gateway_test

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/holdfast-ai/holdfast/internal/gateway"
	"github.com/holdfast-ai/holdfast/ledger"
)

// plainAsk is a request for a whole answer in each wire format.
func plainAsk(wire, op string) request {
	q := ask(wire, op)
	q.body = strings.Replace(q.body, `"stream":true,`, "", 1)
	q.body = strings.Replace(q.body, `,"stream":true`, "", 1)
	q.path = strings.Replace(strings.Replace(q.path, ":streamGenerateContent", ":generateContent", 1), "?alt=sse", "", 1)
	return q
}

// raw is q as it stands on the wire.
func (q request) raw() string {
	var head strings.Builder
	fmt.Fprintf(&head, "POST %s HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: %d\r\n", q.path, len(q.body))
	for k, v := range q.header {
		fmt.Fprintf(&head, "%s: %s\r\n", k, v)
	}
	return head.String() + "\r\n" + q.body
}

// rawUntil sends q on a connection of its own and returns it after reading until enough says stop.
func (r *rig) rawUntil(q request, enough func(sofar []byte) bool) (*net.TCPConn, []byte) {
	r.t.Helper()
	c := r.rawText(q.raw())
	var got []byte
	p := make([]byte, 4096)
	for !enough(got) {
		n, err := c.Read(p)
		got = append(got, p[:n]...)
		if err != nil {
			r.t.Fatalf("after %q: %v", got, err)
		}
	}
	return c, got
}

// reset ends a connection as a process that is killed or a network that breaks does.
func reset(c *net.TCPConn) {
	_ = c.SetLinger(0)
	_ = c.Close()
}

func bodyOf(t *testing.T, got []byte) []byte {
	t.Helper()
	resp, err := http.ReadResponse(bufio.NewReader(bytes.NewReader(got)), nil)
	if err != nil {
		t.Fatal(err)
	}
	b, _ := io.ReadAll(resp.Body) // what came, whole or not
	return b
}

// A client that loses its connection anywhere and asks again gets the first execution's answer.
func TestLostAnswerIsAdopted(t *testing.T) {
	r := newRig(t)
	places := []struct {
		name   string
		step   string
		enough func(stream bool) func([]byte) bool
	}{
		{"before the head", `{"hold":"H","chunks":6}`, func(bool) func([]byte) bool { return func([]byte) bool { return true } }},
		{"in the middle", `{"hold":"H","hold_at":"event","hold_n":5,"chunks":6}`, func(stream bool) func([]byte) bool {
			return func(b []byte) bool {
				return !stream || bytes.Contains(b, []byte("answer")) || bytes.Contains(b, []byte("answe"))
			}
		}},
		{"after the last byte", `{"chunks":6}`, func(stream bool) func([]byte) bool {
			return func(b []byte) bool {
				if stream {
					return bytes.HasSuffix(b, []byte("\r\n0\r\n\r\n")) || bytes.Contains(b, []byte("\r\n0\r\n"))
				}
				_, body, ok := bytes.Cut(b, []byte("\r\n\r\n"))
				return ok && len(body) > 0 && (body[len(bytes.TrimSpace(body))-1] == '}' || body[len(bytes.TrimSpace(body))-1] == ']')
			}
		}},
	}
	for i, place := range places {
		for _, wire := range wires {
			for _, stream := range []bool{false, true} {
				if wire == "gemini-array" && !stream {
					continue
				}
				op := fmt.Sprintf("lost-%d-%s-%v", i, wire, stream)
				q := plainAsk(wire, op)
				if stream {
					q = ask(wire, op)
				}
				gate := "gate-" + op
				r.script(op, strings.Replace(place.step, `"H"`, `"`+gate+`"`, 1))
				conn, got := r.rawUntil(q, place.enough(stream))
				holds := strings.Contains(place.step, "hold")
				if holds && (stream || place.name == "before the head") {
					if err := r.sim.WaitHeld(t.Context(), gate, 1); err != nil {
						t.Fatal(err)
					}
				}
				wait(t, func() bool { return r.sim.Counts(op).Calls == 1 })
				reset(conn)
				wait(t, func() bool { return gateway.Lost(r.gw) > 0 })
				answer := make(chan *answered)
				go func() { answer <- r.do(q) }()
				if holds {
					r.sim.Release(gate)
				}
				var a *answered
				for a == nil {
					select {
					case a = <-answer:
					case <-time.After(20 * time.Millisecond):
						r.sim.Release(gate)
					}
				}
				if a.err != nil || a.status != 200 || a.header.Get("Idempotency-Replayed") != "true" {
					t.Errorf("%s: %d %v %v", op, a.status, a.header, a.err)
				}
				if place.name == "after the last byte" && !bytes.Equal(bodyOf(t, got), a.body) {
					t.Errorf("%s: the adopted answer differs", op)
				}
				r.calls(op, 1)
				wait(t, func() bool { return gateway.Lost(r.gw) == 0 })
			}
		}
	}
}

// Identical requests of clients that stay are as many questions (a vote), together or one after the other.
func TestIdenticalIsNotRepeated(t *testing.T) {
	r := newRig(t)
	var clients sync.WaitGroup
	for range 50 {
		clients.Go(func() {
			if a := r.do(chat("vote")); a.status != 200 || a.header.Get("Idempotency-Replayed") != "" {
				t.Errorf("%d %v", a.status, a.header)
			}
		})
	}
	clients.Wait()
	r.calls("vote", 50)
	for range 3 {
		r.must(chat("vote"), 200)
	}
	r.calls("vote", 53)
}

// A newcomer beside an open predecessor is a question of its own; one that says that it is a retry is not.
func TestOpenPredecessor(t *testing.T) {
	r := newRig(t)
	r.script("open", `{"hold":"a"}`, `{"hold":"a"}`)
	first := make(chan *answered)
	go func() { first <- r.do(chat("open")) }()
	if err := r.sim.WaitHeld(t.Context(), "a", 1); err != nil {
		t.Fatal(err)
	}
	<-time.After(300 * time.Millisecond) // older than a vote's twin
	second := make(chan *answered)
	go func() { second <- r.do(chat("open")) }()
	if err := r.sim.WaitHeld(t.Context(), "a", 2); err != nil {
		t.Fatal(err)
	}
	third := make(chan *answered)
	go func() { third <- r.do(chat("open").with("X-Stainless-Retry-Count", "1")) }()
	wait(t, func() bool { return gateway.Clients(r.gw) == 3 })
	r.sim.Release("a")
	a, b, c := <-first, <-second, <-third
	if bytes.Equal(a.body, b.body) || !bytes.Equal(c.body, a.body) || c.header.Get("Idempotency-Replayed") != "true" {
		t.Errorf("first %s\nsecond %s\nretry %s %v", a.body, b.body, c.body, c.header)
	}
	r.calls("open", 2)
}

// Two retries of one lost request adopt it once.
func TestAdoptionIsExclusive(t *testing.T) {
	r := newRig(t)
	r.script("once", `{"hold":"x"}`)
	conn, _ := r.rawUntil(chat("once"), func([]byte) bool { return true })
	if err := r.sim.WaitHeld(t.Context(), "x", 1); err != nil {
		t.Fatal(err)
	}
	reset(conn)
	wait(t, func() bool { return gateway.Lost(r.gw) == 1 })
	answers := make(chan *answered, 2)
	for range 2 {
		go func() { answers <- r.do(chat("once")) }()
	}
	wait(t, func() bool { return r.sim.Counts("once").Calls == 2 })
	r.sim.Release("x")
	a, b := <-answers, <-answers
	replays := 0
	for _, x := range []*answered{a, b} {
		if x.status != 200 {
			t.Errorf("%d %s", x.status, x.body)
		}
		if x.header.Get("Idempotency-Replayed") == "true" {
			replays++
		}
	}
	if replays != 1 {
		t.Errorf("%d of two retries adopted the lost answer, want 1", replays)
	}
	r.calls("once", 2)
}

// After a full delivery the same question is a new one, and its row leaves the index.
func TestDeliveredIsNotAdopted(t *testing.T) {
	r := newRig(t)
	first := r.must(chat("again"), 200)
	rec := r.settled(first.header.Get("Holdfast-Intent"))
	wait(t, func() bool {
		left, err := r.store.Derived(context.Background(), rec.Key, 10)
		return err == nil && len(left) == 0
	})
	second := r.must(chat("again"), 200)
	if bytes.Equal(first.body, second.body) {
		t.Errorf("a delivered answer was given again")
	}
	r.calls("again", 2)
}

func TestAdoptionSurvivesRestart(t *testing.T) {
	r := newRig(t)
	for _, op := range []string{"done", "cut"} {
		if op == "cut" {
			r.script(op, "hang")
		} else {
			r.script(op, `{"hold":"d"}`)
		}
		conn, _ := r.rawUntil(chat(op), func([]byte) bool { return true })
		wait(t, func() bool { return r.sim.Counts(op).InFlight == 1 })
		reset(conn)
	}
	wait(t, func() bool { return gateway.Lost(r.gw) == 2 })
	r.sim.Release("d")
	wait(t, func() bool { // the provider has said all of it before the gateway has read it
		list, err := r.store.List(t.Context(), ledger.Filter{Outcomes: []ledger.Outcome{ledger.OutcomeSuccess}})
		return err == nil && len(list) == 1
	})
	now, cancel := context.WithCancel(t.Context())
	cancel()
	r.gw.Drain(now)
	r.close()
	r.start(rigConfig{})
	if a := r.must(chat("done"), 200); a.header.Get("Idempotency-Replayed") != "true" {
		t.Errorf("the answer that was lost before the restart is made again: %v", a.header)
	}
	r.calls("done", 1)
	if a := r.must(chat("cut"), 200); a.header.Get("Holdfast-Attempts") != "2" {
		t.Errorf("%v", a.header)
	}
	r.calls("cut", 2)
}

// Our own failures hold the derived key for error_hold, a provider's for its Retry-After (semantics 21).
func TestErrorHold(t *testing.T) {
	r := newRig(t)
	r.script("down", "reply_lost", "ok")
	first := r.must(chat("down"), 502)
	again := r.must(chat("down"), 502)
	if again.code() != first.code() || again.header.Get("Holdfast-Intent") != first.header.Get("Holdfast-Intent") {
		t.Errorf("%v\n%v", first.header, again.header)
	}
	r.calls("down", 1)
	r.must(chat("down").with("Cache-Control", "no-cache"), 200)
	r.calls("down", 2)

	r.script("bad", "400")
	r.must(chat("bad"), 400)
	r.must(chat("bad"), 200)
	r.calls("bad", 2)

	r.script("slow-down", `{"status":429,"headers":{"Retry-After":"30"}}`)
	r.must(chat("slow-down"), 429)
	if a := r.must(chat("slow-down"), 429); a.header.Get("Retry-After") == "" {
		t.Errorf("%v", a.header)
	}
	r.calls("slow-down", 1)
}

// A held call under derive: retries says within its window, to everybody, that its outcome is unknown.
func TestHeldUnderRetries(t *testing.T) {
	r := newRig(t)
	q := request{path: "/v1/responses", body: `{"model":"gpt-5","input":"op=acts","tools":[{"type":"mcp","server_label":"x","server_url":"https://example.test","require_approval":"never"}]}`}
	r.script("acts", "reply_lost")
	first := r.do(q)
	if rec := r.record(first.header.Get("Holdfast-Intent")); rec.State != ledger.Unknown {
		t.Fatalf("%d %s: state %s", first.status, first.body, rec.State)
	}
	if a := r.must(q, 409); a.code() != string(gateway.CodeOutcomeUnknown) {
		t.Errorf("%v", a.header)
	}
	r.close()
	r.start(rigConfig{})
	if a := r.must(q, 409); a.code() != string(gateway.CodeOutcomeUnknown) {
		t.Errorf("after a restart: %v", a.header)
	}
	r.calls("acts", 1)
}

// Drained answers stay inside finish_quota, the oldest going first, and all their places come back.
func TestDrainQuota(t *testing.T) {
	r := newRig(t, func(c *rigConfig) { // nothing but the quota ends a call in time
		c.yaml = strings.Replace(c.yaml, "env: test", "env: test\nlimits: {workers: 20}", 1)
		c.yaml = strings.Replace(c.yaml, "default: {", "default: {timeouts: {first_token: 1h, attempt: 1h, total: 1h, request: 2h}, ", 1)
	})
	for i := range 12 {
		op := fmt.Sprintf("d%d", i)
		r.script(op, "hang")
		conn, _ := r.rawUntil(chat(op), func([]byte) bool { return true })
		wait(t, func() bool { return r.sim.Counts(op).InFlight == 1 })
		reset(conn)
	}
	wait(t, func() bool {
		if n := r.gw.Holding().Drains; n > 4 {
			t.Fatalf("%d answers are drained at once, want at most 4", n)
		}
		return r.sim.Stats().Total.InFlight <= 4
	})
	for i := range 12 {
		want := int64(0)
		if i >= 8 {
			want = 1
		}
		if got := r.sim.Counts(fmt.Sprintf("d%d", i)).InFlight; got != want {
			t.Errorf("drain %d: %d in flight, want %d", i, got, want)
		}
	}
	now, cancel := context.WithCancel(t.Context())
	cancel()
	r.gw.Drain(now)
}

// A large answer that did not arrive waits for its client on record, not in memory.
func TestLargeLostAnswerLeavesMemory(t *testing.T) {
	r := newRig(t)
	r.script("large", `{"size":200000,"chunks":4}`)
	conn, got := r.rawUntil(streamed("large"), func(b []byte) bool { return bytes.HasSuffix(b, []byte("\r\n0\r\n\r\n")) })
	reset(conn)
	wait(t, func() bool { return gateway.Lost(r.gw) == 1 && gateway.Remembered(r.gw) == 0 })
	for range 2 { // each time it is lost again
		conn, again := r.rawUntil(streamed("large"), func(b []byte) bool { return bytes.HasSuffix(b, []byte("[DONE]\n\n")) })
		if !bytes.Equal(bodyOf(t, got), bodyOf(t, again)) {
			t.Errorf("adopted %d bytes, the first answer has %d", len(again), len(got))
		}
		reset(conn)
		wait(t, func() bool { return gateway.Lost(r.gw) == 1 && gateway.Remembered(r.gw) == 0 })
	}
	r.calls("large", 1)
}

// One caller's own deadline is no word to others; tools and MCP servers are not OpenAI's.
func TestImpatienceAndReservedPaths(t *testing.T) {
	r := newRig(t)
	r.script("slow", "hang")
	r.must(chat("slow").with("X-Stainless-Timeout", "1"), 504)
	r.script("slow", "ok")
	r.must(chat("slow"), 200)
	r.calls("slow", 2)
	for _, path := range []string{"/tools/billing/charges", "/mcp/orders"} {
		if a := r.must(request{path: path, body: `{"op":"never"}`}, 404); a.code() != string(gateway.CodeNotFound) {
			t.Errorf("%s: %v", path, a.header)
		}
	}
	if n := r.sim.Stats().Total.Calls; n != 2 {
		t.Errorf("%d calls reached the provider, want 2", n)
	}
}
