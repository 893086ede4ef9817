package mcp

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tidwall/gjson"

	"github.com/holdfast-ai/holdfast/ledger"
)

// browser is a client over HTTP that makes each mistake a client may make.
type browser struct {
	r       *rig
	session string
	token   string
	accept  string
}

func (r *rig) http(token string) *browser {
	r.Helper()
	b := &browser{r: r, token: token, accept: "application/json, text/event-stream"}
	_, h, got := b.post(`{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"t","version":"1"}}}`)
	b.session = h.Get("Mcp-Session-Id")
	if b.session == "" {
		r.Fatalf("no session: %s", got)
	}
	if status, _, _ := b.post(`{"jsonrpc":"2.0","method":"notifications/initialized"}`); status != http.StatusAccepted {
		r.Errorf("a notification got %d", status)
	}
	return b
}

func (b *browser) do(method, body string, more ...string) *http.Response {
	b.r.Helper()
	q, err := http.NewRequestWithContext(b.r.Context(), method, b.r.web.URL+"/mcp/far", strings.NewReader(body))
	if err != nil {
		b.r.Fatal(err)
	}
	q.Header.Set("Accept", b.accept)
	if b.session != "" {
		q.Header.Set("Mcp-Session-Id", b.session)
	}
	if b.token != "" {
		q.Header.Set("Authorization", b.token)
	}
	for i := 0; i < len(more); i += 2 {
		q.Header.Set(more[i], more[i+1])
	}
	resp, err := b.r.web.Client().Do(q)
	if err != nil {
		b.r.Fatal(err)
	}
	return resp
}

// post returns the last message of the answer.
func (b *browser) post(body string, more ...string) (int, http.Header, string) {
	b.r.Helper()
	resp := b.do(http.MethodPost, body, more...)
	defer resp.Body.Close()
	all, err := io.ReadAll(resp.Body)
	if err != nil {
		b.r.Fatal(err)
	}
	if strings.HasPrefix(resp.Header.Get("Content-Type"), "text/event-stream") {
		events := eventsOf(all)
		return resp.StatusCode, resp.Header, events[len(events)-1]
	}
	return resp.StatusCode, resp.Header, string(all)
}

func eventsOf(raw []byte) (out []string) {
	for l := range bytes.SplitSeq(raw, []byte("\n")) {
		if d, ok := bytes.CutPrefix(l, []byte("data: ")); ok && len(d) > 0 {
			out = append(out, string(d))
		}
	}
	return out
}

func (b *browser) call(id, tool, args string) string {
	b.r.Helper()
	_, _, got := b.post(`{"jsonrpc":"2.0","id":` + id + `,"method":"tools/call","params":` + params(tool, args) + `}`)
	return got
}

// BR-080: parallel calls with one JSON-RPC id, on two sessions and on one, get their own answers.
func TestBR080EqualIDs(t *testing.T) {
	for _, far := range []string{"stdio", "http"} {
		t.Run(far, func(t *testing.T) {
			r := newRig(t, far)
			one, two := r.http("Bearer one"), r.http("Bearer two")
			var all sync.WaitGroup
			for _, x := range []struct {
				b          *browser
				id, n, ms  string
				tool, want string
			}{
				{one, "1", "A", "300", "write", "done A"}, {one, "1", "B", "100", "absent", "done B"}, {one, `"1"`, "C", "200", "write", "done C"},
				{two, "1", "D", "50", "write", "done D"}, {two, "1", "E", "150", "idem", "done E"},
			} {
				all.Go(func() {
					got := x.b.call(x.id, x.tool, `{"n":"`+x.n+`","before":`+x.ms+`}`)
					r.says(got, "result.content.0.text", x.want)
					if gjson.Get(got, "id").Raw != x.id {
						t.Errorf("the id is %s, want %s", gjson.Get(got, "id").Raw, x.id)
					}
				})
			}
			all.Wait()
			r.happened(5)
			if far == "http" {
				r.far.mu.Lock()
				defer r.far.mu.Unlock()
				for _, h := range r.far.seen {
					if s, a := h.Get("Mcp-Session-Id"), h.Get("Authorization"); s == "s1" && a != "Bearer one" || s == "s2" && a != "Bearer two" {
						t.Errorf("session %s with the credential %q", s, a)
					}
				}
			}
		})
	}
}

