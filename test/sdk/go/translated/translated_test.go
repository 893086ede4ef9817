// Package translated holds the golden files of package translate to the official Go clients: they read the answers that are told
// to them, and know every field of the requests that are sent to their providers.
package translated

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/anthropics/anthropic-sdk-go/v2"
	anthropicoption "github.com/anthropics/anthropic-sdk-go/v2/option"
	"github.com/openai/openai-go/v3"
	"github.com/openai/openai-go/v3/option"
	"google.golang.org/genai"
)

const testdata = "../../../../translate/testdata"

// heard is what a client made of an answer.
type heard struct {
	text, finish string
	calls        []string // name and arguments
	in, out      int64
	failed       bool // the client raised an error
}

func files(t *testing.T, pattern string, least int) []string {
	t.Helper()
	found, err := filepath.Glob(filepath.Join(testdata, pattern))
	if err != nil || len(found) < least {
		t.Fatalf("%d files of %s, %v", len(found), pattern, err)
	}
	return found
}

func read(t *testing.T, name string) []byte {
	t.Helper()
	b, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// serve answers every call with the file, and returns its address.
func serve(t *testing.T, name string) string {
	t.Helper()
	body := read(t, name)
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		w.Header().Set("Content-Type", "application/json")
		if strings.HasSuffix(name, ".sse") {
			w.Header().Set("Content-Type", "text/event-stream")
		}
		_, _ = w.Write(body)
	}))
	t.Cleanup(s.Close)
	return s.URL
}

// want is what each golden answer says. A key ends in the far side where the answers differ.
var want = map[string]heard{
	"openai/plain/anthropic":        {text: `Invoice 1042: 19.99 € <paid> \ "ok"`, finish: "stop", in: 2585, out: 15},
	"openai/plain/gemini":           {text: `Invoice 1042: 19.99 € <paid> \ "ok"`, finish: "stop", in: 40, out: 41},
	"openai/stream/anthropic":       {text: "Hi", finish: "stop", in: 2563, out: 4},
	"openai/stream/gemini":          {text: `There are **3** "r"s.`, finish: "stop", in: 9, out: 194},
	"openai/tools/anthropic":        {text: "One more.", finish: "tool_calls", calls: []string{`weather {"city":"Oslo","days":9007199254740993}`, "now {}"}, in: 2585, out: 15},
	"openai/tools/gemini":           {text: "One more.", finish: "tool_calls", calls: []string{`weather {"city":"Oslo","days":9007199254740993}`, "now {}"}, in: 40, out: 41},
	"openai/tools-stream/anthropic": {text: "I'll look.", finish: "tool_calls", calls: []string{`weather {"city": "Oslo"}`, "now {}"}},
	"openai/tools-stream/gemini":    {finish: "tool_calls", calls: []string{`create_invoice {"customer_id":"cus_42","amount_cents":1999}`}},
	"openai/schema/anthropic":       {text: `{"name":"Ada","age":36,"tags":["a"]}`, finish: "stop", in: 2585, out: 15},
	"openai/schema/gemini":          {text: `{"name":"Ada","age":36,"tags":["a"]}`, finish: "stop", in: 40, out: 41},
	"openai/image/anthropic":        {text: "A dot", finish: "length", in: 2585, out: 15},
	"openai/image/gemini":           {text: "A dot", finish: "length", in: 40, out: 41},
	"openai/refusal/anthropic":      {text: "Hi", finish: "content_filter", in: 25, out: 106},
	"openai/refusal/gemini":         {finish: "content_filter", in: 9},
	"openai/error/anthropic":        {calls: []string{`create_invoice {"a":`}, failed: true},
	"openai/error/gemini":           {text: "Once", failed: true},

	"anthropic/plain/openai":         {text: "4 € <b>", finish: "end_turn", in: 2048, out: 410},
	"anthropic/plain/gemini":         {text: "4 € <b>", finish: "end_turn", in: 40, out: 41},
	"anthropic/stream/openai":        {text: "The capital of France is Paris, on the Seine.", finish: "end_turn", in: 2048, out: 410},
	"anthropic/stream/gemini":        {text: "Four", finish: "end_turn", in: 9, out: 61},
	"anthropic/tools/openai":         {text: "One more.", finish: "tool_use", calls: []string{`weather {"city":"Oslo","days":9007199254740993}`, "now {}"}, in: 2048, out: 410},
	"anthropic/tools/gemini":         {text: "One more.", finish: "tool_use", calls: []string{`weather {"city":"Oslo"}`, "now {}"}, in: 40, out: 41},
	"anthropic/tools-stream/openai":  {text: "I'll create it.", finish: "tool_use", calls: []string{`create_invoice {"customer_id":"cus_42","amount_cents":1999}`}, in: 88, out: 30},
	"anthropic/tools-stream/gemini":  {finish: "tool_use", calls: []string{`create_invoice {"customer_id":"cus_42","amount_cents":1999}`}, in: 9, out: 819},
	"anthropic/schema/openai":        {text: `{"name":"Ada","age":36,"tags":["a"]}`, finish: "end_turn", in: 2048, out: 410},
	"anthropic/schema/gemini":        {text: `{"name":"Ada","age":36,"tags":["a"]}`, finish: "end_turn", in: 40, out: 41},
	"anthropic/image/openai":         {text: "A dot", finish: "max_tokens", in: 2048, out: 410},
	"anthropic/image/gemini":         {text: "A dot", finish: "max_tokens", in: 40, out: 41},
	"anthropic/refusal/openai":       {text: "The capital of France is", finish: "refusal"},
	"anthropic/refusal/gemini":       {finish: "refusal", in: 9},
	"anthropic/refusal-plain/openai": {text: "I can't help with that.", finish: "refusal", in: 2048, out: 410},
	"anthropic/refusal-plain/gemini": {finish: "refusal", in: 9},
	"anthropic/error/openai":         {calls: []string{`create_invoice {"customer_id":"cus_42","amount_cents":1999}`}, failed: true},
	"anthropic/error/gemini":         {text: "Once", in: 9, out: 1, failed: true},
}

