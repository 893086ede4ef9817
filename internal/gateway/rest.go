package gateway

import (
	"errors"

	"github.com/holdfast-ai/holdfast/decision"
	"github.com/holdfast-ai/holdfast/intent"
	"github.com/holdfast-ai/holdfast/internal/mutant"
	"github.com/holdfast-ai/holdfast/ledger"
	"github.com/holdfast-ai/holdfast/queue"
)

// deciding is the policy that a decision about e goes by.
func (e *execution) deciding() decision.Policy {
	if e.job != nil {
		return e.nest.rules.jobs
	}
	return e.nest.rules.decide
}

// inPass counts the attempts since the job was taken from its lane; 0 for a call.
func (e *execution) inPass() int {
	if e.job == nil {
		return 0
	}
	if e.course.tries != nil {
		return e.inTier() - e.course.past[e.course.leg().name]
	}
	return e.attempts() - e.pass
}

// inTier counts the attempts on the present tier over the operation's whole life, adopted ones included (semantics 37).
func (e *execution) inTier() int {
	if k := e.course; k.tries != nil && !mutant.On("tiers-count-together") {
		return k.tries[k.leg().name]
	}
	return e.attempts() + e.inherited
}

// inLife counts them on all tiers, where there are several.
func (e *execution) inLife() int {
	if e.course.tries == nil {
		return 0
	}
	return e.attempts() + e.inherited
}

// rests puts a job where a decision sends it: back into its lane, or where only a person takes it from. It is false
// where the job ends as a call would.
func (e *execution) rests(o *outcome, d decision.Decision) bool {
	var err error
	lane, why := e.job.Rules.Lane(d.Condition), d
	if other := e.job.Rules.Lane(o.elsewhere.Condition); other != "" && (lane == "" || other == intent.LaneReview) { // semantics 37
		lane, why.Condition, why.Rule, why.Reason = other, o.elsewhere.Condition, o.elsewhere.Rule, o.elsewhere.Reason
	}
	if o.elsewhere.Approval {
		lane, why.Condition, why.Rule, why.Reason = intent.LaneReview, "", "approval", "tier "+o.elsewhere.Tier+" answers by its owner's word: "+o.elsewhere.Reason
	}
	if lane == "" && o.lane != "" { // a hosted tool had begun (semantics 27)
		lane = o.lane
	}
	switch d.Action {
	case decision.Queue, decision.Retry, decision.Wait:
		err = e.backToLane(o, d)
	case decision.Fail, decision.Hold:
		if lane == "" {
			return false
		}
		p := intent.Parking{Lane: lane, Body: o.body, Reason: parkedBecause(why), Rule: why.Rule}
		if !o.recorded {
			ending := o.ending()
			ending.Lane = lane
			p.Ending = &ending
		}
		err = e.op.Park(p)
	default:
		return false
	}
	switch {
	case errors.Is(err, ledger.ErrStale) && !o.recorded:
		e.cameLate(lateWord{o.ending(), o.body})
	case errors.Is(err, intent.ErrCommitWait):
		e.g.logger.Warn("a job is not back in its lane yet: the store is away; it is tried until that is back", "intent", e.op.ID())
	case err != nil:
		e.g.logger.Error("a job could not be put back; a sweep frees it where nobody has it", "intent", e.op.ID(), "error", err)
	}
	e.logEnd(o)
	e.end(ending{again: true})
	e.forget()
	return true
}

func parkedBecause(d decision.Decision) string {
	if d.Condition == "" {
		return d.Reason
	}
	return d.Condition + ": " + d.Reason
}

// backToLane gives the job up until its time has come. The delay has its jitter from the decision.
func (e *execution) backToLane(o *outcome, d decision.Decision) error {
	ready := e.readyAt(queue.Spread(d.Delay))
	if mutant.On("release-at-once") {
		ready = e.readyAt(d.Delay)
	}
	if mutant.On("snooze-ignores-wait") {
		ready = e.readyAt(0)
	}
	if o.recorded {
		return e.op.Release(ready, d.Reason, d.Rule)
	}
	ending := o.ending()
	ending.Lane, ending.ReadyAt, ending.Free = intent.LaneBackground, ready, true
	return e.op.EndAttempt(ending)
}
