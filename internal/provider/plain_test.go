package provider

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/holdfast-ai/holdfast/internal/provider/wire"
)

func TestPlainAnswer(t *testing.T) {
	none := wire.NoUsage()
	whole := `{"id":"c1","model":"m","choices":[{"index":0,"message":{"role":"assistant","content":"hi","tool_calls":[{"function":{"name":"f","arguments":"{}"}}]},"finish_reason":"tool_calls"}],"usage":{"prompt_tokens":3,"completion_tokens":4,"prompt_tokens_details":{"cached_tokens":2}},"error":null}`
	for _, test := range []struct {
		name   string
		call   *Call
		status int
		kind   string
		body   string
		want   Plain
	}{
		{"chat", &chatCall, 200, "application/json", "\n\n" + whole + "\n", Plain{Complete: true, Finish: "tool_calls", ToolStarted: true, ResponseID: "c1", ServedModel: "m", Usage: tokens(3, 4, 2, -1)}},
		{"truncated", &chatCall, 200, "application/json", whole[:len(whole)-1], Plain{Fault: Truncated, ErrorType: "truncated_json", Usage: none}},
		{"empty", &chatCall, 200, "application/json", " \n", Plain{Fault: Empty, ErrorType: "http_200", Usage: none}},
		{"a page", &chatCall, 200, "text/html", "<!doctype html><html></html>", Plain{Fault: NotJSON, ErrorType: "html_200", Usage: none}},
		{"a page called JSON", &chatCall, 200, "application/json", "<html></html>", Plain{Fault: NotJSON, ErrorType: "html_200", Usage: none}},
		{"text", &chatCall, 502, "text/plain", "bad gateway", Plain{Fault: NotJSON, ErrorType: "http_502", Usage: none}},
		{"error under 200", &chatCall, 200, "application/json", `{"error":{"message":"x","code":500}}`, Plain{Fault: IsError, ErrorType: "500", Usage: none}},
		{"error string", &chatCall, 400, "application/json", `{"error":"no"}`, Plain{Fault: IsError, ErrorType: "http_400", Usage: none}},
		{"flat error", &chatCall, 429, "application/json", `{"object":"error","type":"rate_limited","code":"1300"}`, Plain{Fault: IsError, ErrorType: "1300", Usage: none}},
		{"detail", &chatCall, 422, "application/json", `{"detail":[{"msg":"x"}]}`, Plain{Fault: IsError, ErrorType: "http_422", Usage: none}},
		{"not 2xx without an error", &chatCall, 500, "application/json", `{}`, Plain{Fault: IsError, ErrorType: "http_500", Usage: none}},
		{"choice failed", &chatCall, 200, "application/json", `{"choices":[{"error":{"code":502},"finish_reason":"error","message":{"content":"x"}}]}`, Plain{Fault: IsError, ErrorType: "error", Finish: "error", Usage: none}},
		{"response", &responsesCall, 200, "application/json", `{"id":"r","model":"m","status":"completed","error":null,"output":[{"type":"reasoning"},{"type":"mcp_call"}],"usage":{"input_tokens":1,"output_tokens":2,"output_tokens_details":{"reasoning_tokens":1}}}`,
			Plain{Complete: true, Finish: "completed", ToolStarted: true, HostedTool: true, ResponseID: "r", ServedModel: "m", Usage: tokens(1, 2, -1, 1)}},
		{"response failed", &responsesCall, 200, "application/json", `{"id":"r","status":"failed","error":{"code":"rate_limit_exceeded"},"usage":null}`, Plain{Fault: IsError, ErrorType: "rate_limit_exceeded", Finish: "failed", ResponseID: "r", Usage: none}},
		{"response in the background", &responsesCall, 200, "application/json", `{"id":"r","status":"queued","error":null}`, Plain{Complete: true, Finish: "queued", ResponseID: "r", Usage: none}},
		{"embeddings", &Call{Wire: OpenAI, Endpoint: wire.Embeddings}, 200, "application/json", `{"object":"list","data":[],"usage":{"prompt_tokens":5,"total_tokens":5}}`, Plain{Complete: true, Usage: tokens(5, -1, -1, -1)}},
		{"message", &messagesCall, 200, "application/json", `{"type":"message","id":"m1","model":"m","content":[{"type":"text","text":"error"},{"type":"tool_use","name":"f"}],"stop_reason":"tool_use","usage":{"input_tokens":1,"cache_read_input_tokens":0,"output_tokens":2}}`,
			Plain{Complete: true, Finish: "tool_use", ToolStarted: true, ResponseID: "m1", ServedModel: "m", Usage: tokens(1, 2, -1, -1)}},
		{"message error", &messagesCall, 529, "application/json", `{"type":"error","error":{"type":"overloaded_error"}}`, Plain{Fault: IsError, ErrorType: "overloaded_error", Usage: none}},
		{"Gemini", &geminiCall, 200, "application/json", candidate(`{"text":"x"}`, `,"finishReason":"STOP"`), Plain{Complete: true, Finish: "STOP", Usage: tokens(9, 2, -1, -1)}},
		{"Gemini error in an array", &arrayCall, 429, "application/json", `[{"error":{"code":429,"status":"RESOURCE_EXHAUSTED"}}]`, Plain{Fault: IsError, ErrorType: "RESOURCE_EXHAUSTED", Usage: none}},
		{"Gemini error by reason", &geminiCall, 400, "application/json", `{"error":{"code":400,"status":"INVALID_ARGUMENT","details":[{"reason":"API_KEY_INVALID"}]}}`, Plain{Fault: IsError, ErrorType: "API_KEY_INVALID", Usage: none}},
	} {
		t.Run(test.name, func(t *testing.T) {
			if diff := cmp.Diff(test.want, PlainAnswer(test.call, test.status, test.kind, []byte(test.body))); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}
