package holdfast

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/holdfast-ai/holdfast/idempotency"
	"github.com/holdfast-ai/holdfast/intent"
	"github.com/holdfast-ai/holdfast/internal/policy"
	"github.com/holdfast-ai/holdfast/ledger"
)

// functions are the operations of this program's own, under Do and from outboxes.
type functions struct {
	e      *Engine
	secret []byte // of outbound keys (semantics 17)

	mu       sync.Mutex
	rules    map[string]*rule   // by workflow
	flights  map[string]*flight // by key, until their record has landed
	working  map[*flight]struct{}
	running  sync.WaitGroup // flights without an outcome
	late     sync.WaitGroup // results that came too late and are being kept
	draining bool
	closed   bool
}

// rule is a workflow as it applies to a function.
type rule struct {
	*policy.Workflow
	keyer *idempotency.Keyer
	cfg   *policy.Config // the one that the workflow is of
}

func newFunctions(ctx context.Context, e *Engine) (*functions, error) {
	secret, err := e.ledger.Secret(ctx, "hmac")
	if err != nil {
		return nil, fmt.Errorf("read the store's secret: %w", err)
	}
	return &functions{e: e, secret: secret, rules: map[string]*rule{}, flights: map[string]*flight{},
		working: map[*flight]struct{}{}}, nil
}

// reload has operations that come from now on go by the configuration in force.
func (f *functions) reload() {
	f.mu.Lock()
	defer f.mu.Unlock()
	clear(f.rules)
}

func (f *functions) rule(name string) (*rule, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if r := f.rules[name]; r != nil {
		return r, nil
	}
	cfg := f.e.config()
	w := cfg.ForFunction(name)
	if w == nil {
		return nil, refusal(ErrInvalid, fmt.Sprintf("there is no workflow %.64q in the configuration", name))
	}
	keyer, err := idempotency.New(idempotency.Config{Ignore: w.Idempotency.Ignore, SchemaVersion: w.Idempotency.SchemaVersion,
		Key: w.Idempotency.Key})
	if err != nil {
		return nil, fmt.Errorf("workflows.%s.idempotency: %w", w.Name, err)
	}
	r := &rule{w, keyer, cfg}
	f.rules[name] = r
	return r, nil
}

// request is an Operation as the policy sees it.
type request struct {
	f       *functions
	rule    *rule
	began   time.Time
	limit   time.Time // when this caller stops waiting
	budget  time.Duration
	head    ledger.Intent
	cancels bool // on_disconnect
}

var effects = map[policy.Effect]ledger.Effect{
	policy.Read: ledger.EffectRead, policy.Generation: ledger.EffectGeneration, policy.External: ledger.EffectExternal}

// Bounds of what an Operation says of itself.
const (
	maxName  = 128
	maxOwner = 256
)

// request reads an operation and works out its key.
func (f *functions) request(op *Operation) (*request, error) {
	rule, err := f.rule(op.Workflow)
	if err != nil {
		return nil, err
	}
	if err := op.check(); err != nil {
		return nil, err
	}
	q := &request{f: f, rule: rule, began: time.Now(), cancels: rule.OnDisconnect == policy.Cancel}
	q.budget = min(rule.Timeouts.Attempt, rule.Timeouts.Total)
	q.limit = q.began.Add(rule.Timeouts.Request)
	if op.Deadline > 0 {
		q.budget = min(q.budget, op.Deadline)
		q.limit = q.began.Add(min(rule.Timeouts.Request, op.Deadline+returnGrace))
	}
	cfg := rule.cfg
	q.head = ledger.Intent{Tenant: op.tenant(cfg), Workflow: rule.Name, OwnerKey: op.Owner, Effect: effects[rule.Effect],
		Hold: rule.UnknownRule(false) == policy.HoldUnknown, Explicit: op.Key != "", Method: "DO", Path: "/" + op.name(rule),
		Provider: "function", Endpoint: op.name(rule), Priority: "normal", MaxAttempts: 1, PolicyRevision: cfg.Revision}
	return q, q.identify(op)
}

// identify makes fingerprint and key.
func (q *request) identify(op *Operation) error {
	cfg := q.rule.cfg
	body, contentType, err := describe(op.Arguments)
	if err != nil {
		e := refusal(ErrInvalid, "Arguments cannot be written as JSON")
		e.Err = err
		return e
	}
	if int64(len(body)) > cfg.Limits.MaxRequestBytes {
		return refusal(ErrInvalid, "Arguments are larger than limits.max_request_bytes; pass a reference or a hash of them")
	}
	r := idempotency.Request{Env: cfg.Env, Tenant: q.head.Tenant, Workflow: q.rule.Name, Owner: op.Owner, Method: q.head.Method,
		Path: q.head.Path, Header: map[string][]string{"Content-Type": {contentType}}, Body: body, API: idempotency.Other}
	q.head.Fingerprint = q.rule.keyer.Fingerprint(&r)
	if op.Key != "" {
		q.head.Key = idempotency.ExplicitKey(cfg.Env, q.head.Tenant, op.Key)
		return nil
	}
	if q.rule.Effect == policy.Read {
		return nil
	}
	if op.Arguments == nil || q.rule.Idempotency.Derive != policy.DeriveAlways {
		return refusal(ErrInvalid, "an Operation needs a Key, or Arguments to make one of under idempotency.derive: always")
	}
	if q.head.Key, err = q.rule.keyer.DerivedKey(&r, q.head.Fingerprint); err != nil {
		e := refusal(ErrInvalid, "the key template of workflow "+q.rule.Name+" does not fit these Arguments")
		e.Err = err
		return e
	}
	return nil
}

