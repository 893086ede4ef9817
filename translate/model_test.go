package translate

import (
	"errors"
	"strings"
	"testing"
)

func TestModelNames(t *testing.T) {
	for name, want := range map[string]int{
		"claude-opus-4-7": 407, "claude-opus-4-7-20260416": 407, "claude-sonnet-4-5-20250929": 405, "claude-opus-4-20250514": 400,
		"claude-3-5-sonnet-latest": 305, "claude-3-haiku-20240307": 300, "claude-sonnet-5": 500, "claude-haiku-5-5": 505, "claude-fable-5": 500,
		"us.anthropic.claude-opus-4-6-v1:0": 406, "claude-sonnet-4-5@20250929": 405, "prod-claude": 0, "claude-latest": 0, "": 0,
	} {
		if got := claude(name); got != want {
			t.Errorf("%s is %d, want %d", name, got, want)
		}
	}
	for name, want := range map[string]int{
		"gemini-2.5-flash": 205, "models/gemini-2.5-pro-preview-06-05": 205, "gemini-3-pro-preview": 300, "gemini-3.5-flash": 305,
		"gemini-2.0-flash-001": 200, "gemini-flash-latest": 0, "prod": 0,
	} {
		if got := gemini(name); got != want {
			t.Errorf("%s is %d, want %d", name, got, want)
		}
	}
	for name, want := range map[string]bool{
		"o3": true, "o4-mini": true, "gpt-5": true, "gpt-5.6-sol": true, "openai/gpt-5-mini": true, "gpt-5-chat-latest": false, "gpt-4.1": false,
		"gpt-4o": false, "gpt-50": false, "llama": false,
	} {
		if got := reasons(name); got != want {
			t.Errorf("%s reasons: %v", name, got)
		}
	}
}

