package provider

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// said are the requests that a fixed text can answer.
var said = []struct{ name, path, body string }{
	{"chat", "/v1/chat/completions", `{"model":"m"}`},
	{"chat, two choices", "/v1/chat/completions", `{"model":"m","n":2}`},
	{"chat stream", "/v1/chat/completions", `{"model":"m","stream":true}`},
	{"chat stream with usage", "/v1/chat/completions", `{"model":"m","stream":true,"n":2,"stream_options":{"include_usage":true}}`},
	{"responses", "/v1/responses", `{"model":"m","instructions":"$id %s $text","temperature":0}`},
	{"responses stream", "/v1/responses", `{"model":"m","stream":true,"metadata":{` + "\n" + `"a": "b"}}`},
	{"messages", "/v1/messages", `{"model":"m"}`},
	{"messages stream", "/v1/messages", `{"model":"m","stream":true}`},
	{"gemini", "/v1beta/models/m:generateContent", `{}`},
	{"gemini sse", "/v1beta/models/m:streamGenerateContent?alt=sse", `{}`},
	{"gemini array", "/v1beta/models/m:streamGenerateContent", `{}`},
}

func saidCall(path, body string) *Call {
	path, query, _ := strings.Cut(path, "?")
	wire := OpenAI
	if strings.HasSuffix(path, "messages") {
		wire = Anthropic
	} else if strings.Contains(path, ":") {
		wire = Gemini
	}
	c := Parse(&Request{Method: "POST", Path: path, RawQuery: query, Body: []byte(body), Wire: wire})
	return &c
}

const busy = "We are busy, \"just\" now: 100 %s.\n$id 今 <b> \u2028"

func TestSayBytes(t *testing.T) {
	var out strings.Builder
	for _, c := range said {
		s, ok := Say(saidCall(c.path, c.body), []byte(c.body), busy, "0198-ab", time.Unix(1764500000, 0))
		if !ok {
			t.Fatalf("%s: nothing is said", c.name)
		}
		fmt.Fprintf(&out, "--- %s\n%s\n%s\n", c.name, s.ContentType, strings.ReplaceAll(string(s.Body), "\r", "␍"))
	}
	golden := filepath.Join("testdata", "said.golden")
	if *update {
		if err := os.WriteFile(golden, []byte(out.String()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(golden)
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(string(want), out.String()); d != "" {
		t.Error(d)
	}
}

// TestSayIsWhole reads what is said as what a provider says.
func TestSayIsWhole(t *testing.T) {
	for _, c := range said {
		call := saidCall(c.path, c.body)
		s, _ := Say(call, []byte(c.body), busy, "0198-ab", time.Unix(1764500000, 0))
		if got := FormatOf(call, s.ContentType); got != call.Format {
			t.Errorf("%s: %q is taken for %v", c.name, s.ContentType, got)
		}
		finish, model := "", ""
		if call.Stream {
			stream := NewStream(call, call.Format, Limits{})
			if err := stream.Feed(s.Body); err != nil {
				t.Errorf("%s: %v", c.name, err)
			}
			if end := stream.Close(); end != Complete {
				t.Errorf("%s ends %s", c.name, end)
			}
			finish, model = stream.Progress().Finish, stream.Progress().ServedModel
		} else {
			if !json.Valid(s.Body) {
				t.Errorf("%s is no JSON: %s", c.name, s.Body)
			}
			p := PlainAnswer(call, 200, s.ContentType, s.Body)
			if !p.Complete || p.ToolStarted {
				t.Errorf("%s: %+v", c.name, p)
			}
			finish, model = p.Finish, p.ServedModel
		}
		if !Keepable(call, finish, false, false) || model != SaidBy {
			t.Errorf("%s ends with %q by %q", c.name, finish, model)
		}
		for line := range strings.Lines(string(s.Body)) {
			if data, ok := strings.CutPrefix(strings.TrimSpace(line), "data: "); ok && data != "[DONE]" && !json.Valid([]byte(data)) {
				t.Errorf("%s: an event is no JSON: %s", c.name, data)
			}
		}
	}
}

func TestSayNothing(t *testing.T) {
	for _, c := range [][2]string{
		{"/v1/embeddings", `{}`}, {"/v1/messages/count_tokens", `{}`}, {"/v1/files", `{}`},
		{"/v1/chat/completions", `{"response_format":{"type":"json_object"}}`},
		{"/v1/chat/completions", `{"response_format":{"type":"json_schema","json_schema":{}}}`},
		{"/v1/responses", `{"text":{"format":{"type":"json_schema"}}}`},
		{"/v1/messages", `{"output_config":{"format":{"type":"json_schema"}}}`},
		{"/v1beta/models/m:generateContent", `{"generationConfig":{"responseMimeType":"application/json"}}`},
		{"/v1/chat/completions", `{"tool_choice":"required"}`},
		{"/v1/chat/completions", `{"tool_choice":{"type":"function","function":{"name":"f"}}}`},
		{"/v1/chat/completions", `{"tool_choice":{"type":"allowed_tools","allowed_tools":{"mode":"required"}}}`},
		{"/v1/chat/completions", `{"function_call":{"name":"f"}}`},
		{"/v1/chat/completions", `{"modalities":["text","audio"]}`},
		{"/v1/responses", `{"tool_choice":{"type":"web_search"}}`},
		{"/v1/responses", `{"tool_choice":{"type":"allowed_tools","mode":"required"}}`},
		{"/v1/messages", `{"tool_choice":{"type":"any"}}`},
		{"/v1/messages", `{"tool_choice":{"type":"tool","name":"f"}}`},
		{"/v1beta/models/m:generateContent", `{"toolConfig":{"functionCallingConfig":{"mode":"ANY"}}}`},
		{"/v1beta/models/m:generateContent", `{"tool_config":{"function_calling_config":{"mode":"ANY"}}}`},
		{"/v1beta/models/m:generateContent", `{"generationConfig":{"candidateCount":2}}`},
		{"/v1beta/models/m:generateContent", `{"generation_config":{"response_modalities":["IMAGE"]}}`},
	} {
		if s, ok := Say(saidCall(c[0], c[1]), []byte(c[1]), "x", "1", time.Unix(0, 0)); ok {
			t.Errorf("%s %s: %s", c[0], c[1], s.Body)
		}
	}
	for _, plain := range []string{`{"response_format":{"type":"text"}}`, `{"response_format":null}`, `{"tool_choice":"auto"}`, `{"tool_choice":"none"}`, `{"tool_choice":null}`,
		`{"tool_choice":{"type":"allowed_tools","allowed_tools":{"mode":"auto"}}}`, `{"modalities":["text"]}`, `{"function_call":"auto"}`} {
		if _, ok := Say(saidCall("/v1/chat/completions", plain), []byte(plain), "x", "1", time.Unix(0, 0)); !ok {
			t.Errorf("%s: nothing is said", plain)
		}
	}
}
