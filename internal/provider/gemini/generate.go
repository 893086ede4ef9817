// Package gemini knows the wire format of Gemini's generateContent calls.
package gemini

import (
	"bytes"

	"github.com/holdfast-ai/holdfast/internal/provider/jsonview"
	"github.com/holdfast-ai/holdfast/internal/provider/wire"
)

// Generate is the grammar of streamed GenerateContentResponse objects, as events or as elements of an array.
type Generate struct {
	// Array says that the answer is a JSON array, which only its closing bracket ends.
	Array bool

	terminal string // of an array whose bracket has not come
	quiet    wire.Template
	last     jsonview.Value // text of the part read last, while its event is read
}

const finishReason = "finishReason"

// Event implements wire.Grammar.
func (g *Generate) Event(s *wire.State, ev *wire.Event) {
	if g.Array {
		s.Completing = ev.Start
	}
	if s.Transcript == nil && len(ev.Name) == 0 {
		if counts, ok := g.quiet.Match(ev.Data); ok {
			usage(&s.Usage, counts)
			return
		}
	}
	g.read(s, ev)
}

func (g *Generate) read(s *wire.State, ev *wire.Event) {
	doc := jsonview.Value(bytes.TrimSpace(ev.Data))
	var failure, feedback, counts jsonview.Value
	for o := doc.Object(); ; {
		key, val, ok := o.Next()
		if !ok {
			break
		}
		switch string(key) {
		case "candidates":
			g.candidates(s, ev, val)
		case "usageMetadata":
			counts = val
			usage(&s.Usage, val)
		case "error":
			failure = val
		case "promptFeedback":
			feedback = val
		case "responseId":
			s.Identify(val, nil)
		case "modelVersion":
			s.Identify(nil, val)
		}
	}
	if reason := feedback.Get("blockReason"); len(reason) > 2 {
		g.finish(s, ev, "blocked:"+reason.String(), "promptFeedback")
	}
	if failure.IsObject() || failure.Filled() || string(ev.Name) == "error" {
		s.Fail(ev, code(failure))
	}
	g.learn(s, ev.Data, counts)
}

// learn remembers an event whose last text the next ones will continue.
func (g *Generate) learn(s *wire.State, data []byte, counts jsonview.Value) {
	g.quiet.Forget()
	if s.Transcript == nil && g.last != nil {
		g.quiet.Learn(data, g.last, counts)
	}
	g.last = nil
}

func (g *Generate) finish(s *wire.State, ev *wire.Event, reason, terminal string) {
	s.Complete(ev, reason)
	if g.Array {
		g.terminal = terminal
		return
	}
	s.Close(ev, terminal)
}

// Bracket takes note of the array's closing bracket. An array without a finish reason is no whole answer.
func (g *Generate) Bracket(s *wire.State) {
	if g.terminal != "" {
		s.Ended, s.Terminal = true, g.terminal
	}
}

func (g *Generate) candidates(s *wire.State, ev *wire.Event, all jsonview.Value) {
	for a := all.Array(); ; {
		c, ok := a.Next()
		if !ok {
			return
		}
		for o := c.Object(); ; {
			key, val, ok := o.Next()
			if !ok {
				break
			}
			switch string(key) {
			case "content":
				g.parts(s, ev, val.Get("parts"))
			case finishReason:
				if len(val) > 2 && val.IsString() && !val.Is("FINISH_REASON_UNSPECIFIED") {
					g.finish(s, ev, val.String(), finishReason)
				}
			}
		}
	}
}

func (g *Generate) parts(s *wire.State, ev *wire.Event, all jsonview.Value) {
	for a := all.Array(); ; {
		p, ok := a.Next()
		if !ok {
			return
		}
		if text := part(s, ev, p); len(text) > 2 {
			g.last = text
		}
	}
}

// part reads one part and returns its text.
func part(s *wire.State, ev *wire.Event, p jsonview.Value) (text jsonview.Value) {
	thought := false
	for o := p.Object(); ; {
		key, val, ok := o.Next()
		if !ok {
			break
		}
		switch string(key) {
		case "text":
			text = val
		case "thought":
			thought = val.True()
		case "functionCall":
			s.Content(ev)
			if len(val.Get("name")) > 2 {
				s.Tool(ev, false)
			}
		case "toolCall": // run by Gemini
			s.Tool(ev, true)
		case "executableCode": // names no tool, but the sandbox has begun
			s.Content(ev)
			s.HostedTool = true
		case "codeExecutionResult", "inlineData", "fileData", "toolResponse":
			s.Content(ev)
		}
	}
	if thought {
		s.Reasoning(ev, text)
	} else {
		s.Visible(ev, text)
	}
	return text
}

// usage replaces the counts: every event states all of them. Output tokens are left out while there are none.
func usage(to *wire.Usage, u jsonview.Value) {
	n := wire.NoUsage()
	for o := u.Object(); ; {
		key, val, ok := o.Next()
		if !ok {
			break
		}
		switch string(key) {
		case "promptTokenCount":
			n.Input = val.Int()
		case "candidatesTokenCount":
			n.Output = val.Int()
		case "cachedContentTokenCount":
			n.Cached = wire.Positive(val.Int())
		case "thoughtsTokenCount":
			n.Reasoning = wire.Positive(val.Int())
		}
	}
	if n.Known() {
		n.Output = max(n.Output, 0)
		*to = n
	}
}

// code returns the most specific code of an error: the reason of its ErrorInfo, its status name, its number.
func code(e jsonview.Value) string {
	for a := e.Get("details").Array(); ; {
		d, ok := a.Next()
		if !ok {
			break
		}
		if reason := d.Get("reason").String(); reason != "" {
			return reason
		}
	}
	for _, key := range [...]string{"status", "code"} {
		if c := e.Get(key).Scalar(); c != "" {
			return c
		}
	}
	return wire.UnnamedError
}

// End implements wire.Grammar. There is no marker after the finish reason; an array has its bracket as well.
func (g *Generate) End(p *wire.Progress) wire.End {
	if p.Ended {
		return wire.Complete
	}
	return wire.Cut
}

// Error implements wire.Grammar. Google's front end also wraps the error in an array.
func (g *Generate) Error(doc jsonview.Value) (string, bool) {
	if a := doc.Array(); doc.IsArray() {
		doc, _ = a.Next()
	}
	if e := doc.Get("error"); e.IsObject() || e.Filled() {
		return code(e), true
	}
	return "", false
}
