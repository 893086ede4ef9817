package anthropic

import (
	"github.com/holdfast-ai/holdfast/internal/provider/jsonview"
	"github.com/holdfast-ai/holdfast/internal/provider/wire"
)

// Plain reads a whole message, or a token count, into p.
func Plain(doc jsonview.Value, p *wire.Plain) {
	if code, ok := (&Messages{}).Error(doc); ok {
		p.Fault, p.ErrorType = wire.IsError, code
	}
	s := wire.State{Progress: wire.NewProgress()}
	s.Identify(doc.Get("id"), doc.Get("model"))
	addUsage(&s.Usage, doc.Get("usage"))
	ev := wire.Event{Data: doc}
	for a := doc.Get("content").Array(); ; {
		b, ok := a.Next()
		if !ok {
			break
		}
		block(&s, &ev, b)
	}
	p.Finish, p.Usage = doc.Get("stop_reason").String(), s.Usage
	p.ToolStarted, p.HostedTool = s.ToolStarted, s.HostedTool
	p.ResponseID, p.ServedModel = s.ResponseID, s.ServedModel
}