// The clients read every golden answer, and the requests that they were asked with.
func TestTold(t *testing.T) {
	told := files(t, "*/*/*.told.*", 30)
	if len(told) != len(want) {
		t.Errorf("%d answers, %d expected", len(told), len(want))
	}
	for _, name := range told {
		far, _, _ := strings.Cut(filepath.Base(name), ".")
		dir := filepath.Dir(name)
		client := filepath.Base(filepath.Dir(dir))
		key := client + "/" + filepath.Base(dir) + "/" + far
		t.Run(key, func(t *testing.T) {
			request := read(t, filepath.Join(dir, "request.json"))
			listen := openAI
			if client == "anthropic" {
				listen = claude
			}
			if got := listen(t, serve(t, name), request, strings.HasSuffix(name, ".sse")); !reflect.DeepEqual(got, want[key]) {
				t.Errorf("\n got %+v\nwant %+v", got, want[key])
			}
		})
	}
}

func openAI(t *testing.T, url string, request []byte, stream bool) (h heard) {
	var params openai.ChatCompletionNewParams
	if err := json.Unmarshal(request, &params); err != nil {
		t.Fatal(err)
	}
	c := openai.NewClient(option.WithBaseURL(url), option.WithAPIKey("key"), option.WithMaxRetries(0))
	if !stream {
		answer, err := c.Chat.Completions.New(t.Context(), params)
		if err != nil {
			t.Fatal(err)
		}
		return ofChat(answer)
	}
	events := c.Chat.Completions.NewStreaming(t.Context(), params)
	var all openai.ChatCompletionAccumulator
	for events.Next() {
		if !all.AddChunk(events.Current()) {
			t.Fatalf("the client refuses %s", events.Current().RawJSON())
		}
	}
	h = ofChat(&all.ChatCompletion)
	h.failed = events.Err() != nil
	return h
}

func ofChat(answer *openai.ChatCompletion) (h heard) {
	h.in, h.out = answer.Usage.PromptTokens, answer.Usage.CompletionTokens
	choice := answer.Choices[0]
	h.text, h.finish = choice.Message.Content, choice.FinishReason
	for _, c := range choice.Message.ToolCalls {
		h.calls = append(h.calls, c.Function.Name+" "+c.Function.Arguments)
	}
	return h
}

func claude(t *testing.T, url string, request []byte, stream bool) (h heard) {
	c := anthropic.NewClient(anthropicoption.WithBaseURL(url), anthropicoption.WithAPIKey("key"), anthropicoption.WithMaxRetries(0))
	// The newest client knows no sampling parameters any more: the request is the file, whatever it has types for.
	params, raw := anthropic.MessageNewParams{MaxTokens: 1, Model: "m"}, anthropicoption.WithRequestBody("application/json", request)
	if !stream {
		answer, err := c.Messages.New(t.Context(), params, raw)
		if err != nil {
			t.Fatal(err)
		}
		return ofMessage(answer)
	}
	events := c.Messages.NewStreaming(t.Context(), params, raw)
	var all anthropic.Message
	for events.Next() {
		if err := all.Accumulate(events.Current()); err != nil {
			t.Fatal(err)
		}
	}
	h = ofMessage(&all)
	h.failed = events.Err() != nil
	return h
}

