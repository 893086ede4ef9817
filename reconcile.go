package holdfast

import (
	"context"
	"encoding/json"
	"errors"
	"time"

	"github.com/holdfast-ai/holdfast/idempotency"
	"github.com/holdfast-ai/holdfast/intent"
	"github.com/holdfast-ai/holdfast/internal/policy"
	"github.com/holdfast-ai/holdfast/internal/reconcile"
	"github.com/holdfast-ai/holdfast/ledger"
)

// Unknown is an operation of which nobody knows whether its effect took place.
type Unknown struct {
	Intent   string // id of the operation
	Workflow string
	Name     string // Operation.Name
	// Key is the function's [Attempt].Key: what a far side may have got as its Idempotency-Key.
	Key string
	// Arguments are what was asked for, where the log keeps them: rows of an outbox and tools.
	Arguments json.RawMessage
	Attempts  int
	Since     time.Time
}

// Evidence is what a [Reconciler] found.
type Evidence struct {
	found  intent.Found
	reason string
	result any
	has    bool
}

// Happened says that the effect took place. Reason says what shows it; the log keeps it.
func Happened(reason string) Evidence { return Evidence{found: intent.Happened, reason: reason} }

// HappenedWith is Happened with the result that the function would have returned: whoever asks again gets it.
func HappenedWith(result any, reason string) Evidence {
	return Evidence{found: intent.Happened, reason: reason, result: result, has: true}
}

// DidNotHappen says that there is no effect. It counts only once the operation has been quiet for a while, and when a
// second look agrees; until then the operation stays unknown.
func DidNotHappen(reason string) Evidence {
	return Evidence{found: intent.DidNotHappen, reason: reason}
}

// CannotTell says that it cannot be known now.
func CannotTell(reason string) Evidence { return Evidence{reason: reason} }

// A Reconciler finds out what became of an operation, without changing anything. An error is the same as CannotTell; its
// text goes into this program's log only. It may be called at any time between Start and Stop, never twice at a time for
// one operation.
type Reconciler func(ctx context.Context, u Unknown) (Evidence, error)

// Reconcile has f find out the unknown outcomes of a workflow, instead of what the configuration says: at once, again
// with growing intervals, then as often as the workflow's reconcile block says, by default five times. It may be called
// before Start and at any time after it; what was left unknown before is looked at then. An empty workflow is the default
// one. Errors: *Error with ErrInvalid, where there is no such workflow.
func (e *Engine) Reconcile(workflow string, f Reconciler) error {
	if workflow == "" {
		workflow = policy.DefaultWorkflow
	}
	if e.config().Workflow(workflow) == nil {
		return refusal(ErrInvalid, "there is no workflow of this name in the configuration")
	}
	e.handling.Lock()
	defer e.handling.Unlock()
	if e.finders == nil {
		e.finders = map[string]Reconciler{}
	}
	e.finders[workflow] = f
	if set := e.reconcilers.Load(); set != nil {
		set.Add(workflow, &finder{e, f})
		e.log.Reconsider()
	}
	return nil
}

// newReconcilers makes the reconcilers of a configuration.
func (e *Engine) newReconcilers(ctx context.Context, cfg *policy.Config) (*reconcile.Set, error) {
	return reconcile.New(ctx, reconcile.Config{Policy: cfg, Ledger: e.ledger, Upstream: e.client, Tools: e.mcp.proxy, Logger: e.logger,
		Before: e.reconcilers.Load()})
}

// putReconcilers has them asked, and those of the program before them.
func (e *Engine) putReconcilers(set *reconcile.Set) {
	e.handling.Lock()
	defer e.handling.Unlock()
	for workflow, f := range e.finders {
		set.Add(workflow, &finder{e, f})
	}
	e.reconcilers.Store(set)
}

// plan is how an unknown outcome is found out. No reconciler of a workflow knows of its callbacks.
func (e *Engine) plan(r *ledger.Record) (intent.Plan, bool) {
	if intent.IsCallback(&r.Intent) {
		return intent.Plan{}, false
	}
	return e.reconcilers.Load().Plan(r)
}

// returned has an outbox take up again what did not happen.
func (e *Engine) returned(id string) {
	e.gateway.Look(context.Background(), id)
	e.handling.Lock()
	o := e.outbox
	e.handling.Unlock()
	if o != nil {
		o.returned.Store(true)
		o.Notify()
	}
}

// finder is a program's Reconciler as the log calls it.
type finder struct {
	e *Engine
	f Reconciler
}

// Check implements intent.Reconciler.
func (x *finder) Check(ctx context.Context, r *ledger.Record) (intent.Finding, error) {
	u := Unknown{Intent: r.ID, Workflow: r.Workflow, Name: r.Endpoint, Attempts: r.Attempt, Since: r.UpdatedAt}
	if r.Key != "" {
		u.Key = idempotency.OutboundKey(x.e.functions.secret, r.Key)
	}
	b, err := x.e.ledger.Body(ctx, r.ID, ledger.BodyRequest)
	switch {
	case err == nil && json.Valid(b.Data):
		u.Arguments = b.Data
	case err != nil && !errors.Is(err, ledger.ErrNotFound):
		return intent.Finding{}, err
	}
	ev, err := x.f(ctx, u)
	if err != nil {
		return intent.Finding{}, err
	}
	f := intent.Finding{Found: ev.found, Reason: ev.reason}
	if !ev.has {
		return f, nil
	}
	p := encodeAny(ev.result)
	if p.fault != nil {
		x.e.logger.Warn("a reconciled result cannot be stored; who asks again gets answer_gone", "intent", r.ID, "error", p.fault)
		return f, nil
	}
	f.Answer = &ledger.Answer{HTTPStatus: 200, Header: map[string][]string{"Content-Type": {p.contentType}}, Source: "reconciler", HasBody: true}
	f.Body = &ledger.Body{ContentType: p.contentType, Data: p.data}
	return f, nil
}

// encodeAny is encode where the type is known only now.
func encodeAny(v any) product {
	switch v := v.(type) {
	case []byte:
		return encode(&v)
	case string:
		return encode(&v)
	}
	return encode(&v)
}