func (op *Operation) check() error {
	if op.Key != "" {
		if err := idempotency.ValidateKey(op.Key); err != nil {
			return refusal(ErrInvalidKey, err.Error())
		}
	}
	switch {
	case len(op.Name) > maxName:
		return refusal(ErrInvalid, "Operation.Name has more than 128 bytes")
	case len(op.Owner) > maxOwner:
		return refusal(ErrInvalid, "Operation.Owner has more than 256 bytes")
	case op.Tenant != "" && !policy.ValidName(op.Tenant):
		return refusal(ErrInvalid, "Operation.Tenant is made of a to z, 0 to 9, _ and -, 64 at most")
	case op.Deadline < 0:
		return &Error{Code: ErrDeadline, Message: "the budget was exhausted on arrival; nothing was done", SafeToRetry: Safe}
	}
	return nil
}

func (op *Operation) name(r *rule) string {
	if op.Name == "" {
		return r.Name
	}
	return op.Name
}

func (op *Operation) tenant(cfg *policy.Config) string {
	switch {
	case op.Tenant != "":
		return op.Tenant
	case cfg.Auth.Tenant != "":
		return cfg.Auth.Tenant
	}
	return "main" // semantics 44
}

// do is Do without its types.
func (e *Engine) do(ctx context.Context, op Operation, fn work) (*outcome, error) {
	f := e.functions
	if f == nil {
		return nil, refusal(ErrDraining, "the engine is not running: Start comes first, and Stop is the end")
	}
	q, err := f.request(&op)
	if err != nil {
		return nil, err
	}
	var out *outcome
	switch {
	case q.rule.Effect == policy.Read: // no intent (semantics 1)
		out, err = straight(ctx, fn)
	case q.rule.Mode == policy.Observe:
		out, err = q.observed(ctx, fn)
	default:
		out, err = q.run(ctx, fn)
	}
	if op.Info != nil {
		*op.Info = out.info(err)
	}
	if err != nil {
		return nil, err
	}
	return out, nil
}

// info is what the caller is told beside the result.
func (o *outcome) info(err error) Info {
	if o == nil {
		var e *Error
		if errors.As(err, &e) {
			return Info{Intent: e.Intent}
		}
		return Info{}
	}
	return Info{Intent: o.intent, Replayed: o.replayed, At: o.at, Attempts: o.attempts, Pending: o.pending,
		Unrecorded: o.fault != nil}
}

// run finds the operation that q repeats, or begins it. Each turn of the loop another owner moved it between two reads.
func (q *request) run(ctx context.Context, fn work) (*outcome, error) {
	if err := context.Cause(ctx); err != nil {
		return nil, &Error{Code: ErrDeadline, Message: "the context was over on arrival; nothing was done", SafeToRetry: Safe, Err: err}
	}
	q.f.e.meter.Lookup(q.rule.Name)
	for range 4 {
		fl := q.newFlight()
		if other := q.f.join(fl); other != nil {
			fl.cancel(nil)
			out, again, err := q.follow(ctx, other)
			if !again {
				return out, err
			}
			continue
		}
		out, again, err := q.lead(ctx, fl, fn)
		if !again {
			return out, err
		}
	}
	return nil, refusal(ErrInFlight, "the operation with this key is changing hands")
}

// lead claims the key and lets the function run.
func (q *request) lead(ctx context.Context, fl *flight, fn work) (out *outcome, again bool, err error) {
	if err := q.f.admit(fl); err != nil {
		return nil, false, fl.abandon(err)
	}
	out, again, refused := q.claim(fl)
	switch {
	case refused != nil:
		return nil, false, fl.abandon(refused)
	case again || out != nil:
		fl.standDown()
		return out, again, nil
	}
	fl.start(ctx, q.deadline(ctx), fn)
	out, err = q.await(ctx, fl)
	return out, false, err
}

// deadline is when the function's time is over. A caller that says how long it waits gets its answer before that
// (semantics 31).
func (q *request) deadline(ctx context.Context) time.Time {
	limit := q.began.Add(q.budget)
	if d, ok := ctx.Deadline(); ok {
		left := time.Until(d)
		if d = d.Add(-min(left/10, 2*time.Second)); d.Before(limit) {
			return d
		}
	}
	return limit
}

