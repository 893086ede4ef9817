package provider

import "testing"

func named(pairs ...string) (s string) {
	for i := 0; i < len(pairs); i += 2 {
		s += "event: " + pairs[i] + "\ndata: " + pairs[i+1] + "\n\n"
	}
	return s
}

func TestMessagesKinds(t *testing.T) {
	start := []string{"message_start", `{"type":"message_start","message":{"id":"m1","model":"m","usage":{"input_tokens":5,"output_tokens":1}}}`}
	text := []string{"content_block_delta", `{"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"a"}}`}
	end := []string{"message_delta", `{"type":"message_delta","delta":{"stop_reason":"end_turn"},"usage":{"output_tokens":9}}`, "message_stop", `{"type":"message_stop"}`}
	with := func(parts ...[]string) string {
		var all []string
		for _, p := range parts {
			all = append(all, p...)
		}
		return named(all...)
	}
	block := func(b string) []string {
		return []string{"content_block_start", `{"type":"content_block_start","index":0,"content_block":` + b + `}`}
	}
	delta := func(d string) []string {
		return []string{"content_block_delta", `{"type":"content_block_delta","index":0,"delta":` + d + `}`}
	}
	started := tokens(5, 1, -1, -1)
	runKinds(t, messagesCall, []kind{
		{"plain", with(start, text, end), func(w *told) {
			w.Events, w.First, w.Content, w.Text, w.Ends, w.Completing = 4, 1, 1, "a", Complete, 2
			w.Finish, w.Terminal, w.Usage = "end_turn", "message_stop", tokens(5, 9, -1, -1)
		}},
		{"without event lines", events(start[1], text[1], end[1], end[3]), func(w *told) {
			w.Events, w.First, w.Content, w.Text, w.Ends, w.Completing = 4, 1, 1, "a", Complete, 2
			w.Finish, w.Terminal, w.Usage = "end_turn", "message_stop", tokens(5, 9, -1, -1)
		}},
		{"text in the block's start", with(start, block(`{"type":"text","text":"a"}`)), func(w *told) {
			w.Events, w.First, w.Content, w.Text, w.Usage = 2, 1, 1, "a", started
		}},
		{"thinking", with(start, block(`{"type":"thinking","thinking":""}`), delta(`{"type":"signature_delta","signature":"x"}`), delta(`{"type":"thinking_delta","thinking":"hm"}`), text), func(w *told) {
			w.Events, w.Content, w.Reasoning, w.First, w.Text, w.Usage = 5, 3, "hm", 4, "a", started
		}},
		{"redacted thinking", with(start, block(`{"type":"redacted_thinking","data":"x"}`)), func(w *told) { w.Events, w.Content, w.Usage = 2, 1, started }},
		{"tool", with(start, block(`{"type":"tool_use","id":"t","name":"f","input":{}}`), delta(`{"type":"input_json_delta","partial_json":"{\"error\":1"}`)), func(w *told) {
			w.Events, w.Content, w.Tool, w.Usage = 3, 1, true, started
		}},
		{"server tool", with(start, block(`{"type":"server_tool_use","id":"t","name":"web_search"}`)), func(w *told) {
			w.Events, w.Content, w.Tool, w.Hosted, w.Usage = 2, 1, true, true, started
		}},
		{"MCP tool", with(start, block(`{"type":"mcp_tool_use","id":"t","name":"f"}`)), func(w *told) {
			w.Events, w.Content, w.Tool, w.Hosted, w.Usage = 2, 1, true, true, started
		}},
		{"error first", named("error", `{"type":"error","error":{"type":"overloaded_error","message":"x"}}`), func(w *told) {
			w.Events, w.Ends, w.Error = 1, Errored, "overloaded_error"
		}},
		{"error after text", with(start, text) + named("error", `{"type": "error", "error": {"details": null, "type": "api_error"}}`), func(w *told) {
			w.Events, w.Ends, w.Error, w.First, w.Content, w.Text, w.Usage = 3, Errored, "api_error", 1, 1, "a", started
		}},
		{"error's most specific code", named("error", `{"type":"error","error":{"type":"rate_limit_error","details":{"error_code":"enforced_spend_limit_reached"}}}`), func(w *told) {
			w.Events, w.Ends, w.Error = 1, Errored, "enforced_spend_limit_reached"
		}},
		{"error without event line or type", events(`{"error":{"message":"x"}}`), func(w *told) { w.Events, w.Ends, w.Error = 1, Errored, "stream_error" }},
		{"error without its blank line", "event: error\ndata: {\"type\":\"error\",\"error\":{\"type\":\"overloaded_error\"}}\n", func(w *told) {
			w.Ends, w.Error = Errored, "overloaded_error"
		}},
		{"stop without stop reason", with(start, text, end[2:]), func(w *told) {
			w.Events, w.First, w.Content, w.Text, w.Ends, w.Terminal, w.Completing, w.Usage = 3, 1, 1, "a", Complete, "message_stop", 2, started
		}},
		{"message_delta without stop reason", with(start, text, []string{"message_delta", `{"type":"message_delta","delta":{"stop_reason":null},"usage":{"output_tokens":2}}`}), func(w *told) {
			w.Events, w.First, w.Content, w.Text, w.Usage = 3, 1, 1, "a", tokens(5, 2, -1, -1)
		}},
		{"usage restated at the end", with(start, []string{"message_delta", `{"type":"message_delta","delta":{"stop_reason":"max_tokens"},"usage":{"input_tokens":6,"cache_read_input_tokens":2,"output_tokens":9}}`}), func(w *told) {
			w.Events, w.Ends, w.Finish, w.Completing, w.Usage = 2, Complete, "max_tokens", 1, tokens(6, 9, 2, -1)
		}},
		{"pings and unknown events", named("ping", `{"type": "ping"}`, "new_thing", `{"type":"new_thing","error":null}`), func(w *told) { w.Events = 2 }},
	})
}

