package reconcile

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/holdfast-ai/holdfast/intent"
	"github.com/holdfast-ai/holdfast/internal/policy"
	"github.com/holdfast-ai/holdfast/ledger"
)

// tool asks a read-only tool of the same MCP server.
type tool struct {
	s         *Set
	conf      *policy.Reconcile
	arguments map[string]*template
}

func newTool(s *Set, r *policy.Reconcile, server string) (intent.Reconciler, error) {
	if server == "" {
		return nil, errors.New("tool: there is no MCP server here")
	}
	t := &tool{s: s, conf: r, arguments: map[string]*template{}}
	for _, a := range r.Arguments {
		parsed, err := parseTemplate(a.Value)
		if err != nil {
			return nil, fmt.Errorf("arguments.%s: %w", a.Name, err)
		}
		t.arguments[a.Name] = parsed
	}
	return t, nil
}

// CanLook implements intent.Lookout.
func (t *tool) CanLook(r *ledger.Record) bool {
	reader := t.s.toolReader()
	if reader == nil {
		return false
	}
	l, able := reader.(intent.Lookout)
	return !able || l.CanLook(r)
}

// Check implements intent.Reconciler.
func (t *tool) Check(ctx context.Context, r *ledger.Record) (intent.Finding, error) {
	e := readEvidence{Tool: t.conf.Tool}
	reader := t.s.toolReader()
	if reader == nil {
		return intent.Finding{}, fmt.Errorf("this process has no MCP proxy: %w", intent.ErrNotNow)
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
	result, failed, err := reader.ReadTool(ctx, r, t.conf.Tool, sent)
	if err != nil {
		f := intent.Finding{Reason: "the tool could not be read", Evidence: encode(e)}
		if errors.Is(err, policy.ErrDocument) {
			f.Reason += ": " + err.Error()
		}
		return f, err
	}
	read, err := json.Marshal(result)
	if err != nil || len(read) > maxRead {
		return cannotTell("the tool's result is no JSON, or larger than 1 MiB", e), nil
	}
	e.Bytes, e.SHA256 = len(read), digest(read)
	f := intent.Finding{Evidence: encode(e), Read: read}
	a := answer{Answer: shown(result), plain: true}
	if failed {
		f.Found, f.Reason = judgeError(t.conf, a)
	} else {
		f.Found, f.Reason = judge(t.conf, a)
	}
	return f, nil
}

// shown is a tool's result as expressions see it. Text is what a tool says, but text that begins as data and is none was cut off.
func shown(result any) policy.Answer {
	a := policy.Answer{Result: result}
	switch text, isText := result.(string); {
	case result == nil:
		a.Fault = fmt.Errorf("%w: there is none", policy.ErrDocument)
	case isText && strings.IndexAny(strings.TrimSpace(text), "{[") == 0:
		a.Result, a.Fault = policy.Document([]byte(text))
	}
	a.Body = a.Result
	return a
}
