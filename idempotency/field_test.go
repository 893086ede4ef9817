package idempotency_test

import (
	"flag"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/holdfast-ai/holdfast/idempotency"
	"github.com/holdfast-ai/holdfast/internal/doctable"
)

var update = flag.Bool("update", false, "rewrite golden files and the list in docs/keys.md")

// paths has a path for each format.
var paths = map[idempotency.API]string{
	idempotency.Chat: "/v1/chat/completions", idempotency.Responses: "/v1/responses", idempotency.Messages: "/v1/messages",
	idempotency.Generate: "/v1beta/models/m:generateContent", idempotency.Converse: "/model/m/converse", idempotency.Ollama: "/api/chat",
	idempotency.Tool: "tools/call", idempotency.Message: "tools/call",
}

// at builds a body with one value at a path of the published list; role, if any, stands beside it.
func at(api idempotency.API, path, value, role string) string {
	steps := strings.Split(path, ".")
	for i := len(steps) - 1; i >= 0; i-- {
		name, array := strings.CutSuffix(steps[i], "[]")
		if array {
			value = "[" + value + "]"
		}
		more := ""
		if i == len(steps)-1 && role != "" {
			more = `,"role":"` + role + `"`
		}
		if i == 0 && api == idempotency.Message {
			more += `,"jsonrpc":"2.0"`
		}
		value = fmt.Sprintf(`{%q:%s%s}`, name, value, more)
	}
	return value
}

// Every entry of the list does what it says, at its place and in its format only.
func TestPublishedList(t *testing.T) {
	plain, versioned := keyer(t, idempotency.Config{}), keyer(t, idempotency.Config{SchemaVersion: "1"})
	for _, f := range idempotency.Published() {
		t.Run(string(f.API)+" "+f.Path, func(t *testing.T) {
			path := paths[f.API]
			one, two := at(f.API, f.Path, `1`, ""), at(f.API, f.Path, `2`, "")
			want(t, plain, post("/other", one), post("/other", two), false)
			want(t, plain, post(path, at(f.API, "x."+f.Path, `1`, "")), post(path, at(f.API, "x."+f.Path, `2`, "")), false)
			switch f.What {
			case idempotency.Whole:
				want(t, plain, post(path, one), post(path, two), true)
			case idempotency.Schema:
				want(t, plain, post(path, one), post(path, two), false)
				want(t, versioned, post(path, one), post(path, two), true)
			case idempotency.Rest:
				want(t, plain, post(path, at(f.API, f.Path, `{"trace":1}`, "")), post(path, `{}`), true)
			case idempotency.Named:
				want(t, plain, post(path, one), post(path, two), false)
			case idempotency.Ends:
				testEnds(t, plain, path, f)
			}
		})
	}
}

func testEnds(t *testing.T, k *idempotency.Keyer, path string, f idempotency.Field) {
	roles := f.Roles
	if roles == nil {
		roles = []string{"none"}
	}
	forms := [][2]string{{`" x\n"`, `"x"`}, {`[{"text":" x\n"}]`, `[{"text":"x"}]`}}
	for _, role := range append(roles, "assistant", "model", "tool") {
		asked := strings.TrimSuffix(role, "none")
		same := f.Roles == nil || strings.Contains(strings.Join(f.Roles, " "), role)
		for _, v := range forms {
			want(t, k, post(path, at(f.API, f.Path, v[0], asked)), post(path, at(f.API, f.Path, v[1], asked)), same)
			want(t, k, post("/other", at(f.API, f.Path, v[0], asked)), post("/other", at(f.API, f.Path, v[1], asked)), false)
		}
	}
}

