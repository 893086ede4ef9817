package gateway

import (
	"encoding/json"
	"errors"
	"fmt"

	"github.com/holdfast-ai/holdfast/internal/mutant"
	"github.com/holdfast-ai/holdfast/internal/policy"
	"github.com/holdfast-ai/holdfast/internal/provider"
	"github.com/holdfast-ai/holdfast/internal/provider/wire"
	"github.com/holdfast-ai/holdfast/ledger"
	"github.com/holdfast-ai/holdfast/spend"
)

// Money goes by attempts, as outcomes do (semantics 1, 39): before one is sent its estimate is reserved, and at its end
// that becomes what it has cost; nothing, where it failed for certain; or stays, where nobody knows.

// purse is what an operation has of its workflow's budget.
type purse struct {
	book     *spend.Book // nil: its cost is not bounded
	key      string
	price    spend.Price
	estimate spend.Amount // of one attempt
	perDay   spend.Amount
	perCall  spend.Amount
	billed   spend.Amount // of attempts that count as spent
	open     *spend.Reservation
}

// costBounded reports whether a workflow bounds the cost of a call.
func costBounded(w *policy.Workflow) bool { return w.Spend.PerRequest > 0 || w.Spend.PerDay > 0 }

// account names a workflow's and owner's budget.
func account(tenant, workflow, owner string) string {
	return tenant + "\x00" + workflow + "\x00" + owner
}

// estimated is what a call is expected to cost, as far as its model has a price; it is asked for only where somebody goes
// by it.
func (c *call) estimated() (p spend.Price, cost spend.Amount, known bool) {
	if c.target == nil || c.target.tool || c.effect == ledger.EffectRead {
		return p, 0, true
	}
	model := c.course.leg().sends
	p.Input, p.Output, known = c.g.policy.Price(model)
	if !known {
		return p, 0, false
	}
	z := c.course.size
	if c.course.needs == nil { // not measured for a contract
		z = sizeOf(c.spec.Endpoint, c.body)
	}
	z = z.at(&c.course.leg().conf)
	return p, p.Of(z.in, z.out), true
}

// afford reserves the first attempt's estimate.
func (c *call) afford() *Error {
	if !costBounded(c.wf) || c.target.tool {
		return nil
	}
	price, estimate, known := c.estimated()
	// Who sends a job on has looked at what it costs: that bounds it no more, and what it costs counts for the day.
	sentOn := reviewed(c.job)
	if !known && !sentOn {
		return unpriced(c.course.leg().sends)
	}
	s := &c.exec.purse
	*s = purse{book: c.g.book, key: account(c.tenant, c.wf.Name, c.owner), price: price, estimate: estimate,
		perDay: c.g.perDay(c.wf), perCall: spend.USD(c.wf.Spend.PerRequest)}
	if sentOn {
		s.perCall = 0
	}
	if c.job != nil { // what its earlier attempts may have cost is on record with it
		s.billed = spend.USD(float64(c.job.Op.Status().BilledMaybe) * c.job.Op.Head().EstimatedCost)
	}
	c.estimate = estimate.USD()
	return spendError(c.wf.Name, s.take())
}

// perDay is what a workflow may spend in a day by this process's own book: its part, where replicas do not share theirs.
func (g *edition) perDay(w *policy.Workflow) spend.Amount {
	limit := spend.USD(w.Spend.PerDay)
	if g.shared == nil && w.Breaker.Replicas > 1 {
		return max(min(limit, 1), limit/spend.Amount(w.Breaker.Replicas))
	}
	return limit
}

// reprice reserves what an attempt at another tier is expected to cost.
func (e *execution) reprice(l *leg) *Error {
	s := &e.purse
	if s.book == nil {
		return nil
	}
	s.drop()
	o := e.course.asked
	in, out, known := e.g.policy.Price(l.sends)
	if !known && !reviewed(e.job) {
		return unpriced(l.sends)
	}
	s.price = spend.Price{Input: in, Output: out}
	e.course.wants(o)
	z := e.course.size.at(&l.conf)
	s.estimate = s.price.Of(z.in, z.out)
	return spendError(e.wf.Name, s.take())
}

