package gateway

import (
	"github.com/holdfast-ai/holdfast/internal/mutant"
	"github.com/holdfast-ai/holdfast/internal/policy"
	"github.com/holdfast-ai/holdfast/ledger"
)

// approves reports whether an owner has to approve the call before it is sent (approval: dispatch). Such a call is written
// down as a job in owner_review: when its owner speaks, its caller may be gone.
func (c *call) approves() bool {
	return c.wf.Approval == policy.ApproveDispatch && c.effect != ledger.EffectRead && !mutant.On("approval-asks-nobody")
}

// unnamed refuses what could not be found again by whoever asked for it.
func (c *call) unnamed() *Error {
	return errorf(CodeInvalidRequest, "the workflow %s asks its owner first (approval: dispatch), and this path says of itself what it means to nobody: "+
		"give the call an Idempotency-Key, with which its answer is fetched later", c.wf.Name)
}

// awaitOwner parks a call until its owner has spoken, and tells its client so. What was parked before stands as it stands: it is
// held, on its way, or answers with what it has brought.
func (c *call) awaitOwner() *Error {
	if err := c.jobAllowed(c.g.guard.Credential(c.r)); err != nil {
		return err
	}
	if c.g.draining.Load() {
		return errorf(CodeDraining, "this gateway is shutting down; nothing was taken on")
	}
	rec, known, err := c.submit(0)
	if err != nil || known {
		return err
	}
	return &Error{Code: CodeOwnerReview, Intent: rec.ID, Message: "it waits for its owner (approval: dispatch): holdfast review approve " + rec.ID +
		" has it sent, and the same request then gets its answer"}
}
