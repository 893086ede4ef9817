package mcp

import (
	"context"
	"encoding/json"
	"errors"

	"github.com/holdfast-ai/holdfast/ledger"
)

// known answers from an intent that holds the call's key.
func (f *flight) known(ctx context.Context, r *ledger.Record) (again bool) {
	if r.Fingerprint != f.c.fingerprint {
		f.each(func(_ int, w *waiter) { w.reused(r.ID) })
		return false
	}
	switch {
	case r.State == ledger.Created && !waits(r):
		return f.start(r)
	case rejected(r):
		f.turnDown(ctx, r)
		return false
	case r.State == ledger.Settled:
		return f.replay(ctx, r)
	}
	kind, words := "in_flight", refusal{code: "request_in_flight", safe: safeYes, intent: r.ID, text: "Nothing was executed now: an identical call is still running (intent " + r.ID + ")."}
	switch {
	case waits(r):
		words = f.c.waitingWords(r.ID)
	case r.State == ledger.Unknown:
		kind, words = "unknown", f.c.unknownWords(r.ID, "an identical call before it has not been answered")
	}
	f.p.observer.Duplicate(f.c.s.srv.name, kind)
	f.p.log.Load(r).Note(ledger.Event{Kind: "duplicate", Reason: kind, Rule: "semantics 41"})
	f.refuse(words)
	return false
}

// replay answers with the stored result.
func (f *flight) replay(ctx context.Context, r *ledger.Record) (again bool) {
	if !f.p.ledger.Now().Before(r.ClaimUntil) { // its time ended since it was looked up
		return true
	}
	var value json.RawMessage
	if r.Answer != nil && r.Answer.HasBody {
		b, err := f.p.ledger.Body(ctx, r.ID, ledger.BodyAnswer)
		switch {
		case err == nil:
			value = b.Data
			f.p.memory.Hold(len(value))
			defer f.p.memory.Give(len(value))
		case !errors.Is(err, ledger.ErrNotFound):
			f.storeAway(err)
			return false
		}
	}
	f.p.observer.Duplicate(f.c.s.srv.name, "settled")
	f.p.log.Load(r).Note(ledger.Event{Kind: "duplicate", Reason: "settled", Rule: "semantics 41"})
	age := f.p.ledger.Now().Sub(r.CreatedAt)
	if value == nil {
		f.refuse(refusal{code: "answer_gone", safe: safeNo, intent: r.ID, good: true, text: "Nothing was executed now: this call has taken place (intent " + r.ID +
			"), but its answer is not on record. Look at the present state with a tool that only reads. Only if the effect is wanted a second time, on purpose, call again with the additional argument " +
			repeatReason + " saying why."})
		return false
	}
	f.each(func(_ int, w *waiter) { w.again(r.ID, value, age) })
	return false
}