func candidate(parts, more string) string {
	return `{"candidates":[{"content":{"parts":[` + parts + `],"role":"model"},"index":0` + more + `}],"usageMetadata":{"promptTokenCount":9,"candidatesTokenCount":2}}`
}

func TestGeminiKinds(t *testing.T) {
	a := candidate(`{"text":"a"}`, "")
	b := candidate(`{"text":"b"}`, `,"finishReason":"STOP"`)
	two := tokens(9, 2, -1, -1)
	runKinds(t, geminiCall, []kind{
		{"plain", events(a, a, b), func(w *told) {
			w.Events, w.First, w.Content, w.Text, w.Usage = 3, 0, 0, "aab", two
			w.Ends, w.Finish, w.Terminal, w.Completing = Complete, "STOP", "finishReason", 2
		}},
		{"thought and text in one event", events(candidate(`{"text":"hm","thought":true},{"text":"a","thought":false},{"text":"b"}`, "")), func(w *told) {
			w.Events, w.First, w.Content, w.Text, w.Reasoning, w.Usage = 1, 0, 0, "ab", "hm", two
		}},
		{"usage grows", events(a, `{"candidates":[{"content":{"parts":[{"text":"b"}],"role":"model"},"index":0}],"usageMetadata":{"promptTokenCount":9,"candidatesTokenCount":31,"thoughtsTokenCount":5,"cachedContentTokenCount":4}}`), func(w *told) {
			w.Events, w.First, w.Content, w.Text, w.Usage = 2, 0, 0, "ab", tokens(9, 31, 4, 5)
		}},
		{"blocked", events(`{"promptFeedback":{"blockReason":"OTHER"}}`), func(w *told) {
			w.Events, w.Ends, w.Finish, w.Terminal, w.Completing = 1, Complete, "blocked:OTHER", "promptFeedback", 0
		}},
		{"feedback that blocks nothing", events(`{"promptFeedback":{"safetyRatings":[]}}`), func(w *told) { w.Events = 1 }},
		{"filtered without content", events(a, `{"candidates":[{"finishReason":"SAFETY","index":0}]}`), func(w *told) {
			w.Events, w.First, w.Content, w.Text, w.Usage = 2, 0, 0, "a", two
			w.Ends, w.Finish, w.Terminal, w.Completing = Complete, "SAFETY", "finishReason", 1
		}},
		{"unspecified is no finish", events(candidate(`{"text":"a"}`, `,"finishReason":"FINISH_REASON_UNSPECIFIED"`)), func(w *told) {
			w.Events, w.First, w.Content, w.Text, w.Usage = 1, 0, 0, "a", two
		}},
		{"call", events(candidate(`{"functionCall":{"name":"f","args":{"text":"x","error":{"code":1}}}}`, "")), func(w *told) {
			w.Events, w.Content, w.Tool, w.Usage = 1, 0, true, two
		}},
		{"code runs", events(candidate(`{"executableCode":{"language":"PYTHON","code":"1"}}`, "")), func(w *told) {
			w.Events, w.Content, w.Hosted, w.Usage = 1, 0, true, two
		}},
		{"image", events(candidate(`{"inlineData":{"mimeType":"image/png","data":"eA=="}}`, "")), func(w *told) { w.Events, w.Content, w.Usage = 1, 0, two }},
		{"error with a reason", events(a, `{"error":{"code":429,"status":"RESOURCE_EXHAUSTED","details":[{"@type":"x"},{"reason":"RATE_LIMIT_EXCEEDED"}]}}`), func(w *told) {
			w.Events, w.First, w.Content, w.Text, w.Usage, w.Ends, w.Error = 2, 0, 0, "a", two, Errored, "RATE_LIMIT_EXCEEDED"
		}},
		{"bare error in one line", events(a) + `{"error":{"code":503,"status":"UNAVAILABLE"}}`, func(w *told) {
			w.Events, w.First, w.Content, w.Text, w.Usage, w.Ends, w.Error = 1, 0, 0, "a", two, Errored, "UNAVAILABLE"
		}},
		{"bare error, CRLF, pretty", "{\r\n  \"error\": {\r\n    \"code\": 500\r\n  }\r\n}\r\n", func(w *told) { w.Ends, w.Error = Errored, "500" }},
		{"bare error in an array", "[{\"error\":{\"status\":\"X\"}}]\n", func(w *told) { w.Ends, w.Error = Errored, "X" }},
		{"the text speaks of errors", events(candidate(`{"text":"\"error\":{\"code\":1}, \"finishReason\":\"STOP\""}`, "")), func(w *told) {
			w.Events, w.First, w.Content, w.Usage, w.Text = 1, 0, 0, two, `"error":{"code":1}, "finishReason":"STOP"`
		}},
	})
}

