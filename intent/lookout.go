package intent

import (
	"context"
	"errors"
	"time"

	"github.com/holdfast-ai/holdfast/internal/mutant"
	"github.com/holdfast-ai/holdfast/ledger"
)

// Beside other engines each of them has the schedule of the checks, for all of it is in the log; who makes a check is whoever has
// the operation's lease. What the check brought gives the lease back in the same commit, so that the next one, here or there, finds
// it in the history.

// Lookout is an ability that a Reconciler may have: to say beforehand whether it could look now. Where it cannot, no lease is taken
// for a check that would be none.
type Lookout interface {
	CanLook(r *ledger.Record) bool
}

// errElsewhere says that another engine looks, or has just looked.
var errElsewhere = errors.New("another engine looks for it")

// watch takes an unknown operation in hand for one check. A lease of this owner's own is left from a check that could not be
// recorded.
func (g *Log) watch(r *ledger.Record, plan *Plan) (release func(), err error) {
	if g.alone || mutant.On("checks-without-lease") {
		return func() {}, nil
	}
	if l, able := plan.Reconciler.(Lookout); able && !l.CanLook(r) {
		return nil, ErrNotNow
	}
	o := g.Load(r).Patient()
	if r.LeaseOwner != g.owner {
		if r.LeaseOwner != "" {
			return nil, errElsewhere // Recover ends what its owner has left
		}
		c := o.change(g.ledger.Now())
		c.st.LeaseOwner, c.st.LeaseUntil = g.owner, c.now.Add(checkLimit+leaseBeats*g.beat)
		w := &c.w
		w.ID, w.Version, w.Lease, w.Events = r.ID, c.before, true, nil
		if err := o.commit(c, w, nil); errors.Is(err, ledger.ErrStale) {
			return nil, errElsewhere
		} else if err != nil {
			return nil, err
		}
	}
	return func() { _ = g.Load(r).Patient().unwatched("nothing was looked for") }, nil
}

// unwatched gives an unknown operation out of hand that nobody looks for any more.
func (o *Op) unwatched(reason string) error {
	if o.Status().LeaseOwner == "" && o.log.alone {
		return nil
	}
	c := o.change(o.log.ledger.Now())
	c.require(c.st.State == ledger.Unknown, "give a check up")
	c.step(stepContinue, ledger.Event{Reason: reason, Rule: "semantics 8"})
	c.st.LeaseOwner, c.st.LeaseUntil = "", time.Time{}
	return o.strict(c, c.write(), nil)
}

// checkedOnce records a check that proved nothing, and gives the lease back with it.
func (o *Op) checkedOnce(line ledger.Event) error {
	if o.log.alone || mutant.On("checks-without-lease") {
		return o.log.note(o.head.ID, line)
	}
	c := o.change(o.log.ledger.Now())
	c.require(c.st.State == ledger.Unknown, "check")
	c.add(line)
	c.step(stepContinue, ledger.Event{Reason: "looked for, and still unknown", Rule: "semantics 8"})
	c.st.LeaseOwner, c.st.LeaseUntil = "", time.Time{}
	err := o.strict(c, c.write(), nil)
	if errors.Is(err, ledger.ErrStale) { // a person or a late answer was quicker
		return o.log.note(o.head.ID, line)
	}
	return err
}

// alert asks a person, once of all engines.
func (o *Op) alert(line ledger.Event) error {
	if o.log.alone {
		return o.log.note(o.head.ID, line)
	}
	c := o.change(o.log.ledger.Now())
	c.add(line)
	c.step(stepContinue, ledger.Event{Reason: "it waits for a person", Rule: "semantics 8"})
	err := o.strict(c, c.write(), nil)
	if errors.Is(err, ledger.ErrStale) {
		return nil // another engine has asked, or somebody has answered
	}
	return err
}

// dueNow reports whether a check that this engine has in its schedule is still due by the history: another one may have made it. The
// history is read behind r, so that a lease at r's version says that nothing was found since.
func (g *Log) dueNow(ctx context.Context, r *ledger.Record, plan *Plan) (s standing, due bool, err error) {
	events, err := g.ledger.History(ctx, r.ID)
	if err != nil {
		return s, false, err
	}
	s = standingOf(events)
	if g.alone || mutant.On("checks-without-lease") {
		return s, true, nil
	}
	at, more := s.next(plan)
	return s, more && !g.ledger.Now().Before(at), nil
}
