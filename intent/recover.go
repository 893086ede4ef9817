package intent

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/holdfast-ai/holdfast/internal/mutant"
	"github.com/holdfast-ai/holdfast/internal/pause"
	"github.com/holdfast-ai/holdfast/ledger"
)

// page is how many intents recovery reads at a time.
const page = 500

// Recovered counts what Recover found.
type Recovered struct {
	Waiting int // created, or dispatched and repeatable: a request with the key goes on from there
	Unknown int // held for evidence or a person
	Failed  int // dispatched, nobody can ask for the answer any more
	Settled int // confirmed, now settled
	Dropped int // created without a key: nobody can ask for it
}

// Recover reads every unsettled intent whose owner is dead and moves it on by semantics 6 and 7: what was not
// dispatched is free, what was goes by on_unknown. It is safe to run again, and beside other engines.
func (g *Log) Recover(ctx context.Context) (Recovered, error) {
	var found Recovered
	for after := ""; ; {
		records, err := g.ledger.Open(ctx, after, page)
		if err != nil {
			return found, fmt.Errorf("recover: %w", err)
		}
		// Behind the leases: whoever took one had a heartbeat before (Alive).
		dead, err := g.deadOwners(ctx)
		if err != nil {
			return found, err
		}
		for _, r := range records {
			after = r.ID
			if r.LeaseOwner == "" || !dead(r) {
				continue
			}
			if err := g.recoverOne(r, &found); err != nil && !errors.Is(err, ledger.ErrStale) {
				return found, fmt.Errorf("recover %s: %w", r.ID, err)
			}
		}
		if len(records) < page {
			return found, nil
		}
	}
}

// deadOwners returns the test for a lease that has run out: the intent's own, or its owner's heartbeat.
func (g *Log) deadOwners(ctx context.Context) (func(*ledger.Record) bool, error) {
	all, err := g.ledger.Owners(ctx)
	if err != nil {
		return nil, fmt.Errorf("read owners: %w", err)
	}
	owners := make(map[string]time.Time, len(all))
	for _, o := range all {
		owners[o.ID] = o.Until
	}
	now := g.ledger.Now()
	return func(r *ledger.Record) bool {
		switch {
		case r.LeaseOwner == g.owner:
			return false
		case g.alone:
			return true
		case !r.LeaseUntil.IsZero():
			return now.After(r.LeaseUntil.Add(g.grace()))
		default:
			return now.After(owners[r.LeaseOwner].Add(g.grace()))
		}
	}, nil
}

// recoverOne moves one intent on that a dead owner holds. Whoever else did, did it for good: the compare-and-set is refused then.
func (g *Log) recoverOne(r *ledger.Record, found *Recovered) error {
	o := g.Load(r).Patient() // nobody waits for an answer yet, and a slow disk is no reason not to start
	did := *found
	err := o.recoverFrom(r, &did)
	if err != nil {
		return err
	}
	*found = did
	if freed := g.freed.Load(); freed != nil && r.JobID != "" {
		if st := o.Status(); st.LeaseOwner == "" && (st.State == ledger.Created || st.State == ledger.Dispatched) {
			(*freed)(&ledger.Record{Intent: r.Intent, Status: st})
		}
	}
	return nil
}

func (o *Op) recoverFrom(r *ledger.Record, found *Recovered) error {
	switch {
	case r.State == ledger.Unknown:
		return o.unwatched("whoever looked for its effect is gone")
	case r.State == ledger.Created && r.Key == "":
		found.Dropped++
		return o.Discard("its process ended before anything was sent, and it has no key to ask for it by", "semantics 7")
	case r.State == ledger.Created:
		found.Waiting++
		return o.free("its process ended before anything was sent", 1)
	case r.State == ledger.Confirmed:
		found.Settled++
		return o.settleConfirmed()
	case r.State != ledger.Dispatched:
		return nil
	case mutant.On("lease-frees-dispatched"):
		return o.EndAttempt(Ending{End: ledger.AttemptFailed, Reason: "mutant"})
	case r.Hold:
		found.Unknown++
	case r.JobID == "" && (r.Stream || r.Key == ""):
		found.Failed++
	default:
		found.Waiting++
	}
	reason := "its process ended while the call was on its way"
	if !o.running {
		reason = "its process ended while it waited for its next attempt"
	}
	return o.interrupt(reason, "crash", 1, o.log.ledger.Now())
}

// Interrupt records that this process stops working on an intent before its outcome is known: on a shutdown that
// cannot wait. It counts as no crash (semantics 10). A created intent waits for a request with its key; so does a
// dispatched one between two attempts, of which nothing more is marked as possibly billed.
func (o *Op) Interrupt(reason string) error {
	switch {
	case o.Status().State != ledger.Created:
		return o.interrupt(reason, "interrupted", 0, o.log.ledger.Now())
	case o.head.Key == "":
		return o.Discard(reason, "semantics 7")
	}
	return o.free(reason, 0)
}

