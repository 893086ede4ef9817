package gateway

import (
	"encoding/json"
	"errors"
	"math/rand/v2"
	"time"

	"github.com/holdfast-ai/holdfast/breaker"
	"github.com/holdfast-ai/holdfast/decision"
	"github.com/holdfast-ai/holdfast/fallback"
	"github.com/holdfast-ai/holdfast/intent"
	"github.com/holdfast-ai/holdfast/internal/mutant"
	"github.com/holdfast-ai/holdfast/internal/pause"
	"github.com/holdfast-ai/holdfast/ledger"
	"github.com/holdfast-ai/holdfast/signal"
)

// outcome is how an attempt ended that did not succeed, with what its clients get if nothing follows it.
type outcome struct {
	verdict
	how  ending
	body *ledger.Body // kept as evidence, or as the answer
	// The provider's own error: what is shown of it, and how it is kept.
	document []byte
	at       time.Time // when it was received
	reply    *stored
	answered *stored

	health   breaker.Result // what it says of the provider; counted once
	visible  bool           // clients have a part of the answer
	recorded bool           // the attempt's end is on record
	logged   bool           // … and in the process's log
	evidence json.RawMessage

	elsewhere fallback.Decision // whether another tier may answer
}

// again decides what follows an attempt, and does it: true means that the next attempt is durable and may leave.
func (e *execution) again(o *outcome) bool {
	e.attempted(o.end, o.kind)
	e.payFor(&o.verdict)
	o.health = e.health(&o.verdict)
	e.press(&o.verdict)
	f, d := e.decide(o)
	if d.Action == decision.Wait && e.job == nil {
		if sent, over := e.elsewhereNow(o, f); sent || over {
			return sent
		}
	}
	if d.Action == decision.Retry || d.Action == decision.Wait {
		dear := e.purse.take()
		switch {
		case dear != nil:
			f.Unaffordable = true
		case e.nest.route.Budget().Take():
			return e.follow(o, f, d)
		default:
			e.purse.drop()
			f.Spent = true // somebody else took it in this moment
		}
		d = decision.Decide(f, e.deciding())
	}
	o.evidence = e.evidence(f, d)
	e.meets(&e.met.retry, d.Condition)
	if d.Action == decision.Fail || d.Action == decision.Hold || e.job != nil && e.g.ages(e.job, d.Delay) && !mutant.On("job-waits-itself-out") {
		if sent, over := e.afterFailure(o); sent || over {
			return sent
		}
	}
	e.nest.quit(o.health)
	if e.job == nil || !e.rests(o, d) {
		e.conclude(o)
	}
	return false
}

// decide asks the one function that decides (semantics 5).
func (e *execution) decide(o *outcome) (decision.Facts, decision.Decision) {
	f := decision.Facts{Signal: o.signal, Status: o.status, End: ends[o.end], Hold: e.op.Head().Hold, Visible: o.visible,
		Left: e.job == nil && (e.attached() == 0 || e.stopped()), Async: e.job != nil, Pass: e.inPass(), Broken: !e.nest.ticket.Live(), Attempt: e.inTier(), Life: e.inLife(),
		Spent: e.nest.route.Budget().Tokens() < 1, Remaining: e.budget.Remaining(time.Now()), Roll: rand.Float64()}
	return f, decision.Decide(f, e.deciding())
}

// stopped says that the call was broken off for good: by its clients, or by this process's end.
func (e *execution) stopped() bool {
	c := e.cause()
	return leftAlone(c) || errors.Is(c, errInterrupted)
}

var ends = map[ledger.AttemptEnd]decision.End{ledger.AttemptSuccess: decision.Success, ledger.AttemptFailed: decision.Failed,
	ledger.AttemptUnknown: decision.Unknown, ledger.AttemptNotSent: decision.NotSent}

// evidence is what the log keeps of a decision, so that another policy can be asked about it. The policy that decided is
// named where it is not the one that the intent was begun by: a job waits over reloads and restarts (semantics 5).
func (e *execution) evidence(f decision.Facts, d decision.Decision) json.RawMessage {
	f.Signal.Message = "" // the provider's words may quote the request
	revision := e.g.policy.Revision
	if revision == e.op.Head().PolicyRevision {
		revision = ""
	}
	p, err := json.Marshal(struct {
		Facts    decision.Facts    `json:"facts"`
		Decision decision.Decision `json:"decision"`
		Revision string            `json:"policy_revision,omitempty"`
	}{f, d, revision})
	if err != nil {
		return nil
	}
	return p
}