// claim makes intent, claim and first attempt durable in one commit, or answers from what holds the key. The look-up
// before it saves a duplicate the commit.
func (q *request) claim(fl *flight) (out *outcome, again bool, refused *Error) {
	ctx, stop := context.WithTimeout(context.Background(), q.f.e.config().Limits.CommitWait)
	defer stop()
	if r, err := q.f.e.ledger.Holder(ctx, q.head.Key); err == nil {
		return q.held(ctx, fl, r)
	} else if errors.Is(err, ledger.ErrUnavailable) {
		return nil, false, q.storeAway(err)
	}
	now := q.f.e.ledger.Now()
	op, err := q.f.e.log.Begin(intent.Begin{Head: q.head, Claim: true, Attempt: attemptOf(&q.head), Visibility: ledger.VisBackground,
		ExpiresAt: now.Add(max(q.rule.Timeouts.Request, q.rule.Idempotency.Window))})
	var d *intent.DuplicateError
	switch {
	case errors.As(err, &d):
		return nil, true, nil
	case err != nil:
		return nil, false, q.storeAway(err)
	}
	fl.took(op)
	return nil, false, nil
}

func attemptOf(h *ledger.Intent) *intent.Attempt {
	return &intent.Attempt{Route: h.Provider + "/" + h.Endpoint, Tier: h.Provider}
}

func (q *request) storeAway(err error) *Error {
	q.f.e.meter.StoreError(q.rule.Name)
	e := refusal(ErrStoreUnavailable, "the store is unavailable; nothing was done")
	e.Err = err
	return e
}

// held answers for a key that is claimed, or takes over an intent that waits for somebody with its key (semantics 7).
func (q *request) held(ctx context.Context, fl *flight, r *ledger.Record) (out *outcome, again bool, refused *Error) {
	if r.Fingerprint != q.head.Fingerprint {
		return nil, false, q.reused(r.ID)
	}
	switch r.State {
	case ledger.Settled:
		q.duplicate(r, "settled")
		return q.replay(ctx, r)
	case ledger.Unknown:
		q.duplicate(r, "unknown")
		return nil, false, unknown(r.ID)
	case ledger.Created, ledger.Dispatched:
		if r.LeaseOwner == "" && (r.State == ledger.Created || !r.Hold) && r.Provider != outboxProvider {
			return q.takeOver(fl, r)
		}
	}
	q.duplicate(r, "in_flight")
	e := refusal(ErrInFlight, "the first call with this key still runs")
	e.Intent = r.ID
	return nil, false, e
}

func (q *request) takeOver(fl *flight, r *ledger.Record) (out *outcome, again bool, refused *Error) {
	op := q.f.e.log.Load(r)
	err := op.Dispatch(*attemptOf(&r.Intent))
	switch {
	case errors.Is(err, ledger.ErrStale):
		return nil, true, nil
	case err != nil:
		return nil, false, q.storeAway(err)
	}
	op.Note(ledger.Event{Kind: "note", Reason: "taken over by a call with its key", Rule: "semantics 7"})
	fl.took(op)
	return nil, false, nil
}

// replay reads a settled result back.
func (q *request) replay(ctx context.Context, r *ledger.Record) (out *outcome, again bool, refused *Error) {
	if !q.f.e.ledger.Now().Before(r.ClaimUntil) { // its time ended, or it was released, since it was looked up
		return nil, true, nil
	}
	gone := refusal(ErrAnswerGone, "this operation is finished and nothing runs again, but its result is not on record")
	gone.Intent = r.ID
	if r.Answer == nil || !r.Answer.HasBody {
		return nil, false, gone
	}
	b, err := q.f.e.ledger.Body(ctx, r.ID, ledger.BodyAnswer)
	switch {
	case errors.Is(err, ledger.ErrNotFound):
		return nil, false, gone
	case err != nil:
		return nil, false, q.storeAway(err)
	}
	return &outcome{product: product{data: b.Data, contentType: b.ContentType}, intent: r.ID, attempts: r.Attempt,
		at: r.SettledAt, replayed: true}, false, nil
}

func (q *request) duplicate(r *ledger.Record, kind string) {
	q.f.e.meter.Duplicate(q.rule.Name, kind)
	q.f.e.log.Load(r).Note(ledger.Event{Kind: "duplicate", Reason: kind, Rule: "interface §4"})
}

func (q *request) reused(id string) *Error {
	e := refusal(ErrKeyReused, "this key was used for another operation; use a new key for a new one")
	e.Intent = id
	return e
}

func unknown(id string) *Error {
	e := refusal(ErrUnknown, "the effect may have happened and its outcome is not known; nothing runs again until evidence or a person "+
		"settles it (holdfast intents resolve)")
	e.Intent = id
	return e
}
