package gateway

import (
	"github.com/holdfast-ai/holdfast/decision"
	"github.com/holdfast-ai/holdfast/fallback"
)

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
		d := e.elsewhere(afterRefusal(err.Code), refusedStop(err))
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

// boardElse is for a call that waited in vain for the tier that it was to begin at: another may have a place by now.
func (e *execution) boardElse(b *barred) bool {
	refusal := b.refusal()
	d := e.elsewhere(afterRefusal(refusal.Code), refusedStop(refusal))
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
