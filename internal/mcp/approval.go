package mcp

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/holdfast-ai/holdfast/intent"
	"github.com/holdfast-ai/holdfast/internal/mutant"
	"github.com/holdfast-ai/holdfast/internal/policy"
	"github.com/holdfast-ai/holdfast/ledger"
)

// Approval (approval: dispatch): a call is written down in owner_review and not sent. Once its owner has approved it, the client's
// next identical call has it sent, once: without a client there is no session with its server, and nobody who would read the answer.

// asksOwner reports whether the call's owner has to approve it first.
func (c *call) asksOwner() bool {
	return c.rule.Approval == policy.ApproveDispatch && !mutant.On("tool-approval-asks-nobody")
}

// ask parks a call until its owner has spoken, and tells the client.
func (f *flight) ask() (again bool) {
	if f.c.key == "" { // check refuses that
		f.refuse(refusal{code: "invalid_request", safe: safeNo, text: "Nothing was executed: the policy of this tool asks its owner first, and has no key " +
			"(derive: off) by which the approved call would be found again."})
		return false
	}
	op, err := f.p.log.Begin(intent.Begin{Head: f.c.intentHead(), Claim: true, Lane: intent.LaneReview, Visibility: ledger.VisBackground,
		Request: f.p.keep(ledger.BodyRequest, f.c.m.raw)})
	var dup *intent.DuplicateError
	if errors.As(err, &dup) {
		return true
	}
	if err != nil {
		f.storeAway(err)
		return false
	}
	f.set(op)
	f.p.held.add(f.c, op.ID())
	op.Note(ledger.Event{Kind: "note", Reason: "waits for its owner", Rule: f.c.rule.path + ".approval"})
	f.p.logger.Warn("a call waits for its owner", "intent", op.ID(), "server", f.c.s.srv.name, "tool", f.c.tool, "approve", approveLine(op.ID(), f.p.store))
	f.refuse(f.c.waitingWords(op.ID()))
	return false
}

// waits reports whether an intent of which nothing was sent stands where only its owner takes it from.
func waits(r *ledger.Record) bool {
	return r.State == ledger.Created && intent.Parked(r.Lane) && !mutant.On("parked-tool-runs")
}

// rejected reports whether an intent was ended by its owner before anything was sent.
func rejected(r *ledger.Record) bool {
	return r.State == ledger.Settled && r.Outcome == ledger.OutcomeDiscarded && r.Attempt == 0 && !r.ClaimUntil.IsZero()
}

// waitingWords tell a model that nothing has happened, that a person can change that, and that it may ask again. They do not hand
// it the command that approves: an agent may have a shell.
func (c *call) waitingWords(id string) refusal {
	return refusal{code: "owner_review_required", safe: safeYes, intent: id, text: fmt.Sprintf("WAITING FOR APPROVAL. Nothing was executed: a call of %q is "+
		"executed only after a person has approved it (intent %s). Tell the user that it waits for its owner, who finds it in holdfast's review list. Once it is "+
		"approved, make the identical call again: that executes it once and returns its answer. To repeat it before then is safe and changes nothing.", c.tool, id)}
}

// approveLine is the command by which a person approves a call. store is the log's file where it has to be named.
func approveLine(id, store string) string {
	line := "holdfast review approve " + id + " --by NAME --reason TEXT"
	if store != "" {
		line += " --store " + shellWord(store)
	}
	return line
}

// turnDown tells whoever asks again that the owner has rejected the call, and why.
func (f *flight) turnDown(ctx context.Context, r *ledger.Record) {
	by, why := "its owner", ""
	if events, err := f.p.ledger.History(ctx, r.ID); err == nil {
		for i := range events {
			if e := &events[i]; e.To == ledger.Settled && e.Actor != "" {
				by, why = e.Actor, e.Reason
			}
		}
	}
	text := fmt.Sprintf("REJECTED. Nothing was executed: %.80q has rejected this call (intent %s)", by, r.ID)
	if why = strings.TrimSpace(why); why != "" {
		text += fmt.Sprintf(": %.300q", why)
	}
	f.p.observer.Duplicate(f.c.s.srv.name, "settled")
	f.p.log.Load(r).Note(ledger.Event{Kind: "duplicate", Reason: "settled", Rule: "semantics 41"})
	f.refuse(refusal{code: "rejected", safe: safeNo, intent: r.ID, text: text + ". Do not repeat it; tell the user. Only to ask the owner once more, on purpose, call again with the " +
		"additional argument " + repeatReason + " saying why."})
}
