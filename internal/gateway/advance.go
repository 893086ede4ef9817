package gateway

import (
	"cmp"
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/holdfast-ai/holdfast/breaker"
	"github.com/holdfast-ai/holdfast/fallback"
	"github.com/holdfast-ai/holdfast/internal/mutant"
	"github.com/holdfast-ai/holdfast/internal/pause"
	"github.com/holdfast-ai/holdfast/ledger"
	"github.com/holdfast-ai/holdfast/queue"
	"github.com/holdfast-ai/holdfast/signal"
)

// From one tier to the next, as package fallback decides it: before anything is written, while a call waits to be admitted, and
// behind an attempt that failed. Never behind the boundary, for a client that left, or for what is held.

// noted keeps a decision for the history, and tells the log.
func (k *course) noted(g *edition, id, workflow string, d *fallback.Decision) {
	k.notes = append(k.notes, ledger.Event{Kind: "note", Reason: FallbackWords(d), Rule: d.Rule, Evidence: fallbackEvidence(d)})
	g.logger.Info("fallback decided", "intent", id, "workflow", workflow, "from", k.leg().name, "action", string(d.Action), "tier", d.Tier, "rule", d.Rule,
		"condition", d.Condition, "reason", d.Reason)
}

// tell puts on record what was decided before there was a record.
func (e *execution) tell() {
	for _, n := range e.course.notes {
		e.op.Note(n)
	}
	e.course.notes = nil
}

// would decides whether a tier behind the present one may answer. Nothing of it is on record.
func (e *execution) would(f Failing) fallback.Decision {
	k := e.course
	if k.at+1 >= len(k.legs) {
		return fallback.Decision{Action: fallback.None}
	}
	o := k.asked
	f.Billed = e.purse.billed
	f.Left, f.Remaining = e.job == nil && (e.attached() == 0 || e.stopped()), e.budget.Remaining(time.Now())
	f.Reviewed = reviewed(e.job)
	return k.after(o, &f)
}

// after decides whether a tier behind the present one may answer.
func (k *course) after(o *original, f *Failing) fallback.Decision {
	all := k.facts(o.g.policy, o, 0)
	facts := f.facts(k.wants(o), all[0], all[k.at+1:])
	return fallback.Decide(&facts, fallbackPolicy(o.wf, f))
}

// elsewhere decides whether a tier behind the present one may answer, which has ended as why says, and puts that on record.
func (e *execution) elsewhere(f Failing, why stop) fallback.Decision {
	k := e.course
	if !k.several() {
		return fallback.Decision{Action: fallback.None}
	}
	if !f.Visible { // then it has answered, as far as it did
		why.tier = k.leg().name
		k.stopped(why)
	}
	d := e.would(f)
	e.meets(&e.met.fallback, d.Condition)
	k.skipped(d.Skipped)
	if d.Action == fallback.None {
		e.trail()
		return d
	}
	k.noted(e.g, e.opID(), e.wf.Name, &d)
	if k.said = fallbackHeader(&d); d.Action == fallback.Next {
		k.legs[k.index(d.Tier)].by = k.said
	}
	e.trail()
	e.mu.Lock()
	told := e.op != nil
	e.mu.Unlock()
	if told {
		e.tell()
	}
	return d
}

func failing(e *execution, o *outcome) Failing {
	return Failing{Failure: FailureWord(o.signal), Visible: o.visible, Held: o.end == ledger.AttemptUnknown && e.op.Head().Hold}
}

// trail makes what clients are told of the tiers that did not answer, of why the call is where it is, and of what was decided.
func (e *execution) trail() {
	k := e.course
	header, because := k.header(), ""
	if from, why := k.because(); from != "" {
		because = from + ": " + why
	}
	e.mu.Lock()
	e.left, e.because, e.fallback = header, because, k.said
	e.mu.Unlock()
}

// refusedStop is a tier that refused the call before anything of it was sent there.
func refusedStop(err *Error) stop {
	return stop{code: err.Code, word: string(err.Code), reason: strings.TrimSuffix(err.Message, "; nothing was sent")}
}