// What the server asks comes to the client whose call it belongs to, and the answer back, in every combination.
func TestServerAsksTheClient(t *testing.T) {
	for _, far := range []string{"stdio", "http"} {
		t.Run(far, func(t *testing.T) {
			r := newRig(t, far)
			c := r.stdio()
			ch := c.begin("tools/call", params("ask", `{}`))
			ask := r.wait(c.rest)
			r.says(ask, "method", "elicitation/create")
			c.send(`{"jsonrpc":"2.0","id":` + gjson.Get(ask, "id").Raw + `,"result":{"x":1}}`)
			r.says(r.wait(ch), "result.content.0.text", `the client says {"x":1}`)

			b := r.http("")
			resp := b.do(http.MethodPost, `{"jsonrpc":"2.0","id":7,"method":"tools/call","params":`+params("ask", `{}`)+`}`)
			defer resp.Body.Close()
			var seen []byte
			buf := make([]byte, 4096)
			for len(eventsOf(seen)) == 0 {
				n, err := resp.Body.Read(buf)
				if seen = append(seen, buf[:n]...); err != nil {
					t.Fatal(err)
				}
			}
			id := gjson.Get(eventsOf(seen)[0], "id").Raw
			if status, _, _ := b.post(`{"jsonrpc":"2.0","id":` + id + `,"result":{"y":2}}`); status != http.StatusAccepted {
				t.Errorf("the answer got %d", status)
			}
			rest, err := io.ReadAll(resp.Body)
			if err != nil {
				t.Fatal(err)
			}
			events := eventsOf(append(seen, rest...))
			r.says(events[len(events)-1], "id", 7, "result.content.0.text", `the client says {"y":2}`)
		})
	}
}

// A server that restarts or forgets is greeted again, and no write is sent again.
func TestServerRestarts(t *testing.T) {
	r := newRig(t, "stdio")
	c := r.stdio()
	r.says(c.call("write", `{"n":1,"fault":"die_before"}`), "_meta.unknown", true)
	r.says(c.call("read", `{}`), "result.content.0.text", "nothing changed")
	r.says(c.call("write", `{"n":2}`), "result.content.0.text", "done 2")
	r.happened(1)
}

func TestServerForgetsTheSession(t *testing.T) {
	r := newRig(t, "http")
	c := r.stdio()
	r.says(c.call("write", `{"n":1}`), "result.content.0.text", "done 1")
	r.far.forget()
	r.says(c.call("read", `{}`), "result.content.0.text", "nothing changed")
	r.says(c.call("write", `{"n":2}`), "result.content.0.text", "done 2")
	r.far.forget()
	lost := c.call("write", `{"n":3}`)
	r.says(lost, "_meta.code", "session_lost", "_meta.safe_to_retry", "yes", "result.isError", true)
	r.happened(2)
	r.says(c.call("write", `{"n":3}`), "result.content.0.text", "done 3")
	r.happened(3)
}

// HTTP statuses by semantics 3: after the effect most of them are unknown.
func TestHTTPStatus(t *testing.T) {
	r := newRig(t, "http")
	c := r.stdio()
	c.ask("tools/list", `{}`)
	for n, status := range []int{500, 502, 409, 408} {
		r.far.mu.Lock()
		r.far.status = status
		r.far.mu.Unlock()
		args := fmt.Sprintf(`{"n":%d}`, n)
		r.says(c.call("write", args), "_meta.unknown", true)
		r.says(c.call("write", args), "_meta.unknown", true)
	}
	r.happened(4)
	r.far.mu.Lock()
	r.far.status = 401
	r.far.mu.Unlock()
	c.call("write", `{"n":"x"}`)
	if rec := r.intents()[0]; rec.Outcome != ledger.OutcomeFailed {
		t.Errorf("401 is %s", rec.Outcome)
	}
}

// An answer's stream that breaks off is gone on with; the call is not sent again.
func TestAnswerIsResumed(t *testing.T) {
	r := newRig(t, "http")
	c := r.stdio()
	c.ask("tools/list", `{}`)
	r.far.mu.Lock()
	r.far.cutSSE = true
	r.far.mu.Unlock()
	r.says(c.call("write", `{"n":1}`), "result.content.0.text", "done 1")
	r.happened(1)
}

// A proxy that dies in mid-call leaves the call unknown: the next one sends nothing again, whoever asks.
func TestProxyCrash(t *testing.T) {
	r := newRig(t, "stdio")
	c := r.stdio()
	args := `{"n":1,"hold":"/nowhere/at/all"}`
	c.begin("tools/call", params("write", args))
	r.until("the effect", func() bool { b, _ := os.ReadFile(r.effects); return len(b) > 0 })
	r.end()
	r.start()
	again := r.stdio()
	r.says(again.call("write", args), "_meta.unknown", true)
	r.happened(1)
}

