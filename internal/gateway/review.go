package gateway

import (
	"cmp"
	"context"
	"errors"
	"slices"

	"github.com/holdfast-ai/holdfast/decision"
	"github.com/holdfast-ai/holdfast/fallback"
	"github.com/holdfast-ai/holdfast/intent"
	"github.com/holdfast-ai/holdfast/ledger"
)

// uncontracted ends a call of which no tier keeps the contract for certain, or one that does only by its owner's word. Where the policy
// has its owner asked it waits for that, as a job.
func (c *call) uncontracted(d *fallback.Decision, refusal *Error) *Error {
	rule, reviewed := c.reviewOf(d)
	switch {
	case !reviewed && c.job != nil:
		c.unmet = cmp.Or(c.unmet, d.Condition)
		return c.abandon(refusal)
	case !reviewed:
		return c.turnedAway(refusal)
	}
	waits := &Error{Code: CodeOwnerReview, Message: "it waits for its owner (" + rule + "): " + d.Reason}
	if c.job != nil {
		return c.parkJob(waits, rule, d)
	}
	c.goTo(c.course.index(approvable(d)))
	if err := c.jobAllowed(c.g.guard.Credential(c.r)); err != nil {
		if refusal == nil {
			refusal = errorf(CodeContract, "the next tier needs its owner's word, and this call cannot wait for that: %s", err.Message)
		}
		return c.turnedAway(refusal)
	}
	return c.parkCall(waits)
}

// reviewOf is the policy's field by which an owner is asked.
func (c *call) reviewOf(d *fallback.Decision) (rule string, reviewed bool) {
	if d.Approval {
		return "approval", true
	}
	return "lanes.owner_review.enter_when", d.Action == fallback.Unknown && slices.Contains(c.wf.Lanes.OwnerReview.EnterWhen, d.Condition)
}

// approvable is the tier that an owner's word leads to: whether a job may go there is asked of that one.
func approvable(d *fallback.Decision) string {
	if i := slices.IndexFunc(d.Skipped, func(s fallback.Skipped) bool { return s.Condition == fallback.ContractUnknown }); d.Tier == "" && i >= 0 {
		return d.Skipped[i].Tier
	}
	return d.Tier
}

// parkJob has a job wait for its owner before anything of it is sent.
func (c *call) parkJob(waits *Error, rule string, d *fallback.Decision) *Error {
	_ = c.abandon(waits)
	err := c.job.Op.Park(intent.Parking{Lane: intent.LaneReview, Rule: rule, Reason: parkedBecause(decision.Decision{Condition: d.Condition, Reason: d.Reason})})
	switch {
	case errors.Is(err, ledger.ErrStale):
		return &Error{Code: CodeInFlight, Message: "the job was cancelled or taken over before it was sent", Err: err}
	case err != nil:
		return c.storeAway(err)
	}
	c.done = true
	return nil
}

// parkCall writes a call down as a job that waits for its owner. The same request again finds it, and its answer once it has one; who asked
// meanwhile looks again then.
func (c *call) parkCall(waits *Error) *Error {
	c.review = true
	rec, known, refusal := c.submit(0)
	if refusal != nil {
		return c.abandon(refusal)
	}
	c.standDown()
	switch {
	case rec == nil && c.done:
		return nil
	case rec == nil:
		return errorf(CodeInFlight, "a call with this key is not done")
	case known && rec.State == ledger.Settled:
		ctx, stop := context.WithTimeout(context.Background(), c.g.policy.Limits.CommitWait)
		defer stop()
		if _, refusal := c.heldSettled(ctx, rec); refusal != nil || c.done {
			return refusal
		}
	}
	waits.Intent = rec.ID
	waits.Message += ". holdfast review approve " + rec.ID + " has it sent, and the same request then gets its answer"
	return waits
}