// failedStop is a tier of which an attempt failed.
func failedStop(o *outcome) stop {
	return stop{sent: true, word: cmp.Or(FailureWord(o.signal), plainName(o.kind), "failed"), status: o.status, reason: o.reason}
}

// afterRefusal is what is refused before an attempt of it.
func afterRefusal(code Code) Failing {
	return Failing{Failure: refusalWords[code], Refused: slices.Contains(closed, code)}
}

// moves has the call go on at another tier.
func (c *call) moves(to int) {
	c.goTo(to)
	c.exec.trail()
}

// moved tells telemetry of the step to the tier of an attempt that is durable, if it is not that of the last one: what was only asked for
// a place is no step.
func (e *execution) moved() {
	k := e.course
	if k.at == k.went {
		return
	}
	k.went = k.at
	from, why := k.because()
	e.g.observer.Fallback(e.wf.Name, from, k.leg().name, why)
}

// hasElsewhere reports whether a job has another tier than its first.
func (g *edition) hasElsewhere(head *ledger.Intent) bool {
	w := g.jobWorkflow(head)
	return w != nil && head.Provider != ToolProvider && len(w.Tiers) > 1 && w.Fallback.AllowedBeforeFirstToken && overrideIn(head) == ""
}

// ages reports whether a job that waits so long would end by its age.
func (g *Gateway) ages(job *queue.Job, wait time.Duration) bool {
	expires, now := job.Op.Status().ExpiresAt, g.ledger.Now()
	return !expires.IsZero() && (!now.Add(wait).Before(expires) || !now.Before(queue.LastCall(job.Op.Head().CreatedAt, expires)))
}

// untilAged is how long a job waits that was refused: behind its last call in steps that are shorter the less is left, since any of its tiers
// may have a place for it before its time is over.
func (g *Gateway) untilAged(job *queue.Job, wait time.Duration) time.Duration {
	if !g.ages(job, 0) {
		return wait
	}
	left := job.Op.Status().ExpiresAt.Sub(g.ledger.Now())
	return min(max(wait, time.Second), max(left/4, stall))
}

// afterFailure decides whether another tier may answer behind an attempt that failed for good on its own tier, and has it asked.
func (e *execution) afterFailure(o *outcome) (sent, over bool) {
	if !e.course.several() {
		return false, false
	}
	if e.job != nil && errors.Is(e.cause(), errInterrupted) {
		return false, e.leftToNext(o)
	}
	e.logEnd(o)
	o.elsewhere = e.elsewhere(failing(e, o), failedStop(o))
	return e.advance(o, o.elsewhere)
}

// leftToNext leaves a job that this process has broken off, and to which another tier is left, to the process that takes it next.
func (e *execution) leftToNext(o *outcome) bool {
	f := failing(e, o)
	f.Failure = string(signal.Unknown)
	if d := e.would(f); d.Action != fallback.Next {
		return false
	}
	e.nest.quit(o.health)
	e.interrupted(ending{again: true})
	return true
}

// advance has the next tier that may answer make an attempt, behind one whose tier failed. sent says that it is
// durable, over that the operation has ended.
func (e *execution) advance(o *outcome, d fallback.Decision) (sent, over bool) {
	if d.Action != fallback.Next || d.Approval {
		return false, false
	}
	if !e.rest() || !o.recorded && !e.endAttempt(o, 0) {
		e.work()
		return false, false
	}
	if !mutant.On("tier-slot-leaked") {
		e.yieldPlace(o)
	}
	e.clear()
	ready := e.boardNext(d, failedStop(o).word, time.Now().Add(e.patience()))
	e.work()
	if !ready {
		return false, false
	}
	return e.sendNext(o)
}

