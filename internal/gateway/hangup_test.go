package gateway_test

import (
	"bytes"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/holdfast-ai/holdfast/internal/gateway"
)

// lastMark begins, in each wire format, what the event that ends a stream says.
var lastMark = map[string]string{"openai-chat": "[DONE]", "openai-responses": `"response.completed"`, "anthropic": `"message_stop"`,
	"gemini-sse": `"finishReason"`, "gemini-array": `"finishReason"`}

// lastEvent says that the event that ends a stream has come, whole.
func lastEvent(wire string) func([]byte) bool {
	return func(b []byte) bool {
		at := bytes.Index(b, []byte(lastMark[wire]))
		if at >= 0 && wire == "gemini-array" {
			return bytes.Contains(b[at:], []byte("\n]")) || bytes.Contains(b[at:], []byte("}]\r\n")) || bytes.HasSuffix(b, []byte("}]"))
		}
		return at >= 0 && (bytes.Contains(b[at:], []byte("\n\n")) || bytes.Contains(b[at:], []byte("\n\r\n")))
	}
}

// readUntil reads on, piece bytes at a time.
func readUntil(t *testing.T, c net.Conn, piece int, enough func([]byte) bool) (got []byte) {
	t.Helper()
	p := make([]byte, piece)
	for !enough(got) {
		n, err := c.Read(p)
		if got = append(got, p[:n]...); err != nil {
			t.Fatalf("after %q: %v", got, err)
		}
	}
	return got
}

// rawText sends text on a connection of its own.
func (r *rig) rawText(text string) *net.TCPConn {
	r.t.Helper()
	c, err := net.Dial("tcp", r.server.Listener.Addr().String())
	if err != nil {
		r.t.Fatal(err)
	}
	_ = c.SetReadDeadline(time.Now().Add(10 * time.Second))
	say(r.t, c, text)
	return c.(*net.TCPConn)
}

func say(t *testing.T, c net.Conn, text string) {
	t.Helper()
	if _, err := io.WriteString(c, text); err != nil {
		t.Fatal(err)
	}
}

func nothing([]byte) bool { return true }

// hangUp ends conn and waits until the gateway has noticed.
func (r *rig) hangUp(end func() error) {
	r.t.Helper()
	before := r.hungUp.Load()
	if err := end(); err != nil {
		r.t.Fatal(err)
	}
	wait(r.t, func() bool { return r.hungUp.Load() > before })
}

// again says whether the answer to an equal question was the first one's.
func (r *rig) again(q request) (replayed bool) {
	r.t.Helper()
	return r.must(q, 200).header.Get("Idempotency-Replayed") == "true"
}

// A client that hangs up at its stream's last event has the end of the body with it, and has received its answer.
func TestHangUpAtTheLastEvent(t *testing.T) {
	r := newRig(t)
	for _, wire := range wires {
		for _, size := range []int{0, 20_000} { // one event of the second kind is more than a buffer
			op := fmt.Sprintf("hangs-up-%s-%d", wire, size)
			r.always(op, fmt.Sprintf(`{"chunks":2,"size":%d}`, size))
			conn, _ := r.rawUntil(ask(wire, op), nothing)
			got := readUntil(t, conn, 1<<20, lastEvent(wire))
			if !bytes.HasSuffix(got, []byte("\r\n0\r\n\r\n")) {
				t.Errorf("%s: the last event came without the end: %q", op, got[max(0, len(got)-40):])
			}
			r.hangUp(conn.Close)
			if r.again(ask(wire, op)) {
				t.Errorf("%s: a received answer is given again", op)
			}
			r.calls(op, 2)
		}
	}
}

// A client that closes with the end of the body unread looks as one does whose connection broke there: it gets its
// answer again, and nothing is called twice.
func TestHangUpBeforeTheEnd(t *testing.T) {
	r := newRig(t)
	for _, wire := range wires[:4] {
		op := "unread-" + wire
		conn, _ := r.rawUntil(ask(wire, op), nothing)
		readUntil(t, conn, 1, lastEvent(wire))
		r.hangUp(conn.Close)
		if !r.again(ask(wire, op)) {
			t.Errorf("%s: a new answer", op)
		}
		r.calls(op, 1)
	}
}

