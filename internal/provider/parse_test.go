package provider

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/holdfast-ai/holdfast/internal/provider/wire"
)

func TestParse(t *testing.T) {
	anthropicHeader := http.Header{"Anthropic-Version": {"2023-06-01"}}
	googHeader := http.Header{"X-Goog-Api-Key": {"k"}}
	stream, plain := `{"model":"m","stream":true}`, `{"model":"m","stream":false}`
	for _, test := range []struct {
		in   Request
		want Call
	}{
		{Request{Method: "POST", Path: "/v1/chat/completions", Body: []byte(stream)},
			Call{Wire: OpenAI, Endpoint: wire.Chat, Model: "m", Stream: true, Format: SSE, Known: true}},
		{Request{Method: "POST", Path: "/v1/chat/completions", Body: []byte(plain)},
			Call{Wire: OpenAI, Endpoint: wire.Chat, Model: "m", Format: JSON, Known: true}},
		{Request{Method: "POST", Path: "/v1/responses", Body: []byte(stream)},
			Call{Wire: OpenAI, Endpoint: wire.Responses, Model: "m", Stream: true, Format: SSE, Known: true}},
		{Request{Method: "GET", Path: "/v1/responses/resp_1"},
			Call{Wire: OpenAI, Endpoint: wire.ResponsesGet, Format: JSON, Read: true, Known: true}},
		{Request{Method: "GET", Path: "/v1/responses/resp_1", RawQuery: "stream=true&starting_after=4"},
			Call{Wire: OpenAI, Endpoint: wire.ResponsesGet, Stream: true, Format: SSE, Read: true, Known: true}},
		{Request{Method: "GET", Path: "/v1/responses/resp_1/input_items"}, Call{Wire: OpenAI, Format: Opaque, Read: true}},
		{Request{Method: "POST", Path: "/v1/responses/resp_1/cancel"}, Call{Wire: OpenAI, Format: Opaque}},
		{Request{Method: "POST", Path: "/v1/embeddings", Body: []byte(stream)},
			Call{Wire: OpenAI, Endpoint: wire.Embeddings, Model: "m", Format: JSON, Known: true}},
		{Request{Method: "GET", Path: "/v1/models/gpt-5"}, Call{Wire: OpenAI, Endpoint: wire.Models, Format: JSON, Read: true, Known: true}},
		{Request{Method: "DELETE", Path: "/v1/models/ft"}, Call{Wire: OpenAI, Format: Opaque}},
		{Request{Method: "GET", Path: "/v1/chat/completions"}, Call{Wire: OpenAI, Format: Opaque, Read: true}},
		{Request{Method: "POST", Path: "/v1/audio/speech"}, Call{Wire: OpenAI, Format: Opaque}},
		{Request{Method: "POST", Path: "/openai/deployments/d1/chat/completions", RawQuery: "api-version=x", Body: []byte(`{"stream":true}`)},
			Call{Wire: OpenAI, Endpoint: wire.Chat, Model: "d1", Stream: true, Format: SSE, Known: true}},
		{Request{Method: "POST", Path: "/api/v1/chat/completions", Wire: OpenAI, Body: []byte(plain)},
			Call{Wire: OpenAI, Endpoint: wire.Chat, Model: "m", Format: JSON, Known: true}},
		{Request{Method: "POST", Path: "/v1/messages", Header: anthropicHeader, Body: []byte(stream)},
			Call{Wire: Anthropic, Endpoint: wire.Messages, Model: "m", Stream: true, Format: SSE, Known: true}},
		{Request{Method: "POST", Path: "/v1/messages", Wire: Anthropic, Body: []byte(plain)},
			Call{Wire: Anthropic, Endpoint: wire.Messages, Model: "m", Format: JSON, Known: true}},
		{Request{Method: "POST", Path: "/v1/messages/count_tokens", Header: anthropicHeader, Body: []byte(plain)},
			Call{Wire: Anthropic, Endpoint: wire.CountTokens, Model: "m", Format: JSON, Read: true, Known: true}},
		{Request{Method: "GET", Path: "/v1/models", Header: anthropicHeader},
			Call{Wire: Anthropic, Endpoint: wire.Models, Format: JSON, Read: true, Known: true}},
		{Request{Method: "POST", Path: "/v1/messages/batches", Header: anthropicHeader}, Call{Wire: Anthropic, Format: Opaque}},
		{Request{Method: "POST", Path: "/v1beta/models/gemini-2.5-pro:generateContent", Body: []byte(`{"model":"other"}`)},
			Call{Wire: Gemini, Endpoint: wire.Generate, Model: "gemini-2.5-pro", Format: JSON, Known: true}},
		{Request{Method: "POST", Path: "/v1beta/models/gemini-2.5-pro:streamGenerateContent", RawQuery: "alt=sse"},
			Call{Wire: Gemini, Endpoint: wire.StreamGenerate, Model: "gemini-2.5-pro", Stream: true, Format: SSE, Known: true}},
		{Request{Method: "POST", Path: "/v1alpha/models/g%3AstreamGenerateContent", RawQuery: "key=alt&x=sse"},
			Call{Wire: Gemini, Endpoint: wire.StreamGenerate, Model: "g", Stream: true, Format: JSONArray, Known: true}},
		{Request{Method: "POST", Path: "/v1/models/g:countTokens", Header: googHeader},
			Call{Wire: Gemini, Endpoint: wire.GeminiCountToken, Model: "g", Format: JSON, Read: true, Known: true}},
		{Request{Method: "POST", Path: "/v1beta1/projects/p/locations/l/publishers/google/models/g:embedContent"},
			Call{Wire: Gemini, Endpoint: wire.Embed, Model: "g", Format: JSON, Known: true}},
		{Request{Method: "POST", Path: "/v1beta/models/g:predictLongRunning"}, Call{Wire: Gemini, Format: Opaque}},
		{Request{Method: "POST", Path: "/upload/v1beta/files"}, Call{Wire: Gemini, Format: Opaque}},
		{Request{Method: "GET", Path: "/v1beta/models"}, Call{Wire: Gemini, Endpoint: wire.Models, Format: JSON, Read: true, Known: true}},
		{Request{Method: "POST", Path: "/v1/messages"}, Call{Wire: OpenAI, Format: Opaque}},
	} {
		t.Run(test.in.Method+test.in.Path, func(t *testing.T) {
			test.want.Path = test.in.Path
			if diff := cmp.Diff(test.want, Parse(&test.in)); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func TestParseBody(t *testing.T) {
	for body, want := range map[string]string{
		`{"model":"a","model":"b"}`:                                     "b false",
		`{"m\u006fdel":"a","str\u0065am":true}`:                         "a true",
		`{"messages":[{"model":"x","stream":true}],"model":"a"}`:        "a false",
		`{"messages":["\",\"model\":\"x\",\"stream\":true"],"model":1}`: " false",
		`{"stream":"true","model":"\u0061"}`:                            "a false",
		`{"stream":true,"stream":false}`:                                " false",
		`{"model":"a","messages":[`:                                     "a false",
		"\n {\"model\" : \"a\" , \"stream\" :true}":                     "a true",
		`[{"model":"a"}]`:                                               " false",
		``:                                                              " false",
	} {
		c := Parse(&Request{Method: "POST", Path: "/v1/chat/completions", Body: []byte(body)})
		if got := fmt.Sprint(c.Model, " ", c.Stream); got != want {
			t.Errorf("%s: %q, want %q", body, got, want)
		}
	}
}

func TestActs(t *testing.T) {
	for body, want := range map[string]string{
		`{"tools":[{"type":"function"},{"type":"web_search"},{"type":"mcp","server_url":"x"}]}`: "tools[2].type=mcp",
		`{"tools":[{"type":"mcp","require_approval":"always"}]}`:                                "",
		`{"tools":[{"type":"mcp","require_approval":"never"}]}`:                                 "tools[0].type=mcp",
		`{"tools":[{"type":"mcp","require_approval":{"never":{"tool_names":["a"]}}}]}`:          "tools[0].type=mcp",
		`{"tools":[{"type":"mcp","require_approval":"always","require_approval":"never"}]}`:     "tools[0].type=mcp",
		`{"tools":[{"type":"mcp","require_approval":"never","require_approval":"always"}]}`:     "tools[0].type=mcp",
		`{"tools":[{"type":"mcp","connector_id":"connector_gmail"}]}`:                           "tools[0].type=mcp",
		`{"tools":[{"type":"connector"}]}`:                                                      "tools[0].type=connector",
		`{"tools":[{"type":"m\u0063p"}]}`:                                                       "tools[0].type=mcp",
		`{"tools":[{"type":"mcp","type":"function"}],"tools":[]}`:                               "tools[0].type=mcp",
		`{"tools":[{"type":"function","function":{"name":"mcp","parameters":{"type":"mcp"}}}]}`: "",
		`{"mcp_servers":[{"url":"x"}]}`:                                                         "mcp_servers",
		`{"mcp_servers":[]}`:                                                                    "",
		`{"conversation":"conv_1"}`:                                                             "conversation",
		`{"conversation":{"id":"conv_1"}}`:                                                      "conversation",
		`{"conversation":null,"input":"conversation"}`:                                          "",
		`{"tools":[{"mcpServers":[{"name":"x"}]}]}`:                                             "tools[0].mcpServers",
		`{"input":[{"type":"message"},{"type":"additional_tools","tools":[{"type":"mcp"}]}]}`:   "input[1].tools[0].type=mcp",
		`{"input":[{"type":"additional_tools","tools":[{"type":"mcp"}],"tools":[]}]}`:           "input[0].tools[0].type=mcp",
		`{"input":[{"type":"additional_tools","tools":[{"type":"function"}]}]}`:                 "",
		`{"input":[{"type":"mcp_approval_response","approve":true}]}`:                           "input[0].type=mcp_approval_response",
		`{"input":[{"type":"mcp\u005fapproval_response","approve":true,"approve":false}]}`:      "input[0].type=mcp_approval_response",
		`{"input":[{"type":"mcp_approval_response","approve":false}]}`:                          "",
		`{"input":"mcp_approval_response"}`:                                                     "",
		`{"tools":[{"type":"code_interpreter"},{"type":"file_search"},{"googleSearch":{}}]}`:    "",
	} {
		c := Parse(&Request{Method: "POST", Path: "/v1/responses", Body: []byte(body)})
		if c.Acts != want {
			t.Errorf("%s: %q, want %q", body, c.Acts, want)
		}
	}
}

func TestParseAllocates(t *testing.T) {
	body := []byte(`{"model":"gpt-5","messages":[{"role":"user","content":"` + strings.Repeat("x", 8<<10) + `"}],"stream":true}`)
	r := Request{Method: "POST", Path: "/v1/chat/completions", Body: body}
	if n := testing.AllocsPerRun(100, func() { Parse(&r) }); n > 2 {
		t.Errorf("%v allocations", n)
	}
}

func TestFormatOf(t *testing.T) {
	for _, test := range []struct {
		call *Call
		kind string
		want Format
	}{
		{&chatCall, "text/event-stream; charset=utf-8", SSE},
		{&chatCall, "TEXT/EVENT-STREAM", SSE},
		{&chatCall, "application/json", JSON},
		{&chatCall, "application/problem+json", JSON},
		{&chatCall, "text/html", Opaque},
		{&chatCall, "text/event-stream; charset", SSE},
		{&chatCall, "", SSE},
		{&Call{Format: JSON}, "", Opaque},
		{&arrayCall, "application/json; charset=UTF-8", JSONArray},
		{&arrayCall, "text/event-stream", SSE},
	} {
		if got := FormatOf(test.call, test.kind); got != test.want {
			t.Errorf("%s %q: %v, want %v", test.call.Endpoint, test.kind, got, test.want)
		}
	}
}
