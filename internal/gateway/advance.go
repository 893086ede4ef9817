package gateway

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/holdfast-ai/holdfast/breaker"
	"github.com/holdfast-ai/holdfast/decision"
	"github.com/holdfast-ai/holdfast/fallback"
	"github.com/holdfast-ai/holdfast/intent"
	"github.com/holdfast-ai/holdfast/internal/mutant"
	"github.com/holdfast-ai/holdfast/internal/policy"
	"github.com/holdfast-ai/holdfast/internal/upstream"
	"github.com/holdfast-ai/holdfast/ledger"
	"github.com/holdfast-ai/holdfast/signal"
)

// From one tier to the next, as package fallback decides it: before anything is written, while a call waits to be admitted, and
// behind an attempt that failed. Never behind the boundary, for a client that left, or for what is held.

// plan finds the tiers that the call may go to. Which of them it begins at its contract says, once nothing else answers it.
func (c *call) plan() *Error {
	chosen := ""
	if c.job != nil {
		head := scheduledAs(*c.job.Op.Head(), c.job.Life.Said)
		chosen = overrideIn(&head)
	}
	c.setOut(chosen)
	if c.target == c.from {
		return nil
	}
	if mutant.On("job-forgets-its-submitter") {
		c.by = nil
	}
	return c.identify() // whose credential goes out decides whose tenant it is (semantics 44)
}

// setOut is at the first leg.
func (c *call) setOut(chosen string) {
	c.course = &course{}
	c.course.legs = c.g.legs(c.nestRules(), c.from, c.model, chosen, &c.course.one)
	if c.course.several() {
		c.course.tries = map[string]int{}
		if c.job == nil {
			c.course.most = c.nestRules().decide.MaxAttempts
		}
	}
	c.goTo(0)
}

// remembers takes over from an operation's history how many attempts each tier has had (semantics 37).
func (c *call) remembers(id string) {
	if !c.course.several() {
		return
	}
	ctx, stop := context.WithTimeout(context.Background(), c.g.policy.Limits.CommitWait)
	defer stop()
	if events, err := c.g.ledger.History(ctx, id); err == nil { // without it the bound is this request's own
		c.course.tries = intent.AttemptsByTier(events)
	}
}

// forwards reports whether the client's credential may go to a provider, whichever tier it is: then it says whose the call is.
func (c *call) forwards() bool {
	if c.course == nil {
		return !c.from.owns
	}
	return !c.from.owns && slices.ContainsFunc(c.course.legs, func(l leg) bool { return l.to == c.from })
}

// passLeg is where a call goes that is no intent, or is passed on as it comes: to the first tier that reads it as it is.
func (c *call) passLeg() *Error {
	o := c.original()
	for i := range c.course.legs {
		l := &c.course.legs[i]
		if l.to.wire == c.spec.Wire && o.mayProve(l.to) || l.to.tool {
			c.goTo(i)
			return nil
		}
	}
	l := &c.course.legs[0]
	return errorf(CodeContract, "the tier %s speaks %s, the request is %s, or it would need a credential that it does not have; nothing was sent", l.name, l.to.wire, c.spec.Wire)
}

// starts decides at which tier the call begins: the first whose contract holds. The zero Decision is the first, which is asked nothing.
func (c *call) starts() fallback.Decision {
	k := c.course
	if c.target.tool || mutant.On("sent-before-contract") || !k.several() && c.plainStart() {
		return fallback.Decision{}
	}
	f := Failing{Endpoint: c.spec.Endpoint, Body: c.body, Reviewed: c.job != nil && c.job.Life.Generation > 1}
	o := c.original()
	tiers := k.facts(c.g.policy, o, 0)
	facts := f.facts(k.wants(o), tiers[0], tiers)
	return fallback.Start(&facts, fallbackPolicy(c.wf, &f))
}

