package gateway_test

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/holdfast-ai/holdfast/internal/gateway"
	"github.com/holdfast-ai/holdfast/ledger"
)

// ask returns a streaming request of each wire format.
func ask(wire, op string) request {
	switch wire {
	case "openai-chat":
		return streamed(op)
	case "openai-responses":
		return request{path: "/v1/responses", body: `{"model":"gpt-5","stream":true,"input":"op=` + op + `"}`}
	case "anthropic":
		return request{path: "/v1/messages", header: map[string]string{"Anthropic-Version": "2023-06-01"},
			body: `{"model":"claude-haiku-4-5","max_tokens":100,"stream":true,"messages":[{"role":"user","content":"op=` + op + `"}]}`}
	case "gemini-sse":
		return request{path: "/v1beta/models/gemini-2.5-flash:streamGenerateContent?alt=sse", body: `{"contents":[{"parts":[{"text":"op=` + op + `"}]}]}`}
	}
	return request{path: "/v1beta/models/gemini-2.5-flash:streamGenerateContent", body: `{"contents":[{"parts":[{"text":"op=` + op + `"}]}]}`}
}

var wires = []string{"openai-chat", "openai-responses", "anthropic", "gemini-sse", "gemini-array"}

type streamCase struct {
	File   string   `json:"file"`
	API    string   `json:"api"`
	Format string   `json:"format"`
	Ends   string   `json:"ends"`
	First  int      `json:"first_visible_token_event_index"`
	Tool   bool     `json:"tool_side_effect_started"`
	Reason string   `json:"reasoning_text"`
	Events int      `json:"events"`
	Odd    []string `json:"debatable"`
}

const corpus = "../provider/testdata/streams"

func corpusStreams(t *testing.T) []streamCase {
	t.Helper()
	b, err := os.ReadFile(filepath.Join(corpus, "index.json"))
	if err != nil {
		t.Fatal(err)
	}
	var all []streamCase
	if err := json.Unmarshal(b, &all); err != nil {
		t.Fatal(err)
	}
	return all
}

func wireOf(c streamCase) string {
	switch {
	case c.Format == "json_array":
		return "gemini-array"
	case c.API == "chat.completions":
		return "openai-chat"
	case c.API == "responses":
		return "openai-responses"
	case c.API == "messages":
		return "anthropic"
	case c.API == "streamGenerateContent":
		return "gemini-sse"
	}
	return ""
}

// TestCorpusStreamsPass plays every recorded stream through the gateway. A complete one arrives byte for byte; a
// broken one is a prefix of whole events and one error behind it, or an error in its place when nothing had begun.
func TestCorpusStreamsPass(t *testing.T) {
	r := newRig(t)
	played := 0
	for _, c := range corpusStreams(t) {
		wire := wireOf(c)
		if wire == "" || c.Format != "sse" && c.Format != "json_array" {
			continue
		}
		played++
		want, err := os.ReadFile(filepath.Join(corpus, c.File))
		if err != nil {
			t.Fatal(err)
		}
		op := strings.ReplaceAll(c.File, ".", "_")
		body, _ := json.Marshal(string(want))
		kind := "text/event-stream"
		if c.Format == "json_array" {
			kind = "application/json"
		}
		r.script(op, `{"body":`+string(body)+`,"headers":{"Content-Type":"`+kind+`"}}`)
		a := r.do(ask(wire, op).key(op))
		if a.err != nil {
			t.Errorf("%s: %v", c.File, a.err)
			continue
		}
		switch {
		case c.Ends == "complete":
			if a.status != 200 || !bytes.Equal(a.body, want) && !strings.Contains(c.File, "invalid") {
				t.Errorf("%s: status %d, body differs (%d bytes, want %d)", c.File, a.status, len(a.body), len(want))
			}
		case c.First < 0 && !c.Tool && c.Reason == "":
			if a.status < 400 || !strings.Contains(string(a.body), `"error"`) {
				t.Errorf("%s: a stream that failed before its first content gave %d %s", c.File, a.status, a.body)
			}
		default:
			shared := sharedPrefix(a.body, want)
			if a.status != 200 || !strings.Contains(string(a.body), `"error"`) {
				t.Errorf("%s: status %d, no error in %q", c.File, a.status, tail(a.body))
			}
			if bytes.Contains(want, []byte("\r\n\r\n")) && bytes.Contains(a.body[shared:], []byte("\n\n")) {
				t.Errorf("%s: line ends that are not the stream's: %q", c.File, tail(a.body[shared:]))
			}
			if c.Ends == "cut" && !strings.Contains(string(a.body[shared:]), string(gateway.CodeIncomplete)) {
				t.Errorf("%s: behind the shared prefix: %q", c.File, tail(a.body[shared:]))
			}
		}
		if rec := r.settled(a.header.Get("Holdfast-Intent")); (rec.Outcome == ledger.OutcomeSuccess) != (c.Ends == "complete") {
			t.Errorf("%s: outcome %s", c.File, rec.Outcome)
		}
	}
	if played < 80 {
		t.Errorf("only %d streams played", played)
	}
}