// interrupt moves a dispatched intent by semantics 2: held ones become unknown; a repeatable one waits, still
// dispatched, for a request with its key; one that nobody can ask for, or of whose stream the client may have
// seen a part, fails. Only an attempt that is on its way ends, and may be billed: between two attempts none is
// (semantics 36), and the last one is on record. A job is back in its lane, to be taken at ready.
func (o *Op) interrupt(reason, kind string, crashes int, ready time.Time) error {
	c := o.change(o.log.ledger.Now())
	c.require(c.st.State == ledger.Dispatched, "interrupt")
	c.st.Crashes += crashes
	sent := c.running
	if sent {
		c.end(Ending{End: ledger.AttemptUnknown, Error: kind, Reason: reason, Rule: "semantics 2", Billed: true})
	}
	if o.head.Hold {
		c.lose(ledger.Event{Reason: reason, Rule: "on_unknown: hold"})
		return o.strict(c, c.write(), nil)
	}
	if o.head.JobID != "" {
		c.step(stepContinue, ledger.Event{Reason: "back to its lane", Rule: "on_unknown: retry"})
		c.st.LeaseOwner, c.st.ReadyAt = "", ready
		return o.strict(c, c.write(), nil)
	}
	if !o.head.Stream && o.head.Key != "" {
		c.step(stepContinue, ledger.Event{Reason: "waits for a request with its key", Rule: "on_unknown: retry"})
		c.st.LeaseOwner = ""
		return o.strict(c, c.write(), nil)
	}
	if o.head.Stream && sent {
		c.st.Visibility, c.st.Partial = ledger.VisPartial, true
	}
	c.fail(reason, "semantics 7")
	return o.strict(c, c.write(), nil)
}

// fail settles a dispatched intent as failed and releases its key.
func (c *change) fail(reason, rule string) {
	c.step(stepConfirm, ledger.Event{Reason: reason, Rule: rule})
	c.step(stepSettle, ledger.Event{})
	c.st.Outcome = ledger.OutcomeFailed
}

// free gives up the lease of an intent that stays where it is.
func (o *Op) free(reason string, crashes int) error {
	c := o.change(o.log.ledger.Now())
	c.require(c.st.State == ledger.Created, "free")
	c.st.Crashes += crashes
	c.st.LeaseOwner, c.st.LeaseUntil = "", time.Time{}
	c.step(stepContinue, ledger.Event{Reason: reason, Rule: "semantics 6"})
	return o.strict(c, c.write(), nil)
}

func (o *Op) settleConfirmed() error {
	c := o.change(o.log.ledger.Now())
	c.step(stepSettle, ledger.Event{Reason: "confirmed before its process ended", Rule: "semantics 7"})
	return o.strict(c, c.write(), nil)
}

// Expire settles intents that waited for a request with their key until their time was over (semantics 7).
// Intents that somebody works on are left alone. It returns how many it settled.
func (g *Log) Expire(ctx context.Context) (int, error) { return g.expire(ctx, false) }

// breath is how many of many that age at once are settled before others have as long to themselves.
const breath = 16

// expire is Expire. As a neighbour it leaves half of the time to those whom somebody waits for, and ends for the owner's next
// heartbeat: of tens of thousands that age in one minute, most wait for the next turn. Nothing of them is dispatched meanwhile.
func (g *Log) expire(ctx context.Context, neighbour bool) (int, error) {
	return g.expireBefore(ctx, time.Time{}, neighbour)
}

// expireBefore is expire, of what was due at a ledger time; zero: now.
func (g *Log) expireBefore(ctx context.Context, at time.Time, neighbour bool) (int, error) {
	settled, began, last := 0, time.Now(), time.Now()
	for {
		// What is settled is due no more, so that the next page begins behind it.
		due := at
		if due.IsZero() {
			due = g.ledger.Now()
		}
		records, err := g.ledger.Due(ctx, due, page)
		if err != nil {
			return settled, fmt.Errorf("expire: %w", err)
		}
		before := settled
		for i, r := range records {
			if neighbour && i%breath == breath-1 {
				if time.Since(began) > g.beat || !pause.For(ctx, time.Since(last)) {
					return settled, nil
				}
				last = time.Now()
			}
			if err := g.expireOne(r); errors.Is(err, ledger.ErrStale) {
				continue // a request came for it meanwhile
			} else if err != nil {
				return settled, fmt.Errorf("expire %s: %w", r.ID, err)
			}
			settled++
		}
		if len(records) < page || settled == before {
			return settled, nil
		}
	}
}

func (g *Log) expireOne(r *ledger.Record) error {
	o := g.Load(r)
	if r.JobID != "" {
		return o.aged(g.lane(r))
	}
	return o.Discard("expired: no request came for it", "semantics 7")
}
