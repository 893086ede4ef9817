package reconcile_test

import (
	"encoding/json"
	"testing"

	"github.com/holdfast-ai/holdfast/intent"
	"github.com/holdfast-ai/holdfast/ledger"
)

const askedConfig = `
env: test
tools:
  pay:
    base_url: FAR
    routes:
      - {match: "POST /orders", key: "{o}", reconcile: {get: "/orders/{o}", happened: "body.state == 'paid'"}}
      - {match: "POST /deep", key: "{o.id}", reconcile: {get: "/orders/{o.id}", happened: "body.state == 'paid'"}}
mcp:
  servers:
    orders:
      url: FAR/mcp
      tools:
        create: {key: "{o}", reconcile: {tool: find, arguments: {o: "{o}", text: "order {o}"}, happened: "len(result.orders) > 0"}}
`

// TestAsksForTheKey holds that what is looked for is what the key was made of: the same member, in the same spelling.
func TestAsksForTheKey(t *testing.T) {
	r := newRig(t, askedConfig)
	for _, c := range []struct{ path, request, asked string }{
		// A body is what its caller makes of it: no member of it says that another is meant.
		{"/orders", `{"o":"A","arguments":{"o":"B"}}`, "/orders/A"},
		{"/orders", `{"arguments":{"o":"B"},"o":"A"}`, "/orders/A"},
		{"/orders", `{"o":"A","jsonrpc":"2.0","method":"tools/call","params":{"arguments":{"o":"B"}}}`, "/orders/A"},
		{"/orders", `{"arguments":{"o":"B"}}`, ""},
		{"/orders", `{"jsonrpc":"2.0","params":{"arguments":{"o":"B"}}}`, ""},
		// One key, one spelling.
		{"/orders", `{"o":7}`, "/orders/7"},
		{"/orders", `{"o":"7"}`, "/orders/7"},
		{"/orders", `{"o":7.0}`, "/orders/7"},
		{"/orders", `{"o":70e-1}`, "/orders/7"},
		{"/orders", `{"o":7E2}`, "/orders/700"},
		{"/orders", `{"o":-0.0}`, "/orders/0"},
		{"/orders", `{"o":0.50}`, "/orders/0.5"},
		{"/orders", `{"o":"7.0"}`, "/orders/7.0"},
		{"/orders", `{"o":12345678901234567890}`, "/orders/12345678901234567890"},
		{"/orders", `{"\u006f":"\u0041"}`, "/orders/A"},
		{"/orders", "\xef\xbb\xbf" + `{"o":"A"}`, "/orders/A"},
		{"/orders", `{"o":1234567890123456789012345}`, ""}, // has no spelling without an exponent
		{"/orders", `{"o":1e-9}`, ""},
		{"/orders", `{"o":"A","o":"B"}`, ""},
		{"/orders", `{"o":"A"}{"o":"B"}`, ""},
		{"/orders", `["A"]`, ""},
		{"/deep", `{"o":{"id":"A"},"o.id":"B"}`, "/orders/A"},
		{"/deep", `{"o":[{"id":"A"}]}`, ""},
	} {
		r.far.says(200, `{"state":"paid"}`)
		f := r.check(r.lose(tool(c.path), c.request, nil))
		asked := ""
		if last := r.far.last(); last != nil {
			asked = last.URL.EscapedPath()
		}
		if asked != c.asked || (f.Found == intent.Happened) != (c.asked != "") {
			t.Errorf("%s: asked %q, %s, %q; want %q", c.request, asked, f.Found, f.Reason, c.asked)
		}
	}
}

// TestAsksForTheToolsKey is the same of an MCP call, whose arguments stand in its message.
func TestAsksForTheToolsKey(t *testing.T) {
	r := newRig(t, askedConfig)
	for arguments, want := range map[string]string{
		`{"o":"A","arguments":{"o":"B"}}`:            `{"o":"A","text":"order A"}`,
		`{"o":"A","params":{"arguments":{"o":"B"}}}`: `{"o":"A","text":"order A"}`,
		`{"o":7.0}`:               `{"o":7,"text":"order 7"}`,
		`{"o":"7"}`:               `{"o":"7","text":"order 7"}`,
		`{"arguments":{"o":"B"}}`: ``,
		`{"o":"A","o":"B"}`:       ``,
		`["A"]`:                   ``,
		`{"o":"A"},"o":"B","arguments":{"o":"C","o":""}`: ``,
	} {
		asked := ""
		r.set.ReadTools(reader(func(_, _ string, sent json.RawMessage) (any, bool, error) {
			asked = string(sent)
			return map[string]any{"orders": []any{1}}, false, nil
		}))
		f := r.check(r.lose(ledger.Intent{Workflow: "orders", Provider: "mcp", Method: "tools/call", Path: "/mcp/orders", Endpoint: "create"},
			`{"jsonrpc":"2.0","id":1,"method":"tools/call","arguments":{"o":"Z"},"params":{"name":"create","arguments":`+arguments+`}}`, nil))
		if asked != want || (f.Found == intent.Happened) != (want != "") {
			t.Errorf("%s: asked with %s, %s, %q", arguments, asked, f.Found, f.Reason)
		}
	}
}
