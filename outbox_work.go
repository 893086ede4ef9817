package holdfast

import (
	"context"
	"encoding/json"
	"errors"
	"math/rand/v2"
	"strings"
	"time"

	"github.com/holdfast-ai/holdfast/intent"
	"github.com/holdfast-ai/holdfast/internal/pause"
	"github.com/holdfast-ai/holdfast/internal/policy"
	"github.com/holdfast-ai/holdfast/ledger"
)

// takeUp does what an earlier process handed over.
func (o *Outbox) takeUp(ctx context.Context, r *ledger.Record) {
	rule, err := o.e.functions.rule(r.Workflow)
	if err != nil || o.e.handler(r.Endpoint) == nil {
		o.e.logger.Warn("an operation waits for its handler and its workflow", "intent", r.ID, "handler", r.Endpoint, "workflow", r.Workflow)
		return
	}
	b, err := o.e.ledger.Body(ctx, r.ID, ledger.BodyRequest)
	if err != nil {
		o.e.logger.Error("an operation cannot be taken up: its arguments cannot be read", "intent", r.ID, "error", err)
		return
	}
	q := &request{f: o.e.functions, rule: rule, began: time.Now(), head: r.Intent, budget: min(rule.Timeouts.Attempt, rule.Timeouts.Total)}
	if o.remove(ctx, rowOf(r)) {
		o.work(ctx, o.e.log.Load(r), q, b.Data)
	}
}

// rowOf is the row that an intent was.
func rowOf(r *ledger.Record) string { return strings.TrimPrefix(r.Trigger, rowKey("")) }

// work lets the handler run until it succeeds, nobody knows, or its attempts are used up. It returns early when ctx
// ends: then the intent waits in the log for the next process.
func (o *Outbox) work(ctx context.Context, op *intent.Op, q *request, arguments []byte) {
	op.Patient()
	h := o.e.handler(q.head.Endpoint)
	fn := func(ctx context.Context) (product, error) {
		v, err := h(ctx, json.RawMessage(arguments))
		if err != nil {
			return product{}, err
		}
		return encode(&v), nil
	}
	for ctx.Err() == nil {
		out, wait := o.attempt(op, q, fn)
		if out != nil && out.again == nil {
			return
		}
		if out != nil {
			wait = backoff(q.rule.Retry, op.Status().Attempt)
			out.again.RetryAfter = wait
			if !o.insist(ctx, func() error { return permanent(op.EndAttempt(*out.again)) }) {
				return
			}
		}
		pause.For(ctx, wait)
	}
}

// permanent lets insist try again while the store is away only.
func permanent(err error) error {
	if errors.Is(err, ledger.ErrUnavailable) {
		return err
	}
	return nil
}

// attempt dispatches once and waits. Without an outcome nothing was begun, and it is tried again after the wait.
func (o *Outbox) attempt(op *intent.Op, q *request, fn work) (*outcome, time.Duration) {
	f := o.e.functions
	fl := q.newFlight()
	if other := f.join(fl); other != nil { // somebody looks the key up at this moment
		fl.cancel(nil)
		<-other.done
		other.leave()
		return nil, time.Millisecond
	}
	if err := f.admit(fl); err != nil {
		_ = fl.abandon(err)
		return nil, 100 * time.Millisecond
	}
	if err := op.Dispatch(*attemptOf(&q.head)); err != nil {
		_ = fl.abandon(q.storeAway(err))
		if !errors.Is(err, ledger.ErrUnavailable) {
			o.e.logger.Error("an operation cannot be dispatched; recovery will find it", "intent", op.ID(), "error", err)
			return &outcome{}, 0
		}
		return nil, time.Second
	}
	fl.took(op)
	fl.more = op.Status().Attempt < q.head.MaxAttempts
	q.began = time.Now()
	fl.start(context.Background(), q.began.Add(q.budget), fn)
	<-fl.done
	fl.leave()
	out := fl.out
	return &out, 0
}

// backoff is the wait before the next attempt, with jitter above a floor.
func backoff(r policy.Retry, attempt int) time.Duration {
	top := min(r.Base<<min(attempt-1, 16), r.Max)
	return top/4 + rand.N(max(top*3/4, 1))
}
