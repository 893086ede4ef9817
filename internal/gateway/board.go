package gateway

import (
	"time"

	"github.com/holdfast-ai/holdfast/decision"
	"github.com/holdfast-ai/holdfast/fallback"
	"github.com/holdfast-ai/holdfast/internal/mutant"
)

// turnDown is a tier that had no place for a call.
type turnDown struct {
	at  int
	err *Error
	b   *barred // nil where its cost stood in the way
}

// board takes a place at the first tier, from the present one on, that has one. Where none has, it waits at the first of them that
// may be waited for; else it returns what the first has said. A job waits in its lane for its first tier, unless its time is over before.
func (c *call) board() *Error {
	e, k := c.exec, c.course
	var all []turnDown
	for {
		no := c.ask()
		if no == nil {
			return nil
		}
		if c.job != nil && !c.endsBy(no.err) {
			return no.err
		}
		all = append(all, *no)
		d := e.elsewhere(afterRefusal(no.err.Code), refusedStop(no.err))
		if d.Action != fallback.Next || d.Approval {
			if _, reviewed := c.reviewOf(&d); c.job != nil && reviewed {
				return c.uncontracted(&d, no.err)
			}
			break
		}
		c.moves(k.index(d.Tier))
	}
	if c.job == nil && c.waitsAtOne(all) {
		return nil
	}
	c.goTo(all[0].at)
	told := refusedBy(all)
	if len(all) > 1 {
		told.Message = "no tier has a place for the call: " + c.course.words() + "; nothing was sent"
	}
	return told
}

// endsBy reports whether a job to which this is said would end by it: it would age before that has changed, or nothing but a person
// changes it.
func (c *call) endsBy(refusal *Error) bool {
	if mutant.On("job-waits-itself-out") {
		return false
	}
	return c.g.ages(c.job, refusal.Wait) || refusal.Code == CodeSpendExceeded && refusal.Wait == 0
}

// ask takes what an attempt at the present tier needs, or says what stands in the way; a wait that is slept in the nest does not.
func (c *call) ask() *turnDown {
	e := c.exec
	c.enlist()
	if err := c.afford(); err != nil {
		return &turnDown{at: c.course.at, err: err}
	}
	b := e.nest.admit()
	c.g.observer.Bulkhead(c.wf.Name, e.next.Tier, b == nil || b.code != CodeBulkheadFull)
	if b == nil || c.job == nil && b.brief() && b.wait <= e.patience() {
		e.barred = b
		return nil
	}
	e.purse.drop()
	return &turnDown{at: c.course.at, err: b.refusal(), b: b}
}

// waitsAtOne has the call wait, behind its claim, for the first of the tiers that may be waited for.
func (c *call) waitsAtOne(all []turnDown) bool {
	for _, no := range all {
		if no.b == nil || !no.b.patient || no.b.wait > c.exec.patience() {
			continue
		}
		c.goTo(no.at)
		c.enlist()
		if c.afford() == nil {
			c.exec.barred = no.b
			c.exec.waitsAt(no.at)
			return true
		}
	}
	return false
}

// waitsAt takes back what was said of the tier that a call waits for after all.
func (e *execution) waitsAt(i int) {
	k := e.course
	k.arrives(k.legs[i].name)
	k.said = k.legs[i].by
	e.trail()
}

// brief says that a wait is one that is slept in the nest (semantics 36): backpressure comes before another tier.
func (b *barred) brief() bool {
	return b.patient && b.code == CodeRateLimited && b.wait > 0 && b.wait <= decision.NestWait
}

// refusedBy is what a client hears whom every tier refused before anything was sent: what the first has said, with the shortest wait
// of those that say the same.
func refusedBy(all []turnDown) *Error {
	told := *all[0].err
	for _, no := range all[1:] {
		if err := no.err; err.Code == told.Code && err.Wait > 0 && err.Wait < told.Wait {
			told.Wait = err.Wait
		}
	}
	return &told
}

// boardElse is for a call that waited in vain for the tier that it was to begin at: another may have a place by now, or the last of them
// until limit.
func (e *execution) boardElse(b *barred, limit time.Time) bool {
	refusal := b.refusal()
	d := e.elsewhere(afterRefusal(refusal.Code), refusedStop(refusal))
	if d.Action != fallback.Next || d.Approval {
		return false
	}
	e.purse.drop()
	if mutant.On("waited-once-for-all") {
		limit = time.Time{}
	}
	return e.boardNext(d, string(refusal.Code), limit)
}
