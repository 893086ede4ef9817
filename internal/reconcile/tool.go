package reconcile

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/holdfast-ai/holdfast/intent"
	"github.com/holdfast-ai/holdfast/internal/policy"
	"github.com/holdfast-ai/holdfast/ledger"
)

// tool asks a read-only tool of the same MCP server.
type tool struct {
	s         *Set
	conf      *policy.Reconcile
	server    string
	arguments map[string]*template
}

func newTool(s *Set, r *policy.Reconcile, server string) (intent.Reconciler, error) {
	if server == "" {
		return nil, errors.New("tool: there is no MCP server here")
	}
	t := &tool{s: s, conf: r, server: server, arguments: map[string]*template{}}
	for _, a := range r.Arguments {
		parsed, err := parseTemplate(a.Value)
		if err != nil {
			return nil, fmt.Errorf("arguments.%s: %w", a.Name, err)
		}
		t.arguments[a.Name] = parsed
	}
	return t, nil
}

// Check implements intent.Reconciler.
func (t *tool) Check(ctx context.Context, r *ledger.Record) (intent.Finding, error) {
	e := readEvidence{Tool: t.conf.Tool}
	reader := t.s.toolReader()
	if reader == nil {
		return cannotTell("this process has no way to the MCP server", e), nil
	}
	asked, key := t.s.arguments(ctx, r), t.s.outbound(r)
	arguments := make(map[string]any, len(t.arguments))
	for name, from := range t.arguments {
		v, err := from.plain(key, asked)
		if err != nil {
			return cannotTell(err.Error(), e), nil
		}
		arguments[name] = v
	}
	sent, err := json.Marshal(arguments)
	if err != nil {
		return intent.Finding{Evidence: encode(e)}, err
	}
	result, err := reader.ReadTool(ctx, t.server, t.conf.Tool, sent)
	if err != nil {
		return intent.Finding{Evidence: encode(e)}, err
	}
	read, err := json.Marshal(result)
	if err != nil || len(read) > maxRead {
		return cannotTell("the tool's result is no JSON, or larger than 1 MiB", e), nil
	}
	e.Bytes, e.SHA256 = len(read), digest(read)
	f := intent.Finding{Evidence: encode(e), Read: read}
	f.Found, f.Reason = judge(t.conf, policy.Answer{Result: result, Body: result}, true)
	return f, nil
}
