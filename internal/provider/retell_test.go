package provider

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// wholeForms are whole answers of each API to one text, as their providers give them, by the request that asks for them.
var wholeForms = []struct{ name, path, body string }{
	{"chat", "/v1/chat/completions", `{"model":"m"}`},
	{"chat stream", "/v1/chat/completions", `{"model":"m","stream":true}`},
	{"chat stream with usage", "/v1/chat/completions", `{"model":"m","stream":true,"stream_options":{"include_usage":true}}`},
	{"responses", "/v1/responses", `{"model":"m"}`},
	{"responses stream", "/v1/responses", `{"model":"m","stream":true}`},
	{"messages", "/v1/messages", `{"model":"m"}`},
	{"messages stream", "/v1/messages", `{"model":"m","stream":true}`},
	{"gemini", "/v1beta/models/m:generateContent", `{}`},
	{"gemini sse", "/v1beta/models/m:streamGenerateContent?alt=sse", `{}`},
	{"gemini array", "/v1beta/models/m:streamGenerateContent", `{}`},
}

// wholes are the answers of testdata/whole.txt by name: content type and body.
func wholes(t testing.TB) map[string][2]string {
	t.Helper()
	file, err := os.ReadFile(filepath.Join("testdata", "whole.txt"))
	if err != nil {
		t.Fatal(err)
	}
	all := map[string][2]string{}
	for section := range strings.SplitSeq(strings.TrimPrefix(string(file), "--- "), "\n--- ") {
		name, rest, _ := strings.Cut(section, "\n")
		kind, body, _ := strings.Cut(rest, "\n")
		all[name] = [2]string{kind, body + "\n"}
	}
	return all
}

// api is what the answers of one API begin their names with.
func api(name string) string { return strings.Fields(name)[0] }

