package gateway

import (
	"errors"
	"time"

	"github.com/holdfast-ai/holdfast/breaker"
	"github.com/holdfast-ai/holdfast/bulkhead"
	"github.com/holdfast-ai/holdfast/deadline"
	"github.com/holdfast-ai/holdfast/intent"
	"github.com/holdfast-ai/holdfast/ledger"
)

var priorities = map[string]bulkhead.Priority{"low": bulkhead.Low, "normal": bulkhead.Normal, "high": bulkhead.High}

// permit takes a slot of the tier and the route's permit before anything is written: a refusal here leaves no row
// (semantics 32). Where it may be waited for, the claim comes first and the wait after it.
func (c *call) permit() *Error {
	if !c.leader {
		return nil
	}
	e := c.exec
	c.spends()
	if e.budget.Over(time.Now()) {
		return c.abandon(&Error{Code: CodeDeadline, Message: "the budget ran out before anything was sent", Safe: safeYes})
	}
	if d, refusal := c.begins(); refusal != nil || d.Approval {
		return c.uncontracted(&d, refusal)
	}
	if err := c.board(); err != nil {
		return c.turnedAway(err)
	}
	return nil
}

// enlist says which nest the call's attempts go through at the tier that it is at.
func (c *call) enlist() {
	e := c.exec
	e.nest, e.next = c.nested()
	e.at.Store(e.nest.tier)
}

// spends says what time the call's attempts may take, all together.
func (c *call) spends() {
	e := c.exec
	total := c.wf.Timeouts.Total
	if c.deadline > 0 {
		e.impatient = c.deadline < total
		total = min(total, c.deadline)
	}
	e.budget = deadline.New(c.began, total)
}

// nested is the nest of the call's next attempt, and how that attempt is written down.
func (c *call) nested() (nest, intent.Attempt) {
	next, r := c.attempt(), c.nestRules()
	return nest{rules: r, tier: c.course.leg().tier, route: c.g.routes.GetAt(c.g.epoch, next.Route, r.breaker, c.wf.Retry.Share),
		priority: priorities[c.priority], class: c.class()}, next
}

// enterFor enters the nest of a call that is no intent, or is sent as it comes: it waits here, where there is no row to
// wait behind.
func (c *call) enterFor(n *nest, tier string, budget deadline.Budget) *Error {
	b := n.admit()
	c.g.observer.Bulkhead(c.wf.Name, tier, b == nil || b.code != CodeBulkheadFull)
	if b == nil {
		return nil
	}
	now := time.Now()
	b, err := n.waitIn(c.r.Context(), b, now.Add(min(n.rules.decide.MaxWait, budget.Remaining(now))))
	switch {
	case err != nil:
		return c.readFailed(err)
	case b != nil:
		return b.refusal()
	}
	return nil
}

// patience is how long e may wait before it is sent.
func (e *execution) patience() time.Duration {
	return min(e.nest.rules.decide.MaxWait, e.budget.Remaining(time.Now()))
}

// admitted waits, behind the claim, for what the first attempt needs, and makes the attempt durable. When it is false
// the operation has ended.
func (e *execution) admitted() bool {
	b := e.barred
	if b == nil {
		return true
	}
	e.barred = nil
	if !e.rest() {
		e.giveUp(b, errGone)
		return false
	}
	limit := time.Now().Add(e.patience())
	b, err := e.nest.waitIn(e.ctx, b, limit)
	if b != nil && err == nil && e.boardElse(b, limit) {
		b = nil
	}
	e.work()
	if b == nil {
		err = e.op.Dispatch(e.next)
		if err == nil {
			e.sending()
			if e.attached() > 0 {
				return true
			}
			e.outlived(&outcome{health: breaker.Ignored, how: ending{fail: (&barred{code: CodeAdmission, message: errGone.Error()}).refusal()}})
			return false
		}
		b = &barred{code: CodeStoreUnavailable, message: "the store is unavailable; nothing was sent"}
	}
	e.giveUp(b, err)
	return false
}

// giveUp ends an operation that was not admitted: nothing of it is on its way, and nothing more is sent.
func (e *execution) giveUp(b *barred, err error) {
	e.nest.quit(breaker.Ignored)
	e.purse.drop()
	fail := b.refusal()
	fail.Intent, fail.Err = e.op.ID(), err
	if b.code == CodeBulkheadFull {
		fail = &Error{Code: CodeAdmission, Message: "no slot of this tier's bulkhead came free in time; nothing was sent", Intent: e.op.ID()}
	}
	reason := "not started in time: " + b.message
	if errors.Is(err, errGone) || leftAlone(err) {
		reason = "client_cancelled: " + errGone.Error()
	}
	if err := e.op.Discard(reason, "semantics 32"); err != nil {
		e.g.logger.Warn("an operation that was not sent could not be discarded; it expires", "intent", e.op.ID(), "error", err)
	}
	e.recordSeen(nil, false, nil, nil)
	e.endUnkept(ending{fail: fail})
}

// rest says that nothing of e is on its way: from now on the last client to leave ends it (semantics 25). It is false
// when the last one has left already, which ends it likewise: the record must not say that its provider did.
func (e *execution) rest() bool {
	e.mu.Lock()
	e.resting = true
	left := e.clients == 0
	e.mu.Unlock()
	if left {
		e.stop(errGone)
	}
	return !left
}

func (e *execution) work() {
	e.mu.Lock()
	e.resting = false
	e.mu.Unlock()
}

// sending counts an attempt that is durable.
func (e *execution) sending() {
	st := e.op.Status()
	e.mu.Lock()
	e.tries, e.served = st.Attempt, st.ServedModel
	e.mu.Unlock()
	e.course.begun(st.Tier)
	e.moved()
}

// waitingFor is how the claim is written where the first attempt has to wait.
func (e *execution) waitingFor(b *intent.Begin) {
	b.Attempt, b.Lane = nil, intent.LaneAdmission
	b.ReadyAt = e.readyAt(e.barred.wait)
}

func (e *execution) readyAt(wait time.Duration) time.Time { return e.g.ledger.Now().Add(wait) }

// takenOver puts an intent that waited for this request to work: at once, or when the nest lets it.
func (e *execution) takenOver(op *intent.Op) error {
	if e.barred == nil {
		return op.Dispatch(e.next)
	}
	return op.Await(intent.LaneAdmission, e.readyAt(e.barred.wait), "waits to be admitted", "semantics 32")
}

// mark tells routes apart by the credential that goes out (semantics 34).
func (o *original) mark(to *target) string {
	switch {
	case to.owns:
		return to.mark
	case !o.g.guard.Open() || to != o.from && !to.tool:
		return o.g.nobody // ours, or another provider's, which is not forwarded
	case o.g.guard.tenant == "" && len(o.tenant) > 10:
		return o.tenant[2:10] // the same hash
	}
	return o.g.credentialMark(o.proof)
}

// unsent settles an operation of which nothing has left.
func (e *execution) unsent(reason, rule string) error {
	if e.op.Status().State == ledger.Created {
		return e.op.Discard(reason, rule)
	}
	return e.op.NotSent(reason, rule)
}
