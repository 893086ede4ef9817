package gemini

import (
	"github.com/holdfast-ai/holdfast/internal/provider/jsonview"
	"github.com/holdfast-ai/holdfast/internal/provider/wire"
)

// Plain reads a whole answer into p: a GenerateContentResponse, embeddings, a token count, or an error.
func Plain(doc jsonview.Value, p *wire.Plain) {
	g := Generate{}
	if code, ok := g.Error(doc); ok {
		p.Fault, p.ErrorType = wire.IsError, code
	}
	s := wire.State{Progress: wire.NewProgress()}
	ev := wire.Event{Data: doc}
	g.Event(&s, &ev)
	p.Finish, p.Usage, p.ToolStarted, p.HostedTool = s.Finish, s.Usage, s.ToolStarted, s.HostedTool
	p.ResponseID, p.ServedModel = s.ResponseID, s.ServedModel
}
