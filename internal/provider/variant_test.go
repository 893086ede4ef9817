package provider_test

import (
	"bytes"
	"encoding/json"
	"testing"

	"github.com/holdfast-ai/holdfast/internal/provider"
)

func known(endpoint string) *provider.Call { return &provider.Call{Endpoint: endpoint, Known: true} }

// What each part of a prompt makes of a request, in the formats that have one.
func TestVary(t *testing.T) {
	const (
		chat   = `{"model":"m","messages":[{"role":"system","content":"A"},{"role":"user","content":"u1"},{"role":"assistant","content":"a1"},{"role":"user","content":"u2"},{"role":"assistant","content":"a2"},{"role":"user","content":"q"}]}`
		parts  = `{"messages":[{"role":"user","content":[{"type":"image","source":{}},{"type":"text","text":"q"}]}],"max_tokens":50,"system":[{"type":"text","text":"A"}]}`
		tools  = `{"messages":[{"role":"user","content":"q"},{"role":"assistant","content":[{"type":"tool_use","id":"t1","input":{}}]},{"role":"user","content":[{"type":"tool_result","tool_use_id":"t1","content":"r"}]}]}`
		gemini = `{"contents":[{"parts":[{"text":"q"}]}],"system_instruction":{"parts":[{"text":"A"}]},"generationConfig":{"maxOutputTokens":10,"temperature":1}}`
		all    = provider.AllExamples
	)
	for name, c := range map[string]struct {
		endpoint, body string
		p              provider.Prompt
		examples       int
		want           string // "": refused
	}{
		"chat": {"chat.completions", chat, provider.Prompt{System: "S", MaxTokens: 9, Examples: 1, Template: "<{input}> {input}"}, 2,
			`{"max_completion_tokens":9,"messages":[{"content":"S","role":"system"},{"content":"u1","role":"user"},{"content":"a1","role":"assistant"},{"content":"\u003cq\u003e q","role":"user"}],"model":"m"}`},
		"no examples": {"chat.completions", chat, provider.Prompt{Examples: 0}, 2, `{"messages":[{"content":"A","role":"system"},{"content":"q","role":"user"}],"model":"m"}`},
		"none said":   {"chat.completions", chat, provider.Prompt{Examples: 0, MaxTokens: 5}, 0, ``},
		"too many":    {"chat.completions", chat, provider.Prompt{Examples: 0}, 3, ""},
		"no pair":     {"messages", tools, provider.Prompt{Examples: 0}, 1, ""},
		"lower bound": {"chat.completions", `{"messages":[{"role":"user","content":"q"}],"max_tokens":3,"max_completion_tokens":null}`, provider.Prompt{Examples: all, MaxTokens: 9}, 0,
			`{"max_completion_tokens":null,"max_tokens":3,"messages":[{"role":"user","content":"q"}]}`},
		"messages": {"messages", parts, provider.Prompt{System: "S", MaxTokens: 9, Examples: all, Template: "Q {input}"}, 0,
			`{"max_tokens":9,"messages":[{"content":[{"source":{},"type":"image"},{"text":"Q q","type":"text"}],"role":"user"}],"system":"S"}`},
		"behind a tool": {"messages", tools, provider.Prompt{Examples: all, Template: "Q {input}"}, 0,
			`{"messages":[{"content":"Q q","role":"user"},{"content":[{"type":"tool_use","id":"t1","input":{}}],"role":"assistant"},{"content":[{"type":"tool_result","tool_use_id":"t1","content":"r"}],"role":"user"}]}`},
		"responses": {"responses", `{"input":"q","instructions":"A"}`, provider.Prompt{System: "S", MaxTokens: 9, Examples: all, Template: "Q {input}"}, 0,
			`{"input":[{"content":"Q q","role":"user"}],"instructions":"S","max_output_tokens":9}`},
		"gemini": {"generateContent", gemini, provider.Prompt{System: "S", MaxTokens: 9, Examples: all, Template: "Q {input}"}, 0,
			`{"contents":[{"parts":[{"text":"Q q"}]}],"generationConfig":{"maxOutputTokens":9,"temperature":1},"systemInstruction":{"parts":[{"text":"S"}]}}`},
		"gemini stream": {"streamGenerateContent", `{"contents":[{"role":"user","parts":[{"text":"q"}]}]}`, provider.Prompt{Examples: all, MaxTokens: 9}, 0,
			`{"contents":[{"role":"user","parts":[{"text":"q"}]}],"generationConfig":{"maxOutputTokens":9}}`},
		"named twice": {"chat.completions", `{"messages":[],"messages":[{"role":"user","content":"q"}]}`, provider.Prompt{Examples: all, Template: "Q {input}"}, 0,
			`{"messages":[{"content":"Q q","role":"user"}]}`},
		"gemini's two spellings": {"generateContent", `{"contents":[{"parts":[{"text":"q"}]}],"generationConfig":{"temperature":0},"generation_config":{"max_output_tokens":100}}`, provider.Prompt{Examples: all, MaxTokens: 50}, 0,
			`{"contents":[{"parts":[{"text":"q"}]}],"generationConfig":{"temperature":0},"generation_config":{"max_output_tokens":50}}`},
		"gemini's other spelling": {"generateContent", `{"contents":[{"parts":[{"text":"q"}]}],"generation_config":{"temperature":0}}`, provider.Prompt{Examples: all, MaxTokens: 50}, 0,
			`{"contents":[{"parts":[{"text":"q"}]}],"generation_config":{"maxOutputTokens":50,"temperature":0}}`},
		"gemini, both bounds": {"generateContent", `{"contents":[{"parts":[{"text":"q"}]}],"generationConfig":{"maxOutputTokens":"20","max_output_tokens":100},"generation_config":{"max_output_tokens":100}}`, provider.Prompt{Examples: all, MaxTokens: 50}, 0,
			`{"contents":[{"parts":[{"text":"q"}]}],"generationConfig":{"maxOutputTokens":"20","max_output_tokens":50},"generation_config":{"max_output_tokens":50}}`},
		"thinks too much": {"messages", `{"messages":[{"role":"user","content":"q"}],"max_tokens":2000,"thinking":{"type":"enabled","budget_tokens":1024}}`, provider.Prompt{Examples: all, MaxTokens: 1024}, 0, ""},
		"thinks within it": {"messages", `{"max_tokens":2000,"messages":[{"role":"user","content":"q"}],"thinking":{"budget_tokens":1024}}`, provider.Prompt{Examples: all, MaxTokens: 1500}, 0,
			`{"max_tokens":1500,"messages":[{"role":"user","content":"q"}],"thinking":{"budget_tokens":1024}}`},
		"its own fault": {"messages", `{"max_tokens":20,"messages":[{"role":"user","content":"q"}],"thinking":{"budget_tokens":1024}}`, provider.Prompt{Examples: all, MaxTokens: 50}, 0,
			`{"max_tokens":20,"messages":[{"role":"user","content":"q"}],"thinking":{"budget_tokens":1024}}`},
		"half a pair": {"chat.completions", `{"messages":[{"role":"user","content":"a\ud800\n\"b\""}]}`, provider.Prompt{Examples: all, Template: "\"{input}\" {input}"}, 0,
			`{"messages":[{"content":"\"a\ud800\n\"b\"\" a\ud800\n\"b\"","role":"user"}]}`},
		"half a pair, responses": {"responses", `{"input":"a\ud800"}`, provider.Prompt{Examples: all, Template: "Q {input}"}, 0,
			`{"input":[{"content":"Q a\ud800","role":"user"}]}`},
		"no text":    {"chat.completions", `{"messages":[{"role":"assistant","content":"q"}]}`, provider.Prompt{Examples: all, Template: "{input}"}, 0, ""},
		"no turns":   {"chat.completions", `{"messages":"q"}`, provider.Prompt{Examples: all, System: "S"}, 0, ""},
		"no object":  {"chat.completions", `[]`, provider.Prompt{Examples: all, System: "S"}, 0, ""},
		"no JSON":    {"chat.completions", `{"messages":`, provider.Prompt{Examples: all, System: "S"}, 0, ""},
		"embeddings": {"embeddings", `{"input": "q"}`, provider.Prompt{Examples: all, System: "S"}, 0, `{"input": "q"}`},
		"empty":      {"chat.completions", `{"messages": 1}`, provider.Prompt{Examples: all}, 4, `{"messages": 1}`},
	} {
		if name == "none said" {
			c.want = `{"max_completion_tokens":5,"messages":` + chat[len(`{"model":"m","messages":`):len(chat)-1] + `,"model":"m"}`
		}
		before := bytes.Clone([]byte(c.body))
		body := []byte(c.body)
		got, err := provider.Vary(known(c.endpoint), body, &c.p, c.examples)
		if (err != nil) != (c.want == "") || string(got) != c.want {
			t.Errorf("%s: %v\n%s, want\n%s", name, err, got, c.want)
		}
		if !bytes.Equal(before, body) {
			t.Errorf("%s: what came was changed", name)
		}
	}
}

// Whatever a request is, its variant is JSON or there is none, and the request stays as it came.
func FuzzVary(f *testing.F) {
	for _, s := range []string{`{"messages":[{"role":"user","content":"q"}]}`, `{"input":"q"}`, `{"contents":[{"parts":[{"text":"q"}]}]}`, `{"messages":[null,1,{"content":[null]}],"max_tokens":{}}`} {
		f.Add([]byte(s), 1)
	}
	f.Fuzz(func(t *testing.T, body []byte, examples int) {
		before := bytes.Clone(body)
		for _, endpoint := range []string{"chat.completions", "responses", "messages", "generateContent"} {
			p := provider.Prompt{System: "S", MaxTokens: 9, Examples: 1, Template: "Q {input}"}
			if got, err := provider.Vary(known(endpoint), body, &p, examples); err == nil && !json.Valid(got) {
				t.Errorf("%s: %s", endpoint, got)
			}
		}
		if !bytes.Equal(before, body) {
			t.Error("what came was changed")
		}
	})
}
