package cli

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-ai/holdfast/internal/admin"
)

func TestArgumentsForPeople(t *testing.T) {
	lines, err := json.Marshal(make([]int, 2*argumentLines))
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		asked, sent string
		want        string
		never       string
	}{
		"the same":  {`{"a":{"b":1}}`, `{"a":{"b":1}}`, "wrote them and as they were sent\n  {\n    \"a\": {\n      \"b\": 1\n", "–"},
		"two":       {`{"a":1,"repeat_reason":"r"}`, `{"a":1}`, "as they were sent\n  {\n    \"a\": 1\n  }\n", "null"},
		"none":      {`null`, `null`, "not on record", "{"},
		"long":      {string(lines), string(lines), "… --json shows more\n", "]"},
		"cut":       {`"{\"a\":\"b"`, `null`, "  {\"a\":\"b\nas they were sent\n  –\n", "not on record"},
		"a bell":    {"{\"a\":\"\u009b2J\u202e\"}", `null`, `"a": "?2J?"`, "\u009b"},
		"wide":      {`"` + strings.Repeat("x", 2*argumentWidth) + `"`, `null`, "x…\n", strings.Repeat("x", argumentWidth)},
		"no object": {`[]`, `[]`, "\n  []\n", "–"},
	} {
		got := sayArguments(&admin.ToolCall{Server: "notes", Tool: "add", Arguments: json.RawMessage(c.asked), Sent: json.RawMessage(c.sent)})
		if !strings.Contains(got, c.want) || strings.Contains(got, c.never) {
			t.Errorf("%s:\n%s", name, got)
		}
	}
	if got := sayArguments(nil); got != "" {
		t.Errorf("what is no MCP call: %q", got)
	}
}

// A listing names the tool where a model would stand, and says so.
func TestListingNamesTools(t *testing.T) {
	at := noon
	model := admin.Intent{ID: "1", CreatedAt: &at, Method: "POST", RequestedModel: "m-1"}
	tool := admin.Intent{ID: "2", CreatedAt: &at, Method: "tools/call", Endpoint: "add_note"}
	for _, c := range []struct {
		rows  []admin.Intent
		wants []string
	}{{[]admin.Intent{model}, []string{"  MODEL  ", "m-1"}}, {[]admin.Intent{model, tool}, []string{"  MODEL/TOOL  ", "m-1", "add_note"}}} {
		var b strings.Builder
		if err := (&intentTable{now: noon.Add(time.Second), rows: c.rows}).write(&b); err != nil {
			t.Fatal(err)
		}
		for _, want := range c.wants {
			if !strings.Contains(b.String(), want) {
				t.Errorf("%q is not in\n%s", want, &b)
			}
		}
	}
}