func tail(b []byte) []byte { return b[max(0, len(b)-300):] }

func sharedPrefix(a, b []byte) int {
	n := 0
	for n < len(a) && n < len(b) && a[n] == b[n] {
		n++
	}
	return n
}

// BR-043: after the first content a broken stream ends in one structured error, is not kept as an answer, and is
// called once.
func TestBR043CutStreams(t *testing.T) {
	r := newRig(t)
	for _, wire := range wires {
		for _, fault := range []string{"cut:3", "reset:3", "clean:3"} {
			op := wire + "-" + strings.ReplaceAll(fault, ":", "")
			chunks := `{"fault":"` + fault + `","chunks":6}`
			if wire == "openai-responses" {
				chunks = strings.ReplaceAll(chunks, ":3", ":6")
			}
			if wire == "anthropic" {
				chunks = strings.ReplaceAll(chunks, ":3", ":4")
			}
			r.script(op, chunks)
			a := r.do(ask(wire, op).key(op))
			if a.err != nil || a.status != 200 {
				t.Errorf("%s: %d %v %s", op, a.status, a.err, a.body)
				continue
			}
			if n := strings.Count(string(a.body), string(gateway.CodeIncomplete)); n < 1 {
				t.Errorf("%s: no error event: %q", op, tail(a.body))
			}
			for _, end := range []string{"[DONE]", "message_stop", "response.completed", `"finishReason":"STOP"`} {
				if strings.Contains(string(a.body), end) {
					t.Errorf("%s: an end was made up: %q", op, tail(a.body))
				}
			}
			rec := r.settled(a.header.Get("Holdfast-Intent"))
			if rec.Outcome != ledger.OutcomeFailed || rec.Answer != nil || !rec.Partial {
				t.Errorf("%s: %+v", op, rec.Status)
			}
			if _, err := r.store.Body(context.Background(), rec.ID, ledger.BodyPartial); err != nil {
				t.Errorf("%s: the part that came is not kept as evidence: %v", op, err)
			}
			r.calls(op, 1)
			r.must(ask(wire, op).key(op), 200)
			r.calls(op, 2)
		}
	}
}

func TestStallAfterFirstContentEndsInError(t *testing.T) {
	r := newRig(t)
	r.script("stall", `{"fault":"stall:3","chunks":6}`)
	a := r.must(streamed("stall").workflow("quick"), 200)
	if !strings.Contains(string(a.body), string(gateway.CodeDeadline)) {
		t.Errorf("%q", tail(a.body))
	}
}