// An orderly close before the last event is a lost answer, whether of the connection or of the client's side of it; and to
// whoever closed that side only, what came is no whole answer.
func TestHangUpBeforeTheLastEvent(t *testing.T) {
	r := newRig(t)
	for _, wire := range wires {
		for _, half := range []bool{false, true} {
			op := fmt.Sprintf("early-%s-%v", wire, half)
			r.script(op, fmt.Sprintf(`{"hold":%q,"hold_at":"event","hold_n":5,"chunks":6}`, op))
			conn, got := r.rawUntil(ask(wire, op), func(b []byte) bool { return bytes.Contains(b, []byte("ans")) })
			if err := r.sim.WaitHeld(t.Context(), op, 1); err != nil {
				t.Fatal(err)
			}
			if half {
				r.hangUp(conn.CloseWrite)
				rest, _ := io.ReadAll(conn)
				if got = append(got, rest...); bytes.HasSuffix(got, []byte("\r\n0\r\n\r\n")) {
					t.Errorf("%s: half an answer ends as a whole one: %q", op, got)
				}
				_ = conn.Close()
			} else {
				r.hangUp(conn.Close)
			}
			r.sim.Release(op)
			if !r.again(ask(wire, op)) {
				t.Errorf("%s: a new answer", op)
			}
			r.calls(op, 1)
		}
	}
}

// A client that asks the next question on its connection has the answer before it: a reset in the midst of the next loses
// that one alone. One that asked it without waiting for the answer has shown nothing.
func TestResetInTheNextAnswer(t *testing.T) {
	r := newRig(t)
	whole := func(b []byte) bool { return bytes.HasSuffix(b, []byte("\r\n0\r\n\r\n")) }
	for _, ahead := range []bool{false, true} {
		op, next := fmt.Sprintf("first-%v", ahead), fmt.Sprintf("next-%v", ahead)
		r.script(next, fmt.Sprintf(`{"hold":%q,"hold_at":"event","hold_n":1,"chunks":6}`, next))
		first, second := streamed(op), streamed(next)
		var conn *net.TCPConn
		if ahead {
			conn = r.rawText(first.raw() + second.raw())
			readUntil(t, conn, 1<<20, whole)
		} else {
			conn, _ = r.rawUntil(first, whole)
			say(t, conn, second.raw())
		}
		if err := r.sim.WaitHeld(t.Context(), next, 1); err != nil {
			t.Fatal(err)
		}
		r.hangUp(func() error { reset(conn); return nil })
		r.sim.Release(next)
		if got := r.again(first); got != ahead {
			t.Errorf("ahead %v: given again %v", ahead, got)
		}
		if !r.again(second) {
			t.Errorf("ahead %v: the lost answer is a new one", ahead)
		}
	}
}

// tardy is a provider that ends the bodies of its streams when it is told to.
type tardy struct {
	*httptest.Server
	end   chan struct{}
	calls atomic.Int64
}

var tardyStreams = map[string]string{
	"/v1/chat/completions": `data: {"id":"c","object":"chat.completion.chunk","choices":[{"index":0,"delta":{"content":"answer"}}]}

data: {"id":"c","object":"chat.completion.chunk","choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}

data: [DONE]

`,
	"/v1/responses": `event: response.output_text.delta
data: {"type":"response.output_text.delta","delta":"answer"}

event: response.completed
data: {"type":"response.completed","response":{"id":"r","status":"completed","output":[]}}

`,
	"/v1/messages": `event: content_block_delta
data: {"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"answer"}}

event: message_delta
data: {"type":"message_delta","delta":{"stop_reason":"end_turn"}}

event: message_stop
data: {"type":"message_stop"}

`,
	"sse": `data: {"candidates":[{"content":{"parts":[{"text":"answer"}]}}]}

data: {"candidates":[{"content":{"parts":[{"text":"."}]},"finishReason":"STOP"}]}

`,
	"array": `[{"candidates":[{"content":{"parts":[{"text":"answer"}]}}]},
{"candidates":[{"content":{"parts":[{"text":"."}]},"finishReason":"STOP"}]}
]`,
}

func newTardy(t *testing.T) *tardy {
	p := &tardy{end: make(chan struct{})}
	p.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.ReadAll(r.Body)
		p.calls.Add(1)
		form := r.URL.Path
		w.Header().Set("Content-Type", "text/event-stream")
		if strings.HasPrefix(form, "/v1beta/") {
			if form = "sse"; r.URL.Query().Get("alt") != "sse" {
				form = "array"
				w.Header().Set("Content-Type", "application/json")
			}
		}
		_, _ = io.WriteString(w, tardyStreams[form])
		_ = http.NewResponseController(w).Flush()
		select {
		case <-p.end:
		case <-r.Context().Done():
		}
	}))
	t.Cleanup(p.Close)
	return p
}

