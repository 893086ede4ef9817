package provider_test

import (
	"bytes"
	"strings"
	"testing"

	"github.com/holdfast-ai/holdfast/idempotency"
	"github.com/holdfast-ai/holdfast/internal/provider"
)

// ask takes a request apart by its canonical form, as the gateway does.
func ask(t *testing.T, path, body string) (provider.Asked, *provider.Call) {
	t.Helper()
	k, err := idempotency.New(idempotency.Config{})
	if err != nil {
		t.Fatal(err)
	}
	path, query, _ := strings.Cut(path, "?")
	call := provider.Parse(&provider.Request{Method: "POST", Path: path, RawQuery: query, Body: []byte(body), Wire: wireOfPath(path)})
	form := k.Canonical(nil, &idempotency.Request{Method: "POST", Path: path, Query: query, Body: []byte(body), API: idempotency.APIOf(path)})
	return provider.Ask(&call, form), &call
}

func wireOfPath(path string) provider.Wire {
	switch {
	case strings.HasSuffix(path, "/messages"):
		return provider.Anthropic
	case strings.Contains(path, ":"):
		return provider.Gemini
	}
	return provider.OpenAI
}

const (
	chatPath      = "/v1/chat/completions"
	responsesPath = "/v1/responses"
	messagesPath  = "/v1/messages"
	geminiPath    = "/v1beta/models/g:generateContent"
)

func TestAskFindsTheLastUserText(t *testing.T) {
	for _, c := range []struct{ path, body string }{
		{chatPath, `{"model":"m","temperature":0,"messages":[{"role":"system","content":"s"},{"role":"user","content":"a \"q\" ü"}]}`},
		{chatPath, `{"temperature":0.0,"messages":[{"role":"user","content":"x"},{"role":"assistant","content":"y","refusal":null,"annotations":[],"tool_calls":null},{"role":"user","content":[{"type":"text","text":" a \"q\" \u00fc "}]}]}`},
		{responsesPath, `{"temperature":0,"input":"a \"q\" ü"}`},
		{responsesPath, `{"temperature":0,"instructions":"s","input":[{"role":"user","content":"x"},{"type":"message","id":"m","status":"completed","role":"assistant","content":[{"type":"output_text","text":"y","annotations":[],"logprobs":[]}]},{"role":"user","content":[{"type":"input_text","text":"a \"q\" ü"}]}]}`},
		{messagesPath, `{"temperature":0,"max_tokens":5,"system":"s","messages":[{"role":"user","content":"a \"q\" ü"}]}`},
		{messagesPath, `{"temperature":0,"max_tokens":5,"messages":[{"role":"user","content":[{"type":"text","text":"a \"q\" ü","cache_control":{"type":"ephemeral"}}]}]}`},
		{geminiPath, `{"generationConfig":{"temperature":0},"contents":[{"role":"user","parts":[{"text":"x"}]},{"role":"model","parts":[{"text":"y"},{"text":"z"}]},{"role":"user","parts":[{"text":"a \"q\" ü"}]}]}`},
		{"/v1beta/models/g:streamGenerateContent", `{"generation_config":{"temperature":0},"contents":[{"parts":[{"text":"a \"q\" ü"}]}]}`},
	} {
		a, _ := ask(t, c.path, c.body)
		if a.Why != provider.Cacheable || a.Text != `a "q" ü` {
			t.Errorf("%s: %q, %q", c.body, a.Text, a.Why)
		}
		if bytes.Contains(a.Rest, []byte(`\"q\"`)) || bytes.Count(a.Rest, []byte{0}) != 1 {
			t.Errorf("%s: the rest holds the text, or no hole: %q", c.body, a.Rest)
		}
	}
}

