package openai

import (
	"bytes"

	"github.com/holdfast-ai/holdfast/internal/provider/jsonview"
	"github.com/holdfast-ai/holdfast/internal/provider/wire"
)

// Responses is the grammar of the Responses API's typed events.
type Responses struct{}

var (
	typeHead   = []byte(`{"type":"`)
	textDelta  = []byte("response.output_text.delta")
	deltaTail  = []byte(".delta")
	doneTail   = []byte(".done")
	eventSpace = []byte("response.")
)

// Event implements wire.Grammar.
func (g *Responses) Event(s *wire.State, ev *wire.Event) {
	kind := kindOf(ev)
	if s.Transcript == nil && s.FirstVisible >= 0 && bytes.HasSuffix(kind, deltaTail) {
		return // text was seen, so nothing that a delta can say is new
	}
	doc := jsonview.Value(bytes.TrimSpace(ev.Data))
	switch {
	case bytes.Equal(kind, textDelta), string(kind) == "response.refusal.delta":
		s.Visible(ev, doc.Get("delta"))
	case bytes.HasSuffix(kind, deltaTail):
		g.otherDelta(s, ev, kind, doc)
	case bytes.HasSuffix(kind, doneTail):
		g.done(s, ev, kind, doc)
	default:
		g.lifecycle(s, ev, kind, doc)
	}
}

// kindOf returns the event's type: that of its data, which the SDKs go by, or the event line's.
func kindOf(ev *wire.Event) []byte {
	if bytes.HasPrefix(ev.Data, typeHead) {
		rest := ev.Data[len(typeHead):]
		if q := bytes.IndexByte(rest, '"'); q >= 0 && bytes.IndexByte(rest[:q], '\\') < 0 {
			return rest[:q]
		}
	}
	if kind := jsonview.Value(ev.Data).Get("type"); len(kind) > 2 {
		return kind.AppendTo(nil)
	}
	return ev.Name
}

func (g *Responses) otherDelta(s *wire.State, ev *wire.Event, kind []byte, doc jsonview.Value) {
	switch string(kind) {
	case "response.reasoning_text.delta", "response.reasoning_summary_text.delta":
		s.Reasoning(ev, doc.Get("delta"))
	default: // arguments of calls, audio, code
		if doc.Get("delta").Filled() {
			s.Content(ev)
		}
	}
}

// done takes text only from servers that send no deltas: elsewhere it repeats what was seen.
func (g *Responses) done(s *wire.State, ev *wire.Event, kind []byte, doc jsonview.Value) {
	switch string(kind) {
	case "response.output_text.done":
		if s.FirstVisible < 0 {
			s.Visible(ev, doc.Get("text"))
		}
	case "response.refusal.done":
		if s.FirstVisible < 0 {
			s.Visible(ev, doc.Get("refusal"))
		}
	case "response.output_item.done":
		if !s.ToolStarted {
			item(s, ev, doc.Get("item"))
		}
	}
}

func (g *Responses) lifecycle(s *wire.State, ev *wire.Event, kind []byte, doc jsonview.Value) {
	switch string(kind) {
	case "response.created", "response.queued", "response.in_progress":
		r := doc.Get("response")
		s.Identify(r.Get("id"), r.Get("model"))
	case "response.output_item.added":
		item(s, ev, doc.Get("item"))
	case "response.completed", "response.incomplete":
		g.finished(s, ev, kind, doc.Get("response"))
	case "response.failed", "response.cancelled", "response.canceled":
		r := doc.Get("response")
		g.result(s, ev, kind, r)
		s.Fail(ev, failedCode(r))
	case "error":
		e := doc.Get("error")
		if !e.IsObject() {
			e = doc
		}
		s.Fail(ev, eventCode(e))
	default:
		g.other(s, ev, doc)
	}
}