// follow waits as decided and makes the next attempt durable (semantics 32, 36).
func (e *execution) follow(o *outcome, f decision.Facts, d decision.Decision) bool {
	o.evidence = e.evidence(f, d)
	e.logEnd(o)
	e.next.Trigger = "retry: " + o.reason
	e.clear()
	if !e.resend(o, d) {
		e.purse.drop()
		e.nest.route.Budget().Put()
		if e.job == nil {
			if sent, over := e.afterFailure(o); sent || over {
				return sent
			}
		}
		e.nest.quit(o.health)
		if e.job == nil || !e.rests(o, d) {
			e.conclude(o)
		}
		return false
	}
	e.sending()
	if e.attached() == 0 {
		e.nest.route.Budget().Put()
		e.outlived(o)
		return false
	}
	e.g.observer.Retry(e.wf.Name, f.Trigger())
	return true
}

// outlived ends an attempt whose last client left while it was put on record: none begins for a client that left
// (semantics 25).
func (e *execution) outlived(o *outcome) {
	e.nest.quit(o.health)
	e.purse.drop()
	o.end, o.reason, o.rule = ledger.AttemptNotSent, "its client left while the attempt was put on record", "semantics 25"
	o.body, o.recorded = nil, false
	e.conclude(o)
}

// resend makes the next attempt durable once its time has come. The end of the last one is on record before the wait: a
// crash in it finds what the provider said. While nothing of the call is on its way the last client to leave ends it.
func (e *execution) resend(o *outcome, d decision.Decision) bool {
	if !e.endAttempt(o, d.Delay) {
		return false
	}
	resting := e.rest()
	ready := resting && e.await(o, d)
	e.work()
	return ready && e.durable(e.op.Dispatch(e.next))
}

// await waits as decided: a short wait keeps slot and permit, a longer one gives both back (semantics 36). Where the
// route is cooling down, the wait is the route's: it may turn out longer, or be ended by an operator.
func (e *execution) await(o *outcome, d decision.Decision) bool {
	now := time.Now()
	limit := now.Add(min(d.Delay+e.deciding().MaxWait, e.budget.Remaining(now)))
	if d.Action == decision.Wait {
		e.yieldPlace(o)
	}
	if !o.cooled && !pause.For(e.ctx, d.Delay) {
		return false
	}
	var b *barred
	if e.nest.inside {
		if b = e.nest.renew(); b == nil {
			return true
		}
		if b.wait <= decision.NestWait && b.wait > 0 {
			b, err := e.nest.renewIn(e.ctx, limit)
			return b == nil && err == nil
		}
		e.yieldPlace(o)
	} else {
		b = e.nest.enter()
	}
	b, err := e.nest.waitIn(e.ctx, b, limit)
	return b == nil && err == nil
}

// yieldPlace gives slot and permit back for the time of a long wait.
func (e *execution) yieldPlace(o *outcome) {
	e.nest.quit(o.health)
	o.health = breaker.Ignored
}

// endAttempt puts the end of an attempt on record before a wait.
func (e *execution) endAttempt(o *outcome, delay time.Duration) bool {
	ending := o.verdict.ending()
	ending.Evidence, ending.ReadyAt = o.evidence, e.readyAt(delay)
	switch {
	case e.job != nil:
	case e.op.Head().Stream: // nothing of it was visible, or it would not be sent again
		ending.Lane = intent.LaneStream
	case delay > decision.NestWait:
		ending.Lane = intent.LaneAdmission
	}
	err := e.op.EndAttempt(ending)
	o.recorded = err == nil
	return e.durable(err)
}

// durable says whether a write came through; without it nothing is sent.
func (e *execution) durable(err error) bool {
	if err != nil && !errors.Is(err, intent.ErrAged) {
		e.g.observer.StoreError(e.wf.Name)
		e.g.logger.Error("a further attempt could not be put on record; nothing is sent", "intent", e.op.ID(), "error", err)
	}
	return err == nil
}

// clear forgets what an attempt brought, of which nobody has seen anything.
func (e *execution) clear() {
	e.rec.reset()
	e.anew()
}

// health is what an attempt says of its provider (semantics 34): its own failures alone count, neither what it refuses
// nor what we or our clients broke off.
func (e *execution) health(v *verdict) breaker.Result {
	if v.limited || e.stopped() && !mutant.On("cancel-is-failure") {
		return breaker.Ignored
	}
	if decision.Unhealthy(v.signal) {
		return breaker.Failure
	}
	return breaker.Ignored
}

// press tells the route of a signal that it has too much to do (design.md §4).
func (e *execution) press(v *verdict) {
	switch {
	case !decision.Pressing(v.signal) || v.limited || e.stopped():
	case v.signal.Class == signal.RateLimited:
		e.nest.route.Push(e.sent, v.cooled, v.kind)
	case e.job != nil:
		e.nest.route.Strain(e.sent, v.cooled, v.kind)
	}
}

// cool sets the route's cool-down where the provider says how long to stay away (semantics 34).
func (e *execution) cool(v *verdict) {
	if wait := decision.Cooldown(v.signal); wait > 0 && !(e.job != nil && mutant.On("snooze-job-only")) {
		e.nest.route.Cool(wait, v.kind)
		v.cooled = true
	}
}