func TestAskRefuses(t *testing.T) {
	const user = `{"role":"user","content":"q"}`
	chat := func(more, messages string) string {
		return `{"temperature":0` + more + `,"messages":[` + messages + `]}`
	}
	for _, c := range []struct {
		path, body string
		want       provider.NoCache
	}{
		{chatPath, `{"messages":[` + user + `]}`, provider.NoTemper},
		{chatPath, `{"temperature":null,"messages":[` + user + `]}`, provider.NoTemper},
		{chatPath, `{"temperature":"0","messages":[` + user + `]}`, provider.NoTemper},
		{chatPath, `{"temperature":0.7,"messages":[` + user + `]}`, provider.Drawn},
		{chatPath, chat(`,"tools":[{"type":"function","function":{"name":"f"}}]`, user), provider.MayAct},
		{chatPath, chat(`,"functions":[{"name":"f"}]`, user), provider.MayAct},
		{chatPath, chat(`,"web_search_options":{"a":1}`, user), provider.MayAct},
		{chatPath, chat(`,"web_search_options":{}`, user), provider.MayAct},
		{chatPath, chat(`,"plugins":[{"id":"web"}]`, user), provider.MayAct},
		{chatPath, chat(`,"modalities":["text","audio"]`, user), provider.NotText},
		{chatPath, chat(``, user+`,{"role":"assistant","content":"It is"}`), provider.LastTurn},
		{chatPath, chat(``, user+`,{"role":"assistant","content":null,"tool_calls":[{"id":"1"}]},{"role":"tool","tool_call_id":"1","content":"r"},`+user), provider.ToolContext},
		{chatPath, chat(``, `{"role":"tool","tool_call_id":"1","content":"r"}`), provider.ToolContext},
		{chatPath, chat(``, `{"role":"user","content":[{"type":"text","text":"a"},{"type":"text","text":"b"}]}`), provider.LastTurn},
		{chatPath, chat(``, `{"role":"user","content":[{"type":"text","text":"a"},{"type":"image_url","image_url":{"url":"u"}}]}`), provider.NotText},
		{chatPath, chat(``, `{"role":"user","content":"  "}`), provider.LastTurn},
		{chatPath, chat(``, ``), provider.LastTurn},
		{chatPath, chat(``, `{"role":"user","content":"`+strings.Repeat("x", provider.MaxQuestion)+`"}`), provider.TooLong},
		{chatPath, `not json`, provider.NoQuestion},
		{chatPath, `[1]`, provider.NoQuestion},
		{"/v1/embeddings", `{"input":"x"}`, provider.NoQuestion},
		{responsesPath, `{"temperature":0,"input":"q","previous_response_id":"r"}`, provider.Held},
		{responsesPath, `{"temperature":0,"input":"q","conversation":"c"}`, provider.Held},
		{responsesPath, `{"temperature":0,"input":"q","prompt":{"id":"p"}}`, provider.Held},
		{responsesPath, `{"temperature":0,"input":"q","background":true}`, provider.Held},
		{responsesPath, `{"temperature":0,"input":[{"type":"function_call_output","call_id":"1","output":"r"},` + user + `]}`, provider.ToolContext},
		{responsesPath, `{"temperature":0,"input":[{"type":"item_reference","id":"1"},` + user + `]}`, provider.Held},
		{responsesPath, `{"temperature":0,"input":[{"type":"reasoning","id":"1"},` + user + `]}`, provider.NotText},
		{messagesPath, `{"temperature":0,"messages":[{"role":"user","content":[{"type":"tool_result","tool_use_id":"1"},{"type":"text","text":"q"}]}]}`, provider.ToolContext},
		{messagesPath, `{"temperature":0,"messages":[{"role":"user","content":[{"type":"document","source":{}}]}]}`, provider.NotText},
		{messagesPath, `{"temperature":0,"messages":[` + user + `,{"role":"assistant","content":"{"}]}`, provider.LastTurn},
		{messagesPath, `{"temperature":0,"mcp_servers":[{"url":"u"}],"messages":[` + user + `]}`, provider.MayAct},
		{geminiPath, `{"contents":[{"parts":[{"text":"q"}]}]}`, provider.NoTemper},
		{geminiPath, `{"generationConfig":{"temperature":0},"cachedContent":"c","contents":[{"parts":[{"text":"q"}]}]}`, provider.Held},
		{geminiPath, `{"generationConfig":{"temperature":0},"contents":[{"role":"model","parts":[{"functionCall":{"name":"f"}}]},{"role":"user","parts":[{"text":"q"}]}]}`, provider.ToolContext},
		{geminiPath, `{"generationConfig":{"temperature":0},"contents":[{"role":"user","parts":[{"inlineData":{"data":"x"}},{"text":"q"}]}]}`, provider.NotText},
		{geminiPath, `{"generationConfig":{"temperature":0},"contents":[{"role":"model","parts":[{"text":"q"}]}]}`, provider.LastTurn},
	} {
		if a, _ := ask(t, c.path, c.body); a.Why != c.want {
			t.Errorf("%s: %q, want %q", c.body, a.Why, c.want)
		}
	}
}

