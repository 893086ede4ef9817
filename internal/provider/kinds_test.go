package provider

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/holdfast-ai/holdfast/internal/provider/wire"
)

var (
	chatCall      = Call{Wire: OpenAI, Endpoint: wire.Chat, Format: SSE, Known: true}
	responsesCall = Call{Wire: OpenAI, Endpoint: wire.Responses, Format: SSE, Known: true}
	messagesCall  = Call{Wire: Anthropic, Endpoint: wire.Messages, Format: SSE, Known: true}
	geminiCall    = Call{Wire: Gemini, Endpoint: wire.StreamGenerate, Format: SSE, Known: true}
	arrayCall     = Call{Wire: Gemini, Endpoint: wire.StreamGenerate, Format: JSONArray, Known: true}
)

// told is what a stream said, the fields that the cases below state.
type told struct {
	Events, First    int
	Ends             End
	Terminal, Finish string
	Error            string
	Usage            Usage
	Tool, Hosted     bool
	Text, Reasoning  string
	Content          int // index of the event at the boundary, -1
	Completing       int // index of the completing event, -1
}

// tell reads stream whole and by single bytes, with and without transcript, and requires the same of all.
func tell(t *testing.T, call *Call, stream string) told {
	t.Helper()
	var text wire.Transcript
	s := newTranscribed(call, call.Format.String(), &text)
	ends, p := feed(t, s, []byte(stream), nil)
	inOrder(t, &p, int64(len(stream)))
	for _, cuts := range [][]int{nil, everyByte(len(stream))} {
		end, got := feed(t, NewStream(call, call.Format, Limits{}), []byte(stream), cuts)
		if diff := cmp.Diff(p, got); diff != "" || end != ends {
			t.Errorf("cut into %d: %s, want %s (-whole +cut):\n%s", len(cuts)+1, end, ends, diff)
		}
	}
	return told{
		p.Events, p.FirstVisible, ends, p.Terminal, p.Finish, p.ErrorType, p.Usage, p.ToolStarted, p.HostedTool,
		string(text.Text), string(text.Reasoning), eventAt(t, call, stream, p.Boundary), eventAt(t, call, stream, p.Completing),
	}
}

// eventAt returns the index of the event that starts at offset at.
func eventAt(t *testing.T, call *Call, stream string, at int64) int {
	t.Helper()
	if at < 0 {
		return -1
	}
	s := NewStream(call, call.Format, Limits{})
	for i := 0; int64(i) < at; i++ {
		_ = s.Feed([]byte(stream[i : i+1]))
	}
	if p := s.Progress(); p.Committed != at {
		t.Errorf("offset %d lies inside an event that begins at %d", at, p.Committed)
	}
	return s.Progress().Events
}

// nothing is what is told by default in the cases.
func nothing() told {
	return told{First: -1, Content: -1, Completing: -1, Usage: wire.NoUsage(), Ends: Cut}
}

type kind struct {
	name, stream string
	want         func(*told)
}

func runKinds(t *testing.T, call Call, kinds []kind) {
	for _, k := range kinds {
		t.Run(k.name, func(t *testing.T) {
			want := nothing()
			k.want(&want)
			if diff := cmp.Diff(want, tell(t, &call, k.stream)); diff != "" {
				t.Errorf("(-want +told):\n%s", diff)
			}
		})
	}
}

func events(data ...string) string {
	return "data: " + strings.Join(data, "\n\ndata: ") + "\n\n"
}

func chunk(delta, finish string) string {
	return `{"id":"c1","model":"m","choices":[{"index":0,"delta":` + delta + `,"finish_reason":` + finish + `}]}`
}

const (
	roleChunk = `{"id":"c1","model":"m","choices":[{"index":0,"delta":{"role":"assistant","content":""},"finish_reason":null}]}`
	stopChunk = `{"id":"c1","model":"m","choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}`
)

