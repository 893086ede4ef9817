package admin

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"

	"github.com/holdfast-ai/holdfast/intent"
	"github.com/holdfast-ai/holdfast/ledger"
)

// tool puts an MCP call of a tenant's on record; empty messages are not kept.
func (r *rig) tool(tenant, asked, sent string) string {
	r.t.Helper()
	b := intent.Begin{Attempt: &intent.Attempt{Route: "mcp/notes/add"}, Head: ledger.Intent{Tenant: tenant, Workflow: "notes", Effect: ledger.EffectExternal,
		Hold: true, Method: "tools/call", Path: "/mcp/notes", Endpoint: "add"}}
	if asked != "" {
		b.Request = &ledger.Body{Kind: ledger.BodyRequest, ContentType: "application/json", Data: []byte(asked)}
	}
	if sent != "" {
		b.Sent = &ledger.Body{Kind: ledger.BodySent, ContentType: "application/json", Data: []byte(sent)}
	}
	o, err := r.log.Begin(b)
	if err != nil {
		r.t.Fatal(err)
	}
	return o.ID()
}

// An operator sees what an MCP call asked for, and a tenant that of its own calls.
func TestArguments(t *testing.T) {
	r := newRig(t)
	message := func(params string) string {
		return `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":` + params + `}`
	}
	long := strings.Repeat("é", argumentsMost)
	for name, c := range map[string]struct {
		asked, sent         string
		arguments, received string // as JSON
		cut                 bool
	}{
		"both":              {message(`{"name":"add","arguments":{"a":1,"repeat_reason":"r"}}`), message(`{"name":"add","arguments":{"a":1}}`), `{"a":1,"repeat_reason":"r"}`, `{"a":1}`, false},
		"sent as written":   {message(`{"name":"add","arguments":{"a":"<b>"}}`), "", `{"a":"<b>"}`, `{"a":"<b>"}`, false},
		"no arguments":      {message(`{"name":"add"}`), "", `{}`, `{}`, false},
		"null":              {message(`{"name":"add","arguments":null}`), "", `{}`, `{}`, false},
		"another spelling":  {message(`{"name":"add","arguments":{"a":1},"Arguments":{"a":2}}`), "", `{"a":1}`, `{"a":1}`, false},
		"none on record":    {"", "", `null`, `null`, false},
		"no such message":   {`[1]`, `[1]`, `null`, `null`, false},
		"longer than shown": {message(`{"name":"add","arguments":{"a":"` + long + `"}}`), "", "", "", true},
	} {
		id := r.tool("one", c.asked, c.sent)
		var v Intent
		w := send(r.api.Tenants(func(*http.Request) string { return "one" }), "GET", "/holdfast/v1/intents/"+id, "")
		if err := json.Unmarshal(w.Body.Bytes(), &v); err != nil || v.Call == nil {
			t.Fatalf("%s: %v %s", name, err, w.Body)
		}
		if v.Call.Server != "notes" || v.Call.Tool != "add" || v.Call.Truncated != c.cut {
			t.Errorf("%s: %+v", name, v.Call)
		}
		if c.cut {
			var text string
			if err := json.Unmarshal(v.Call.Arguments, &text); err != nil || len(text) > argumentsMost || !strings.HasPrefix(text, `{"a":"éé`) || strings.Contains(text, "\ufffd") {
				t.Errorf("%s: %d bytes, %v", name, len(text), err)
			}
			continue
		}
		if string(v.Call.Arguments) != c.arguments || string(v.Call.Sent) != c.received {
			t.Errorf("%s: %s and %s", name, v.Call.Arguments, v.Call.Sent)
		}
		if w := send(r.api.Tenants(func(*http.Request) string { return "two" }), "GET", "/holdfast/v1/intents/"+id, ""); w.Code != 404 || strings.Contains(w.Body.String(), "arguments") {
			t.Errorf("%s: another tenant sees %d %s", name, w.Code, w.Body)
		}
	}
	other := send(r.operators(r.api.Policy().Auth), "GET", "/holdfast/v1/intents/"+r.unknown("one", "k"), "")
	if strings.Contains(other.Body.String(), `"call"`) {
		t.Errorf("what is no MCP call has one: %s", other.Body)
	}
}