func TestSlowFirstTokenIsDeadline(t *testing.T) {
	r := newRig(t)
	for _, q := range []request{streamed("slow"), chat("slow")} {
		r.script("slow", "hang")
		a := r.must(q.workflow("quick").key("k"+q.body[len(q.body)-6 : len(q.body)-2][:1]), 504)
		if a.code() != string(gateway.CodeDeadline) || a.header.Get("X-Should-Retry") != "false" || a.header.Get("Holdfast-Safe-To-Retry") != "yes" {
			t.Errorf("%v", a.header)
		}
		r.settled(a.header.Get("Holdfast-Intent"))
	}
}

// The lead-in of a stream that never gets to its content is never shown.
func TestLeadInIsHeld(t *testing.T) {
	r := newRig(t)
	r.script("lead", `{"fault":"stall:1","chunks":3}`, "ok")
	a := r.do(streamed("lead").workflow("quick").key("k"))
	if a.status != 504 || strings.Contains(string(a.body), "chat.completion.chunk") {
		t.Errorf("%d %s", a.status, a.body)
	}
}

// BR-045: an error event before any content is the provider's error with its own status; behind content it
// passes unchanged.
func TestBR045ErrorEvents(t *testing.T) {
	r := newRig(t)
	r.script("first", `{"fault":"error:1","error":"overloaded_error","message":"Overloaded"}`)
	a := r.do(ask("anthropic", "first").key("k1"))
	if a.status != 529 || !strings.Contains(string(a.body), "overloaded_error") || a.header.Get("Content-Type") != "application/json" {
		t.Errorf("%d %v %s", a.status, a.header, a.body)
	}
	if rec := r.settled(a.header.Get("Holdfast-Intent")); rec.LastError != "overloaded_error" {
		t.Errorf("last error %q", rec.LastError)
	}
	r.script("mid", `{"fault":"error:4","error":"overloaded_error","message":"Overloaded","chunks":6}`)
	a = r.must(ask("anthropic", "mid").key("k2"), 200)
	if !strings.Contains(string(a.body), "overloaded_error") || strings.Contains(string(a.body), "message_stop") {
		t.Errorf("%s", tail(a.body))
	}
}

// BR-047: the parser is chosen by the answer, not by the request.
func TestBR047AnswersToStreamRequests(t *testing.T) {
	r := newRig(t)
	for _, status := range []string{"400", "429", "500"} {
		r.script("s"+status, status)
		a := r.do(streamed("s" + status))
		if a.header.Get("Content-Type") != "application/json" || !json.Valid(a.body) || !strings.Contains(string(a.body), `"error"`) {
			t.Errorf("%s: %d %v %s", status, a.status, a.header, a.body)
		}
	}
	r.script("html", `{"body":"<html><body>sign in</body></html>","headers":{"Content-Type":"text/html"}}`)
	if a := r.do(streamed("html")); a.status != 502 || a.code() != string(gateway.CodeIncomplete) {
		t.Errorf("html: %d %s", a.status, a.body)
	}
}

func TestPlainFaults(t *testing.T) {
	r := newRig(t)
	for fault, code := range map[string]gateway.Code{
		"cut_byte:40": gateway.CodeIncomplete, "reset_byte:40": gateway.CodeIncomplete, "reply_lost": gateway.CodeAllTiersFailed,
		`{"body":""}`: gateway.CodeIncomplete, `{"body":"{\"id\":\"x\",\"choi","headers":{"Content-Type":"application/json"}}`: gateway.CodeIncomplete,
	} {
		r.script("fault", fault)
		a := r.do(chat("fault").key("k"))
		if a.status != 502 || a.code() != string(code) {
			t.Errorf("%s: %d %s %s", fault, a.status, a.code(), a.body)
		}
		r.settled(a.header.Get("Holdfast-Intent"))
	}
	r.must(chat("fault").key("k"), 200)
}