// eventCode reads the error event's code; flat, its type is only the event's own.
func eventCode(e jsonview.Value) string {
	if c := e.Get("code").Scalar(); c != "" {
		return c
	}
	if t := e.Get("type"); !t.Is("error") && t.Scalar() != "" {
		return t.Scalar()
	}
	return wire.UnnamedError
}

func failedCode(r jsonview.Value) string {
	if e := r.Get("error"); e.IsObject() {
		return wire.ErrorCode(e)
	}
	if status := r.Get("status").String(); status != "" {
		return status
	}
	return wire.UnnamedError
}

// finished reads the terminal event, and the whole answer in it where no delta came before.
func (g *Responses) finished(s *wire.State, ev *wire.Event, kind []byte, r jsonview.Value) {
	g.result(s, ev, kind, r)
	s.Close(ev, string(kind))
	if s.Boundary >= 0 && s.FirstVisible >= 0 {
		return
	}
	for a := r.Get("output").Array(); ; {
		it, ok := a.Next()
		if !ok {
			return
		}
		item(s, ev, it)
	}
}

func (g *Responses) result(s *wire.State, ev *wire.Event, kind []byte, r jsonview.Value) {
	s.Identify(r.Get("id"), r.Get("model"))
	s.Finish = r.Get("status").String()
	if s.Finish == "" {
		s.Finish = string(bytes.TrimPrefix(kind, eventSpace))
	}
	if u := r.Get("usage"); u.IsObject() {
		s.Usage = responsesUsage(u)
	}
}

// other reads what is no event of this API's: an error of a proxy.
func (g *Responses) other(s *wire.State, ev *wire.Event, doc jsonview.Value) {
	if e := doc.Get("error"); e.IsObject() || e.Filled() {
		s.Fail(ev, ErrorOf(e))
	}
}

// item reads an output item.
func item(s *wire.State, ev *wire.Event, it jsonview.Value) {
	kind := it.Get("type").String()
	switch {
	case clientCalls[kind]:
		s.Tool(ev, false)
	case hostedCalls[kind]:
		s.Tool(ev, true)
	case kind == "message":
		message(s, ev, it.Get("content"))
	}
}

// message reads a whole message's parts. Its text counts only if no delta brought it before.
func message(s *wire.State, ev *wire.Event, parts jsonview.Value) {
	if s.FirstVisible >= 0 {
		return
	}
	for a := parts.Array(); ; {
		part, ok := a.Next()
		if !ok {
			return
		}
		s.Visible(ev, part.Get("text"))
		s.Visible(ev, part.Get("refusal"))
	}
}

// clientCalls are the items by which the model asks the client to act, hostedCalls those that OpenAI runs itself
// (openai-openapi, ResponseOutputItem). Listing an MCP server's tools and asking for approval run nothing.
var (
	clientCalls = map[string]bool{
		"function_call": true, "custom_tool_call": true, "computer_call": true, "local_shell_call": true,
		"apply_patch_call": true,
	}
	hostedCalls = map[string]bool{
		"mcp_call": true, "web_search_call": true, "file_search_call": true, "code_interpreter_call": true,
		"image_generation_call": true, "shell_call": true, "tool_search_call": true,
	}
)

func responsesUsage(u jsonview.Value) wire.Usage {
	return wire.Usage{
		Input:     u.Get("input_tokens").Int(),
		Output:    u.Get("output_tokens").Int(),
		Cached:    wire.Positive(u.Path("input_tokens_details", "cached_tokens").Int()),
		Reasoning: wire.Positive(u.Path("output_tokens_details", "reasoning_tokens").Int()),
	}
}

// End implements wire.Grammar. [DONE] is not of this grammar and completes nothing.
func (g *Responses) End(p *wire.Progress) wire.End {
	if p.Ended {
		return wire.Complete
	}
	return wire.Cut
}

// Error implements wire.Grammar.
func (g *Responses) Error(doc jsonview.Value) (string, bool) {
	switch doc.Get("type").String() {
	case "response.failed", "response.cancelled", "response.canceled":
		return failedCode(doc.Get("response")), true
	}
	return Error(doc)
}