// begins goes to the tier at which the call begins.
func (c *call) begins() (d fallback.Decision, refusal *Error) {
	k := c.course
	if d = c.starts(); d.Action == "" {
		return d, nil
	}
	if len(d.Skipped) > 0 {
		k.skipped(d.Skipped)
		k.noted(c.g, "", c.wf.Name, &d)
		c.exec.trail()
	}
	switch {
	case d.Action == fallback.Next && !d.Approval:
		if to := k.index(d.Tier); to > 0 {
			c.exec.moved(0, to, "contract")
			c.goTo(to)
		}
		return d, nil
	case d.Action == fallback.Next:
		return d, nil
	}
	return d, errorf(CodeContract, "no tier keeps what the request asks for: %s; nothing was sent", k.words())
}

// plainStart says without looking at the request that the only tier can be asked for anything.
func (c *call) plainStart() bool {
	l := c.course.leg()
	m := c.g.policy.Known(l.sends)
	return c.original().ready(l) == nil && l.to.wire == c.spec.Wire && (len(c.nestRules().tiers) == 0 || !no(m.Tools) && !no(m.ParallelTools) && !no(m.Images) && !no(m.JSONSchema))
}

func no(b *bool) bool { return b != nil && !*b }

// wants is what the request asks of whoever answers it, read once.
func (k *course) wants(o *original) fallback.Needs {
	if k.needs == nil {
		needs := needsOf(o.body)
		needs.Wire, needs.SameModel = string(o.spec.Wire), vectors(o.spec.Endpoint)
		k.needs = &needs
	}
	return *k.needs
}

// facts are the tiers from one on, as a contract sees them.
func (k *course) facts(cfg *policy.Config, o *original, from int) []fallback.Tier {
	all := make([]fallback.Tier, 0, len(k.legs)-from)
	for i := from; i < len(k.legs); i++ {
		l := &k.legs[i]
		t := tierFacts(cfg, &l.conf, l.to.conf.Name, l.sends, o.spec.Endpoint, o.body)
		t.Name, t.Wire = l.name, string(l.to.wire)
		if t.Lack = o.ready(l); t.Lack == nil && l.crosses != nil {
			t.Wire = string(o.spec.Wire)
		}
		if t.Lack == nil && k.most > 0 && k.tries[l.name] >= k.most {
			t.Lack = &fallback.Lack{Rule: "retry.max_attempts", Reason: "all of its attempts have been made"}
		}
		all = append(all, t)
	}
	return all
}

