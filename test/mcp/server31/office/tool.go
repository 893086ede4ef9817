package office

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// action is what a tool does. An error becomes an answer with isError, whose text is the error's.
type action[In, Out any] func(ctx context.Context, in In) (Out, error)

// hint is what a tool claims of itself in its annotations. Some claim what is not so.
type hint int

const (
	reads     hint = iota // changes nothing
	adds                  // only adds, and again if repeated
	puts                  // may be repeated
	changes               // overwrites, and a repeat counts
	unclaimed             // says nothing
)

func (h hint) annotations(title string) *mcp.ToolAnnotations {
	if h == unclaimed {
		return nil
	}
	no, destroys := false, h == puts || h == changes
	return &mcp.ToolAnnotations{
		Title: title, ReadOnlyHint: h == reads, IdempotentHint: h == reads || h == puts, DestructiveHint: &destroys, OpenWorldHint: &no,
	}
}

// describe returns the tool with the input schema of In (see schema).
func describe[In any](name, title, description string, h hint) *mcp.Tool {
	return &mcp.Tool{Name: name, Title: title, Description: description, InputSchema: schema[In](), Annotations: h.annotations(title)}
}

func addTool[In, Out any](s *mcp.Server, t *mcp.Tool, act action[In, Out]) {
	mcp.AddTool(s, t, func(ctx context.Context, _ *mcp.CallToolRequest, in In) (*mcp.CallToolResult, Out, error) {
		out, err := act(ctx, in)
		return nil, out, err
	})
}

// none is the input of a tool without arguments.
type none struct{}

// unknown is the error for an identifier that is not there; lister is the tool that shows those that are.
func unknown(kind, id, lister string) error {
	return fmt.Errorf("no %s %q; %s shows those that exist", kind, id, lister)
}

// frozen returns v as JSON has it, so that it can leave the lock that guards v. It panics where v cannot be JSON: the
// records of this package all can.
func frozen(v any) any {
	b, err := json.Marshal(v)
	if err != nil {
		panic(err)
	}
	return json.RawMessage(b)
}

// copied returns a copy that JSON shows as a list even if there is nothing in it.
func copied[T any](list []T) []T { return append([]T{}, list...) }
