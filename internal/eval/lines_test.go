package eval

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/holdfast-ai/holdfast/internal/policy"
	"github.com/holdfast-ai/holdfast/spend"
)

func parse(t *testing.T, yaml string) *policy.Config {
	t.Helper()
	cfg, faults := policy.Parse("test.yaml", []byte(strings.ReplaceAll(yaml, "SIM", "http://127.0.0.1:1")), os.LookupEnv)
	if cfg == nil {
		t.Fatal(faults)
	}
	return cfg
}

func newPlan(t *testing.T, yaml, workflow string, tiers ...string) *Plan {
	t.Helper()
	p, err := NewPlan(parse(t, yaml), workflow, tiers)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

const twoTiers = `
providers:
  openai: {type: openai, base_url: "SIM/v1", api_key: sk-one}
  claude: {type: anthropic, base_url: "SIM", api_key: sk-two}
models:
  local-1: {input_cost: 0, output_cost: 0}
workflows:
  chat:
    match: {paths: ["/v1/chat/completions"]}
    tiers:
      - {name: pro, provider: openai, model: gpt-5}
      - {name: flash, provider: openai, model: gpt-5-mini, prompt: {system: "Be brief.", max_tokens: 100}}
  claude:
    match: {paths: ["/by-name-only"]}
    tiers: [{name: haiku, provider: claude, model: claude-haiku-4-5}]
  asked: {match: {paths: ["/v1/responses"]}}
`

func TestRequestsOfAllForms(t *testing.T) {
	for _, c := range []struct {
		workflow, line string
		usual          Usual
		path, body     string
	}{
		{"chat", `{"prompt":"Hi"}`, Usual{}, "/v1/chat/completions", `{"messages":[{"content":"Hi","role":"user"}],"model":"gpt-5"}`},
		{"chat", `{"prompt":"Hi","system":"Be kind.","schema":{"type":"object"}}`, Usual{Stream: true, Model: "gpt-4o"}, "/v1/chat/completions",
			`{"messages":[{"content":"Be kind.","role":"system"},{"content":"Hi","role":"user"}],"model":"gpt-4o","response_format":{"json_schema":{"name":"answer","schema":{"type":"object"}},"type":"json_schema"},"stream":true,"stream_options":{"include_usage":true}}`},
		{"claude", `{"prompt":"Hi","system":"Be kind.","schema":null}`, Usual{}, "/v1/messages",
			`{"max_tokens":4096,"messages":[{"content":"Hi","role":"user"}],"model":"claude-haiku-4-5","system":"Be kind."}`},
		{"asked", `{"prompt":"Hi","schema":{}}`, Usual{Model: "gpt-5"}, "/v1/responses",
			`{"input":"Hi","model":"gpt-5","store":false,"text":{"format":{"name":"answer","schema":{},"strict":false,"type":"json_schema"}}}`},
		{"chat", `{"body":{"model":"x","messages":[{"role":"user","content":"Hi"}]},"path":"/openai/v1/chat/completions"}`, Usual{}, "/openai/v1/chat/completions", `{"model":"x","messages":[{"role":"user","content":"Hi"}]}`},
		{"chat", `{"body":{"contents":[{}]},"path":"/v1beta/models/gemini-2.5-pro:streamGenerateContent?alt=sse"}`, Usual{}, "/v1beta/models/gemini-2.5-pro:streamGenerateContent?alt=sse", `{"contents":[{}]}`},
	} {
		p := newPlan(t, twoTiers, c.workflow)
		got, err := ReadRequests("set", strings.NewReader(c.line), p, c.usual)
		if err != nil || len(got) != 1 {
			t.Errorf("%s: %v", c.line, err)
			continue
		}
		if r := got[0]; r.Path != c.path || string(r.Body) != c.body || r.Line != 1 {
			t.Errorf("%s\n got %s %s\nwant %s %s", c.line, r.Path, r.Body, c.path, c.body)
		}
	}
}

func TestBadLinesAreToldAtOnce(t *testing.T) {
	p := newPlan(t, twoTiers, "chat")
	set := strings.Join([]string{`{"prompt":"good"}`, `[]`, ``, `{"prompt":"a"} {}`, `{"body":[]}`, `{"body":{},"system":"s"}`, `{"prompt":"a","path":"/v1/responses"}`,
		`{"body":{},"path":"no path"}`, `{"body":{},"path":"/v1/models"}`, `{"body":{"conversation":"c"},"path":"/v1/responses"}`, `{"prompt":"a","schema":"s"}`,
		`{"prompt":"a","prompt":"b"}`, `{"prompt":""}`, `{"prompt":" \n"}`, `{"Prompt":"a"}`, `{"prompt":"a","Prompt":"b"}`, `{"body":{"model":"gpt-5"}}`, `{"body":{"model":"gpt-5","messages":[]}}`,
		`{"body":{"input":""},"path":"/v1/responses"}`, `{"body":{"messages":[{"role":"user","content":"a","content":"b"}]}}`,
		`{"prompt":"a","schema":{"type":"nope"}}`, `{"prompt":"a","schema":{"properties":{"a":{"items":{"type":["string","nope"]}}}}}`}, "\n")
	_, err := ReadRequests("set.jsonl", strings.NewReader(set), p, Usual{})
	var bad *LinesError
	if !errors.As(err, &bad) {
		t.Fatal(err)
	}
	want := []int{2, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20, 21, 22}
	if len(bad.Faults) != len(want) {
		t.Fatalf("%d faults, want %d:\n%s", len(bad.Faults), len(want), err)
	}
	for i, line := range want {
		if !strings.HasPrefix(bad.Faults[i], fmt.Sprintf("set.jsonl:%d: ", line)) {
			t.Errorf("%q is not about line %d", bad.Faults[i], line)
		}
	}
	_, err = ReadRequests("set.jsonl", strings.NewReader(strings.Repeat("nothing\n", maxFaults+3)), p, Usual{})
	if !strings.HasSuffix(err.Error(), "and 3 more lines") {
		t.Errorf("the rest is not counted: …%q", err.Error()[len(err.Error())-80:])
	}
}

func TestSetsAreBounded(t *testing.T) {
	p := newPlan(t, "limits: {max_request_bytes: 1KiB}", "")
	long := `{"body":{"model":"x","messages":[],"user":"` + strings.Repeat("a", 2000) + `"}}`
	_, err := ReadRequests("set", strings.NewReader(long+"\n"+`{"prompt":"a"}`), p, Usual{Model: "x"})
	if err == nil || err.Error() != "set:1: it is longer than 1024 bytes" {
		t.Errorf("%v", err)
	}
	if _, err := ReadRequests("set", strings.NewReader("\n \n"), p, Usual{}); !errors.Is(err, errEmpty) {
		t.Errorf("%v", err)
	}
	if _, err := ReadRequests("set", strings.NewReader(`{"prompt":"a"}`), p, Usual{}); err == nil || !strings.Contains(err.Error(), "--model NAME") {
		t.Errorf("a prompt without a model: %v", err)
	}
	if _, err := ReadRequests("set", strings.NewReader(`{"body":{"messages":[{"role":"user","content":"Hi"}]}}`), p, Usual{}); err == nil || !strings.Contains(err.Error(), "names no model") {
		t.Errorf("a body without a model: %v", err)
	}
}

func TestPlans(t *testing.T) {
	cfg := parse(t, twoTiers+"  acts: {effect: external, tiers: [{name: a, provider: openai}]}\n")
	for _, c := range []struct {
		workflow, tiers, want string
	}{
		{"", "", "several workflows have tiers; name one of chat, claude"},
		{"nope", "", `there is no workflow "nope"`},
		{"chat", "flash nope", `no tier "nope"; its tiers are pro, flash`},
		{"acts", "", "effect: external"},
	} {
		_, err := NewPlan(cfg, c.workflow, strings.Fields(c.tiers))
		if !errors.Is(err, ErrPlan) || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%+v: %v", c, err)
		}
	}
	if p := newPlan(t, twoTiers, "chat", "flash"); len(p.Tiers) != 1 || p.Tiers[0].Name != "flash" {
		t.Errorf("%+v", p.Tiers)
	}
	if p := newPlan(t, "", ""); p.Workflow != "default" || len(p.Tiers) != 1 || p.Tiers[0].Name != "as asked" {
		t.Errorf("%+v", p)
	}
	file := parse(t, "workflow: one\ntiers: [{name: a, provider: elsewhere, model: gpt-5}]\n")
	if _, err := NewPlan(file, "one", nil); !errors.Is(err, ErrPlan) || !strings.Contains(err.Error(), "elsewhere") {
		t.Errorf("a policy file alone: %v", err)
	}
}