// Every answer is told in every other form of its API: as the golden file has it, which test/sdk/go/said reads with the official SDKs;
// and each is whole, of the same words, model and end.
func TestRetell(t *testing.T) {
	answers, golden := wholes(t), strings.Builder{}
	for _, from := range wholeForms {
		for _, to := range wholeForms {
			if from == to || api(from.name) != api(to.name) {
				continue
			}
			call := saidCall(to.path, to.body)
			s, ok := Retell(call, []byte(to.body), answers[from.name][0], []byte(answers[from.name][1]))
			if !ok {
				t.Errorf("%s is not told as %s", from.name, to.name)
				continue
			}
			fmt.Fprintf(&golden, "--- %s as %s\n%s\n%s\n", from.name, to.name, s.ContentType, strings.ReplaceAll(string(s.Body), "\r", "␍"))
			tellsWhole(t, from.name+" as "+to.name, call, s)
		}
	}
	file := filepath.Join("testdata", "retold.golden")
	if *update {
		if err := os.WriteFile(file, []byte(golden.String()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(string(want), golden.String()); d != "" {
		t.Error(d)
	}
}

func tellsWhole(t *testing.T, name string, call *Call, s Said) {
	t.Helper()
	finish, model, usage := "", "", Usage{}
	if call.Stream {
		stream := NewStream(call, call.Format, Limits{})
		if err := stream.Feed(s.Body); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if end := stream.Close(); end != Complete {
			t.Errorf("%s ends %s", name, end)
		}
		p := stream.Progress()
		finish, model, usage = p.Finish, p.ServedModel, p.Usage
	} else {
		p := PlainAnswer(call, 200, s.ContentType, s.Body)
		if !p.Complete {
			t.Errorf("%s: %+v", name, p)
		}
		if got := Text(call, s.Body); got != busy {
			t.Errorf("%s says %q", name, got)
		}
		finish, model, usage = p.Finish, p.ServedModel, p.Usage
	}
	if !Keepable(call, finish, false, false) || model == "" || model == SaidBy {
		t.Errorf("%s ends with %q by %q", name, finish, model)
	}
	counted := !strings.HasSuffix(name, "as chat stream") && !strings.HasPrefix(name, "chat stream as")
	if counted && (usage.Input != 9 && usage.Input != 12 || usage.Output != 12) { // of a message with what was read of a cache
		t.Errorf("%s: %+v", name, usage)
	}
}

// What the other form would not tell just so is not told.
func TestRetellNothing(t *testing.T) {
	answers := wholes(t)
	for _, c := range []struct{ from, to, old, with string }{
		{"chat", "chat stream", `"refusal": null`, `"refusal": "no"`},
		{"chat", "chat stream", `"annotations": []`, `"annotations": [{"type":"url_citation"}]`},
		{"chat", "chat stream", `"logprobs": null`, `"logprobs": {"content":[{"token":"a"}]}`},
		{"chat", "chat stream", `"annotations": []`, `"reasoning_content": "hm"`},
		{"chat", "chat stream", `"annotations": []`, `"audio": {"id":"a"}`},
		{"chat", "chat stream", `"choices": [`, `"choices": [{"index":1,"message":{"content":"x"},"finish_reason":"stop"},`},
		{"chat", "chat stream", `"id": "chatcmpl-B1"`, `"id": "chatcmpl-B1", "citations": ["http://x"]`},
		{"chat", "chat stream", `"finish_reason": "stop"`, `"finish_reason": "length"`},
		{"chat", "chat stream", `"fp_1"`, `"fp_1"]`},
		{"chat stream", "chat", `"index":0`, `"index":1`},
		{"chat stream", "chat", `"delta":{}`, `"delta":{"reasoning":"hm"}`},
		{"chat stream", "chat", `"finish_reason":"stop"`, `"finish_reason":null`},
		{"chat stream", "chat", `"delta":{}`, `"delta":{"tool_calls":[{"index":0}]}`},
		{"chat stream", "chat", "data: [DONE]", `data: {"error":{"message":"x"}}`},
		{"chat stream", "chat stream with usage", `"logprobs":null`, `"logprobs":{"content":[{"token":"a"}]}`},
		{"responses", "responses stream", `"annotations":[]`, `"annotations":[{"type":"url_citation"}]`},
		{"responses", "responses stream", `"logprobs":[]`, `"logprobs":[{"token":"a"}]`},
		{"responses", "responses stream", `"summary":[]`, `"summary":[{"type":"summary_text","text":"hm"}]`},
		{"responses", "responses stream", `"type":"reasoning"`, `"type":"web_search_call"`},
		{"responses", "responses stream", `"type":"output_text"`, `"type":"refusal"`},
		{"responses", "responses stream", `"content":[`, `"content":[{"type":"output_text","text":"x"},`},
		{"responses", "responses stream", `"status":"completed","completed_at"`, `"status":"incomplete","completed_at"`},
		{"responses stream", "responses", `"type":"response.completed"`, `"type":"response.incomplete"`},
		{"responses stream", "responses", `"type":"response.completed","sequence_number":`, `"type":"response.completed","x":{{}},"sequence_number":`},
		{"messages", "messages stream", `"type":"text",`, `"type":"text","citations":[{"type":"char_location"}],`},
		{"messages", "messages stream", `"content":[`, `"content":[{"type":"thinking","thinking":"hm","signature":"s"},`},
		{"messages", "messages stream", `"type":"message"`, `"type":"message","container":{"id":"c"}`},
		{"messages stream", "messages", `"type":"text_delta"`, `"type":"citations_delta"`},
		{"messages stream", "messages", `"type":"text",`, `"type":"thinking",`},
		{"messages stream", "messages", `"stop_reason":"stop_sequence"`, `"stop_reason":null`},
		{"messages stream", "messages", `{"type":"ping"}`, `{"type":"error","error":{"type":"overloaded_error"}}`},
		{"gemini sse", "gemini", `"parts":[`, `"parts":[{"text":"hm","thought":true},`},
		{"gemini sse", "gemini", `"index":0`, `"index":0,"citationMetadata":{"citationSources":[{"uri":"u"}]}`},
		{"gemini array", "gemini", `"index":0`, `"index":0,"groundingMetadata":{"webSearchQueries":["q"]}`},
		{"gemini array", "gemini", `"candidates":[`, `"candidates":[{"index":1},`},
		{"gemini array", "gemini", `"finishReason":"STOP"`, `"finishReason":"MAX_TOKENS"`},
		{"gemini", "gemini array", `"r1"`, `"r1`},
	} {
		to := wholeForms[slices.IndexFunc(wholeForms, func(r struct{ name, path, body string }) bool { return r.name == c.to })]
		body := strings.Replace(answers[c.from][1], c.old, c.with, 1)
		if body == answers[c.from][1] {
			t.Fatalf("%s holds no %s", c.from, c.old)
		}
		if s, ok := Retell(saidCall(to.path, to.body), []byte(to.body), answers[c.from][0], []byte(body)); ok {
			t.Errorf("%s with %s is told as %s: %s", c.from, c.with, c.to, s.Body)
		}
	}
	for _, from := range wholeForms {
		for _, to := range wholeForms {
			if api(from.name) != api(to.name) {
				if s, ok := Retell(saidCall(to.path, to.body), []byte(to.body), answers[from.name][0], []byte(answers[from.name][1])); ok && api(to.name) != "gemini" {
					t.Errorf("%s is told as %s: %s", from.name, to.name, s.Body)
				}
			}
		}
	}
}

// An answer without a word is told from one that has any, in each form.
func TestSays(t *testing.T) {
	answers := wholes(t)
	for _, r := range wholeForms {
		call, a := saidCall(r.path, r.body), answers[r.name]
		if !Says(call, a[0], []byte(a[1])) {
			t.Errorf("%s says nothing", r.name)
		}
		silent := a[1]
		for _, text := range []string{`"We are busy, \"just\" now: 100 %s.\n$id 今 <b> \u2028"`, `"We are busy, \"just\" now: 100 "`, `"%s.\n$id 今 <b> \u2028"`} {
			silent = strings.ReplaceAll(silent, text, `" \n"`)
		}
		if Says(call, a[0], []byte(silent)) {
			t.Errorf("%s without a word says something: %s", r.name, silent)
		}
	}
}

func FuzzRetell(f *testing.F) {
	answers := wholes(f)
	for from := range wholeForms {
		for to := range wholeForms {
			f.Add(uint8(to), answers[wholeForms[from].name][0], answers[wholeForms[from].name][1])
		}
	}
	f.Fuzz(func(t *testing.T, to uint8, kind, answer string) {
		r := wholeForms[int(to)%len(wholeForms)]
		call := saidCall(r.path, r.body)
		s, ok := Retell(call, []byte(r.body), kind, []byte(answer))
		if ok && !call.Stream && api(r.name) != "gemini" {
			if p := PlainAnswer(call, 200, s.ContentType, s.Body); !p.Complete {
				t.Errorf("%+v: %s", p, s.Body)
			}
		}
	})
}
