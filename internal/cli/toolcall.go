package cli

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/holdfast-ai/holdfast/internal/admin"
)

// isTool says that an operation is an MCP call. No method of HTTP has a slash.
func isTool(v *admin.Intent) bool { return v.Method == "tools/call" }

// modelOrTool is what a listing shows of whom was asked.
func modelOrTool(v *admin.Intent) string {
	if isTool(v) {
		return v.Endpoint
	}
	return v.RequestedModel
}

// Bounds on arguments for people; JSON has them whole, up to 64 KiB.
const (
	argumentLines = 60
	argumentWidth = 240
)

// sayArguments shows what a person needs to find a tool's effect on the far side; "" for what is no MCP call.
func sayArguments(c *admin.ToolCall) string {
	if c == nil {
		return ""
	}
	asked, sent := present(c.Arguments), present(c.Sent)
	title := fmt.Sprintf("\nArguments of %s, on MCP server %s", clean(c.Tool, 128), clean(c.Server, 80))
	switch {
	case !asked && !sent:
		return title + ": not on record (retention.request_bodies)\n"
	case bytes.Equal(c.Arguments, c.Sent):
		return title + ", as the client wrote them and as they were sent\n" + pretty(c.Arguments)
	}
	return title + ", as the client wrote them\n" + pretty(c.Arguments) + "as they were sent\n" + pretty(c.Sent)
}

// present says that arguments are on record.
func present(raw json.RawMessage) bool { return len(raw) > 0 && string(raw) != "null" }

// pretty indents JSON for a terminal, which a model's text must not steer.
func pretty(raw json.RawMessage) string {
	var text bytes.Buffer
	var cut string
	switch {
	case !present(raw):
		return "  –\n"
	case json.Unmarshal(raw, &cut) == nil: // too long for the API
		text.WriteString(cut)
	case json.Indent(&text, raw, "", "  ") != nil:
		text.Write(raw)
	}
	var b strings.Builder
	n := 0
	for line := range strings.Lines(text.String()) {
		if n++; n > argumentLines {
			b.WriteString("  … --json shows more\n")
			break
		}
		fmt.Fprintf(&b, "  %s\n", clean(strings.TrimSuffix(line, "\n"), argumentWidth))
	}
	return b.String()
}
