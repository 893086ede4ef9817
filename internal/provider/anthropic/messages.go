// Package anthropic knows the wire format of Anthropic's Messages API.
package anthropic

import (
	"bytes"

	"github.com/holdfast-ai/holdfast/internal/provider/jsonview"
	"github.com/holdfast-ai/holdfast/internal/provider/wire"
)

// Messages is the grammar of a message's events.
type Messages struct{}

var (
	typeHead  = []byte(`{"type":"`)
	deltaHead = []byte(`{"type":"content_block_delta"`)
)

// Event implements wire.Grammar.
func (g *Messages) Event(s *wire.State, ev *wire.Event) {
	if s.FirstVisible >= 0 && s.Transcript == nil && bytes.HasPrefix(ev.Data, deltaHead) {
		return // text was seen, so nothing that a delta can say is new
	}
	doc := jsonview.Value(bytes.TrimSpace(ev.Data))
	switch string(kindOf(ev, doc)) {
	case "message_start":
		m := doc.Get("message")
		s.Identify(m.Get("id"), m.Get("model"))
		addUsage(&s.Usage, m.Get("usage"))
	case "content_block_start":
		block(s, ev, doc.Get("content_block"))
	case "content_block_delta":
		delta(s, ev, doc.Get("delta"))
	case "message_delta":
		addUsage(&s.Usage, doc.Get("usage"))
		if reason := doc.Path("delta", "stop_reason"); len(reason) > 2 && reason.IsString() {
			s.Complete(ev, reason.String())
		}
	case "message_stop":
		s.Close(ev, "message_stop")
	case "ping", "content_block_stop":
	default:
		if code, ok := g.Error(doc); ok || string(ev.Name) == "error" {
			s.Fail(ev, code)
		}
	}
}

// kindOf returns the event's type: that of its data, which names the same as the event line, or the line's.
func kindOf(ev *wire.Event, doc jsonview.Value) []byte {
	if bytes.HasPrefix(doc, typeHead) {
		rest := doc[len(typeHead):]
		if q := bytes.IndexByte(rest, '"'); q >= 0 && bytes.IndexByte(rest[:q], '\\') < 0 {
			return rest[:q]
		}
	}
	if kind := doc.Get("type"); len(kind) > 2 {
		return kind.AppendTo(nil)
	}
	return ev.Name
}

// block reads the start of a content block, which may hold its first content.
func block(s *wire.State, ev *wire.Event, b jsonview.Value) {
	switch kind := b.Get("type").String(); kind {
	case "text":
		s.Visible(ev, b.Get("text"))
	case "thinking":
		s.Reasoning(ev, b.Get("thinking"))
	case "tool_use":
		s.Tool(ev, false)
	case "server_tool_use", "mcp_tool_use": // run by Anthropic, or by the MCP servers that it calls
		s.Tool(ev, true)
	case "":
	default: // redacted thinking, results of server tools, and what is not known yet
		s.Content(ev)
	}
}

func delta(s *wire.State, ev *wire.Event, d jsonview.Value) {
	switch d.Get("type").String() {
	case "text_delta":
		s.Visible(ev, d.Get("text"))
	case "thinking_delta":
		s.Reasoning(ev, d.Get("thinking"))
	case "signature_delta": // seals the thinking before it
	case "input_json_delta":
		if len(d.Get("partial_json")) > 2 {
			s.Content(ev)
		}
	default:
		s.Content(ev)
	}
}

// addUsage takes over the counts that u has; output tokens are cumulative, input tokens may be stated once only.
func addUsage(to *wire.Usage, u jsonview.Value) {
	if n := u.Get("input_tokens").Int(); n >= 0 {
		to.Input = n
	}
	if n := u.Get("output_tokens").Int(); n >= 0 {
		to.Output = n
	}
	if n := u.Get("cache_read_input_tokens").Int(); n > 0 {
		to.Cached = n
	}
}

// End implements wire.Grammar. A stop reason completes an answer whose message_stop did not come.
func (g *Messages) End(p *wire.Progress) wire.End {
	if p.Ended || p.Finish != "" {
		return wire.Complete
	}
	return wire.Cut
}

// Error implements wire.Grammar.
func (g *Messages) Error(doc jsonview.Value) (string, bool) {
	e := doc.Get("error")
	switch {
	case e.IsObject():
		return wire.ErrorCode(e), true
	case e.Filled(), doc.Get("type").Is("error"):
		return wire.UnnamedError, true
	}
	return wire.UnnamedError, false
}