// Where the end of the body does not come, a client gets the last event with one of ours, if no event can follow; one that
// then hangs up in order has its answer. One that is cut off there, or may miss an event, has not.
func TestHangUpAtTheLastEventOfATardyProvider(t *testing.T) {
	ends := map[string]func(*net.TCPConn) func() error{
		"closed":      func(c *net.TCPConn) func() error { return c.Close },
		"half-closed": func(c *net.TCPConn) func() error { return c.CloseWrite },
		"reset":       func(c *net.TCPConn) func() error { return func() error { reset(c); return nil } },
	}
	for _, wire := range wires {
		for how, end := range ends {
			t.Run(wire+" "+how, func(t *testing.T) {
				t.Parallel()
				p := newTardy(t)
				r := newRig(t, func(c *rigConfig) { c.yaml = strings.ReplaceAll(c.yaml, "SIM", p.URL) })
				conn, _ := r.rawUntil(ask(wire, how), nothing)
				readUntil(t, conn, 1<<20, lastEvent(wire))
				r.hangUp(end(conn))
				_ = conn.Close()
				lost := how == "reset" || wire == "gemini-sse"
				if n := gateway.Lost(r.gw); n > 1 || n == 1 != lost {
					t.Errorf("%d answers are lost", n)
				}
				answer := make(chan *answered, 1)
				go func() { answer <- r.do(ask(wire, how)) }()
				if wire == "gemini-sse" {
					wait(t, func() bool { return gateway.Clients(r.gw) == 1 })
					close(p.end)
				}
				a := <-answer
				if a.err != nil || a.status != 200 || (a.header.Get("Idempotency-Replayed") == "true") != lost {
					t.Errorf("%d %v %v, lost %v", a.status, a.header, a.err, lost)
				}
				if n := p.calls.Load(); n != map[bool]int64{true: 1, false: 2}[lost] {
					t.Errorf("%d calls, lost %v", n, lost)
				}
			})
		}
	}
}

// A client library that hangs up at [DONE], over either protocol, has its answer each time.
func TestClientsThatHangUpAtDone(t *testing.T) {
	r := newRig(t)
	protocols := map[string]func(*http.Protocols){"http1": func(p *http.Protocols) { p.SetHTTP1(true) },
		"http2": func(p *http.Protocols) { p.SetUnencryptedHTTP2(true) }}
	for name, speak := range protocols {
		speaks := new(http.Protocols)
		speak(speaks)
		server := httptest.NewUnstartedServer(r.gw)
		server.Listener = gateway.Watch(server.Listener)
		server.Config.ConnContext, server.Config.Protocols = gateway.ConnContext, speaks
		server.Start()
		transport := &http.Transport{Protocols: speaks}
		client := &http.Client{Transport: transport}
		const asks = 20
		for range asks {
			resp, err := client.Post(server.URL+"/v1/chat/completions", "application/json", strings.NewReader(streamed(name).body))
			if err != nil {
				t.Fatal(err)
			}
			readBody(t, resp.Body, lastEvent("openai-chat"))
			_ = resp.Body.Close()
			if resp.ProtoMajor != int(name[4]-'0') || resp.Header.Get("Idempotency-Replayed") != "" {
				t.Errorf("%s: %v", resp.Proto, resp.Header)
			}
		}
		r.calls(name, asks)
		transport.CloseIdleConnections()
		server.Close()
	}
}

func readBody(t *testing.T, body io.Reader, enough func([]byte) bool) {
	t.Helper()
	var got []byte
	for p := make([]byte, 4<<10); !enough(got); {
		n, err := body.Read(p)
		if got = append(got, p[:n]...); err != nil && !enough(got) {
			t.Fatalf("after %q: %v", got, err)
		}
	}
}

// A large plain answer counts as sent before its client can have all of it, and hang up.
func TestHangUpBehindAPlainAnswer(t *testing.T) {
	r := newRig(t)
	for _, size := range []int{10, 5_000, 500_000} {
		op := fmt.Sprintf("plain-%d", size)
		r.always(op, fmt.Sprintf(`{"size":%d}`, size))
		conn, _ := r.rawUntil(chat(op), nothing)
		readUntil(t, conn, 1<<20, func(b []byte) bool {
			head, body, ok := bytes.Cut(b, []byte("\r\n\r\n"))
			_, length, _ := bytes.Cut(head, []byte("Content-Length: "))
			n := 0
			_, _ = fmt.Sscan(string(length), &n)
			return ok && n > 0 && len(body) == n
		})
		r.hangUp(conn.Close)
		if r.again(chat(op)) {
			t.Errorf("%s: a received answer is given again", op)
		}
		r.calls(op, 2)
	}
}