// TestBR063 varies one thing at a time: everything that changes the answer stands in the rest.
func TestBR063(t *testing.T) {
	const base = `{"model":"m","temperature":0,"max_tokens":16,"messages":[{"role":"system","content":"s"},{"role":"user","content":"a"},{"role":"assistant","content":"b"},{"role":"user","content":"yes, do it"}]}`
	want, _ := ask(t, chatPath, base)
	if again, _ := ask(t, chatPath, strings.ReplaceAll(base, `,"`, `, "`)); !bytes.Equal(again.Rest, want.Rest) {
		t.Errorf("white space between members counts")
	}
	for _, change := range [][2]string{
		{`"max_tokens":16`, `"max_tokens":4000`}, {`"temperature":0`, `"temperature":1`}, {`"temperature":0`, `"temperature":0,"seed":1`},
		{`"temperature":0`, `"temperature":0,"stop":["x"]`}, {`"temperature":0`, `"temperature":0,"top_p":0.5`}, {`"temperature":0`, `"temperature":0,"n":2`},
		{`"temperature":0`, `"temperature":0,"tool_choice":"none"`}, {`"temperature":0`, `"temperature":0,"response_format":{"type":"json_object"}`},
		{`"temperature":0`, `"temperature":0,"user":"u"`}, {`"temperature":0`, `"temperature":0,"unheard_of":1`},
		{`"content":"s"`, `"content":"t"`}, {`"content":"a"`, `"content":"c"`}, {`"content":"b"`, `"content":"c"`}, {`"model":"m"`, `"model":"m2"`},
	} {
		got, _ := ask(t, chatPath, strings.Replace(base, change[0], change[1], 1))
		if got.Text != "yes, do it" || bytes.Equal(got.Rest, want.Rest) {
			t.Errorf("%s is the same question as %s (%q)", change[1], change[0], got.Why)
		}
	}
	if other, _ := ask(t, "/openai/deployments/d/chat/completions", base); bytes.Equal(other.Rest, want.Rest) {
		t.Error("another path is the same question")
	}
}