// What a model takes is sent, what it refuses is a mismatch, and a name that says nothing gets the careful answer.
func TestByModel(t *testing.T) {
	const effort, cool, budget = `"reasoning_effort":"low"`, `"temperature":0.2`, `"thinking":{"type":"enabled","budget_tokens":2048}`
	const schema = `"response_format":{"type":"json_schema","json_schema":{"name":"x","schema":{"type":"object","properties":{},"additionalProperties":false}}}`
	for _, m := range []struct {
		from          API
		to            API
		model, member string
		want          string // part of the request; "" is a mismatch
	}{
		{OpenAIChat, AnthropicMessages, "claude-opus-4-6", cool, `"temperature":0.2`},
		{OpenAIChat, AnthropicMessages, "claude-opus-4-7", cool, ""},
		{OpenAIChat, AnthropicMessages, "claude-sonnet-5", `"top_p":0.5`, ""},
		{OpenAIChat, AnthropicMessages, "my-own-name", cool, ""},
		{OpenAIChat, AnthropicMessages, "claude-opus-4-7", `"temperature":1.0,"top_p":1`, `"max_tokens":16384`},
		{OpenAIChat, AnthropicMessages, "claude-3-5-sonnet-latest", cool + `,"top_p":0.5`, `"temperature":0.2,"top_p":0.5`},
		{OpenAIChat, AnthropicMessages, "claude-opus-4-6", effort, `"thinking":{"type":"adaptive"},"output_config":{"effort":"low"}`},
		{OpenAIChat, AnthropicMessages, "claude-opus-4-6", effort + "," + cool, ""},
		{OpenAIChat, AnthropicMessages, "claude-opus-4-6", `"reasoning_effort":"xhigh"`, ""},
		{OpenAIChat, AnthropicMessages, "claude-opus-5", `"reasoning_effort":"xhigh"`, `"effort":"xhigh"`},
		{OpenAIChat, AnthropicMessages, "claude-haiku-4-5", effort, ""},
		{OpenAIChat, AnthropicMessages, "claude-haiku-4-5", schema, `"output_config":{"format":{"type":"json_schema"`},
		{OpenAIChat, AnthropicMessages, "claude-sonnet-4-20250514", schema, ""},
		{OpenAIChat, GeminiGenerate, "gemini-2.5-flash", effort, `"thinkingConfig":{"thinkingBudget":1024}`},
		{OpenAIChat, GeminiGenerate, "gemini-2.5-flash", `"reasoning_effort":"none"`, `"thinkingConfig":{"thinkingBudget":0}`},
		{OpenAIChat, GeminiGenerate, "gemini-2.5-pro", `"reasoning_effort":"none"`, ""},
		{OpenAIChat, GeminiGenerate, "gemini-3.5-flash", `"reasoning_effort":"minimal"`, `"thinkingConfig":{"thinkingLevel":"MINIMAL"}`},
		{OpenAIChat, GeminiGenerate, "gemini-3.1-pro-preview", `"reasoning_effort":"minimal"`, `"thinkingConfig":{"thinkingLevel":"LOW"}`},
		{OpenAIChat, GeminiGenerate, "gemini-2.0-flash", effort, ""},
		{OpenAIChat, GeminiGenerate, "gemini-2.5-flash", `"response_format":{"type":"json_object"}`, `"responseMimeType":"application/json"`},
		{OpenAIChat, GeminiGenerate, "gemini-2.5-flash", `"response_format":{"type":"json_object"},` + oneTool, ""},
		{OpenAIChat, GeminiGenerate, "gemini-3.5-flash", `"response_format":{"type":"json_object"},` + oneTool, `"responseMimeType":"application/json"`},
		{OpenAIChat, GeminiGenerate, "gemini-2.5-flash", oneTool, `"functionDeclarations":[{"name":"f"}]`},
		{OpenAIChat, GeminiGenerate, "gemini-2.5-flash", `"tools":[{"type":"function","function":{"name":"f","parameters":{"$schema":"x","type":"object"}}}]`,
			`{"name":"f","parametersJsonSchema":{"type":"object"}}`},
		{OpenAIChat, GeminiGenerate, "gemini-2.5-flash", `"tools":[{"type":"function","function":{"name":"f","parameters":{}}}]`,
			`{"name":"f","parametersJsonSchema":{"type":"object"}}`},
		{OpenAIChat, AnthropicMessages, "claude-opus-5", `"tools":[{"type":"function","function":{"name":"f"}}]`,
			`{"name":"f","input_schema":{"type":"object","properties":{}}}`},
		{OpenAIChat, AnthropicMessages, "claude-opus-5", oneTool + `,"tool_choice":"none","parallel_tool_calls":false`, `"tool_choice":{"type":"none"}`},
		{OpenAIChat, AnthropicMessages, "claude-opus-5", oneTool + `,"parallel_tool_calls":false`, `"tool_choice":{"type":"auto","disable_parallel_tool_use":true}`},
		{OpenAIChat, AnthropicMessages, "claude-opus-5", oneTool + `,"tool_choice":{"type":"function","function":{"name":"f"}},"parallel_tool_calls":false`,
			`"tool_choice":{"type":"tool","name":"f","disable_parallel_tool_use":true}`},
		{OpenAIChat, GeminiGenerate, "gemini-3.5-flash", oneTool + `,"tool_choice":{"type":"function","function":{"name":"f"}}`,
			`"functionCallingConfig":{"mode":"ANY","allowedFunctionNames":["f"]}`},
		{AnthropicMessages, GeminiGenerate, "gemini-2.5-pro", budget, `"thinkingConfig":{"thinkingBudget":2048}`},
		{AnthropicMessages, GeminiGenerate, "gemini-2.5-flash", `"top_k":40`, `"topK":40`},
		{AnthropicMessages, OpenAIChat, "gpt-5", `"output_config":{"effort":"max"}`, `"reasoning_effort":"max"`},
		{AnthropicMessages, OpenAIChat, "gpt-4.1", `"output_config":{"effort":"high"}`, `"max_completion_tokens":64`},
		{AnthropicMessages, OpenAIChat, "gpt-5", cool, ""},
		{AnthropicMessages, OpenAIChat, "gpt-5", `"temperature":1,"stop_sequences":["x"]`, ""},
		{AnthropicMessages, OpenAIChat, "gpt-4.1", `"tool_choice":{"type":"any","disable_parallel_tool_use":true},` + oneClaudeTool,
			`"tool_choice":"required","parallel_tool_calls":false`},
	} {
		c, err := Request(m.from, m.to, []byte(plus(m.from, m.member)), Options{Model: m.model})
		switch {
		case m.want == "":
			if !errors.Is(err, ErrMismatch) {
				t.Errorf("%s with %s: error %v", m.model, m.member, err)
			}
		case err != nil:
			t.Errorf("%s with %s: %v", m.model, m.member, err)
		case !strings.Contains(string(c.Body), m.want):
			t.Errorf("%s with %s: %s", m.model, m.member, c.Body)
		}
	}
}

func TestOptions(t *testing.T) {
	body := []byte(plus(OpenAIChat, `"temperature":0.2,"stream":true`))
	c, err := Request(OpenAIChat, AnthropicMessages, body, Options{Model: "prod", PublicName: "claude-opus-4-6", MaxTokens: 99})
	if err != nil || !strings.Contains(string(c.Body), `"model":"prod","max_tokens":99`) || c.Path != "/v1/messages" || !c.Stream {
		t.Errorf("%s %s, %v", c.Path, c.Body, err)
	}
	c, err = Request(OpenAIChat, GeminiGenerate, body, Options{Model: "models/gemini-2.5-flash"})
	if err != nil || c.Path != "/v1beta/models/gemini-2.5-flash:streamGenerateContent?alt=sse" || strings.Contains(string(c.Body), "model\"") {
		t.Errorf("%s %s, %v", c.Path, c.Body, err)
	}
	c, err = Request(AnthropicMessages, OpenAIChat, []byte(plus(AnthropicMessages, `"top_p":1`)), Options{Model: "llama", OldMaxTokens: true})
	if err != nil || !strings.Contains(string(c.Body), `"max_tokens":64`) || c.Path != "/v1/chat/completions" {
		t.Errorf("%s %s, %v", c.Path, c.Body, err)
	}
}
