package wire

import (
	"bytes"

	"github.com/holdfast-ai/holdfast/internal/provider/jsonview"
	"github.com/holdfast-ai/holdfast/internal/sse"
)

// errorDataMax bounds the copy of an error event.
const errorDataMax = 64 << 10

// Event is one event of a stream: a server-sent event, or an array's element without a name.
type Event = sse.Event

// Grammar knows what the events of one endpoint mean.
type Grammar interface {
	// Event reads one complete event into s. It neither keeps nor changes ev's bytes.
	Event(s *State, ev *Event)
	// End says how a stream without an in-stream error ended.
	End(p *Progress) End
	// Error returns the code of a JSON document that reports an error in this API's form.
	Error(doc jsonview.Value) (code string, ok bool)
}

// Transcript collects an answer's text for explain; the gateway has none.
type Transcript struct{ Text, Reasoning []byte }

// State is what a grammar writes to.
type State struct {
	Progress
	Transcript *Transcript // nil: not collected
}

// Content marks ev as content of some kind.
func (s *State) Content(ev *Event) {
	if s.Boundary < 0 {
		s.Boundary = ev.Start
	}
}

// Visible takes text for the end user. Empty text is no content.
func (s *State) Visible(ev *Event, text jsonview.Value) {
	if len(text) < 3 || !text.IsString() {
		return
	}
	s.Content(ev)
	if s.FirstVisible < 0 {
		s.FirstVisible = s.Events - 1
	}
	if s.Transcript != nil {
		s.Transcript.Text = text.AppendTo(s.Transcript.Text)
	}
}

// Reasoning takes text that the model thought. Empty text is no content.
func (s *State) Reasoning(ev *Event, text jsonview.Value) {
	if len(text) < 3 || !text.IsString() {
		return
	}
	s.Content(ev)
	if s.Transcript != nil {
		s.Transcript.Reasoning = text.AppendTo(s.Transcript.Reasoning)
	}
}

// Tool marks ev as naming a tool call; hosted says that the provider runs the tool itself.
func (s *State) Tool(ev *Event, hosted bool) {
	s.Content(ev)
	s.ToolStarted = true
	s.HostedTool = s.HostedTool || hosted
}

// Complete marks ev as the one that completes the answer; "" leaves the finish reason.
func (s *State) Complete(ev *Event, finish string) {
	if s.Completing < 0 {
		s.Completing = ev.Start
	}
	if finish != "" {
		s.Finish = finish
	}
}

// Close marks the grammar's own end.
func (s *State) Close(ev *Event, terminal string) {
	s.Complete(ev, "")
	s.Ended, s.Last = true, ev.Start
	if s.Terminal == "" {
		s.Terminal = terminal
	}
}

// Fail marks ev as an in-stream error. The first one counts: a second is the same failure told again.
func (s *State) Fail(ev *Event, code string) {
	if s.ErrorAt >= 0 {
		return
	}
	s.ErrorAt, s.ErrorType, s.ErrorNamed = ev.Start, code, string(ev.Name) == "error"
	s.ErrorData = bytes.Clone(ev.Data[:min(len(ev.Data), errorDataMax)])
}

// Identify notes the response's id and model from the first event that has them.
func (s *State) Identify(id, model jsonview.Value) {
	if s.ResponseID == "" && len(id) > 2 {
		s.ResponseID = id.String()
	}
	if s.ServedModel == "" && len(model) > 2 {
		s.ServedModel = model.String()
	}
}

// Positive returns n if it is above zero, else -1: of cached and reasoning tokens 0 says as little as silence.
func Positive(n int64) int64 {
	if n > 0 {
		return n
	}
	return -1
}

// ErrorCode picks the most specific machine-readable code of an error object with code and type members, as
// OpenAI, Anthropic, Mistral, OpenRouter and most compatible servers have it.
func ErrorCode(e jsonview.Value) string {
	for _, path := range [...][]string{{"details", "error_code"}, {"code"}, {"type"}, {"status"}} {
		if c := e.Path(path...).Scalar(); c != "" {
			return c
		}
	}
	return UnnamedError
}

// UnnamedError is the code of an in-stream error that names none.
const UnnamedError = "stream_error"