// In which form an answer comes is no part of the question, but of the place where it stands.
func TestAskIsFormless(t *testing.T) {
	const chat, gemini = `"temperature":0,"messages":[{"role":"user","content":"q"}]}`, `{"generationConfig":{"temperature":0},"contents":[{"parts":[{"text":"q"}]}]}`
	const stream = "/v1beta/models/g:streamGenerateContent"
	for _, same := range [][]struct{ target, body, form string }{
		{{chatPath, `{` + chat, "document"}, {chatPath, `{"stream":false,` + chat, "document"}, {chatPath, `{"stream":true,` + chat, "stream"},
			{chatPath, `{"stream_options":{"include_usage":true},"stream":true,` + chat, "stream with usage"},
			{chatPath, `{"stream":true,"stream_options":{"include_obfuscation":false},` + chat, "stream"}},
		{{responsesPath, `{"temperature":0,"input":"q"}`, "document"}, {responsesPath, `{"stream":true,"stream_options":{"include_obfuscation":false},"temperature":0,"input":"q"}`, "stream"}},
		{{messagesPath, `{` + chat, "document"}, {messagesPath, `{"stream":true,` + chat, "stream"}},
		{{geminiPath, gemini, "document"}, {stream, gemini, "array"}, {stream + "?alt=sse", gemini, "stream"}, {stream + "?%24alt=sse", gemini, "stream"}, {stream + "?alt=json", gemini, "array"}},
		{{geminiPath + "?v=1", gemini, "document"}, {stream + "?v=1&alt=sse", gemini, "stream"}},
		{{geminiPath + "?alt=sse", gemini, "document"}}, // not what Google's clients send, and what comes of it is not known
	} {
		first, _ := ask(t, same[0].target, same[0].body)
		for _, c := range same {
			a, call := ask(t, c.target, c.body)
			if a.Why != provider.Cacheable || !bytes.Equal(a.Rest, first.Rest) {
				t.Errorf("%s %s is another question (%q):\n%q\n%q", c.target, c.body, a.Why, a.Rest, first.Rest)
			}
			if forms := provider.Forms(call, []byte(c.body)); string(forms[0]) != c.form || len(forms) < 2 || len(forms) > 3 {
				t.Errorf("%s %s: %q", c.target, c.body, forms)
			}
		}
	}
	var rests [][]byte
	for _, target := range []string{geminiPath, geminiPath + "?alt=sse", geminiPath + "?v=1", stream + "?alt=proto", "/v1beta/models/h:generateContent"} {
		a, _ := ask(t, target, gemini)
		for _, other := range rests {
			if bytes.Equal(a.Rest, other) {
				t.Errorf("%s is another one's question", target)
			}
		}
		rests = append(rests, a.Rest)
	}
}

func TestKeepable(t *testing.T) {
	for _, c := range []struct {
		path, finish string
		tool, hosted bool
		want         bool
	}{
		{chatPath, "stop", false, false, true}, {chatPath, "", false, false, false}, {chatPath, "length", false, false, false},
		{chatPath, "content_filter", false, false, false}, {chatPath, "stop", true, false, false}, {chatPath, "stop", false, true, false},
		{responsesPath, "completed", false, false, true}, {responsesPath, "incomplete", false, false, false}, {responsesPath, "stop", false, false, false},
		{messagesPath, "end_turn", false, false, true}, {messagesPath, "refusal", false, false, false}, {messagesPath, "max_tokens", false, false, false},
		{geminiPath, "STOP", false, false, true}, {geminiPath, "SAFETY", false, false, false}, {"/v1/embeddings", "stop", false, false, false},
	} {
		call := provider.Parse(&provider.Request{Method: "POST", Path: c.path, Wire: wireOfPath(c.path)})
		if got := provider.Keepable(&call, c.finish, c.tool, c.hosted); got != c.want {
			t.Errorf("%s %q tool %v hosted %v: %v", c.path, c.finish, c.tool, c.hosted, got)
		}
	}
}

func FuzzAsk(f *testing.F) {
	f.Add(uint8(0), `{"temperature":0,"messages":[{"role":"user","content":"q"}]}`)
	f.Add(uint8(1), `{"temperature":0,"input":[{"role":"user","content":[{"type":"input_text","text":"q"}]}]}`)
	f.Add(uint8(3), `{"generationConfig":{"temperature":0},"contents":[{"parts":[{"text":"\u0000"}]}]}`)
	paths := []string{chatPath, responsesPath, messagesPath, geminiPath}
	f.Fuzz(func(t *testing.T, at uint8, body string) {
		a, _ := ask(t, paths[int(at)%len(paths)], body)
		if a.Why == provider.Cacheable && (a.Text == "" || bytes.Count(a.Rest, []byte{0}) != 1) {
			t.Errorf("%s: %q %q", body, a.Text, a.Rest)
		}
	})
}
