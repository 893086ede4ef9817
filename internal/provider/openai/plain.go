package openai

import (
	"github.com/holdfast-ai/holdfast/internal/provider/jsonview"
	"github.com/holdfast-ai/holdfast/internal/provider/wire"
)

// Plain reads a whole answer of Chat Completions, Responses or Embeddings into p. A response whose status is
// failed carries its error in the document.
func Plain(doc jsonview.Value, p *wire.Plain) {
	if code, ok := Error(doc); ok {
		p.Fault, p.ErrorType = wire.IsError, code
	}
	s := wire.State{Progress: wire.NewProgress()}
	ev := wire.Event{Data: doc}
	for o := doc.Object(); ; {
		key, val, ok := o.Next()
		if !ok {
			break
		}
		plainMember(&s, &ev, string(key), val)
	}
	if s.Finish == "error" || s.Finish == "failed" || s.Finish == "cancelled" {
		p.Fault = wire.IsError
		if p.ErrorType == "" {
			p.ErrorType = s.Finish
		}
	}
	p.Finish, p.Usage, p.ToolStarted, p.HostedTool = s.Finish, s.Usage, s.ToolStarted, s.HostedTool
	p.ResponseID, p.ServedModel = s.ResponseID, s.ServedModel
}

func plainMember(s *wire.State, ev *wire.Event, key string, val jsonview.Value) {
	switch key {
	case "id":
		s.Identify(val, nil)
	case "model":
		s.Identify(nil, val)
	case "status":
		s.Finish = val.String()
	case "usage":
		switch {
		case val.Get("prompt_tokens").Set():
			s.Usage = chatUsage(val)
		case val.IsObject():
			s.Usage = responsesUsage(val)
		}
	case "output":
		for a := val.Array(); ; {
			it, ok := a.Next()
			if !ok {
				return
			}
			item(s, ev, it)
		}
	case "choices":
		for a := val.Array(); ; {
			choice, ok := a.Next()
			if !ok {
				return
			}
			plainChoice(s, ev, choice)
		}
	}
}

func plainChoice(s *wire.State, ev *wire.Event, choice jsonview.Value) {
	var message, reason, failure jsonview.Value
	for o := choice.Object(); ; {
		key, val, ok := o.Next()
		if !ok {
			break
		}
		switch string(key) {
		case "message":
			message = val
		case "finish_reason":
			reason = val
		case "error":
			failure = val
		}
	}
	if message.IsObject() {
		delta(s, ev, message)
	}
	finish(s, ev, reason)
	if failure.Filled() {
		s.Finish = "error"
	}
}