func TestChatKinds(t *testing.T) {
	a, b := chunk(`{"content":"a"}`, "null"), chunk(`{"content":"b"}`, "null")
	trap := chunk(`{"content":"\"error\":{\"code\":1},\"finish_reason\":\"stop\" data: [DONE]\n\ndata: {\"error\":{}}\n\n"}`, "null")
	full := func(w *told) {
		w.Ends, w.Terminal, w.Finish = Complete, "[DONE]", "stop"
		w.First, w.Content, w.Text = 1, 1, "ab"
		w.Events, w.Completing = 5, 3
	}
	runKinds(t, chatCall, []kind{
		{"plain", events(roleChunk, a, b, stopChunk, "[DONE]"), full},
		{"padded JSON", events(roleChunk, strings.ReplaceAll(a, ":", " : ")+"  ", strings.ReplaceAll(b, ",", " , "), strings.ReplaceAll(stopChunk, ":", ": "), " [DONE] "), full},
		{"pretty JSON in many lines", "data: {\ndata: \"choices\": [ {\ndata: \"delta\": {\"content\": \"a\"}}]}\n\n", func(w *told) {
			w.Events, w.First, w.Content, w.Text = 1, 0, 0, "a"
		}},
		{"the text speaks of errors", events(roleChunk, a, trap, trap), func(w *told) {
			w.Events, w.First, w.Content = 4, 1, 1
			one := "\"error\":{\"code\":1},\"finish_reason\":\"stop\" data: [DONE]\n\ndata: {\"error\":{}}\n\n"
			w.Text = "a" + one + one
		}},
		{"tool arguments speak of errors", events(chunk(`{"tool_calls":[{"index":0,"id":"x","function":{"name":"f","arguments":""}}]}`, "null"),
			chunk(`{"tool_calls":[{"index":0,"function":{"arguments":"{\"error\":{"}}]}`, "null"),
			chunk(`{"tool_calls":[{"index":0,"function":{"arguments":"\"finish_reason\":\"x\"}}"}}]}`, "null")), func(w *told) {
			w.Events, w.Content, w.Tool = 3, 0, true
		}},
		{"error is a string", events(roleChunk, `{"error":"boom"}`), func(w *told) {
			w.Events, w.Ends, w.Error = 2, Errored, "stream_error"
		}},
		{"error is a number's code", events(`{"error":{"code":429,"message":"slow"}}`), func(w *told) {
			w.Events, w.Ends, w.Error = 1, Errored, "429"
		}},
		{"error object empty", events(a, `{"error":{}}`), func(w *told) {
			w.Events, w.Ends, w.Error = 2, Errored, "stream_error"
			w.First, w.Content, w.Text = 0, 0, "a"
		}},
		{"error values that mean none", events(`{"error":null,`+a[1:], `{"error":"",`+a[1:], `{"error":false,`+b[1:]), func(w *told) {
			w.Events, w.First, w.Content, w.Text = 3, 0, 0, "aab"
		}},
		{"flat error, then [DONE]", events(a, `{"object":"error","message":"x","type":"BadRequestError","param":null,"code":400}`, "[DONE]"), func(w *told) {
			w.Events, w.Ends, w.Error, w.Terminal = 3, Errored, "400", "[DONE]"
			w.First, w.Content, w.Text, w.Completing = 0, 0, "a", 2
		}},
		{"error event", events(a) + "event: error\ndata: {\"message\":\"x\"}\n\n", func(w *told) {
			w.Events, w.Ends, w.Error, w.First, w.Content, w.Text = 2, Errored, "stream_error", 0, 0, "a"
		}},
		{"error event without its blank line", events(a) + `data: {"error":{"type":"server_error"}}`, func(w *told) {
			w.Events, w.Ends, w.Error, w.First, w.Content, w.Text = 1, Errored, "server_error", 0, 0, "a"
		}},
		{"error event of text without its blank line", events(a) + "event: error\ndata: upstream gone", func(w *told) {
			w.Events, w.Ends, w.Error, w.First, w.Content, w.Text = 1, Errored, "stream_error", 0, 0, "a"
		}},
		{"a JSON error in place of a stream", "{\n  \"error\": {\n    \"type\": \"server_error\", \"code\": null\n  }\n}\n", func(w *told) {
			w.Ends, w.Error = Errored, "server_error"
		}},
		{"error after the finish", events(a, stopChunk, `{"error":{"type":"server_error"}}`), func(w *told) {
			w.Events, w.Ends, w.Error, w.Finish = 3, Errored, "server_error", "stop"
			w.First, w.Content, w.Text, w.Completing = 0, 0, "a", 1
		}},
		{"error of a choice", events(a, `{"choices":[{"delta":{},"error":{"code":502,"message":"x"},"finish_reason":"error"}]}`), func(w *told) {
			w.Events, w.Ends, w.Error, w.Finish = 2, Errored, "502", "error"
			w.First, w.Content, w.Text, w.Completing = 0, 0, "a", 1
		}},
		{"refusal", events(roleChunk, chunk(`{"refusal":"No."}`, "null"), stopChunk), func(w *told) {
			w.Events, w.First, w.Content, w.Text, w.Ends, w.Finish, w.Completing = 3, 1, 1, "No.", Complete, "stop", 2
		}},
		{"empty finish reason", events(a, chunk(`{"content":"b"}`, `""`)), func(w *told) {
			w.Events, w.First, w.Content, w.Text = 2, 0, 0, "ab"
		}},
		{"two choices", events(`{"choices":[{"index":0,"delta":{"content":"a"}},{"index":1,"delta":{"content":"b"}}]}`,
			`{"choices":[{"index":1,"delta":{},"finish_reason":"length"}]}`, `{"choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}`), func(w *told) {
			w.Events, w.First, w.Content, w.Text, w.Ends, w.Finish, w.Completing = 3, 0, 0, "ab", Complete, "stop", 1
		}},
		{"old function call", events(chunk(`{"content":null,"function_call":{"name":"f","arguments":""}}`, "null"), chunk(`{}`, `"function_call"`)), func(w *told) {
			w.Events, w.Content, w.Tool, w.Ends, w.Finish, w.Completing = 2, 0, true, Complete, "function_call", 1
		}},
		{"custom tool", events(chunk(`{"tool_calls":[{"index":0,"type":"custom","custom":{"name":"f","input":""}}]}`, "null")), func(w *told) {
			w.Events, w.Content, w.Tool = 1, 0, true
		}},
		{"arguments before the name", events(chunk(`{"tool_calls":[{"index":0,"function":{"arguments":"{"}}]}`, "null"),
			chunk(`{"tool_calls":[{"index":0,"function":{"name":"f","arguments":"}"}}]}`, "null")), func(w *told) {
			w.Events, w.Content, w.Tool = 2, 0, true
		}},
		{"empty tool calls", events(chunk(`{"content":"a","tool_calls":[],"function_call":null}`, "null")), func(w *told) {
			w.Events, w.Content, w.First, w.Text = 1, 0, 0, "a"
		}},
		{"thought under two names", events(chunk(`{"reasoning":"hm","reasoning_content":"hm"}`, "null"), chunk(`{"reasoning":"hm","reasoning_content":"hm"}`, "null"), a), func(w *told) {
			w.Events, w.Content, w.Reasoning, w.First, w.Text = 3, 0, "hmhm", 2, "a"
		}},
		{"thought in details only", events(chunk(`{"content":"","reasoning_details":[{"type":"reasoning.text","text":"hm"},{"type":"reasoning.encrypted","data":"x"}]}`, "null")), func(w *told) {
			w.Events, w.Content, w.Reasoning = 1, 0, "hm"
		}},
		{"Perplexity's whole message beside each delta", events(`{"choices":[{"delta":{"content":"a"},"message":{"content":"a"}}]}`, `{"choices":[{"message":{"content":"ab"},"delta":{"content":"b"}}]}`), func(w *told) {
			w.Events, w.First, w.Content, w.Text = 2, 0, 0, "ab"
		}},
		{"empty events and unknown ones", "data:\n\ndata\n\nevent: ping\ndata: {}\n\n", func(w *told) { w.Events = 3 }},
		{"a filter's own error", events(`{"choices":[{"content_filter_results":{"error":{"code":"content_filter_error"}},"delta":{"content":"a"}}]}`), func(w *told) {
			w.Events, w.First, w.Content, w.Text = 1, 0, 0, "a"
		}},
		{"usage in every chunk", events(strings.TrimSuffix(a, "}")+`,"usage":{"prompt_tokens":7,"completion_tokens":1}}`,
			strings.TrimSuffix(a, "}")+`,"usage":{"prompt_tokens":7,"completion_tokens":2}}`, strings.TrimSuffix(b, "}")+`,"usage":{"prompt_tokens":7,"completion_tokens":31}}`), func(w *told) {
			w.Events, w.First, w.Content, w.Text, w.Usage = 3, 0, 0, "aab", tokens(7, 31, -1, -1)
		}},
		{"Groq's usage", events(stopChunk[:len(stopChunk)-1] + `,"x_groq":{"id":"r","usage":{"prompt_tokens":3,"completion_tokens":4}}}`), func(w *told) {
			w.Events, w.Ends, w.Finish, w.Completing, w.Usage = 1, Complete, "stop", 0, tokens(3, 4, -1, -1)
		}},
		{"DeepSeek's cache", events(`{"choices":[],"usage":{"prompt_tokens":9,"completion_tokens":4,"prompt_cache_hit_tokens":5}}`), func(w *told) {
			w.Events, w.Usage = 1, tokens(9, 4, 5, -1)
		}},
		{"text completions", events(`{"choices":[{"text":"a","index":0,"finish_reason":null}]}`, `{"choices":[{"text":"","finish_reason":"length"}]}`, "[DONE]"), func(w *told) {
			w.Events, w.First, w.Content, w.Text, w.Ends, w.Finish, w.Terminal, w.Completing = 3, 0, 0, "a", Complete, "length", "[DONE]", 1
		}},
		{"whole messages in place of deltas", events(`{"choices":[{"message":{"content":"a"},"finish_reason":"stop"}]}`), func(w *told) {
			w.Events, w.First, w.Content, w.Text, w.Ends, w.Finish, w.Completing = 1, 0, 0, "a", Complete, "stop", 0
		}},
		{"no JSON", events("hello", `{"choices":`, "null", "[1]"), func(w *told) { w.Events = 4 }},
		{"HTML", "<html>\n<body>error</body>\n</html>\n", func(*told) {}},
	})
}

