package gateway

import (
	"github.com/holdfast-ai/holdfast/breaker"
	"github.com/holdfast-ai/holdfast/ledger"
)

// turnedAway refuses a call for which there is no permit now. Whose key is held hears of the operation that holds it:
// that one may have had its effect, so "nothing was sent, try again" would be no true word.
func (c *call) turnedAway(refusal *Error) *Error {
	if c.job != nil { // which holds its key itself
		return c.abandon(refusal)
	}
	r := c.holder()
	if r == nil || r.JobID == "" && r.State != ledger.Settled && r.State != ledger.Unknown && r.LeaseOwner == "" {
		return c.abandon(refusal) // nobody's, or it waits to be gone on with
	}
	again, held := c.yieldTo(r.ID)
	switch {
	case c.mirror:
		return held
	case held != nil:
		return c.abandon(held)
	case again, !c.done:
		return c.abandon(refusal)
	}
	return nil
}

// yieldTo answers from the operation that holds the key.
func (c *call) yieldTo(holder string) (again bool, refusal *Error) {
	again, refusal = c.held(holder)
	if refusal == nil && c.done {
		c.standDown()
	}
	return again, refusal
}

// abandon gives up an execution of which nothing was sent: followers get the same error.
func (c *call) abandon(err *Error) *Error {
	e := c.exec
	e.nest.quit(breaker.Ignored)
	e.purse.drop()
	c.yield(ending{fail: err})
	return err
}

// standDown makes followers look the key up again: its answer is elsewhere.
func (c *call) standDown() {
	c.exec.nest.quit(breaker.Ignored)
	c.exec.purse.drop()
	c.yield(ending{again: true})
}

// lookAgain gives up the execution that stood down.
func (c *call) lookAgain() {
	if c.unwatch != nil {
		c.unwatch()
		c.unwatch = nil
	}
	c.depart(false)
	c.exec.unref()
	c.departed.Store(false)
	c.exec, c.leader, c.replay, c.again, c.mirror, c.cur = nil, false, false, false, false, nil
}

// leave gives a place among the workers back.
func (g *Gateway) leave() {
	g.working.Add(-1)
	g.running.end()
}

func (c *call) yield(how ending) {
	c.exec.endUnkept(how)
	if c.admitted {
		c.g.leave()
		c.admitted = false
	}
}
