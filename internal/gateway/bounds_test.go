package gateway_test

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/holdfast-ai/holdfast/internal/gateway"
	"github.com/holdfast-ai/holdfast/ledger"
)

// rows is how many operations the log has.
func (r *rig) rows() int {
	r.t.Helper()
	list, err := r.store.List(context.Background(), ledger.Filter{Limit: 1000})
	if err != nil {
		r.t.Fatal(err)
	}
	return len(list)
}

// What is refused leaves no row and causes no call, and says in our own headers why.
func TestRefusals(t *testing.T) {
	r := newRig(t)
	for name, c := range map[string]struct {
		q      request
		status int
		code   gateway.Code
	}{
		"empty key":         {chat("x").key(""), 400, gateway.CodeInvalidKey},
		"long key":          {chat("x").key(strings.Repeat("k", 256)), 400, gateway.CodeInvalidKey},
		"unicode key":       {chat("x").key("schlüssel"), 400, gateway.CodeInvalidKey},
		"key with a space":  {chat("x").key("a b"), 400, gateway.CodeInvalidKey},
		"deadline 0":        {chat("x").key("k").with("Holdfast-Deadline-Ms", "0"), 504, gateway.CodeDeadline},
		"deadline -5":       {chat("x").key("k").with("Holdfast-Deadline-Ms", "-5"), 504, gateway.CodeDeadline},
		"deadline abc":      {chat("x").key("k").with("Holdfast-Deadline-Ms", "abc"), 400, gateway.CodeInvalidRequest},
		"deadline 1.5":      {chat("x").key("k").with("Holdfast-Deadline-Ms", "1.5"), 400, gateway.CodeInvalidRequest},
		"deadline empty":    {chat("x").key("k").with("Holdfast-Deadline-Ms", ""), 400, gateway.CodeInvalidRequest},
		"deadline overflow": {chat("x").key("k").with("Holdfast-Deadline-Ms", "99999999999999999999"), 400, gateway.CodeInvalidRequest},
		"workflow":          {chat("x").key("k").workflow("nobody"), 400, gateway.CodeInvalidRequest},
		"long workflow":     {chat("x").key("k").workflow(strings.Repeat("é", 4000)), 400, gateway.CodeInvalidRequest},
		"priority":          {chat("x").key("k").with("Holdfast-Priority", "urgent"), 400, gateway.CodeInvalidRequest},
		"owner":             {chat("x").key("k").with("Holdfast-Owner", strings.Repeat("o", 300)), 400, gateway.CodeInvalidRequest},
		"dots":              {request{path: "/openai/../v1/chat/completions", body: chat("x").body}, 400, gateway.CodeInvalidRequest},
		"encoded dots":      {request{path: "/openai/%2e%2e/%2E./x", body: chat("x").body}, 400, gateway.CodeInvalidRequest},
		"encoded slashes":   {request{path: "/openai/a%2f..%2fb", body: chat("x").body}, 400, gateway.CodeInvalidRequest},
	} {
		a := r.must(c.q, c.status)
		if a.code() != string(c.code) || a.header.Get("Holdfast-Safe-To-Retry") == "" || a.header.Get("X-Should-Retry") != "false" {
			t.Errorf("%s: %v %s", name, a.header, a.body)
		}
		if len(a.body) > 2000 {
			t.Errorf("%s: the refusal has %d bytes", name, len(a.body))
		}
	}
	twice := r.raw("POST /v1/chat/completions HTTP/1.1\r\nHost: localhost\r\nIdempotency-Key: a\r\nIdempotency-Key: b\r\nContent-Length: 2\r\n\r\n{}")
	if !strings.HasPrefix(twice, "HTTP/1.1 400") || !strings.Contains(twice, string(gateway.CodeInvalidKey)) {
		t.Errorf("two keys: %s", twice)
	}
	r.calls("x", 0)
	if n := r.rows(); n != 0 {
		t.Errorf("%d rows of refused requests", n)
	}
	// BR-012: the key of a refused request is free.
	r.must(chat("x").key("k"), 200)
	r.must(chat("x").key("k").with("Holdfast-Deadline-Ms", "1"), 200) // a replay costs no budget
	r.calls("x", 1)
	r.atRest()
}

