package translate

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/holdfast-ai/holdfast/internal/sse"
)

// call is a translated request without history, for its answers.
func newCall(t testing.TB, from, to API) *Call {
	t.Helper()
	member := `"stream":true`
	if from == OpenAIChat {
		member += `,"stream_options":{"include_usage":true}`
	}
	c, err := Request(from, to, []byte(plus(from, member)), options(to))
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// The bytes for the client do not depend on how the far side's came.
func TestStreamInPieces(t *testing.T) {
	for _, x := range exchanges(t) {
		if !x.stream {
			continue
		}
		c := newCall(t, x.from, x.to)
		want, wantErr := feed(c, x.answer, len(x.answer))
		for _, n := range []int{1, 2, 3, 7, 64, 1000} {
			got, err := feed(c, x.answer, n)
			if diff := cmp.Diff(want, got); diff != "" || fmt.Sprint(err) != fmt.Sprint(wantErr) {
				t.Errorf("%s from %s in pieces of %d: %v, not %v\n%s", x.dir, x.far, n, err, wantErr, diff)
			}
		}
	}
}

// told is what a client's stream says, as its SDK would put it together.
type told struct {
	Text, Finish string
	Calls        []string // name and arguments
	In, Out      int64
	Error        string
	Ended        bool
}

func listen(t testing.TB, client API, stream string) (all told) {
	t.Helper()
	var p sse.Parser
	err := p.Feed([]byte(stream), func(ev sse.Event) error {
		if string(ev.Data) == "[DONE]" {
			all.Ended = true
			return nil
		}
		if !json.Valid(ev.Data) {
			t.Fatalf("not JSON: %s", ev.Data)
		}
		if client == OpenAIChat {
			all.chunk(value(ev.Data))
		} else {
			all.event(t, string(ev.Name), value(ev.Data))
		}
		return nil
	})
	if err != nil || len(stream) > 0 && !strings.HasSuffix(stream, "\n\n") {
		t.Fatalf("%v in %q", err, stream)
	}
	return all
}

func (a *told) chunk(v value) {
	if e := v.get("error"); e != nil {
		a.Error = e.get("type").text()
	}
	if u := v.get("usage"); u != nil {
		a.In, a.Out = u.get("prompt_tokens").int(), u.get("completion_tokens").int()
	}
	for c := range v.get("choices").items() {
		d := c.get("delta")
		a.Text += d.get("content").text()
		if f := c.get("finish_reason"); f != nil {
			a.Finish = f.text()
		}
		for call := range d.get("tool_calls").items() {
			if name := call.get("function", "name"); name != nil {
				a.Calls = append(a.Calls, name.text()+" ")
			}
			a.Calls[call.get("index").int()] += call.get("function", "arguments").text()
		}
	}
}

func (a *told) event(t testing.TB, name string, v value) {
	t.Helper()
	if name != v.get("type").text() {
		t.Errorf("event %s says that it is %s", name, v.get("type"))
	}
	switch name {
	case "error":
		a.Error = v.get("error", "type").text()
	case "content_block_start":
		if b := v.get("content_block"); b.get("type").text() == "tool_use" {
			a.Calls = append(a.Calls, b.get("name").text()+" ")
		}
	case "content_block_delta":
		a.Text += v.get("delta", "text").text()
		if in := v.get("delta", "partial_json"); in != nil {
			a.Calls[len(a.Calls)-1] += in.text()
		}
	case "message_delta":
		u := v.get("usage")
		a.Finish = v.get("delta", "stop_reason").text()
		a.In = u.get("input_tokens").int() + u.get("cache_read_input_tokens").int() + u.get("cache_creation_input_tokens").int()
		a.Out = u.get("output_tokens").int()
	case "message_stop":
		a.Ended = true
	}
}

// streams are recorded from providers, and made from their rules.
const streams = "../internal/provider/testdata/streams"

// entry is what the list of recorded streams knows of one.
type entry struct {
	File, Ends, Text, Format, API string
	Finish                        string `json:"finish_reason"`
	Usage                         *struct{ Input, Output, Cached, Reasoning int64 }
	Tool                          bool `json:"tool_side_effect_started"`
}

var recorded = map[string]API{"chat.completions": OpenAIChat, "messages": AnthropicMessages, "streamGenerateContent": GeminiGenerate}

// Every recorded stream says to the other APIs' clients what it said to its own.
func TestRecordedStreams(t *testing.T) {
	var list []entry
	if err := json.Unmarshal(read(t, filepath.Join(streams, "index.json")), &list); err != nil {
		t.Fatal(err)
	}
	seen := map[API]int{}
	for _, e := range list {
		to, ok := recorded[e.API]
		if !ok || e.Format != "sse" {
			continue
		}
		seen[to]++
		for _, from := range []API{OpenAIChat, AnthropicMessages} {
			if Can(from, to) {
				t.Run(e.File+" for "+string(from), func(t *testing.T) { e.check(t, newCall(t, from, to)) })
			}
		}
	}
	if seen[OpenAIChat] < 30 || seen[AnthropicMessages] < 15 || seen[GeminiGenerate] < 10 {
		t.Errorf("streams: %v", seen)
	}
}

func (e entry) check(t *testing.T, c *Call) {
	out, err := feed(c, read(t, filepath.Join(streams, e.File)), 4096)
	got := listen(t, c.From, out)
	if got.Text != e.Text {
		t.Errorf("text %.80q, want %.80q", got.Text, e.Text)
	}
	if (len(got.Calls) > 0) != e.Tool {
		t.Errorf("calls %q", got.Calls)
	}
	switch e.Ends {
	case "complete":
		if err != nil || !got.Ended || got.Finish == "" || got.Error != "" {
			t.Fatalf("error %v, ended %v, finish %q", err, got.Ended, got.Finish)
		}
		e.checkUsage(t, c, got)
	case "error":
		if !errors.Is(err, ErrFault) || got.Error == "" || got.Ended {
			t.Errorf("error %v, told %q, ended %v", err, got.Error, got.Ended)
		}
	case "cut":
		if !errors.Is(err, ErrCut) || got.Error != "" || got.Ended {
			t.Errorf("error %v, told %q, ended %v", err, got.Error, got.Ended)
		}
	}
}

// A recorded stream that is cut behind any of its events never sounds like a whole answer, unless it had said why it ends.
func TestRecordedStreamsCutAtEveryEvent(t *testing.T) {
	for name, from := range map[string]API{
		"openai-chat-text-then-tool.sse": AnthropicMessages, "openai-chat-cached-reasoning-usage.sse": AnthropicMessages, "mistral-tool-whole.sse": AnthropicMessages,
		"anthropic-text.sse": OpenAIChat, "anthropic-error-in-tool.sse": OpenAIChat, "gemini-text.sse": OpenAIChat, "gemini-tool.sse": AnthropicMessages,
	} {
		to := map[byte]API{'o': OpenAIChat, 'm': OpenAIChat, 'a': AnthropicMessages, 'g': GeminiGenerate}[name[0]]
		c, stream := newCall(t, from, to), read(t, filepath.Join(streams, name))
		whole, _ := feed(c, stream, len(stream))
		var p sse.Parser
		cuts := []int64{0}
		if err := p.Feed(stream, func(ev sse.Event) error { cuts = append(cuts, ev.End); return nil }); err != nil {
			t.Fatal(err)
		}
		for _, cut := range cuts {
			out, err := feed(c, stream[:cut], 99)
			got := listen(t, from, out)
			said := got.Finish != ""
			if errors.Is(err, ErrCut) == (said || got.Error != "") || got.Ended != (err == nil) || got.Ended != said {
				t.Errorf("%s cut at %d: %v, told %+v", name, cut, err, got)
			}
			if errors.Is(err, ErrCut) && !strings.HasPrefix(whole, out) {
				t.Errorf("%s cut at %d: told %s", name, cut, out)
			}
		}
	}
}

// checkUsage: the numbers in the list are the far side's own. Anthropic's input leaves out what was cached, Gemini's output
// what was thought.
func (e entry) checkUsage(t *testing.T, c *Call, got told) {
	if e.Usage == nil {
		return
	}
	in, out := e.Usage.Input, e.Usage.Output
	if c.To == AnthropicMessages {
		in += e.Usage.Cached
	}
	if c.To == GeminiGenerate {
		out += e.Usage.Reasoning
	}
	if e.File == "anthropic-cache-usage.sse" {
		in += 512 // written to the cache, which the list does not count
	}
	if got.In != in || got.Out != out {
		t.Errorf("usage %d, %d, want %d, %d", got.In, got.Out, in, out)
	}
}

func TestEndOfStream(t *testing.T) {
	c := newCall(t, AnthropicMessages, OpenAIChat)
	e := c.Events()
	if out, err := e.Close(); !errors.Is(err, ErrCut) || len(out) > 0 {
		t.Errorf("%q, %v", out, err)
	}
	if out, err := e.Feed([]byte("data: {}\n\n")); !errors.Is(err, ErrCut) || len(out) > 0 {
		t.Errorf("after the end: %q, %v", out, err)
	}
	if got := string(e.Fail(&Fault{Kind: Overloaded, Message: "later"})); got != "event: error\ndata: {\"type\":\"error\",\"error\":{\"type\":\"overloaded_error\",\"message\":\"later\"}}\n\n" {
		t.Errorf("%s", got)
	}
	// What follows the end says nothing, not even an error.
	e = c.Events()
	stream := `data: {"id":"c","choices":[{"index":0,"delta":{"content":"a"},"finish_reason":"stop"}]}` + "\n\ndata: [DONE]\n\n"
	before, err := e.Feed([]byte(stream))
	if err != nil || !bytes.Contains(before, []byte("message_stop")) {
		t.Fatalf("%s, %v", before, err)
	}
	if out, err := e.Feed([]byte("data: {\"error\":{}}\n\ndata: nonsense\n\n")); err != nil || len(out) > 0 {
		t.Errorf("%q, %v", out, err)
	}
}

// What the client's API has no words for ends the stream; what the far side reports does so with an error in the client's words.
func TestStreamMismatch(t *testing.T) {
	start := `data: {"type":"message_start","message":{"id":"m","model":"x","usage":{}}}` + "\n\n"
	chunk := func(choice string) string { return `data: {"id":"c","choices":[{"index":0,` + choice + `}]}` + "\n\n" }
	for _, m := range []struct {
		from, to API
		stream   string
		want     error
	}{
		{OpenAIChat, AnthropicMessages, start + `data: {"type":"content_block_start","index":0,"content_block":{"type":"server_tool_use","id":"a","name":"b","input":{}}}`, ErrMismatch},
		{OpenAIChat, AnthropicMessages, start + `data: {"type":"content_block_start","index":0,"content_block":{"type":"text","text":""}}` + "\n\n" +
			`data: {"type":"content_block_delta","index":0,"delta":{"type":"citations_delta","citation":{}}}`, ErrMismatch},
		{OpenAIChat, AnthropicMessages, start + `data: {"type":"message_delta","delta":{"stop_reason":"pause_turn"},"usage":{}}`, ErrMismatch},
		{OpenAIChat, AnthropicMessages, start + `data: {"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"a"}}`, ErrMalformed},
		{OpenAIChat, AnthropicMessages, `data: {"type":"content_block_start","index":0,"content_block":{"type":"text","text":""}}`, ErrMalformed},
		{OpenAIChat, AnthropicMessages, `data: [1]`, ErrMalformed},
		{OpenAIChat, AnthropicMessages, `data: <html>`, ErrMalformed},
		{OpenAIChat, GeminiGenerate, `data: {"candidates":[{"content":{"parts":[{"executableCode":{}}]}}]}`, ErrMismatch},
		{OpenAIChat, GeminiGenerate, `data: {"candidates":[{"content":{"parts":[{"inlineData":{}}]}}]}`, ErrMismatch},
		{OpenAIChat, GeminiGenerate, `data: {"candidates":[{"index":1,"content":{"parts":[{"text":"a"}]}}]}`, ErrMismatch},
		{OpenAIChat, GeminiGenerate, `data: {"candidates":[{"finishReason":"MALFORMED_FUNCTION_CALL"}]}`, ErrFault},
		{OpenAIChat, GeminiGenerate, `data: {"candidates":[{"content":{"parts":[{"functionCall":{}}]}}]}`, ErrMismatch},
		{AnthropicMessages, OpenAIChat, chunk(`"delta":{"audio":{"id":"a"}}`), ErrMismatch},
		{AnthropicMessages, OpenAIChat, chunk(`"delta":{"function_call":{"name":"a"}}`), ErrMismatch},
		{AnthropicMessages, OpenAIChat, chunk(`"delta":{},"finish_reason":"function_call"`), ErrMismatch},
		{AnthropicMessages, OpenAIChat, chunk(`"delta":{"content":[{"type":"image"}]}`), ErrMismatch},
		{AnthropicMessages, OpenAIChat, chunk(`"delta":{"tool_calls":[{"index":0,"id":"a","type":"custom"}]}`), ErrMismatch},
		{AnthropicMessages, OpenAIChat, strings.Replace(chunk(`"delta":{"content":"b"}`), `"index":0`, `"index":1`, 1), ErrMismatch},
		{AnthropicMessages, OpenAIChat, chunk(`"delta":{"tool_calls":[{"index":0,"id":"a","function":{"name":"f"}},{"index":1,"id":"b","function":{"name":"f"}},{"index":0,"function":{"arguments":"{}"}}]}`), ErrMismatch},
		{AnthropicMessages, OpenAIChat, chunk(`"delta":{"tool_calls":[{"index":0,"id":"a","function":{"name":"f"}}]}`) + chunk(`"delta":{"content":"b"}`) +
			chunk(`"delta":{"tool_calls":[{"index":0,"function":{"arguments":"{}"}}]}`), ErrMismatch},
	} {
		out, err := feed(newCall(t, m.from, m.to), []byte(m.stream+"\n\n"), 50)
		if !errors.Is(err, m.want) {
			t.Errorf("%s: error %v", m.stream, err)
		}
		if got := listen(t, m.from, out); (got.Error != "") != (m.want == ErrFault) || got.Ended {
			t.Errorf("%s: told %+v", m.stream, got)
		}
	}
}

// A connection that breaks ends no answer, however much of it came; an error that was on its way is told.
func TestBroken(t *testing.T) {
	text := `data: {"responseId":"r","modelVersion":"g","candidates":[{"content":{"parts":[{"text":"a"}]}%s}],"usageMetadata":{"promptTokenCount":7,"candidatesTokenCount":3,"thoughtsTokenCount":2}}` + "\n\n"
	whole := fmt.Sprintf(text, `,"finishReason":"STOP"`)
	report := `{"error":{"code":429,"status":"RESOURCE_EXHAUSTED","message":"later","details":[{"retryDelay":"7s"}]}}`
	for stream, want := range map[string]error{
		"": ErrCut, fmt.Sprintf(text, ""): ErrCut, whole: ErrCut,
		fmt.Sprintf(text, "") + "data: " + report: ErrFault, fmt.Sprintf(text, "") + report + "\n": ErrFault,
	} {
		for name, end := range map[string]func(*Events) ([]byte, error){"broken": (*Events).Broken, "closed": (*Events).Close} {
			e := newCall(t, OpenAIChat, GeminiGenerate).Events()
			out, err := e.Feed([]byte(stream))
			told := string(out)
			if err == nil {
				out, err = end(e)
				told += string(out)
			}
			want := want
			if name == "closed" && stream == whole {
				want = nil
			}
			if got := listen(t, OpenAIChat, told); !errors.Is(err, want) || got.Ended != (want == nil) || (got.Error != "") != (want == ErrFault) {
				t.Errorf("%q %s: %v, told %+v", stream, name, err, got)
			}
			if f := (*Fault)(nil); errors.As(err, &f) && string(f.Data) != report {
				t.Errorf("the far side's document: %s", f.Data)
			}
			if u := e.Usage(); stream != "" && u != (Usage{Known: true, Input: 7, Output: 5, Thought: 2}) {
				t.Errorf("usage %+v", u)
			}
		}
	}
	e := newCall(t, AnthropicMessages, OpenAIChat).Events()
	if _, err := e.Feed([]byte(`data: {"id":"c","choices":[{"index":0,"delta":{"content":"a"},"finish_reason":"stop"}]}` + "\n\ndata: [DONE]\n\n" + `data: {"error":{}}`)); err != nil {
		t.Fatal(err)
	}
	if out, err := e.Broken(); err != nil || len(out) > 0 {
		t.Errorf("behind the answer: %q, %v", out, err)
	}
}

// A refusal of which nothing else was said is known as soon as it is there, whatever becomes of the connection; behind content it ends
// what may have been more.
func TestBrokenRefusal(t *testing.T) {
	for _, c := range []struct {
		from, to            API
		begin, text, refuse string
	}{
		{OpenAIChat, AnthropicMessages, `{"type":"message_start","message":{"id":"m","model":"c","usage":{"input_tokens":1}}}`,
			`{"type":"content_block_start","index":0,"content_block":{"type":"text","text":"a"}}`,
			`{"type":"message_delta","delta":{"stop_reason":"refusal"},"usage":{"output_tokens":1}}`},
		{OpenAIChat, GeminiGenerate, `{"responseId":"r","candidates":[]}`, `{"responseId":"r","candidates":[{"content":{"parts":[{"text":"a"}]}}]}`,
			`{"responseId":"r","candidates":[{"finishReason":"SAFETY"}]}`},
		{OpenAIChat, GeminiGenerate, `{"responseId":"r","candidates":[]}`, `{"responseId":"r","candidates":[{"content":{"parts":[{"text":"a"}]}}]}`,
			`{"responseId":"r","promptFeedback":{"blockReason":"SAFETY"}}`},
		{AnthropicMessages, OpenAIChat, `{"id":"c","choices":[{"index":0,"delta":{"role":"assistant","content":""}}]}`, `{"id":"c","choices":[{"index":0,"delta":{"content":"a"}}]}`,
			`{"id":"c","choices":[{"index":0,"delta":{},"finish_reason":"content_filter"}]}`},
	} {
		for _, content := range []bool{false, true} {
			e := newCall(t, c.from, c.to).Events()
			stream := "data: " + c.begin + "\n\n"
			if content {
				stream += "data: " + c.text + "\n\n"
			}
			out, err := e.Feed([]byte(stream + "data: " + c.refuse + "\n\ndata: {\"half"))
			told := string(out)
			if err != nil {
				t.Fatalf("%s: %v", c.refuse, err)
			}
			out, err = e.Broken()
			got := listen(t, c.from, told+string(out))
			if errors.Is(err, ErrCut) != content || err != nil && !content || got.Ended == content || got.Error != "" {
				t.Errorf("%v %s, content %v: %v, told %+v", c.from, c.refuse, content, err, got)
			}
		}
	}
}

// An event that is too long ends the stream; what is held never exceeds the bound.
func TestEventBound(t *testing.T) {
	opts := options(GeminiGenerate)
	opts.EventBytes = 1 << 10
	c, err := Request(OpenAIChat, GeminiGenerate, []byte(plus(OpenAIChat, `"stream":true`)), opts)
	if err != nil {
		t.Fatal(err)
	}
	e := c.Events()
	_, err = e.Feed([]byte("data: " + strings.Repeat("x", 2<<10)))
	if !errors.Is(err, sse.ErrTooLarge) {
		t.Errorf("error %v", err)
	}
	e = c.Events()
	for range 10_000 {
		if _, err := e.Feed([]byte("no field of an event at all\n")); err != nil {
			t.Fatal(err)
		}
	}
	if len(e.stray) > strayBytes {
		t.Errorf("%d bytes of stray lines", len(e.stray))
	}
}

// Servers that speak OpenAI's shape with an accent: calls without an index or an id, one index for all, arguments as an object.
func TestAccents(t *testing.T) {
	for name, calls := range map[string]string{
		"no index":       `[{"id":"a","function":{"name":"f","arguments":"{}"}},{"id":"b","function":{"name":"g","arguments":"{}"}}]`,
		"one index":      `[{"index":0,"id":"a","function":{"name":"f","arguments":"{}"}},{"index":0,"id":"b","function":{"name":"g","arguments":"{}"}}]`,
		"no id":          `[{"function":{"name":"f","arguments":{}}},{"function":{"name":"g","arguments":{}}}]`,
		"repeated id":    `[{"index":0,"id":"a","function":{"name":"f","arguments":"{"}},{"index":0,"id":"a","function":{"arguments":"}"}},{"index":1,"id":"b","function":{"name":"g","arguments":"{}"}}]`,
		"rest by itself": `[{"id":"a","function":{"name":"f","arguments":"{"}},{"function":{"arguments":"}"}},{"id":"b","function":{"name":"g","arguments":"{}"}}]`,
	} {
		stream := `data: {"id":"c","model":"m","choices":[{"index":0,"delta":{"tool_calls":` + calls + `},"finish_reason":"stop"}]}` + "\n\ndata: [DONE]\n\n"
		out, err := feed(newCall(t, AnthropicMessages, OpenAIChat), []byte(stream), 9)
		got := listen(t, AnthropicMessages, out)
		if want := []string{"f {}", "g {}"}; err != nil || !cmp.Equal(got.Calls, want) || got.Finish != "tool_use" {
			t.Errorf("%s: %q, finish %q, %v", name, got.Calls, got.Finish, err)
		}
	}
}

// An id that OpenAI or Anthropic would refuse in the history is replaced, and always by the same.
func TestIDsOfCalls(t *testing.T) {
	c := newCall(t, AnthropicMessages, OpenAIChat)
	id := func(given string) string {
		out, err := c.Answer([]byte(`{"id":"c","choices":[{"index":0,"message":{"tool_calls":[{"id":"` + given + `","type":"function","function":{"name":"f","arguments":"{}"}}]},"finish_reason":"stop"}]}`))
		if err != nil {
			t.Fatal(err)
		}
		for b := range parse(out).get("content").items() {
			return b.get("id").text()
		}
		return ""
	}
	if got := id("call_abc-1"); got != "call_abc-1" {
		t.Errorf("id %q", got)
	}
	for _, given := range []string{"", "a:b", "chatcmpl-tool-" + strings.Repeat("0", 32)} {
		if got := id(given); !strings.HasPrefix(got, "toolu_") || len(got) != 30 || got != id(given) {
			t.Errorf("id %q became %q", given, got)
		}
	}
}

func BenchmarkStream(b *testing.B) {
	stream, err := os.ReadFile(filepath.Join(streams, "openai-chat-3000-events.sse"))
	if err != nil {
		b.Fatal(err)
	}
	c := newCall(b, AnthropicMessages, OpenAIChat)
	b.SetBytes(int64(len(stream)))
	b.ReportAllocs()
	for b.Loop() {
		if _, err := feed(c, stream, 32<<10); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkRequest(b *testing.B) {
	body := read(b, "testdata/openai/tools/request.json")
	b.SetBytes(int64(len(body)))
	b.ReportAllocs()
	for b.Loop() {
		if _, err := Request(OpenAIChat, AnthropicMessages, body, options(AnthropicMessages)); err != nil {
			b.Fatal(err)
		}
	}
}
