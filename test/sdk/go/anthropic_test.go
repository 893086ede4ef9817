package sdk

import (
	"context"
	"encoding/json"
	"errors"

	"github.com/anthropics/anthropic-sdk-go/v2"
	"github.com/anthropics/anthropic-sdk-go/v2/option"
)

const (
	anthropicModel = "claude-haiku-4-5"
	anthropicKey   = "sk-test-anthropic"
)

func newAnthropic(base string) anthropic.Client {
	return anthropic.NewClient(option.WithBaseURL(base), option.WithAPIKey(anthropicKey), option.WithHTTPClient(httpClient()))
}

func anthropicClient(base string) client {
	sdk := newAnthropic(base)
	return client{
		name: "anthropic-messages", wire: "messages", retry: true, rebody: true, lead: 3, inTool: 4,
		fault: anthropicFault, plain: messagesPlain(sdk), stream: messagesStream(sdk),
	}
}

func anthropicOptions(in call) []option.RequestOption {
	var opts []option.RequestOption
	for k, v := range in.headers() {
		opts = append(opts, option.WithHeader(k, v))
	}
	return opts
}

func messagesParams(in call) anthropic.MessageNewParams {
	p := anthropic.MessageNewParams{
		Model: anthropicModel, MaxTokens: 1024,
		Messages: []anthropic.MessageParam{anthropic.NewUserMessage(anthropic.NewTextBlock(in.prompt))},
	}
	if in.tool {
		p.Tools = []anthropic.ToolUnionParam{{OfTool: &anthropic.ToolParam{
			Name: toolName, InputSchema: anthropic.ToolInputSchemaParam{Properties: toolSchema()},
		}}}
	}
	return p
}

func messagesPlain(sdk anthropic.Client) func(context.Context, call) (answer, error) {
	return func(ctx context.Context, in call) (out answer, err error) {
		res, err := sdk.Messages.New(ctx, messagesParams(in), anthropicOptions(in)...)
		if err != nil {
			return out, err
		}
		for _, b := range res.Content {
			switch b.Type {
			case "text":
				out.text += b.Text
			case "tool_use":
				out.call = &toolCall{b.Name, string(b.Input)}
			}
		}
		return out, nil
	}
}

func messagesStream(sdk anthropic.Client) func(context.Context, call) (answer, error) {
	return func(ctx context.Context, in call) (out answer, err error) {
		s := sdk.Messages.NewStreaming(ctx, messagesParams(in), anthropicOptions(in)...)
		defer s.Close()
		for s.Next() {
			switch e := s.Current(); {
			case e.Type == "content_block_start" && e.ContentBlock.Type == "tool_use":
				out.add(e.ContentBlock.Name, "")
			case e.Type == "content_block_delta":
				out.text += e.Delta.Text
				if e.Delta.PartialJSON != "" {
					out.add("", e.Delta.PartialJSON)
				}
			}
		}
		return out, s.Err()
	}
}

func anthropicFault(err error) failure {
	e := (*anthropic.Error)(nil)
	if !errors.As(err, &e) {
		return failure{}
	}
	var body struct {
		Error struct{ Type string }
	}
	_ = json.Unmarshal([]byte(e.RawJSON()), &body) // an error body that is no JSON has no code
	return failure{typed: true, status: e.StatusCode, code: body.Error.Type}
}