// boardNext goes from tier to tier until one has a place for the call. Until limit it waits for one at the last, if it may, and at each of
// which that comes first.
func (e *execution) boardNext(d fallback.Decision, reason string, limit time.Time) bool {
	k := e.course
	for d.Action == fallback.Next && !d.Approval {
		refusal, b := e.enterLeg(k.index(d.Tier))
		if refusal == nil {
			e.next.Trigger = "fallback: " + reason
			return true
		}
		if b != nil && e.job == nil && b.first() && e.awaitPlace(b, limit) {
			e.next.Trigger = "fallback: " + reason
			return true
		}
		reason = string(refusal.Code)
		d = e.elsewhere(afterRefusal(refusal.Code), refusedStop(refusal))
		if d.Action != fallback.Next && b != nil && e.awaitPlace(b, limit) { // no tier is left
			e.waitsAt(k.at)
			e.next.Trigger = "fallback: " + reason
			return true
		}
		e.purse.drop()
	}
	return false
}

// awaitPlace waits for a place at a tier that had none: a call where its caller may wait, a job, which would end here, in any case.
func (e *execution) awaitPlace(b *barred, limit time.Time) bool {
	if e.job == nil {
		b, err := e.nest.waitIn(e.ctx, b, limit)
		return b == nil && err == nil
	}
	for b != nil {
		left := time.Until(limit)
		if b.wait > left || left <= 0 || !pause.For(e.ctx, max(b.wait, stall)) {
			return false
		}
		b = e.nest.enter()
	}
	return true
}

// enterLeg takes what an attempt at another tier needs: its money, a slot of its own and a permit of its route.
func (e *execution) enterLeg(to int) (*Error, *barred) {
	k := e.course
	k.at = to
	l, o := k.leg(), k.asked
	e.request, e.target = o.outbound(l), l.to
	e.next = o.attempt(l)
	k.arrives(l.name)
	e.trail()
	e.markMetadata()
	e.nest = nest{rules: e.nest.rules, tier: l.tier, route: e.g.routes.GetAt(e.g.epoch, e.next.Route, e.nest.rules.breaker, e.wf.Retry.Share),
		priority: e.nest.priority, class: e.nest.class}
	e.at.Store(l.tier)
	if err := e.reprice(l); err != nil {
		return err, nil
	}
	b := e.nest.enter()
	e.g.observer.Bulkhead(e.wf.Name, e.next.Tier, b == nil || b.code != CodeBulkheadFull)
	if b != nil {
		return b.refusal(), b
	}
	return nil, nil
}

// sendNext makes the attempt at the tier that has a place for it durable.
func (e *execution) sendNext(o *outcome) (sent, over bool) {
	if !e.durable(e.op.Dispatch(e.next)) {
		e.nest.quit(breaker.Ignored)
		e.purse.drop()
		return false, false
	}
	e.sending()
	e.nest.route.Budget().First()
	if e.attached() == 0 {
		e.outlived(o)
		return false, true
	}
	return true, false
}

// unanswered is what a call hears behind its last attempt where no tier has answered it: what came of several tiers is told as one error
// with all their reasons; what came of one stays that one's. A call of which nothing was sent has been refused, not failed. A provider's
// refusal by its policy is an answer, and billed: where nobody gave another, the client has that.
func (e *execution) unanswered(o *outcome) {
	n, sent := e.course.tried()
	if n < 2 || !sent || e.job != nil || o.billed != nil { // whoever fetches a job's result gets the last tier's own
		return
	}
	code, text := CodeAllTiersFailed, "no tier has answered: "
	if o.how.fail != nil && o.how.fail.Code == CodeDeadline && errors.Is(e.cause(), errTotal) {
		code, text = CodeDeadline, "the budget ran out before a tier had answered: "
	}
	told := &Error{Code: code, Message: text + e.course.words(), Intent: e.opID()}
	if o.how.fail != nil {
		told.Err = o.how.fail.Err
	}
	o.how, o.document, o.answered, o.reply = ending{fail: told}, nil, nil, nil
	if o.keep {
		o.keep, o.body = false, nil
	}
}

// begun counts an attempt that is durable, by its tier. Nothing goes back from it: what the tiers before it were sent is let go.
func (k *course) begun(tier string) {
	if k.tries != nil {
		k.tries[tier]++
	}
	for i := range k.at {
		k.asked.unmake(&k.legs[i])
	}
}
