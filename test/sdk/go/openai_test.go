package sdk

import (
	"context"
	"errors"
	"strings"

	"github.com/openai/openai-go/v3"
	"github.com/openai/openai-go/v3/option"
	"github.com/openai/openai-go/v3/responses"
)

const (
	openaiModel = "gpt-5-mini"
	openaiKey   = "sk-test-openai"
)

func newOpenAI(base string) openai.Client {
	return openai.NewClient(option.WithBaseURL(base+"/v1"), option.WithAPIKey(openaiKey), option.WithHTTPClient(httpClient()))
}

func openaiClients(base string) (chat, resp client) {
	sdk := newOpenAI(base)
	chat = client{
		name: "openai-chat", wire: "chat.completions", retry: true, lead: 1, inTool: 3,
		fault: openaiFault, plain: chatPlain(sdk), stream: chatStream(sdk),
	}
	resp = client{
		name: "openai-responses", wire: "responses", retry: true, lead: 4, inTool: 5,
		fault: openaiFault, plain: responsesPlain(sdk), stream: responsesStream(sdk),
	}
	return chat, resp
}

func openaiOptions(in call) []option.RequestOption {
	var opts []option.RequestOption
	for k, v := range in.headers() {
		opts = append(opts, option.WithHeader(k, v))
	}
	return opts
}

func chatParams(in call) openai.ChatCompletionNewParams {
	p := openai.ChatCompletionNewParams{
		Model:    openaiModel,
		Messages: []openai.ChatCompletionMessageParamUnion{openai.UserMessage(in.prompt)},
	}
	if in.tool {
		p.Tools = []openai.ChatCompletionToolUnionParam{openai.ChatCompletionFunctionTool(openai.FunctionDefinitionParam{
			Name: toolName, Parameters: openai.FunctionParameters{"type": "object", "properties": toolSchema()},
		})}
	}
	return p
}

func chatPlain(sdk openai.Client) func(context.Context, call) (answer, error) {
	return func(ctx context.Context, in call) (out answer, err error) {
		res, err := sdk.Chat.Completions.New(ctx, chatParams(in), openaiOptions(in)...)
		if err != nil || len(res.Choices) == 0 {
			return out, err
		}
		m := res.Choices[0].Message
		out.text = m.Content + m.Refusal
		for _, c := range m.ToolCalls {
			out.call = &toolCall{c.Function.Name, c.Function.Arguments}
		}
		return out, nil
	}
}

func chatStream(sdk openai.Client) func(context.Context, call) (answer, error) {
	return func(ctx context.Context, in call) (out answer, err error) {
		s := sdk.Chat.Completions.NewStreaming(ctx, chatParams(in), openaiOptions(in)...)
		defer s.Close()
		for s.Next() {
			for _, c := range s.Current().Choices {
				out.text += c.Delta.Content + c.Delta.Refusal
				for _, part := range c.Delta.ToolCalls {
					out.add(part.Function.Name, part.Function.Arguments)
				}
			}
		}
		return out, s.Err()
	}
}

// add appends a piece of a tool call's arguments.
func (a *answer) add(name, args string) {
	if a.call == nil {
		a.call = &toolCall{}
	}
	a.call.name += name
	a.call.args += args
}

func responsesParams(in call) responses.ResponseNewParams {
	p := responses.ResponseNewParams{
		Model: openaiModel,
		Input: responses.ResponseNewParamsInputUnion{OfString: openai.String(in.prompt)},
	}
	if in.tool {
		p.Tools = []responses.ToolUnionParam{{OfFunction: &responses.FunctionToolParam{
			Name: toolName, Strict: openai.Bool(false), Parameters: map[string]any{"type": "object", "properties": toolSchema()},
		}}}
	}
	return p
}

func responsesPlain(sdk openai.Client) func(context.Context, call) (answer, error) {
	return func(ctx context.Context, in call) (out answer, err error) {
		res, err := sdk.Responses.New(ctx, responsesParams(in), openaiOptions(in)...)
		if err != nil {
			return out, err
		}
		out.text = res.OutputText()
		for _, item := range res.Output {
			if item.Type == "function_call" {
				out.call = &toolCall{item.Name, item.AsFunctionCall().Arguments}
			}
		}
		return out, nil
	}
}

func responsesStream(sdk openai.Client) func(context.Context, call) (answer, error) {
	return func(ctx context.Context, in call) (out answer, err error) {
		s := sdk.Responses.NewStreaming(ctx, responsesParams(in), openaiOptions(in)...)
		defer s.Close()
		for s.Next() {
			switch e := s.Current(); e.Type {
			case "response.output_text.delta", "response.refusal.delta":
				out.text += e.Delta
			case "response.output_item.added":
				if e.Item.Type == "function_call" {
					out.add(e.Item.Name, "")
				}
			case "response.function_call_arguments.delta":
				out.add("", e.Delta)
			}
		}
		return out, s.Err()
	}
}

func openaiFault(err error) failure {
	if e := (*openai.Error)(nil); errors.As(err, &e) {
		return failure{typed: true, status: e.StatusCode, code: e.Code}
	}
	// An error in a stream has the client's StreamError type, whose message holds the event's error object.
	const mark = `"code":`
	_, rest, found := strings.Cut(strings.ReplaceAll(err.Error(), " ", ""), mark)
	if !found {
		return failure{}
	}
	code, _, _ := strings.Cut(strings.TrimPrefix(rest, `"`), `"`)
	return failure{code: code}
}