func TestEstimates(t *testing.T) {
	p := newPlan(t, twoTiers, "chat")
	p.Repeat = 2
	var err error
	p.Requests, err = ReadRequests("set", strings.NewReader(`{"body":{"model":"x","max_tokens":1000,"messages":[{}]}}`), p, Usual{})
	if err != nil {
		t.Fatal(err)
	}
	e := p.Estimate()
	// 47 bytes are 16 tokens; gpt-5 takes 1.25 and 10, gpt-5-mini 0.25 and 2 USD per million, twice each.
	pro, flash := 2*spend.USD((16*1.25+1000*10)/1e6), 2*spend.USD(((16+3)*0.25+100*2)/1e6)
	if e.Tiers[0] != pro || e.Tiers[1] != flash || e.Total != e.Tiers[0]+e.Tiers[1] || e.Unpriced != nil {
		t.Errorf("%+v, want %s and %s", e, pro, flash)
	}
	asked := newPlan(t, twoTiers, "asked")
	asked.Requests, err = ReadRequests("set", strings.NewReader(`{"prompt":"a"}`+"\n"+`{"prompt":"b"}`), asked, Usual{Model: "our-own"})
	if err != nil {
		t.Fatal(err)
	}
	if e := asked.Estimate(); len(e.Unpriced) != 1 || e.Unpriced[0] != "our-own" || e.Total != 0 {
		t.Errorf("%+v", e)
	}
}

func FuzzRequests(f *testing.F) {
	f.Add(`{"prompt":"a","schema":{"type":"object"}}`)
	f.Add(`{"body":{"model":"x","messages":[]},"path":"/openai/v1/chat/completions"}`)
	f.Add(`{"body":{"contents":[],"generationConfig":{"responseSchema":{"type":"OBJECT"}}},"path":"/v1beta/models/a:generateContent"}`)
	f.Add("{\"prompt\":\"a\"}\r\n\n[\n{\"path\":\"//\",\"body\":{}}")
	cfg, faults := policy.Parse("test.yaml", []byte(strings.ReplaceAll(twoTiers, "SIM", "http://127.0.0.1:1")), os.LookupEnv)
	if cfg == nil {
		f.Fatal(faults)
	}
	p, err := NewPlan(cfg, "chat", nil)
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, set string) {
		all, err := ReadRequests("set", strings.NewReader(set), p, Usual{})
		if (err == nil) != (len(all) > 0) {
			t.Fatalf("%d requests, %v", len(all), err)
		}
		for i := range all {
			if p.mayCost(&p.Tiers[0], &all[i]); !json.Valid(all[i].Body) {
				t.Errorf("line %d is sent as %q", all[i].Line, all[i].Body)
			}
		}
	})
}