func TestArrayKinds(t *testing.T) {
	a := candidate(`{"text":"a"}`, "")
	b := candidate(`{"text":"b"}`, `,"finishReason":"STOP"`)
	two := tokens(9, 2, -1, -1)
	runKinds(t, arrayCall, []kind{
		{"whole", "[" + a + "\r\n,\r\n" + b + "\r\n]\r\n", func(w *told) {
			w.Events, w.First, w.Content, w.Text, w.Usage = 2, 0, 0, "ab", two
			w.Ends, w.Finish, w.Terminal, w.Completing = Complete, "STOP", "finishReason", 1
		}},
		{"cut before the bracket", "[" + a + ",\n" + b + "\n", func(w *told) {
			w.Events, w.First, w.Content, w.Text, w.Usage, w.Finish, w.Completing = 2, 0, 0, "ab", two, "STOP", 1
		}},
		{"cut in an element", "[" + a + ",\n" + b[:len(b)-9], func(w *told) {
			w.Events, w.First, w.Content, w.Text, w.Usage, w.Completing = 1, 0, 0, "a", two, 0
		}},
		{"closed without a finish reason", "[" + a + "]", func(w *told) {
			w.Events, w.First, w.Content, w.Text, w.Usage, w.Completing = 1, 0, 0, "a", two, 0
		}},
		{"error element", "[" + a + ",\n" + `{"error":{"code":503,"status":"UNAVAILABLE"}}` + "\n]", func(w *told) {
			w.Events, w.First, w.Content, w.Text, w.Usage, w.Completing, w.Ends, w.Error = 2, 0, 0, "a", two, 1, Errored, "UNAVAILABLE"
		}},
		{"error alone", `[{"error":{"code":400,"status":"INVALID_ARGUMENT"}}]`, func(w *told) {
			w.Events, w.Completing, w.Ends, w.Error = 1, 0, Errored, "INVALID_ARGUMENT"
		}},
		{"error in place of the array", `{"error":{"code":500}}`, func(w *told) { w.Events, w.Completing, w.Ends, w.Error = 1, 0, Errored, "500" }},
		{"blocked", `[{"promptFeedback":{"blockReason":"SAFETY"}}]`, func(w *told) {
			w.Events, w.Completing, w.Ends, w.Finish, w.Terminal = 1, 0, Complete, "blocked:SAFETY", "promptFeedback"
		}},
		{"error after the bracket", "[" + a + "]" + `{}{"error":{"code":500}}`, func(w *told) {
			w.Events, w.First, w.Content, w.Text, w.Usage, w.Completing, w.Ends, w.Error = 3, 0, 0, "a", two, 2, Errored, "500"
		}},
		{"empty", "[]", func(*told) {}},
		{"nothing", "", func(*told) {}},
	})
}