// raw writes bytes as they are and reads what comes until the gateway is silent or closes.
func (r *rig) raw(text string) string {
	r.t.Helper()
	conn, err := net.Dial("tcp", r.server.Listener.Addr().String())
	if err != nil {
		r.t.Fatal(err)
	}
	defer conn.Close()
	if _, err := io.WriteString(conn, text); err != nil {
		return err.Error()
	}
	resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil {
		return err.Error()
	}
	defer resp.Body.Close()
	body, _ := io.ReadAll(resp.Body)
	return fmt.Sprintf("%s %s\n%v\n%s", resp.Proto, resp.Status, resp.Header, body)
}

// A key on a read means nothing (semantics 1).
func TestKeyOnAReadIsIgnored(t *testing.T) {
	r := newRig(t)
	for _, key := range []string{"", "k", strings.Repeat("k", 300)} {
		r.must(request{method: "GET", path: "/v1/models"}.key(key), 200)
	}
	if n := r.rows(); n != 0 {
		t.Errorf("%d rows", n)
	}
}

func TestBodyBounds(t *testing.T) {
	r := newRig(t, func(c *rigConfig) {
		c.yaml = strings.Replace(c.yaml, "env: test", "env: test\nlimits: {max_request_bytes: 64KiB, body_memory: 1MiB}", 1)
	})
	long := chat("long", `,"user":"`+strings.Repeat("x", 300<<10)+`"`)
	for name, body := range map[string]io.Reader{"sized": strings.NewReader(long.body), "chunked": io.MultiReader(strings.NewReader(long.body))} {
		resp, err := r.client.Post(r.server.URL+long.path, "application/json", body)
		if err != nil {
			t.Errorf("%s: the client does not see its refusal: %v", name, err)
			continue
		}
		if _ = resp.Body.Close(); resp.StatusCode != 413 || resp.Header.Get("Holdfast-Error") != string(gateway.CodeTooLarge) {
			t.Errorf("%s: %d %v", name, resp.StatusCode, resp.Header)
		}
	}
	r.calls("long", 0)
	short := "POST /v1/chat/completions HTTP/1.1\r\nHost: localhost\r\nContent-Length: 50\r\n\r\n{\"model\""
	conn, err := net.Dial("tcp", r.server.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	_, _ = io.WriteString(conn, short)
	_ = conn.(*net.TCPConn).CloseWrite()
	answer, _ := io.ReadAll(conn)
	_ = conn.Close()
	if !strings.Contains(string(answer), " 400 ") {
		t.Errorf("half a body: %s", answer)
	}
	if n := r.rows(); n != 0 {
		t.Errorf("%d rows", n)
	}
	r.atRest()
}

func TestHeaderBounds(t *testing.T) {
	r := newRig(t)
	a := r.do(chat("x").with("X-Long", strings.Repeat("h", 2<<20)))
	if a.err == nil && a.status != http.StatusRequestHeaderFieldsTooLarge {
		t.Errorf("%d", a.status)
	}
	r.calls("x", 0)
	r.must(chat("x"), 200) // the next one is served
}

// Bombs are refused or passed on; they are never unpacked beyond bounds, and identical ones are one operation.
func TestBombs(t *testing.T) {
	r := newRig(t)
	var packed bytes.Buffer
	z := gzip.NewWriter(&packed)
	zeros := bytes.Repeat([]byte(" "), 1<<20)
	for range 300 {
		_, _ = z.Write(zeros)
	}
	_ = z.Close()
	for name, q := range map[string]request{
		"depth":  {path: "/v1/chat/completions", body: `{"model":"m","x":` + strings.Repeat("[", 500_000) + strings.Repeat("]", 500_000) + `}`},
		"open":   {path: "/v1/chat/completions", body: strings.Repeat(`{"a":`, 300_000)},
		"gzip":   {path: "/v1/chat/completions", body: packed.String(), header: map[string]string{"Content-Encoding": "gzip"}},
		"number": {path: "/v1/chat/completions", body: `{"model":"m","n":1` + strings.Repeat("0", 1<<20) + `}`},
		"names":  {path: "/v1/chat/completions", body: `{` + strings.Repeat(`"model":"m",`, 100_000) + `"z":1}`},
	} {
		for range 2 {
			if a := r.do(q.key(name)); a.err != nil || a.status >= 500 {
				t.Errorf("%s: %d %v", name, a.status, a.err)
			}
		}
	}
	r.atRest()
}

// Whatever a model is called, the answer arrives with headers that a client can read.
func TestOddModels(t *testing.T) {
	r := newRig(t)
	for i, model := range []string{`gpt\u0000x`, `a\r\nHoldfast-Error: x`, "模型", `\ud800`, "a b", `"`, strings.Repeat("m", 100_000), "../../etc", "%2e%2e"} {
		model = strings.ReplaceAll(model, `"`, `\"`)
		q := request{path: "/v1/chat/completions", body: `{"model":"` + model + `","messages":[{"role":"user","content":"op=odd"}]}`}
		for range 2 {
			a := r.do(q.key(fmt.Sprint("k", i)))
			if a.err != nil || a.status >= 500 || a.code() == "x" {
				t.Errorf("model %.20q: %d %.200v %s", model, a.status, a.err, tail(a.body))
			}
		}
	}
	for _, model := range []string{"a%2Fb", "m%20x", "%F0%9F%98%80", "m%00", strings.Repeat("m", 5000)} {
		if a := r.do(request{path: "/v1beta/models/" + model + ":generateContent", body: `{"contents":[{"parts":[{"text":"op=odd"}]}]}`}); a.err != nil || a.status >= 500 {
			t.Errorf("model %.20q: %d %v %s", model, a.status, a.err, tail(a.body))
		}
	}
}

// An answer of exactly a block's size is replayed as it was, whatever else the gateway has recorded since.
func TestReplayOfABlock(t *testing.T) {
	r := newRig(t)
	for _, size := range []int{4096, 32768} {
		body := `{"error":{"message":"` + strings.Repeat("e", size-24) + `"}}`
		r.script("block", `{"status":400,"body":`+quoted(body)+`}`)
		key := fmt.Sprint("k", size)
		first := r.must(chat("block").key(key), 400)
		if len(first.body) != size {
			t.Fatalf("%d bytes", len(first.body))
		}
		r.settled(first.header.Get("Holdfast-Intent"))
		r.script("other", `{"size":20000}`, `{"size":20000}`, `{"size":20000}`)
		for range 6 {
			r.must(chat("other"), 200)
		}
		if again := r.must(chat("block").key(key), 400); !bytes.Equal(first.body, again.body) {
			t.Errorf("%d: the replay differs: %q", size, tail(again.body))
		}
	}
}

func quoted(s string) string { return `"` + strings.ReplaceAll(s, `"`, `\"`) + `"` }

func smallAnswers(t *testing.T) *rig {
	return newRig(t, func(c *rigConfig) {
		c.yaml = strings.Replace(c.yaml, "env: test", "env: test\nlimits: {max_response_bytes: 64KiB}", 1)
	})
}

// A generation over max_response_bytes is forwarded whole and its recording dropped; an external one is unknown.
func TestOversizedAnswers(t *testing.T) {
	r := smallAnswers(t)
	for name, q := range map[string]request{"plain": chat("big"), "stream": streamed("big")} {
		r.script("big", `{"size":400000}`)
		a := r.must(q.key(name), 200)
		if len(a.body) < 400_000 || a.err != nil {
			t.Errorf("%s: %d bytes %v", name, len(a.body), a.err)
		}
		if name == "plain" && a.header.Get("Holdfast-Recorded") != "no" {
			t.Errorf("%s: %v", name, a.header)
		}
		if rec := r.settled(a.header.Get("Holdfast-Intent")); rec.Outcome != ledger.OutcomeSuccess || rec.Answer != nil {
			t.Errorf("%s: %+v", name, rec.Status)
		}
		r.script("huge", `{"size":400000}`)
		x := r.do(request{path: q.path, body: strings.ReplaceAll(q.body, "op=big", "op=huge")}.key("x" + name).workflow("external"))
		if rec := r.record(x.header.Get("Holdfast-Intent")); rec.State != ledger.Unknown {
			t.Errorf("external %s: %d, %s", name, x.status, rec.State)
		}
	}
	r.atRest()
}

// A body that broke off is refused: what it would have said is not what it says, and its key stays free.
func TestCutBody(t *testing.T) {
	r := newRig(t)
	whole := chat("cutbody").body
	for name, sent := range map[string]string{
		"chunked": fmt.Sprintf("Transfer-Encoding: chunked\r\n\r\n%x\r\n%s\r\n", len(whole), whole),
		"length":  fmt.Sprintf("Content-Length: %d\r\n\r\n%s", len(whole)+1, whole),
	} {
		conn, err := net.Dial("tcp", r.server.Listener.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		fmt.Fprintf(conn, "POST /v1/chat/completions HTTP/1.1\r\nHost: localhost\r\nIdempotency-Key: k\r\n%s", sent)
		if err := conn.(*net.TCPConn).CloseWrite(); err != nil {
			t.Fatal(err)
		}
		resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
		if err != nil {
			t.Fatal(err)
		}
		resp.Body.Close()
		if resp.StatusCode != 400 || r.rows() != 0 {
			t.Errorf("%s: %d, %d rows", name, resp.StatusCode, r.rows())
		}
	}
	r.must(chat("cutbody").key("k"), 200)
}

// An answer that is broken off ends badly for an HTTP/1.0 client too, whose bodies have no other end than the
// connection's (semantics 24).
func TestCutAnswerOverHTTP10(t *testing.T) {
	r := smallAnswers(t)
	r.script("cut10", `{"size":400000,"cut":{"at":"byte","n":200000,"how":"fin"}}`)
	q := chat("cut10")
	conn, err := net.Dial("tcp", r.server.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	fmt.Fprintf(conn, "POST %s HTTP/1.0\r\nHost: localhost\r\nContent-Length: %d\r\n\r\n%s", q.path, len(q.body), q.body)
	if all, err := io.ReadAll(conn); err == nil {
		t.Errorf("%d bytes, then an orderly end", len(all))
	}
}

// A client that asked for a stream and gets one document gets that document.
func TestStreamAnsweredByADocument(t *testing.T) {
	r := newRig(t)
	doc := `{"id":"x","object":"chat.completion","model":"gpt-5","choices":[{"index":0,"message":{"role":"assistant","content":"hi"},"finish_reason":"stop"}]}`
	r.script("doc", `{"body":`+quoted(doc)+`,"headers":{"Content-Type":"application/json"}}`)
	for range 2 {
		if a := r.must(streamed("doc").key("k"), 200); string(a.body) != doc || a.header.Get("Content-Type") != "application/json" {
			t.Errorf("%v %s", a.header, a.body)
		}
	}
	r.calls("doc", 1)
}

// deadlined notes the write deadlines that an answer sets.
type deadlined struct {
	*httptest.ResponseRecorder
	set      []time.Time
	unbound  int // writes without a deadline ahead
	deadline time.Time
}

func (d *deadlined) SetWriteDeadline(t time.Time) error {
	d.set, d.deadline = append(d.set, t), t
	return nil
}

func (d *deadlined) Write(p []byte) (int, error) {
	if !d.deadline.After(time.Now()) {
		d.unbound++
	}
	return d.ResponseRecorder.Write(p)
}

// No answer waits for ever for a client that does not read, and no deadline of one answer ends the next.
func TestEveryWriteIsBounded(t *testing.T) {
	r := newRig(t)
	for name, q := range map[string]request{"plain": chat("w").key("p"), "stream": streamed("w").key("s"), "replay": chat("w").key("p"), "refusal": chat("w").key(""),
		"read": {method: "GET", path: "/v1/models"}, "passed": {method: "POST", path: "/v1/files", body: "x"}} {
		method := q.method
		if method == "" {
			method = "POST"
		}
		req := httptest.NewRequestWithContext(t.Context(), method, "http://localhost"+q.path, strings.NewReader(q.body))
		for k, v := range q.header {
			req.Header.Set(k, v)
		}
		d := &deadlined{ResponseRecorder: httptest.NewRecorder(), deadline: time.Unix(1, 0)} // as an earlier answer left it
		r.gw.ServeHTTP(d, req)
		if len(d.set) == 0 || !d.set[0].IsZero() {
			t.Errorf("%s: the deadline of the answer before stays: %v", name, d.set)
		}
		if d.unbound > 0 || d.Body.Len() == 0 {
			t.Errorf("%s: %d unbounded writes, %d bytes", name, d.unbound, d.Body.Len())
		}
	}
}

// Five hundred clients that vanish at once leave nothing behind.
func TestClientsThatVanish(t *testing.T) {
	r := newRig(t)
	r.script("vanish", `{"hold":"all"}`)
	ctx, leave := context.WithCancel(t.Context())
	var clients sync.WaitGroup
	for i := range 500 {
		clients.Go(func() {
			q := streamed("vanish").key("one")
			if i%5 == 0 {
				q = chat("vanish", fmt.Sprintf(`,"user":"%d"`, i)).workflow("cancel")
			}
			q.ctx = ctx
			r.do(q)
		})
	}
	wait(t, func() bool { return r.sim.Counts("vanish").Calls > 0 })
	leave()
	clients.Wait()
	r.sim.Release("all")
	wait(t, func() bool { return r.sim.Counts("vanish").InFlight == 0 })
	r.atRest()
	r.must(streamed("vanish").key("one"), 200)
}

// A connection goes on after every kind of refusal that read its body.
func TestKeepAliveAfterRefusals(t *testing.T) {
	r := newRig(t)
	conn, err := net.Dial("tcp", r.server.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	reader := bufio.NewReader(conn)
	send := func(q request) int {
		var b strings.Builder
		fmt.Fprintf(&b, "POST %s HTTP/1.1\r\nHost: localhost\r\nContent-Length: %d\r\n", q.path, len(q.body))
		for k, v := range q.header {
			fmt.Fprintf(&b, "%s: %s\r\n", k, v)
		}
		if _, err := io.WriteString(conn, b.String()+"\r\n"+q.body); err != nil {
			t.Fatal(err)
		}
		resp, err := http.ReadResponse(reader, nil)
		if err != nil {
			t.Fatalf("the connection was lost: %v", err)
		}
		defer resp.Body.Close()
		_, _ = io.Copy(io.Discard, resp.Body)
		return resp.StatusCode
	}
	for _, q := range []request{chat("k").key("a b"), chat("k").key("k"), chat("other").key("k"), chat("k").workflow("nobody"),
		chat("k").with("Holdfast-Deadline-Ms", "0")} {
		send(q)
	}
	if status := send(chat("k").key("k")); status != 200 {
		t.Errorf("%d", status)
	}
	r.calls("k", 1)
}

// A client that never reads holds up neither the provider nor the others, and leaves nothing behind.
func TestReaderThatNeverReads(t *testing.T) {
	r := newRig(t)
	for name, q := range map[string]request{"plain": chat("deaf"), "stream": streamed("deaf")} {
		r.sim.Reset()
		r.script("deaf", `{"size":8000000}`)
		conn, err := net.Dial("tcp", r.server.Listener.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		_, _ = fmt.Fprintf(conn, "POST %s HTTP/1.1\r\nHost: localhost\r\nIdempotency-Key: %s\r\nContent-Length: %d\r\n\r\n%s", q.path, name, len(q.body), q.body)
		wait(t, func() bool { c := r.sim.Counts("deaf"); return c.Calls == 1 && c.InFlight == 0 })
		if a := r.must(q.key(name), 200); len(a.body) < 8_000_000 {
			t.Errorf("%s: another client got %d bytes", name, len(a.body))
		}
		_ = conn.Close()
		r.atRest()
		r.calls("deaf", 1)
	}
}
