package holdfast

import (
	"context"

	"github.com/holdfast-ai/holdfast/intent"
	"github.com/holdfast-ai/holdfast/ledger"
)

// straight calls the function and does nothing else.
func straight(ctx context.Context, fn work) (*outcome, error) {
	p, err := fn(ctx)
	if err != nil {
		return nil, &Error{Code: ErrFailed, Message: "the function failed", SafeToRetry: Safe, Err: err}
	}
	return &outcome{product: p, attempts: 1}, nil
}

// observed changes nothing of the call (mode: observe): what would have been done is worked out beside it and put on
// record, and a store that is away only costs the record.
func (q *request) observed(ctx context.Context, fn work) (*outcome, error) {
	e := q.f.e
	would := "run"
	if seen, err := e.ledger.Derived(ctx, q.head.Key, 1); err == nil && len(seen) > 0 {
		would = "replay or wait for " + seen[0].ID
		if seen[0].Fingerprint != q.head.Fingerprint {
			would = "refuse: the key was used for another operation, " + seen[0].ID
		}
		e.meter.Duplicate(q.rule.Name, "observed")
		e.logger.Info("observe: duplicate", "workflow", q.rule.Name, "would", would)
	}
	op, err := e.log.Begin(intent.Begin{Head: q.head, Attempt: attemptOf(&q.head), Visibility: ledger.VisBackground,
		DerivedUntil: e.ledger.Now().Add(q.rule.Idempotency.Window)})
	if err != nil {
		e.meter.StoreError(q.rule.Name)
		e.logger.Warn("observe: not on record; the call goes on", "error", err)
		return straight(ctx, fn)
	}
	op.Note(ledger.Event{Kind: "note", Reason: "observe: would " + would, Rule: "workflows." + q.rule.Name + ".mode"})
	fault := errGoexit // unless it returns
	defer func() { q.observedEnd(op, fault) }()
	out, err := straight(ctx, fn)
	fault = err
	if out != nil {
		out.intent = op.ID()
	}
	return out, err
}

// observedEnd puts on record how a call that was only watched ended.
func (q *request) observedEnd(op *intent.Op, fault error) {
	end, outcome := intent.Ending{End: ledger.AttemptSuccess}, ledger.OutcomeSuccess
	switch {
	case fault == nil:
	case definite(fault):
		end, outcome = intent.Ending{End: ledger.AttemptFailed, Error: "function_error"}, ledger.OutcomeFailed
	default:
		end, outcome = intent.Ending{End: ledger.AttemptUnknown, Error: "function_error", Billed: true}, ledger.OutcomeFailed
		if op.Head().Hold {
			if err := op.Lose(end, nil); err != nil {
				q.f.e.logger.Error("a watched call could not be recorded", "intent", op.ID(), "error", err)
			}
			return
		}
	}
	if err := op.Settle(intent.Settlement{Ending: end, Outcome: outcome, Visibility: ledger.VisComplete}, true, nil); err != nil {
		q.f.e.logger.Error("a watched call could not be recorded", "intent", op.ID(), "error", err)
	}
}
