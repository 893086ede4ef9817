package said

import (
	"testing"

	"github.com/anthropics/anthropic-sdk-go/v2"
	aoption "github.com/anthropics/anthropic-sdk-go/v2/option"
	"github.com/openai/openai-go/v3"
	"github.com/openai/openai-go/v3/responses"
	"google.golang.org/genai"
)

// retold checks what an SDK reads of an answer that was said anew.
func retold(t *testing.T, name, text, model, finish, wantFinish string, in, out int64) {
	t.Helper()
	if text != want || model == "" || model == "holdfast-default" || finish != wantFinish || in != 9 || out != 12 {
		t.Errorf("%s: %q of %q, ended by %q, usage %d and %d", name, text, model, finish, in, out)
	}
}

func TestChatRetold(t *testing.T) {
	params := openai.ChatCompletionNewParams{Model: "m", Messages: []openai.ChatCompletionMessageParamUnion{openai.UserMessage("q")}}
	const name = "chat stream with usage as chat"
	c := newOpenAI(t, name)
	r, err := c.Chat.Completions.New(t.Context(), params)
	if err != nil {
		t.Fatal(err)
	}
	retold(t, name, r.Choices[0].Message.Content, r.Model, r.Choices[0].FinishReason, "stop", r.Usage.PromptTokens, r.Usage.CompletionTokens)
	for _, name := range []string{"chat as chat stream with usage", "chat as chat stream"} {
		c := newOpenAI(t, name)
		var all openai.ChatCompletionAccumulator
		s := c.Chat.Completions.NewStreaming(t.Context(), params)
		for s.Next() {
			if !all.AddChunk(s.Current()) {
				t.Errorf("%s: a chunk does not fit", name)
			}
		}
		if len(all.Choices) != 1 || s.Err() != nil {
			t.Fatalf("%s: %d choices, %v", name, len(all.Choices), s.Err())
		}
		in, out := all.Usage.PromptTokens, all.Usage.CompletionTokens
		if name == "chat as chat stream" { // nobody asked for its usage
			in, out = in+9, out+12
		}
		retold(t, name, all.Choices[0].Message.Content, all.Model, all.Choices[0].FinishReason, "stop", in, out)
	}
}

func TestResponsesRetold(t *testing.T) {
	params := responses.ResponseNewParams{Model: "m", Input: responses.ResponseNewParamsInputUnion{OfString: openai.String("q")}}
	c := newOpenAI(t, "responses stream as responses")
	r, err := c.Responses.New(t.Context(), params)
	if err != nil {
		t.Fatal(err)
	}
	retold(t, "plain", r.OutputText(), r.Model, string(r.Status), "completed", r.Usage.InputTokens, r.Usage.OutputTokens)
	c = newOpenAI(t, "responses as responses stream")
	s := c.Responses.NewStreaming(t.Context(), params)
	text := ""
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
	if s.Err() != nil || text != want {
		t.Errorf("%q, %v", text, s.Err())
	}
	retold(t, "stream", last.OutputText(), last.Model, string(last.Status), "completed", last.Usage.InputTokens, last.Usage.OutputTokens)
}

func TestMessagesRetold(t *testing.T) {
	params := anthropic.MessageNewParams{Model: "m", MaxTokens: 9, Messages: []anthropic.MessageParam{anthropic.NewUserMessage(anthropic.NewTextBlock("q"))}}
	at := func(name string) anthropic.Client {
		return anthropic.NewClient(aoption.WithBaseURL(server(t, name)), aoption.WithAPIKey("k"), aoption.WithMaxRetries(0))
	}
	c := at("messages stream as messages")
	m, err := c.Messages.New(t.Context(), params)
	if err != nil {
		t.Fatal(err)
	}
	retold(t, "plain", m.Content[0].Text, string(m.Model), string(m.StopReason)+" "+m.StopSequence, "stop_sequence END", m.Usage.InputTokens, m.Usage.OutputTokens)
	c = at("messages as messages stream")
	s := c.Messages.NewStreaming(t.Context(), params)
	var all anthropic.Message
	for s.Next() {
		if err := all.Accumulate(s.Current()); err != nil {
			t.Error(err)
		}
	}
	if len(all.Content) != 1 || s.Err() != nil {
		t.Fatalf("%+v, %v", all, s.Err())
	}
	retold(t, "stream", all.Content[0].Text, string(all.Model), string(all.StopReason)+" "+all.StopSequence, "stop_sequence END", all.Usage.InputTokens, all.Usage.OutputTokens)
}

func TestGeminiRetold(t *testing.T) {
	at := func(name string) *genai.Client {
		c, err := genai.NewClient(t.Context(), &genai.ClientConfig{APIKey: "k", Backend: genai.BackendGeminiAPI, HTTPOptions: genai.HTTPOptions{BaseURL: server(t, name)}})
		if err != nil {
			t.Fatal(err)
		}
		return c
	}
	for _, name := range []string{"gemini sse as gemini", "gemini array as gemini"} {
		r, err := at(name).Models.GenerateContent(t.Context(), "m", genai.Text("q"), nil)
		if err != nil {
			t.Fatal(err)
		}
		retold(t, name, r.Text(), r.ModelVersion, string(r.Candidates[0].FinishReason), "STOP", int64(r.UsageMetadata.PromptTokenCount), int64(r.UsageMetadata.CandidatesTokenCount))
	}
	for _, name := range []string{"gemini as gemini sse", "gemini array as gemini sse"} {
		text := ""
		var last *genai.GenerateContentResponse
		for r, err := range at(name).Models.GenerateContentStream(t.Context(), "m", genai.Text("q"), nil) {
			if err != nil {
				t.Fatal(err)
			}
			text, last = text+r.Text(), r
		}
		retold(t, name, text, last.ModelVersion, string(last.Candidates[0].FinishReason), "STOP", int64(last.UsageMetadata.PromptTokenCount), int64(last.UsageMetadata.CandidatesTokenCount))
	}
}
