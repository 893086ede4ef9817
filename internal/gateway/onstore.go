package gateway

import (
	"github.com/holdfast-ai/holdfast/internal/policy"
	"github.com/holdfast-ai/holdfast/ledger"
)

// What a workflow does while the store cannot be read or written (on_store_error, semantics 18). deny refuses; local tells who
// repeats a key that this process remembers that its first request is in progress, and refuses the rest; allow sends a generation
// without a record, which then has no duplicates, no retries and no recording either.

// degraded is Holdfast-Degraded of answers that were given without the store.
const degraded = "store"

// unkept is what a duplicate hears whose answer exists while its record does not: until the store is back nobody else may get it.
func (c *call) unkept(e *execution) *Error {
	if c.wf.Idempotency.OnStoreError == policy.Deny {
		return &Error{Code: CodeStoreUnavailable, Message: "the store is unavailable, and the first request with this key is not yet on record; nothing was sent",
			Intent: e.opID(), Degraded: degraded}
	}
	return &Error{Code: CodeInFlight, Message: "the first request with this key is not yet on record: the store is unavailable", Intent: e.opID(), Degraded: degraded}
}

// unrecorded passes a call on that the store's being away kept from its provider, where its workflow allows that. It reports
// whether the call was taken on, and what came of it.
func (c *call) unrecorded(refused *Error) (taken bool, refusal *Error) {
	if refused.Code != CodeStoreUnavailable || refused.Degraded != degraded || !c.mayGoWithout() {
		return false, nil
	}
	if c.g.draining.Load() || c.r.Context().Err() != nil {
		return false, nil
	}
	if refusal = c.passLeg(); refusal != nil {
		return true, refusal
	}
	if refusal = c.place(); refusal != nil {
		return true, refusal
	}
	if refusal = c.enterThrough(); refusal != nil {
		return true, refusal
	}
	c.without = true
	c.g.logger.Warn("the store is unavailable; a call goes on without a record", "workflow", c.wf.Name, "rule", c.wf.Path()+".idempotency.on_store_error")
	return true, c.proxied(nil)
}

// mayGoWithout says whether the call may do without a record: a generation may, that nobody waits for an owner's word on, none of which
// was shown, and that is no job.
func (c *call) mayGoWithout() bool {
	if c.wf == nil || c.wf.Idempotency.OnStoreError != policy.Allow || c.job != nil || c.admitted || c.bridging || c.resume {
		return false
	}
	return c.effect == ledger.EffectGeneration && !c.approves() && !prefersAsync(c.r.Header)
}