// What looks like an entry of the list and is none.
func TestLookalikesCount(t *testing.T) {
	k := keyer(t, idempotency.Config{})
	for _, tc := range []struct {
		api  idempotency.API
		a, b string
		same bool
	}{
		{idempotency.Messages, `{"tools":[{"input_schema":{"properties":{"cache_control":{"type":"string"}}}}]}`, `{"tools":[{"input_schema":{"properties":{}}}]}`, false},
		{idempotency.Messages, `{"messages":[{"role":"assistant","content":[{"type":"tool_use","input":{"cache_control":1}}]}]}`, `{"messages":[{"role":"assistant","content":[{"type":"tool_use","input":{"cache_control":2}}]}]}`, false},
		{idempotency.Messages, `{"metadata":{"user_id":"a","trace":1}}`, `{"metadata":{"user_id":"a","trace":2}}`, true},
		{idempotency.Messages, `{"metadata":{"user_id":"a"}}`, `{"metadata":{}}`, false},
		{idempotency.Messages, `{"metadata":null}`, `{}`, true},
		{idempotency.Messages, `{"messages":[{"role":"user","content":[{"type":"tool_result","content":"x "}]}]}`, `{"messages":[{"role":"user","content":[{"type":"tool_result","content":"x"}]}]}`, false},
		{idempotency.Messages, `{"messages":[{"role":"assistant","content":"The answer is "}]}`, `{"messages":[{"role":"assistant","content":"The answer is"}]}`, false},
		{idempotency.Messages, `{"messages":[{"role":"user","content":[{"type":"text","text":"a "},{"type":"text","text":"b"}]}]}`, `{"messages":[{"role":"user","content":[{"type":"text","text":"a"},{"type":"text","text":"b"}]}]}`, false},
		{idempotency.Chat, `{"user":"u-1"}`, `{"user":"u-2"}`, false},
		{idempotency.Chat, `{"safety_identifier":"u-1"}`, `{"safety_identifier":"u-2"}`, false},
		{idempotency.Chat, `{"stream":true}`, `{"stream":false}`, false},
		{idempotency.Chat, `{"prompt_cache_retention":"24h"}`, `{}`, false},
		{idempotency.Chat, `{"messages":[{"role":"tool","content":"x "}]}`, `{"messages":[{"role":"tool","content":"x"}]}`, false},
		{idempotency.Chat, `{"messages":[{"role":"user","name":"a ","content":""}]}`, `{"messages":[{"role":"user","name":"a","content":""}]}`, false},
		{idempotency.Chat, `{"messages":[{"role":"User","content":"x "}]}`, `{"messages":[{"role":"User","content":"x"}]}`, false},
		{idempotency.Chat, `{"messages":[{"r\u006fle":"user","content":"x "}]}`, `{"messages":[{"content":"x","role":"us\u0065r"}]}`, true},
		{idempotency.Chat, `{"m\u0065tadata":{"t":1}}`, `{}`, true},
		{idempotency.Responses, `{"input":[{"type":"function_call_output","output":"x "}]}`, `{"input":[{"type":"function_call_output","output":"x"}]}`, false},
		{idempotency.Generate, `{"contents":[{"role":"model","parts":[{"text":"x "}]}]}`, `{"contents":[{"role":"model","parts":[{"text":"x"}]}]}`, false},
		{idempotency.Tool, `{"name":"x","arguments":{"_meta":1}}`, `{"name":"x","arguments":{"_meta":2}}`, false},
		{idempotency.Tool, `{"name":"x","arguments":{"metadata":1}}`, `{"name":"x","arguments":{"metadata":2}}`, false},
		{idempotency.Tool, `{"name":"x","arguments":{"text":"x "}}`, `{"name":"x","arguments":{"text":"x"}}`, false},
	} {
		want(t, k, post(paths[tc.api], tc.a), post(paths[tc.api], tc.b), tc.same)
	}
}

// A request can be told to be of no format, whatever its path looks like.
func TestAPIOverridesPath(t *testing.T) {
	k := keyer(t, idempotency.Config{})
	a, b := post("/tools/crm/v1/messages", `{"metadata":1}`), post("/tools/crm/v1/messages", `{"metadata":2}`)
	a.API, b.API = idempotency.Other, idempotency.Other
	want(t, k, a, b, false)
}

const docs = "../docs/keys.md"

// The list that users read is the list that runs.
func TestDocsShowTheList(t *testing.T) {
	const begin, end = "<!-- published list -->\n", "<!-- end of list -->\n"
	var b strings.Builder
	b.WriteString("| format | field | what does not count | why |\n|---|---|---|---|\n")
	for _, f := range idempotency.Published() {
		what := string(f.What)
		if f.Roles != nil {
			what += ", role " + strings.Join(f.Roles, " or ")
		}
		fmt.Fprintf(&b, "| %s | `%s` | %s | %s |\n", f.API, f.Path, what, f.Reason)
	}
	doctable.Check(t, docs, begin, end, b.String(), *update, "go test ./idempotency -update")
}

// Each debatable pair of the corpus is decided in the docs.
func TestDocsDecide(t *testing.T) {
	data, err := os.ReadFile(docs)
	if err != nil {
		t.Fatal(err)
	}
	for id, p := range corpus(t, "testdata/requests/index.json") {
		if p.Debatable && !strings.Contains(string(data), "`"+id+"`") {
			t.Errorf("%s: no word about %s", docs, id)
		}
	}
}
