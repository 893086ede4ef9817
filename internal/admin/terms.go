package admin

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/holdfast-ai/holdfast/intent"
	"github.com/holdfast-ai/holdfast/internal/gateway"
	"github.com/holdfast-ai/holdfast/internal/policy"
	"github.com/holdfast-ai/holdfast/ledger"
)

// terms are what the policy says of an operation that a person settles.
type terms struct {
	ttl   time.Duration // how long a success keeps its key
	quiet time.Duration // how long after its last attempt the far side may still act (semantics 8)
}

func (a *API) termsOf(rec *ledger.Record) terms {
	t := a.written(rec)
	t.ttl = intent.KeyKept(&rec.Intent, t.ttl)
	return t
}

func (a *API) written(rec *ledger.Record) terms {
	cfg := a.Policy()
	if s := cfg.ToolServer(rec.Workflow); s != nil && rec.Provider == gateway.ToolProvider {
		p := cfg.Call(s, s.Find(rec.Method, strings.TrimPrefix(rec.Path, "/tools/"+s.Name)), rec.Method)
		return terms{p.TTL, quietOf(p.Reconcile, p.Timeout)}
	}
	for i := range cfg.MCP.Servers {
		if s := &cfg.MCP.Servers[i]; rec.Method == "tools/call" && s.Name == rec.Workflow {
			p, _ := s.Call(rec.Endpoint)
			return terms{p.TTL, quietOf(p.Reconcile, p.Timeout)}
		}
	}
	wf := cfg.Workflow(rec.Workflow)
	if rec.Provider == "function" || rec.Provider == "outbox" {
		wf = cfg.ForFunction(rec.Workflow)
	}
	if wf == nil {
		return terms{24 * time.Hour, quietOf(nil, 0)}
	}
	return terms{wf.Idempotency.TTL, quietOf(wf.Reconcile, wf.Timeouts.Attempt)}
}

func quietOf(r *policy.Reconcile, attempt time.Duration) time.Duration {
	if r == nil {
		r = policy.DefaultReconcile(attempt)
	}
	return r.Quiet
}

// tooEarly says why a person's "failed" may be wrong yet: while the far side may still be at work, or its answer still on its way,
// that nothing is there to be seen proves nothing, and the key is free now. Empty: nothing speaks against it.
func (a *API) tooEarly(ctx context.Context, rec *ledger.Record, outcome ledger.Outcome) string {
	if outcome != ledger.OutcomeFailed || rec.Attempt == 0 {
		return ""
	}
	events, err := a.Ledger.History(ctx, rec.ID)
	if err != nil {
		return "" // a warning is no reason to refuse
	}
	ended := rec.UpdatedAt
	for i := range events {
		if events[i].Kind == "attempt_end" {
			ended = events[i].At
		}
	}
	now := a.Ledger.Now()
	left := ended.Add(a.termsOf(rec).quiet).Sub(now)
	if left <= 0 {
		return ""
	}
	return fmt.Sprintf("its last attempt ended %s ago, and for %s more the far side may still act on it: whoever repeats the call before that may bring about a second effect; look again then",
		policy.Span(now.Sub(ended).Truncate(time.Second)), policy.Span(left.Truncate(time.Second)+time.Second))
}
