package sdk

import (
	"context"
	"strings"

	"github.com/anthropics/anthropic-sdk-go/v2"
	anthropicoption "github.com/anthropics/anthropic-sdk-go/v2/option"
	"github.com/openai/openai-go/v3"
	"github.com/openai/openai-go/v3/option"
	"github.com/openai/openai-go/v3/shared"
)

// question is one conversation, with all that its client can be asked to send.
type question struct {
	prompt                string
	stream                bool
	tools, schema, images bool
	header                map[string]string
}

// talked is what a client made of a conversation's answers.
type talked struct {
	text, finish string   // of the last answer
	calls        []string // name and arguments, of all answers
	in, out      int64    // tokens of the last answer
}

// speaker holds conversations in one API, with its official client. It answers each call of a tool with a result, until the model
// calls none. After an error it returns what had come by then.
type speaker func(ctx context.Context, base string, q question) (talked, error)

var speakers = map[string]speaker{"openai": speakOpenAI, "anthropic": speakAnthropic}

// rounds bounds the calls of tools in a conversation.
const rounds = 5

const (
	toolResult  = `11 °C, "rain"`
	pictureData = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
)

func personSchema() map[string]any {
	return map[string]any{"type": "object", "additionalProperties": false, "required": []string{"name", "age"},
		"properties": map[string]any{"name": map[string]any{"type": "string"}, "age": map[string]any{"type": "integer"}}}
}

func openAIQuestion(q question) openai.ChatCompletionNewParams {
	p := openai.ChatCompletionNewParams{Model: openaiModel, Messages: []openai.ChatCompletionMessageParamUnion{
		openai.SystemMessage("Be brief."), openai.UserMessage("Hello"), openai.AssistantMessage("Hi"), openai.UserMessage(q.prompt)}}
	if q.images {
		p.Messages[3] = openai.UserMessage([]openai.ChatCompletionContentPartUnionParam{
			openai.ImageContentPart(openai.ChatCompletionContentPartImageImageURLParam{URL: "data:image/png;base64," + pictureData}), openai.TextContentPart(q.prompt)})
	}
	if q.tools {
		p.Tools = chatParams(call{tool: true}).Tools
	}
	if q.schema {
		p.ResponseFormat.OfJSONSchema = &shared.ResponseFormatJSONSchemaParam{JSONSchema: shared.ResponseFormatJSONSchemaJSONSchemaParam{
			Name: "person", Strict: openai.Bool(true), Schema: personSchema()}}
	}
	if q.stream {
		p.StreamOptions.IncludeUsage = openai.Bool(true)
	}
	return p
}

func speakOpenAI(ctx context.Context, base string, q question) (t talked, err error) {
	sdk, p := newOpenAI(base), openAIQuestion(q)
	opts := append(openaiOptions(call{header: q.header}), option.WithMaxRetries(0))
	for range rounds {
		var answer *openai.ChatCompletion
		if q.stream {
			answer, err = gatherOpenAI(sdk.Chat.Completions.NewStreaming(ctx, p, opts...))
		} else {
			answer, err = sdk.Chat.Completions.New(ctx, p, opts...)
		}
		if answer == nil || len(answer.Choices) == 0 {
			return t, err
		}
		choice := answer.Choices[0]
		t.text, t.finish, t.in, t.out = choice.Message.Content, choice.FinishReason, answer.Usage.PromptTokens, answer.Usage.CompletionTokens
		if err != nil || len(choice.Message.ToolCalls) == 0 {
			return t, err
		}
		p.Messages = append(p.Messages, choice.Message.ToParam())
		for _, c := range choice.Message.ToolCalls {
			t.calls = append(t.calls, c.Function.Name+" "+c.Function.Arguments)
			p.Messages = append(p.Messages, openai.ToolMessage(toolResult, c.ID))
		}
	}
	return t, nil
}

// gatherOpenAI puts a stream together, as its client does.
func gatherOpenAI(events interface {
	Next() bool
	Current() openai.ChatCompletionChunk
	Err() error
	Close() error
}) (*openai.ChatCompletion, error) {
	defer events.Close()
	var all openai.ChatCompletionAccumulator
	for events.Next() {
		all.AddChunk(events.Current())
	}
	return &all.ChatCompletion, events.Err()
}

func anthropicQuestion(q question) anthropic.MessageNewParams {
	blocks := []anthropic.ContentBlockParamUnion{anthropic.NewTextBlock(q.prompt)}
	if q.images {
		blocks = append([]anthropic.ContentBlockParamUnion{anthropic.NewImageBlockBase64("image/png", pictureData)}, blocks...)
	}
	p := anthropic.MessageNewParams{Model: anthropicModel, MaxTokens: 1024, System: []anthropic.TextBlockParam{{Text: "Be brief."}},
		Messages: []anthropic.MessageParam{anthropic.NewUserMessage(anthropic.NewTextBlock("Hello")),
			anthropic.NewAssistantMessage(anthropic.NewTextBlock("Hi")), anthropic.NewUserMessage(blocks...)}}
	if q.tools {
		p.Tools = messagesParams(call{tool: true}).Tools
	}
	if q.schema {
		p.OutputConfig.Format = anthropic.JSONOutputFormatParam{Schema: personSchema()}
	}
	return p
}

func speakAnthropic(ctx context.Context, base string, q question) (t talked, err error) {
	sdk, p := newAnthropic(base), anthropicQuestion(q)
	opts := append(anthropicOptions(call{header: q.header}), anthropicoption.WithMaxRetries(0))
	for range rounds {
		var answer *anthropic.Message
		if q.stream {
			answer, err = gatherAnthropic(sdk.Messages.NewStreaming(ctx, p, opts...))
		} else {
			answer, err = sdk.Messages.New(ctx, p, opts...)
		}
		if answer == nil {
			return t, err
		}
		t.text, t.finish, t.in, t.out = "", string(answer.StopReason), answer.Usage.InputTokens, answer.Usage.OutputTokens
		var results []anthropic.ContentBlockParamUnion
		for _, b := range answer.Content {
			switch b.Type {
			case "text":
				t.text += b.Text
			case "tool_use":
				t.calls = append(t.calls, b.Name+" "+string(b.Input))
				results = append(results, anthropic.NewToolResultBlock(b.ID, toolResult, false))
			}
		}
		if err != nil || len(results) == 0 {
			return t, err
		}
		p.Messages = append(p.Messages, answer.ToParam(), anthropic.NewUserMessage(results...))
	}
	return t, nil
}

func gatherAnthropic(events interface {
	Next() bool
	Current() anthropic.MessageStreamEventUnion
	Err() error
	Close() error
}) (*anthropic.Message, error) {
	defer events.Close()
	var all anthropic.Message
	for events.Next() {
		if err := all.Accumulate(events.Current()); err != nil {
			return &all, err
		}
	}
	return &all, events.Err()
}

// wayOf is the workflow that has a far side answer: as the only tier, or behind one that fails.
func wayOf(client, far string, second bool) string {
	if second {
		return strings.Join([]string{client, "then", far}, "_")
	}
	return far
}