// noted keeps a decision for the history, and tells the log.
func (k *course) noted(g *edition, id, workflow string, d *fallback.Decision) {
	k.notes = append(k.notes, ledger.Event{Kind: "note", Reason: FallbackWords(d), Rule: d.Rule, Evidence: fallbackEvidence(d)})
	g.logger.Info("fallback decided", "intent", id, "workflow", workflow, "action", string(d.Action), "tier", d.Tier, "rule", d.Rule,
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
	f.Endpoint, f.Body, f.Billed = o.spec.Endpoint, o.body, e.purse.billed
	f.Left, f.Remaining = e.job == nil && (e.attached() == 0 || e.stopped()), e.budget.Remaining(time.Now())
	f.Reviewed = e.job != nil && e.job.Life.Generation > 1
	all := k.facts(e.g.policy, o, 0)
	facts := f.facts(k.wants(o), all[0], all[k.at+1:])
	return fallback.Decide(&facts, fallbackPolicy(e.wf, &f))
}

// elsewhere decides whether a tier behind the present one may answer, and puts that on record.
func (e *execution) elsewhere(f Failing) fallback.Decision {
	d := e.would(f)
	if d.Action == fallback.None {
		return d
	}
	k := e.course
	k.skipped(d.Skipped)
	k.noted(e.g, e.opID(), e.wf.Name, &d)
	e.mu.Lock()
	told := e.op != nil
	e.fallback = fallbackHeader(&d)
	e.mu.Unlock()
	if told {
		e.tell()
	}
	return d
}

// elsewhereNow says that another tier may answer at once what this one would only after a long wait.
func (e *execution) elsewhereNow(o *outcome) bool {
	d := e.would(failing(e, o))
	return d.Action == fallback.Next && !d.Approval
}

func failing(e *execution, o *outcome) Failing {
	return Failing{Failure: FailureWord(o.signal), Visible: o.visible, Held: o.end == ledger.AttemptUnknown && e.op.Head().Hold}
}

// declines reports whether a tier that answers by a refusal of its provider's policy on content is followed by another one: where
// fallback.on lists content_filter, and one keeps the contract. The last one's refusal is the answer.
func (e *execution) declines() bool {
	if !e.course.several() || !slices.Contains(e.wf.Fallback.On, string(signal.ContentFilter)) {
		return false
	}
	d := e.would(Failing{Failure: string(signal.ContentFilter)})
	return d.Action == fallback.Next && !d.Approval
}

// declined is an answer that is a refusal.
func (e *execution) declined(resp *upstream.Response, body []byte) *outcome {
	const reason = "the provider declined to answer by its policy on content"
	return &outcome{verdict: verdict{end: ledger.AttemptFailed, status: resp.Status, kind: string(signal.ContentFilter), reason: reason, rule: "fallback.on",
		signal: signal.Signal{Class: signal.ContentFilter, ProviderErrorType: string(signal.ContentFilter), OutcomeKnown: true}},
		document: slices.Clone(body), at: time.Now(), how: ending{reveal: &head{status: resp.Status, header: resp.Header}}}
}

// leaves puts the present tier on the trail, as one that did not answer.
func (e *execution) leaves(s stop) {
	s.tier = e.course.leg().name
	e.course.trail = append(e.course.trail, s)
	e.trail()
}

// trail makes what clients are told of the tiers that did not answer.
func (e *execution) trail() {
	header := e.course.header()
	e.mu.Lock()
	e.left = header
	e.mu.Unlock()
}

// refusedStop is a tier that refused the call before anything of it was sent there.
func refusedStop(err *Error) stop {
	return stop{code: err.Code, word: string(err.Code), reason: strings.TrimSuffix(err.Message, "; nothing was sent")}
}

// failedStop is a tier of which an attempt failed.
func failedStop(o *outcome) stop {
	return stop{sent: true, word: cmp.Or(FailureWord(o.signal), o.kind, "failed"), status: o.status, reason: o.reason}
}

// afterRefusal is what is refused before an attempt of it.
func afterRefusal(code Code) Failing {
	return Failing{Failure: refusalWords[code], Refused: slices.Contains(closed, code)}
}

// board takes a place at the first tier, from the present one on, that has one. Where none has, it waits at the first of them that
// may be waited for; else it returns what the first has said.
func (c *call) board() *Error {
	e, k := c.exec, c.course
	var refusals []*Error
	var waits []*barred
	var at []int
	for {
		c.enlist()
		err := c.afford()
		var b *barred
		if err == nil {
			b = e.nest.admit()
			c.g.observer.Bulkhead(c.wf.Name, e.next.Tier, b == nil || b.code != CodeBulkheadFull)
			if b == nil || c.job == nil && b.brief() && b.wait <= e.patience() {
				e.barred = b
				return nil
			}
			err = b.refusal()
			e.purse.drop()
		}
		refusals, waits, at = append(refusals, err), append(waits, b), append(at, k.at)
		if c.job != nil { // it waits in its lane
			return err
		}
		d := e.elsewhere(afterRefusal(err.Code))
		e.leaves(refusedStop(err))
		if d.Action != fallback.Next || d.Approval {
			break
		}
		e.moved(k.at, k.index(d.Tier), string(err.Code))
		c.goTo(k.index(d.Tier))
	}
	for i, b := range waits {
		if b != nil && b.patient && b.wait <= e.patience() {
			c.goTo(at[i])
			c.enlist()
			if c.afford() == nil {
				e.barred = b
				return nil
			}
		}
	}
	c.goTo(at[0])
	return refusedBy(refusals)
}

// brief says that a wait is one that is slept in the nest (semantics 36): backpressure comes before another tier.
func (b *barred) brief() bool {
	return b.patient && b.code == CodeRateLimited && b.wait > 0 && b.wait <= decision.NestWait
}

// refusedBy is what a client hears whom every tier refused before anything was sent: what the first has said, with the shortest wait
// of those that say the same.
func refusedBy(all []*Error) *Error {
	told := *all[0]
	for _, err := range all[1:] {
		if err.Code == told.Code && err.Wait > 0 && err.Wait < told.Wait {
			told.Wait = err.Wait
		}
	}
	return &told
}

// moved tells telemetry of a step from one tier to another.
func (e *execution) moved(from, to int, reason string) {
	e.g.observer.Fallback(e.wf.Name, e.course.legs[from].name, e.course.legs[to].name, reason)
	e.mu.Lock()
	e.because = e.course.legs[from].name + ": " + reason
	e.mu.Unlock()
}

// afterFailure decides whether another tier may answer behind an attempt that failed for good on its own tier, and has it asked.
func (e *execution) afterFailure(o *outcome) (sent, over bool) {
	if !e.course.several() {
		return false, false
	}
	o.elsewhere = e.elsewhere(failing(e, o))
	return e.advance(o, o.elsewhere)
}

// advance has the next tier that may answer make an attempt, behind one whose tier failed. sent says that it is
// durable, over that the operation has ended.
func (e *execution) advance(o *outcome, d fallback.Decision) (sent, over bool) {
	if o.visible { // it has answered, as far as it did
		return false, false
	}
	e.leaves(failedStop(o))
	if d.Action != fallback.Next || d.Approval {
		return false, false
	}
	if !e.rest() || !o.recorded && !e.endAttempt(o, 0) {
		e.work()
		return false, false
	}
	e.logEnd(o.verdict)
	if !mutant.On("tier-slot-leaked") {
		e.yieldPlace(o)
	}
	e.clear()
	ready := e.boardNext(d, failedStop(o).word, e.job == nil)
	e.work()
	if !ready {
		return false, false
	}
	return e.sendNext(o)
}

// boardNext goes from tier to tier until one has a place for the call; at the last it waits for one, if it may.
func (e *execution) boardNext(d fallback.Decision, reason string, waits bool) bool {
	k := e.course
	for d.Action == fallback.Next && !d.Approval {
		to := k.index(d.Tier)
		e.moved(k.at, to, reason)
		refusal, b := e.enterLeg(to)
		if refusal == nil {
			e.next.Trigger = "fallback: " + reason
			return true
		}
		reason = string(refusal.Code)
		d = e.elsewhere(afterRefusal(refusal.Code))
		if d.Action != fallback.Next && waits && b != nil && b.patient && b.wait <= e.patience() { // no tier is left
			if b, err := e.nest.waitIn(e.ctx, b, time.Now().Add(e.patience())); b == nil && err == nil {
				e.next.Trigger = "fallback: " + reason
				return true
			}
		}
		e.purse.drop()
		e.leaves(refusedStop(refusal))
	}
	return false
}

// enterLeg takes what an attempt at another tier needs: its money, a slot of its own and a permit of its route.
func (e *execution) enterLeg(to int) (*Error, *barred) {
	k := e.course
	k.at = to
	l, o := k.leg(), k.asked
	e.request, e.target = o.outbound(l), l.to
	e.next = o.attempt(l)
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

// boardElse is for a call that waited in vain for the tier that it was to begin at: another may have a place by now.
func (e *execution) boardElse(b *barred) bool {
	refusal := b.refusal()
	d := e.elsewhere(afterRefusal(refusal.Code))
	e.leaves(refusedStop(refusal))
	if d.Action != fallback.Next || d.Approval {
		return false
	}
	e.purse.drop()
	return e.boardNext(d, string(refusal.Code), false)
}

// nobody is what a call hears that every tier has refused.
func (c *call) nobody(refusal *Error) *Error {
	o := &outcome{how: ending{fail: refusal}}
	c.exec.unanswered(o)
	return o.how.fail
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

// unanswered is the one place where a call ends before the boundary and no tier has answered it: before its claim, while it waited
// to be admitted, or behind its last attempt. What came of several tiers is told as one error with all their reasons; what came of
// one stays that one's.
func (e *execution) unanswered(o *outcome) {
	n, sent := e.course.tried()
	if n < 2 || !sent || e.job != nil { // whoever fetches a job's result gets the last tier's own
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

// begun counts an attempt that is durable, by its tier.
func (k *course) begun(tier string) {
	if k.tries != nil {
		k.tries[tier]++
	}
}
