package gateway

import (
	"context"
	"errors"

	"github.com/holdfast-ai/holdfast/intent"
	"github.com/holdfast-ai/holdfast/internal/mutant"
	"github.com/holdfast-ai/holdfast/ledger"
)

// goesOnWith reports whether the intent of an earlier call waits for a request such as this one, which then goes on with it. What
// an owner has to approve does not: that is sent by a job alone.
func (c *call) goesOnWith(r *ledger.Record) bool {
	waits := r.JobID == "" && r.LeaseOwner == "" && (r.State == ledger.Created || r.State == ledger.Dispatched && !r.Hold)
	return waits && (!c.approves() || mutant.On("approval-takes-over"))
}

// heldBy answers from the operation that has the key: a call, a submission and what waits for its owner hear the same of it.
// again is true where its claim has ended meanwhile.
//
// refused is what the log said of it before it was read: what is taken back between the two is nobody's to follow.
func (c *call) heldBy(ctx context.Context, r *ledger.Record, refused bool) (again bool, refusal *Error) {
	switch {
	case r.State == ledger.Settled:
		return c.heldSettled(ctx, r)
	case refused:
		return false, c.heldByRefused(r)
	case r.JobID != "":
		if refusal := c.relies(r); refusal != nil {
			return false, refusal
		}
		return false, c.heldByJob(r)
	case r.State == ledger.Unknown:
		c.duplicateOf(r, "unknown")
		return false, c.g.stillUnknown(r.ID)
	}
	c.duplicateOf(r, "in_flight")
	return false, &Error{Code: CodeInFlight, Message: "the first request with this key still runs", Intent: r.ID}
}

// heldByRefused answers a request for whose key there is an operation whose own client was refused: its commit came late, and it
// is being taken back (semantics 9). Nobody may rely on it, and the key is free in a moment.
func (c *call) heldByRefused(r *ledger.Record) *Error {
	c.duplicateOf(r, "in_flight")
	return &Error{Code: CodeInFlight, Intent: r.ID, Message: "the first request with this key was refused, and that is not yet on record"}
}

// relies has a job stand that another engine may be taking back, before anybody is told of it.
func (c *call) relies(r *ledger.Record) *Error {
	switch err := c.g.log.Load(r).Vouch(); {
	case err == nil:
		return nil
	case errors.Is(err, ledger.ErrStale):
		c.duplicateOf(r, "in_flight")
		return &Error{Code: CodeInFlight, Intent: r.ID, Message: "the job with this key is changing hands at this moment"}
	default:
		return c.storeAway(err)
	}
}

// heldByJob answers a request for whose key there is a job that has not ended.
func (c *call) heldByJob(r *ledger.Record) *Error {
	switch {
	case intent.Parked(r.Lane):
		c.duplicateOf(r, "parked")
		return &Error{Code: CodeOwnerReview, Intent: r.ID,
			Message: "the job with this key waits for a person (" + r.Lane + "): holdfast review or holdfast deadletter shows it"}
	case r.State == ledger.Unknown:
		c.duplicateOf(r, "unknown")
		return c.g.stillUnknown(r.ID)
	}
	c.duplicateOf(r, "in_flight")
	return &Error{Code: CodeInFlight, Intent: r.ID, Message: "a job with this key is not done yet; GET " + jobPath + r.ID + " follows it"}
}