// An attached client gets the stream from its first byte, while it runs.
func TestAttachFromTheFirstByte(t *testing.T) {
	r := newRig(t)
	r.script("attach", `{"chunks":8,"hold":"half","hold_at":"event","hold_n":4}`)
	first, err := r.open(streamed("attach").key("k"))
	if err != nil {
		t.Fatal(err)
	}
	defer first.Body.Close()
	if err := r.sim.WaitHeld(t.Context(), "half", 1); err != nil {
		t.Fatal(err)
	}
	second, err := r.open(streamed("attach").key("k"))
	if err != nil {
		t.Fatal(err)
	}
	defer second.Body.Close()
	head := make([]byte, 200)
	if _, err := io.ReadFull(second.Body, head); err != nil {
		t.Fatalf("the attached client gets nothing while the stream runs: %v", err)
	}
	r.sim.Release("half")
	rest, err := io.ReadAll(second.Body)
	if err != nil {
		t.Fatal(err)
	}
	whole, err := io.ReadAll(first.Body)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(append(head, rest...), whole) {
		t.Errorf("the attached client's bytes differ")
	}
	if second.Header.Get("Idempotency-Replayed") != "true" {
		t.Errorf("no marker: %v", second.Header)
	}
	r.calls("attach", 1)
}

// The client leaves, the operation does not: a retry with the key gets the whole answer.
func TestExecutionOutlivesItsClient(t *testing.T) {
	r := newRig(t)
	for name, q := range map[string]request{"plain": chat("outlive"), "stream": streamed("outlive")} {
		r.script("outlive", `{"hold":"go"}`)
		ctx, leave := context.WithCancel(t.Context())
		gone := q.key(name)
		gone.ctx = ctx
		left := make(chan struct{})
		go func() { r.do(gone); close(left) }()
		if err := r.sim.WaitHeld(t.Context(), "go", 1); err != nil {
			t.Fatal(err)
		}
		leave()
		<-left
		back := make(chan *answered)
		go func() { back <- r.do(q.key(name)) }()
		r.sim.Release("go")
		if a := <-back; a.status != 200 || a.header.Get("Idempotency-Replayed") != "true" {
			t.Errorf("%s: %d %v", name, a.status, a.header)
		}
	}
	r.calls("outlive", 2)
}

// BR-051 under on_disconnect: cancel: the upstream sees the close, nothing else is called.
func TestBR051CancelOnDisconnect(t *testing.T) {
	r := newRig(t)
	for name, q := range map[string]request{"plain": chat("cancel"), "stream": streamed("cancel")} {
		r.script("cancel", "hang")
		ctx, leave := context.WithCancel(t.Context())
		gone := q.key(name).workflow("cancel")
		gone.ctx = ctx
		left := make(chan struct{})
		before := r.sim.Counts("cancel")
		go func() { r.do(gone); close(left) }()
		wait(t, func() bool { return r.sim.Counts("cancel").InFlight > 0 })
		leave()
		<-left
		wait(t, func() bool { c := r.sim.Counts("cancel"); return c.InFlight == 0 && c.PeerClosed > before.PeerClosed })
		if c := r.sim.Counts("cancel"); c.Calls != before.Calls+1 {
			t.Errorf("%s: %d calls", name, c.Calls)
		}
	}
}

// BR-053: after the first content of one answer nothing of another follows: no retry, no other tier.
func TestBR053NoSecondAnswerBehindTheFirst(t *testing.T) {
	r := newRig(t, func(c *rigConfig) {
		c.yaml = strings.Replace(c.yaml, "  default: {retry: {max_attempts: 1}}", "  default: {tiers: [{name: a, provider: openai}, {name: b, provider: openai, model: gpt-5-mini}]}", 1)
	})
	r.script("join", `{"fault":"reset:3","chunks":6}`)
	a := r.must(streamed("join").key("k"), 200)
	if n := strings.Count(string(a.body), string(gateway.CodeIncomplete)); n != 1 || strings.Contains(string(a.body), "#2") {
		t.Errorf("%d errors in %q", n, a.body)
	}
	if rec := r.settled(a.header.Get("Holdfast-Intent")); !rec.Partial || rec.Visibility != ledger.VisPartial {
		t.Errorf("%+v", rec.Status)
	}
	r.calls("join", 1)
}