func ofMessage(m *anthropic.Message) (h heard) {
	h.in = m.Usage.InputTokens + m.Usage.CacheReadInputTokens + m.Usage.CacheCreationInputTokens
	h.out, h.finish = m.Usage.OutputTokens, string(m.StopReason)
	for _, b := range m.Content {
		switch b.Type {
		case "text":
			h.text += b.Text
		case "tool_use":
			var input bytes.Buffer
			if json.Compact(&input, b.Input) != nil {
				input.Write(b.Input)
			}
			h.calls = append(h.calls, b.Name+" "+input.String())
		}
	}
	return h
}

// The clients of the far sides know every field of the golden requests: what they read, they write again.
func TestSent(t *testing.T) {
	for _, name := range files(t, "*/*/*.sent.json", 30) {
		body := read(t, name)
		t.Run(strings.TrimPrefix(name, testdata+"/"), func(t *testing.T) {
			var again []byte
			var err error
			switch far, _, _ := strings.Cut(filepath.Base(name), "."); far {
			case "openai":
				var p openai.ChatCompletionNewParams
				again, err = rewritten(&p, body)
			case "anthropic":
				var p anthropic.MessageNewParams
				again, err = rewritten(&p, body)
			default:
				err = known(body)
				again = body
			}
			if err != nil {
				t.Fatal(err)
			}
			if missing := lost("", decode(t, body), decode(t, again)); len(missing) > 0 {
				t.Errorf("the client does not know %q", missing)
			}
		})
	}
}

func rewritten(p any, body []byte) ([]byte, error) {
	if err := json.Unmarshal(body, p); err != nil {
		return nil, err
	}
	return json.Marshal(p)
}

// known reads a request to Gemini strictly: its client has no one type for it.
func known(body []byte) error {
	// Google's own command line sends this signature as it is; the Go client would have its base64.
	body = bytes.ReplaceAll(body, []byte(`"skip_thought_signature_validator"`), []byte(`"AAAA"`))
	var request struct {
		Contents          []*genai.Content        `json:"contents"`
		SystemInstruction *genai.Content          `json:"systemInstruction"`
		Tools             []*genai.Tool           `json:"tools"`
		ToolConfig        *genai.ToolConfig       `json:"toolConfig"`
		GenerationConfig  *genai.GenerationConfig `json:"generationConfig"`
	}
	d := json.NewDecoder(bytes.NewReader(body))
	d.DisallowUnknownFields()
	if err := d.Decode(&request); err != nil {
		return err
	}
	if len(request.Contents) == 0 {
		return errors.New("no contents")
	}
	return nil
}

func decode(t *testing.T, b []byte) (v any) {
	t.Helper()
	d := json.NewDecoder(bytes.NewReader(b))
	d.UseNumber()
	if err := d.Decode(&v); err != nil {
		t.Fatal(err)
	}
	return v
}

// unread are the fields that the clients cannot read back: sampling, which Anthropic's newest has given up and its older models
// take; stream, which its method says; and OpenAI's choice of one function, which its union takes for another kind when it reads
// (TestChoice writes it).
var unread = map[string]bool{".temperature": true, ".top_p": true, ".stream": true, ".tool_choice.function": true}

func TestChoice(t *testing.T) {
	choice, err := json.Marshal(openai.ToolChoiceOptionFunctionToolChoice(openai.ChatCompletionNamedToolChoiceFunctionParam{Name: "weather"}))
	if err != nil {
		t.Fatal(err)
	}
	sent := decode(t, read(t, filepath.Join(testdata, "anthropic/tools-stream/openai.sent.json"))).(map[string]any)
	if !reflect.DeepEqual(sent["tool_choice"], decode(t, choice)) {
		t.Errorf("%v, want %s", sent["tool_choice"], choice)
	}
}

// lost are the paths of a that are not in b.
func lost(at string, a, b any) (paths []string) {
	switch a := a.(type) {
	case map[string]any:
		other, _ := b.(map[string]any)
		for name, v := range a {
			if w, ok := other[name]; !ok && v != nil && !unread[at+"."+name] {
				paths = append(paths, at+"."+name)
			} else if ok {
				paths = append(paths, lost(at+"."+name, v, w)...)
			}
		}
	case []any:
		other, _ := b.([]any)
		if len(other) != len(a) {
			return []string{at}
		}
		for i := range a {
			paths = append(paths, lost(at+"[]", a[i], other[i])...)
		}
	}
	return paths
}
