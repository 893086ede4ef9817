// Package said reads the fixed texts that the gateway answers with, and the answers that it says anew, through the official SDKs.
package said

import (
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"

	"github.com/anthropics/anthropic-sdk-go/v2"
	aoption "github.com/anthropics/anthropic-sdk-go/v2/option"
	"github.com/openai/openai-go/v3"
	"github.com/openai/openai-go/v3/option"
	"github.com/openai/openai-go/v3/responses"
	"google.golang.org/genai"
)

// want is the text of the golden files.
const want = "We are busy, \"just\" now: 100 %s.\n$id 今 <b> \u2028"

// server answers every request with what the golden file has under a name.
func server(t *testing.T, name string) string {
	t.Helper()
	file := "said.golden"
	if strings.Contains(name, " as ") {
		file = "retold.golden"
	}
	golden, err := os.ReadFile("../../../../internal/provider/testdata/" + file)
	if err != nil {
		t.Fatal(err)
	}
	_, section, ok := strings.Cut(string(golden), "--- "+name+"\n")
	if !ok {
		t.Fatalf("no %q in the golden file", name)
	}
	section, _, _ = strings.Cut(strings.TrimSuffix(section, "\n"), "\n--- ")
	kind, body, _ := strings.Cut(section, "\n")
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", kind)
		_, _ = w.Write([]byte(strings.ReplaceAll(body, "␍", "\r")))
	}))
	t.Cleanup(s.Close)
	return s.URL
}

func check(t *testing.T, text, model, finish, wantFinish string, err error) {
	t.Helper()
	if err != nil || text != want || model != "holdfast-default" || finish != wantFinish {
		t.Errorf("%q of %q, ended by %q: %v", text, model, finish, err)
	}
}

func newOpenAI(t *testing.T, name string) openai.Client {
	return openai.NewClient(option.WithBaseURL(server(t, name)), option.WithAPIKey("k"), option.WithMaxRetries(0))
}

func TestChat(t *testing.T) {
	params := openai.ChatCompletionNewParams{Model: "m", Messages: []openai.ChatCompletionMessageParamUnion{openai.UserMessage("q")}}
	for _, name := range []string{"chat", "chat, two choices"} {
		c := newOpenAI(t, name)
		r, err := c.Chat.Completions.New(t.Context(), params)
		if err != nil {
			t.Fatal(err)
		}
		for _, choice := range r.Choices {
			check(t, choice.Message.Content, r.Model, choice.FinishReason, "stop", nil)
		}
	}
	for name, choices := range map[string]int{"chat stream": 1, "chat stream with usage": 2} {
		c := newOpenAI(t, name)
		var all openai.ChatCompletionAccumulator
		s := c.Chat.Completions.NewStreaming(t.Context(), params)
		for s.Next() {
			if !all.AddChunk(s.Current()) {
				t.Errorf("%s: a chunk does not fit", name)
			}
		}
		if len(all.Choices) != choices || s.Err() != nil {
			t.Fatalf("%s: %d choices, %v", name, len(all.Choices), s.Err())
		}
		for _, choice := range all.Choices {
			check(t, choice.Message.Content, all.Model, choice.FinishReason, "stop", nil)
		}
	}
}

func TestResponses(t *testing.T) {
	params := responses.ResponseNewParams{Model: "m", Input: responses.ResponseNewParamsInputUnion{OfString: openai.String("q")}}
	c := newOpenAI(t, "responses")
	r, err := c.Responses.New(t.Context(), params)
	if err != nil {
		t.Fatal(err)
	}
	check(t, r.OutputText(), r.Model, string(r.Status), "completed", nil)
	c = newOpenAI(t, "responses stream")
	s := c.Responses.NewStreaming(t.Context(), params)
	var text string
	var last responses.Response
	for n := int64(0); s.Next(); n++ {
		e := s.Current()
		if e.SequenceNumber != n {
			t.Errorf("event %d has number %d", n, e.SequenceNumber)
		}
		if e.Type == "response.output_text.delta" {
			text += e.Delta
		}
		last = e.Response
	}
	check(t, text, last.Model, string(last.Status), "completed", s.Err())
	check(t, last.OutputText(), last.Model, string(last.Status), "completed", nil)
}

func TestMessages(t *testing.T) {
	params := anthropic.MessageNewParams{Model: "m", MaxTokens: 9, Messages: []anthropic.MessageParam{anthropic.NewUserMessage(anthropic.NewTextBlock("q"))}}
	at := func(name string) anthropic.Client {
		return anthropic.NewClient(aoption.WithBaseURL(server(t, name)), aoption.WithAPIKey("k"), aoption.WithMaxRetries(0))
	}
	c := at("messages")
	m, err := c.Messages.New(t.Context(), params)
	if err != nil {
		t.Fatal(err)
	}
	check(t, m.Content[0].Text, string(m.Model), string(m.StopReason), "end_turn", nil)
	c = at("messages stream")
	s := c.Messages.NewStreaming(t.Context(), params)
	var all anthropic.Message
	for s.Next() {
		if err := all.Accumulate(s.Current()); err != nil {
			t.Error(err)
		}
	}
	if len(all.Content) != 1 {
		t.Fatalf("%+v, %v", all, s.Err())
	}
	check(t, all.Content[0].Text, string(all.Model), string(all.StopReason), "end_turn", s.Err())
}

func TestGemini(t *testing.T) {
	at := func(name string) *genai.Client {
		c, err := genai.NewClient(t.Context(), &genai.ClientConfig{APIKey: "k", Backend: genai.BackendGeminiAPI, HTTPOptions: genai.HTTPOptions{BaseURL: server(t, name)}})
		if err != nil {
			t.Fatal(err)
		}
		return c
	}
	r, err := at("gemini").Models.GenerateContent(t.Context(), "m", genai.Text("q"), nil)
	if err != nil {
		t.Fatal(err)
	}
	check(t, r.Text(), r.ModelVersion, string(r.Candidates[0].FinishReason), "STOP", nil)
	n := 0
	for r, err := range at("gemini sse").Models.GenerateContentStream(t.Context(), "m", genai.Text("q"), nil) {
		if err != nil {
			t.Fatal(err)
		}
		check(t, r.Text(), r.ModelVersion, string(r.Candidates[0].FinishReason), "STOP", nil)
		n++
	}
	if n != 1 {
		t.Errorf("%d events", n)
	}
}
