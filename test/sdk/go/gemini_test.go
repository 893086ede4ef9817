package sdk

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"

	"google.golang.org/genai"
)

const (
	geminiModel = "gemini-2.5-flash"
	geminiKey   = "test-gemini-key"
)

func newGemini(base string) *genai.Client {
	sdk, err := genai.NewClient(context.Background(), &genai.ClientConfig{
		APIKey: geminiKey, Backend: genai.BackendGeminiAPI,
		HTTPOptions: genai.HTTPOptions{BaseURL: base}, HTTPClient: httpClient(),
	})
	if err != nil {
		panic(err) // only a configuration that is wrong in itself
	}
	return sdk
}

func geminiClient(base string) client {
	sdk := newGemini(base)
	// A tool call is one part of one event here: inside the call means before the stream's finish.
	return client{
		name: "genai", wire: "streamGenerateContent", lead: 0, inTool: 1,
		fault: geminiFault, plain: geminiPlain(sdk), stream: geminiStream(sdk),
	}
}

func geminiConfig(in call) *genai.GenerateContentConfig {
	h := http.Header{}
	for k, v := range in.headers() {
		h.Set(k, v)
	}
	config := &genai.GenerateContentConfig{HTTPOptions: &genai.HTTPOptions{Headers: h}}
	if in.again {
		config.HTTPOptions.RetryOptions = &genai.HTTPRetryOptions{Attempts: genai.Ptr[int32](3), InitialDelay: genai.Ptr(0.1), Jitter: genai.Ptr(0.0)}
	}
	if in.tool {
		config.Tools = []*genai.Tool{{FunctionDeclarations: []*genai.FunctionDeclaration{{
			Name: toolName, ParametersJsonSchema: map[string]any{"type": "object", "properties": toolSchema()},
		}}}}
	}
	return config
}

func geminiPlain(sdk *genai.Client) func(context.Context, call) (answer, error) {
	return func(ctx context.Context, in call) (out answer, err error) {
		res, err := sdk.Models.GenerateContent(ctx, geminiModel, genai.Text(in.prompt), geminiConfig(in))
		if err != nil {
			return out, err
		}
		return out, out.addGemini(res)
	}
}

func geminiStream(sdk *genai.Client) func(context.Context, call) (answer, error) {
	return func(ctx context.Context, in call) (out answer, err error) {
		for res, err := range sdk.Models.GenerateContentStream(ctx, geminiModel, genai.Text(in.prompt), geminiConfig(in)) {
			if err != nil {
				return out, err
			}
			if err := out.addGemini(res); err != nil {
				return out, err
			}
		}
		return out, nil
	}
}

func (a *answer) addGemini(res *genai.GenerateContentResponse) error {
	for _, c := range res.Candidates {
		if c.Content == nil {
			continue
		}
		for _, p := range c.Content.Parts {
			if !p.Thought {
				a.text += p.Text
			}
			if p.FunctionCall == nil {
				continue
			}
			args, err := json.Marshal(p.FunctionCall.Args)
			if err != nil {
				return err
			}
			a.call = &toolCall{p.FunctionCall.Name, string(args)}
		}
	}
	return nil
}

func geminiFault(err error) failure {
	e := genai.APIError{}
	if !errors.As(err, &e) {
		return failure{}
	}
	out := failure{typed: true, status: e.Code, code: e.Status}
	for _, d := range e.Details {
		if reason, ok := d["reason"].(string); ok {
			out.code = reason
		}
	}
	return out
}