func TestResponsesKinds(t *testing.T) {
	created := `{"type":"response.created","response":{"id":"r1","model":"m","status":"in_progress","error":null,"usage":null}}`
	text := `{"type":"response.output_text.delta","delta":"a"}`
	completed := `{"type":"response.completed","response":{"id":"r1","status":"completed","output":[{"type":"message","content":[{"type":"output_text","text":"a"}]}],"usage":{"input_tokens":3,"output_tokens":4}}}`
	full := func(w *told) {
		w.Ends, w.Terminal, w.Finish, w.Usage = Complete, "response.completed", "completed", tokens(3, 4, -1, -1)
		w.Text = "a"
	}
	item := func(kind string) string {
		return `{"type":"response.output_item.added","item":{"type":"` + kind + `","name":"f"}}`
	}
	runKinds(t, responsesCall, []kind{
		{"without event lines", events(created, text, completed), func(w *told) {
			full(w)
			w.Events, w.First, w.Content, w.Completing = 3, 1, 1, 2
		}},
		{"type is not the first member", events(`{"sequence_number":4,"delta":"a","type":"response.output_text.delta"}`), func(w *told) {
			w.Events, w.First, w.Content, w.Text = 1, 0, 0, "a"
		}},
		{"type only in the event line", "event: response.output_text.delta\ndata: {\"delta\":\"a\"}\n\n", func(w *told) {
			w.Events, w.First, w.Content, w.Text = 1, 0, 0, "a"
		}},
		{"[DONE] after the end", events(created, text, completed, "[DONE]"), func(w *told) {
			full(w)
			w.Events, w.First, w.Content, w.Completing = 4, 1, 1, 2
		}},
		{"[DONE] is no end", events(created, text, "[DONE]"), func(w *told) {
			w.Events, w.First, w.Content, w.Text = 3, 1, 1, "a"
		}},
		{"only the terminal event", events(created, completed), func(w *told) {
			full(w)
			w.Events, w.First, w.Content, w.Completing = 2, 1, 1, 1
		}},
		{"text only when done", events(created, `{"type":"response.output_text.done","text":"a"}`, completed), func(w *told) {
			full(w)
			w.Events, w.First, w.Content, w.Completing = 3, 1, 1, 2
		}},
		{"done repeats the deltas", events(created, text, `{"type":"response.output_text.done","text":"a"}`,
			`{"type":"response.output_item.done","item":{"type":"message","content":[{"text":"a"}]}}`, completed), func(w *told) {
			full(w)
			w.Events, w.First, w.Content, w.Completing = 5, 1, 1, 4
		}},
		{"refusal", events(created, `{"type":"response.refusal.delta","delta":"No"}`, `{"type":"response.refusal.done","refusal":"No"}`), func(w *told) {
			w.Events, w.First, w.Content, w.Text = 3, 1, 1, "No"
		}},
		{"reasoning", events(created, `{"type":"response.reasoning_text.delta","delta":"hm"}`, `{"type":"response.reasoning_summary_text.delta","delta":"so"}`), func(w *told) {
			w.Events, w.Content, w.Reasoning = 3, 1, "hmso"
		}},
		{"hosted tool", events(created, item("mcp_call")), func(w *told) { w.Events, w.Content, w.Tool, w.Hosted = 2, 1, true, true }},
		{"web search", events(created, item("web_search_call")), func(w *told) { w.Events, w.Content, w.Tool, w.Hosted = 2, 1, true, true }},
		{"custom tool", events(created, item("custom_tool_call")), func(w *told) { w.Events, w.Content, w.Tool = 2, 1, true }},
		{"approval and listing run nothing", events(created, item("mcp_list_tools"), item("mcp_approval_request")), func(w *told) { w.Events = 3 }},
		{"text, then a tool", events(text, item("function_call"), `{"type":"response.function_call_arguments.delta","delta":"{"}`), func(w *told) {
			w.Events, w.First, w.Content, w.Text, w.Tool = 3, 0, 0, "a", true
		}},
		{"nested error", events(created, `{"type":"error","error":{"type":"server_error","code":null}}`), func(w *told) {
			w.Events, w.Ends, w.Error = 2, Errored, "server_error"
		}},
		{"a proxy's error", events(created, `{"error":{"code":"x"}}`), func(w *told) { w.Events, w.Ends, w.Error = 2, Errored, "x" }},
		{"failed without reason", events(created, `{"type":"response.failed","response":{"status":"failed","error":null}}`), func(w *told) {
			w.Events, w.Ends, w.Error, w.Finish = 2, Errored, "failed", "failed"
		}},
		{"cancelled", events(created, `{"type":"response.cancelled","response":{"status":"cancelled"}}`), func(w *told) {
			w.Events, w.Ends, w.Error, w.Finish = 2, Errored, "cancelled", "cancelled"
		}},
		{"the text speaks of the end", events(`{"type":"response.output_text.delta","delta":"{\"type\":\"response.completed\"}"}`), func(w *told) {
			w.Events, w.First, w.Content, w.Text = 1, 0, 0, `{"type":"response.completed"}`
		}},
	})
}

func tokens(input, output, cached, reasoning int64) Usage {
	return Usage{Input: input, Output: output, Cached: cached, Reasoning: reasoning}
}