// A client whose connection breaks goes on behind the last event that it had.
func TestClientResumes(t *testing.T) {
	r := newRig(t, "stdio")
	b := r.http("")
	answer := filepath.Join(t.TempDir(), "answer")
	resp := b.do(http.MethodPost, `{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"name":"write","arguments":{"n":1,"fault":"progress","hold":"`+answer+`"},"_meta":{"progressToken":"p"}}}`)
	buf := make([]byte, 4096)
	var seen string
	for !strings.Contains(seen, "data: ") {
		n, err := resp.Body.Read(buf)
		if seen += string(buf[:n]); err != nil {
			t.Fatal(err)
		}
	}
	resp.Body.Close()
	if err := os.WriteFile(answer, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	last := strings.TrimSpace(seen[strings.LastIndex(seen, "id: ")+4 : strings.LastIndex(seen, "data: ")])
	got := b.do(http.MethodGet, "", "Last-Event-ID", last)
	defer got.Body.Close()
	all, err := io.ReadAll(got.Body)
	if err != nil {
		t.Fatal(err)
	}
	events := eventsOf(all)
	if len(events) != 1 {
		t.Fatalf("%d events: %s", len(events), all)
	}
	r.says(events[0], "id", 7, "result.content.0.text", "done 1")
	r.happened(1)
}

func TestHTTPClientMistakes(t *testing.T) {
	r := newRig(t, "stdio")
	b := r.http("")
	for _, x := range []struct {
		body   string
		status int
		more   []string
	}{
		{"not json", 400, nil}, {`{"id":1}`, 400, nil}, {`[]`, 400, nil}, {`{"jsonrpc":"2.0","id":{},"method":"ping"}`, 400, nil},
		{`{"jsonrpc":"2.0","id":1,"method":"ping","method":"tools/call"}`, 400, nil},
		{`{"jsonrpc":"2.0","id":1,"method":"x","params":` + strings.Repeat("[", 100) + strings.Repeat("]", 100) + `}`, 400, nil},
		{`{"jsonrpc":"2.0","id":1,"method":"x","params":"` + strings.Repeat("x", 2<<20) + `"}`, 413, nil},
		{`{"jsonrpc":"2.0","id":1,"method":"ping"}`, 404, []string{"Mcp-Session-Id", "another"}},
		{`{"jsonrpc":"2.0","id":1,"method":"ping"}`, 200, nil},
	} {
		if status, _, got := b.post(x.body, x.more...); status != x.status {
			t.Errorf("%.60s: %d, want %d: %s", x.body, status, x.status, got)
		}
	}
	b.accept = "application/json"
	r.says(b.call("1", "read", `{}`), "result.content.0.text", "nothing changed")
	resp := b.do(http.MethodDelete, "")
	resp.Body.Close()
	r.until("the session's end", func() bool {
		status, _, _ := b.post(`{"jsonrpc":"2.0","id":1,"method":"ping"}`)
		return status == http.StatusNotFound
	})
}

// Requests without a session (MCP 2026-07-28) are one caller's own.
func TestModernRequests(t *testing.T) {
	r := newRig(t, "stdio")
	b := &browser{r: r, accept: "application/json, text/event-stream"}
	meta := `"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{}}`
	body := `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"write","arguments":{"n":1},` + meta + `}}`
	_, _, got := b.post(body)
	r.says(got, "result.content.0.text", "done 1")
	_, _, got = b.post(body)
	r.says(got, "_meta.replayed", true)
	r.happened(1)
	status, _, got := b.post(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"write","arguments":{"n":2,"fault":"refused"},` + meta + `}}`)
	if status != http.StatusBadRequest {
		t.Errorf("%d: %s", status, got)
	}
}

// TestNothingIsLeft is about slots, sessions and goroutines (TestMain looks for those).
func TestNothingIsLeft(t *testing.T) {
	n := 10_000
	if testing.Short() {
		n = 500
	}
	r := newRig(t, "stdio")
	c, b := r.stdio(), r.http("")
	c.call("read", `{}`)
	b.call("1", "read", `{}`)
	before := runtime.NumGoroutine()
	for i := range n {
		switch i % 4 {
		case 0:
			b.call("1", "read", `{}`)
		case 1:
			c.call("read", `{}`)
		case 2:
			c.call("fails", `{"n":1,"fault":"plain_error"}`)
		default:
			c.call("write", `{"n":1}`)
		}
	}
	// A goroutine may be on its last instruction when the answer is out; HTTP keeps a handful of connections.
	r.until("as few goroutines as after the first calls", func() bool { return runtime.NumGoroutine() <= before+8 })
	r.until("no body that counts", func() bool { return r.proxy.memory.Used() == 0 })
	r.proxy.mu.Lock()
	flights, sessions := len(r.proxy.flights), r.proxy.sessions
	r.proxy.mu.Unlock()
	if flights != 0 || len(sessions) != 2 {
		t.Errorf("%d flights, %d sessions", flights, len(sessions))
	}
	for _, s := range sessions {
		s.mu.Lock()
		if len(s.pending)+len(s.asks)+len(s.tokens)+len(s.calls)+len(s.tasks) != 0 {
			t.Errorf("left: %d pending, %d asks, %d tokens, %d calls", len(s.pending), len(s.asks), len(s.tokens), len(s.calls))
		}
		if s.web != nil {
			s.web.mu.Lock()
			if len(s.web.streams) > 1+keepStreams {
				t.Errorf("%d streams", len(s.web.streams))
			}
			s.web.mu.Unlock()
		}
		s.mu.Unlock()
	}
	r.happened(1)
}

// Hints that a server changes at run time do not loosen the policy.
func TestHintsDoNotLoosen(t *testing.T) {
	r := newRig(t, "http")
	c := r.stdio()
	c.call("absent", `{"n":1}`)
	r.far.fake.mu.Lock()
	r.far.flipped = true
	r.far.fake.mu.Unlock()
	c.ask("tools/list", `{}`)
	c.call("absent", `{"n":1}`)
	r.happened(1)
}

func TestSessionsAreBounded(t *testing.T) {
	r := newRig(t, "stdio")
	r.proxy.most = 1
	r.http("")
	b := &browser{r: r, accept: "application/json"}
	if status, h, _ := b.post(`{"jsonrpc":"2.0","id":0,"method":"initialize","params":{}}`); status != 503 || h.Get("Retry-After") == "" {
		t.Errorf("%d", status)
	}
	r.proxy.mu.Lock()
	for _, s := range r.proxy.sessions {
		s.mu.Lock()
		s.used = time.Now().Add(-time.Hour)
		s.mu.Unlock()
		if !s.abandoned(time.Minute) {
			t.Error("a session that nobody uses is not abandoned")
		}
	}
	r.proxy.mu.Unlock()
}

// A server that waits for a person on the client's side uses up none of its own time.
func TestQuestionsStopTheClock(t *testing.T) {
	r := newRig(t, "stdio")
	c := r.stdio()
	c.ask("tools/list", `{}`)
	ch := c.begin("tools/call", params("asked", `{"n":1,"fault":"elicit"}`))
	ask := r.wait(c.rest)
	<-time.After(2500 * time.Millisecond) // the call's time-out, and more: whoever answers is slow
	c.send(`{"jsonrpc":"2.0","id":` + gjson.Get(ask, "id").Raw + `,"result":{}}`)
	r.says(r.wait(ch), "result.content.0.text", "done 1", "_meta.unknown", nil)
	r.happened(1)
}

// Once the client has answered, the server has all its time again, however little was left of the interval in which the answer came.
func TestTimeAfterAnAnswer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, c := &session{asks: map[int64]ask{}}, &conn{}
		left := func(want time.Duration) {
			t.Helper()
			if got := s.remaining(c, time.Minute); got != want {
				t.Errorf("%v, want %v", got, want)
			}
		}
		left(0)
		s.asks[1], s.asks[2] = ask{conn: c, id: []byte("7")}, ask{conn: &conn{}, id: []byte("8")}
		left(time.Minute)
		time.Sleep(59 * time.Second)
		s.answerServer(&message{id: []byte("1")}, head{})
		left(time.Minute)
		time.Sleep(time.Second)
		left(59 * time.Second)
		time.Sleep(59 * time.Second)
		left(0)
	})
}

// A progress token that two requests use at once is told apart towards the server, and comes back as each client wrote it.
func TestProgressTokensMeet(t *testing.T) {
	r := newRig(t, "stdio")
	b := r.http("")
	b.call("1", "read", `{}`)
	var all sync.WaitGroup
	for _, n := range []string{"A", "B"} {
		all.Go(func() {
			resp := b.do(http.MethodPost, `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"write","arguments":{"n":"`+n+
				`","fault":"progress","before":100},"_meta":{"progressToken":1}}}`)
			defer resp.Body.Close()
			raw, err := io.ReadAll(resp.Body)
			if err != nil {
				t.Error(err)
				return
			}
			events := eventsOf(raw)
			if len(events) != 2 || gjson.Get(events[0], "params.progressToken").Raw != "1" {
				t.Errorf("%s: %s", n, raw)
				return
			}
			r.says(events[1], "id", 1, "result.content.0.text", "done "+n)
		})
	}
	all.Wait()
	r.happened(2)
}
