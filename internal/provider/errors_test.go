package provider

import (
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/holdfast-ai/holdfast/internal/provider/wire"
)

var update = flag.Bool("update", false, "rewrite the golden files")

var unknownOutcome = Error{Code: "outcome_unknown", Status: 409, Message: `The call "x" <may> have happened. Ask /holdfast/v1/intents.`,
	RequestID: "0198", Meta: map[string]string{"tier": "pro: timeout"}}

// The bytes of every form are golden: clients' behaviour was measured with exactly these (semantics 24).
func TestErrorBytes(t *testing.T) {
	var out strings.Builder
	show := func(title string, b []byte) {
		fmt.Fprintf(&out, "--- %s\n%s\n", title, strings.ReplaceAll(string(b), "\r", "␍"))
	}
	after := wire.NewProgress()
	after.Events, after.CRLF = 7, true
	for _, c := range []struct {
		name string
		call *Call
	}{{"chat", &chatCall}, {"responses", &responsesCall}, {"messages", &messagesCall}, {"gemini sse", &geminiCall}, {"gemini array", &arrayCall}} {
		show(c.name+": body", unknownOutcome.Body(c.call))
		show(c.name+": in a stream, first", unknownOutcome.InStream(c.call, c.call.Format, nil))
		show(c.name+": in a stream, after 7 events with CR LF", unknownOutcome.InStream(c.call, c.call.Format, &after))
		show(c.name+": keep-alive", KeepAlive(c.call, c.call.Format))
	}
	golden := filepath.Join("testdata", "errors.golden")
	if *update {
		if err := os.WriteFile(golden, []byte(out.String()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(golden)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), out.String()); diff != "" {
		t.Errorf("(-golden +written):\n%s", diff)
	}
}

// Wherever an answer was cut, what was committed and our error read as one stream that ended in that error.
func TestErrorAfterAnyCut(t *testing.T) {
	for _, e := range readIndex(t) {
		if !e.supported() {
			continue
		}
		b := readStream(t, e.File)
		if len(b) > 10_000 {
			continue
		}
		call := e.call()
		format := SSE
		if e.Format == "json_array" {
			format = JSONArray
		}
		for cut := 0; cut < len(b); cut += 1 + len(b)/97 {
			s := NewStream(&call, format, Limits{})
			_ = s.Feed(b[:cut])
			p := s.Progress()
			if p.ErrorAt >= 0 || format == JSONArray && p.Ended {
				continue
			}
			whole := append(b[:p.Committed:p.Committed], unknownOutcome.InStream(&call, format, p)...)
			events := p.Events
			end, after := feed(t, NewStream(&call, format, Limits{}), whole, nil)
			if end != Errored || after.ErrorAt != p.Committed || after.Events != events+1 || after.ErrorType != "outcome_unknown" {
				t.Errorf("%s cut at %d: %s, error %q at %d, want it at %d", e.File, cut, end, after.ErrorType, after.ErrorAt, p.Committed)
			}
			if format == JSONArray && !json.Valid(whole) {
				t.Errorf("%s cut at %d is no JSON: %s", e.File, cut, whole)
			}
		}
	}
}

// A keep-alive before the first event, once or often, is no event and no content.
func TestKeepAliveIsNothing(t *testing.T) {
	for _, call := range []*Call{&chatCall, &responsesCall, &messagesCall, &geminiCall, &arrayCall} {
		stream := streamOf(call, 3)
		wantEnd, want := feed(t, NewStream(call, call.Format, Limits{}), stream, nil)
		alive := strings.Repeat(string(KeepAlive(call, call.Format)), 3)
		if alive == "" {
			t.Fatalf("%s has no keep-alive", call.Endpoint)
		}
		end, got := feed(t, NewStream(call, call.Format, Limits{}), append([]byte(alive), stream...), nil)
		if end != wantEnd || got.FirstVisible < want.FirstVisible || got.Finish != want.Finish || got.ErrorAt != -1 {
			t.Errorf("%s: %s, %+v", call.Endpoint, end, got)
		}
		if pings := got.Events - want.Events; call.Wire != Anthropic && pings != 0 || call.Wire == Anthropic && pings != 3 {
			t.Errorf("%s: %d more events", call.Endpoint, pings)
		}
	}
	if KeepAlive(&chatCall, JSON) != nil {
		t.Error("a document has no keep-alive")
	}
}

func TestErrorStatuses(t *testing.T) {
	for status, want := range map[int]string{
		400: "INVALID_ARGUMENT", 401: "UNAUTHENTICATED", 403: "PERMISSION_DENIED", 404: "NOT_FOUND", 409: "ABORTED", 413: "INVALID_ARGUMENT",
		422: "FAILED_PRECONDITION", 429: "RESOURCE_EXHAUSTED", 500: "INTERNAL", 502: "UNAVAILABLE", 503: "UNAVAILABLE", 504: "DEADLINE_EXCEEDED",
	} {
		e := Error{Code: "c", Status: status, Message: "m"}
		var got struct {
			Error struct {
				Code    int
				Status  string
				Details []struct{ Reason, Domain string }
			}
		}
		if err := json.Unmarshal(e.Body(&geminiCall), &got); err != nil {
			t.Fatal(err)
		}
		if got.Error.Code != status || got.Error.Status != want || got.Error.Details[0].Reason != "c" || got.Error.Details[0].Domain != "holdfast" {
			t.Errorf("%d: %+v", status, got.Error)
		}
	}
}

// A stream's own error is overlooked by some client exactly in these forms (test/sdk plays them through each).
func TestOverlooked(t *testing.T) {
	chat := &Call{Wire: OpenAI, Endpoint: wire.Chat}
	responses := &Call{Wire: OpenAI, Endpoint: wire.Responses}
	messages := &Call{Wire: Anthropic, Endpoint: wire.Messages}
	const nested = `{"type":"error","error":{"type":"t","code":"c"},"code":"c"}`
	for _, c := range []struct {
		name   string
		call   *Call
		stream string
		want   bool
	}{
		{"chat", chat, `data: {"error":{"message":"m","code":"c"}}`, false},
		{"chat beside choices", chat, `data: {"choices":[{"index":0,"finish_reason":"error"}],"error":{"code":"c"}}`, true},
		{"chat flat", chat, `data: {"object":"error","message":"m","code":40303}`, true},
		{"chat bare", chat, `{"error":{"message":"m","code":"c"}}`, true},
		{"responses nested", responses, "event: error\ndata: " + nested, false},
		{"responses flat", responses, "event: error\n" + `data: {"type":"error","code":"c","message":"m"}`, true},
		{"responses failed", responses, `data: {"type":"response.failed","response":{"error":{"code":"c"}}}`, true},
		{"responses bare", responses, nested, true},
		{"anthropic", messages, "event: error\ndata: " + nested, false},
		{"anthropic without its event line", messages, "data: " + nested, true},
		{"anthropic bare", messages, nested, true},
		{"gemini", &Call{Wire: Gemini, Endpoint: wire.StreamGenerate}, `data: {"error":{"code":503}}`, true},
		{"gemini bare", &Call{Wire: Gemini, Endpoint: wire.StreamGenerate}, `{"error":{"code":503}}`, true},
	} {
		for _, end := range []string{"\n\n", "\n", ""} {
			s := NewStream(c.call, SSE, Limits{})
			if Overlooked(c.call, SSE, s.Progress()) {
				t.Errorf("%s: overlooked before there is an error", c.name)
			}
			if err := s.Feed([]byte(c.stream + end)); err != nil || s.Close() != Errored {
				t.Errorf("%s: no error: %v", c.name, err)
			}
			if got := Overlooked(c.call, SSE, s.Progress()); got != c.want {
				t.Errorf("%s%q: %v, want %v", c.name, end, got, c.want)
			}
		}
	}
}