// errTooDear says that spend.per_request leaves no room for a further attempt.
var errTooDear = errors.New("spend.per_request")

// unpriced refuses what costs nobody knows.
func unpriced(model string) *Error {
	if model == "" {
		return errorf(CodeSpendExceeded, "nobody knows what a call of this path costs, so that no limit on it can be kept: give its path a workflow without spend, or with approval: dispatch")
	}
	return errorf(CodeSpendExceeded, "nobody knows what %[1]s costs, so that no limit on it can be kept: say it under models, as %[1]s: {input_cost: …, output_cost: …}",
		bounded(model))
}

// take reserves the estimate of an attempt, once.
func (s *purse) take() (err error) {
	if s.book == nil || s.open != nil {
		return nil
	}
	if s.perCall > 0 && s.billed+s.estimate > s.perCall {
		return fmt.Errorf("%w is %s: %s may have been spent on it, and an attempt takes about %s", errTooDear, s.perCall, s.billed, s.estimate)
	}
	s.open, err = s.book.Reserve(s.key, s.perDay, s.estimate)
	return err
}

// drop gives back what was reserved for an attempt that is not made.
func (s *purse) drop() {
	s.open.Release()
	s.open = nil
}

// pay ends an attempt's reservation by what became of it, and returns by how much it has cost more than was estimated.
func (s *purse) pay(end ledger.AttemptEnd, usage provider.Usage) (over spend.Amount) {
	r := s.open
	if s.open = nil; r == nil {
		return 0
	}
	switch {
	case end == ledger.AttemptSuccess && usage.Input >= 0 && usage.Output >= 0:
		return r.Settle(s.price.Of(usage.Input, usage.Output))
	case end == ledger.AttemptFailed, end == ledger.AttemptNotSent:
		r.Release()
		return 0
	}
	r.Keep()
	s.billed += s.estimate
	return 0
}

// payFor settles an attempt that failed. An answer that fails it, a refusal, costs like any other.
func (e *execution) payFor(v *verdict) {
	if v.billed == nil || mutant.On("refusal-is-free") {
		e.pay(v.end, wire.NoUsage())
		return
	}
	if u := v.billed; e.purse.open != nil && u.Input >= 0 && u.Output >= 0 {
		e.purse.billed += e.purse.price.Of(u.Input, u.Output)
	}
	e.pay(ledger.AttemptSuccess, *v.billed)
}

// pay settles an attempt, and says on record where it has cost more than was reserved for it.
func (e *execution) pay(end ledger.AttemptEnd, usage provider.Usage) {
	over := e.purse.pay(end, usage)
	if over <= 0 {
		return
	}
	e.g.logger.Warn("an attempt has cost more than was estimated", "intent", e.op.ID(), "workflow", e.wf.Name,
		"estimated_usd", e.purse.estimate.USD(), "over_usd", over.USD())
	said, err := json.Marshal(map[string]float64{"estimated_usd": e.purse.estimate.USD(), "cost_usd": (e.purse.estimate + over).USD()})
	if err != nil { // numbers
		return
	}
	e.op.Note(ledger.Event{Kind: "note", Reason: "it has cost more than was estimated", Rule: "semantics 39", Evidence: said})
}

// spendError is what a refused reservation means to a client.
func spendError(workflow string, err error) *Error {
	if err == nil {
		return nil
	}
	e := errorf(CodeSpendExceeded, "the limit of workflow %s is reached: %s; nothing was sent", workflow, err.Error())
	var day *spend.ExceededError
	if errors.As(err, &day) && day.Estimate <= day.Limit {
		e.Wait = day.Until
		e.Message = fmt.Sprintf("spend.per_day of workflow %s: %s; nothing was sent", workflow, err.Error())
	}
	return e
}
