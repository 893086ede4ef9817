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

// Reclaim frees what engines hold whose heartbeat has ended, beside this one. Where the ledger admits one engine at a time
// there is none, and Recover at the start found everything.
func (g *Log) Reclaim(ctx context.Context) error {
	if g.alone {
		return nil
	}
	_, err := g.Recover(ctx)
	return err
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
			return now.After(r.LeaseUntil)
		default:
			return now.After(owners[r.LeaseOwner])
		}
	}, nil
}

func (g *Log) recoverOne(r *ledger.Record, found *Recovered) error {
	o := g.Load(r).Patient() // nobody waits for an answer yet, and a slow disk is no reason not to start
	switch {
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
	return o.interrupt(reason, "crash", 1, g.ledger.Now())
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
	settled, began, last := 0, time.Now(), time.Now()
	for {
		// What is settled is due no more, so that the next page begins behind it.
		records, err := g.ledger.Due(ctx, g.ledger.Now(), page)
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

// Alive puts the owner's heartbeat on record. Whoever leases beside other engines, and cannot wait for Run to have begun,
// calls it first: they take a lease without a heartbeat for a dead one's.
func (g *Log) Alive(ctx context.Context) error {
	if g.alone {
		return nil
	}
	return g.alive(ctx)
}

func (g *Log) alive(ctx context.Context) error {
	until := g.ledger.Now().Add(3 * g.beat)
	if mutant.On("lease-by-wall-clock") {
		until = time.Now().Add(3 * g.beat)
	}
	err := g.ledger.Beat(ctx, ledger.Owner{ID: g.owner, Until: until, Info: g.info()})
	if err == nil {
		g.until.Store(&until)
	}
	return err
}

// Current is nil while the owner's heartbeat on record is: what this engine has leased is nobody else's to take.
func (g *Log) Current() error {
	until := g.until.Load()
	switch now := g.ledger.Now(); {
	case until == nil:
		return errors.New("no heartbeat is on record yet")
	case now.After(*until):
		return fmt.Errorf("the last heartbeat on record ended %s ago", now.Sub(*until).Round(time.Millisecond))
	}
	return nil
}

// Run keeps the owner's heartbeat and expires what waited too long, until ctx ends.
func (g *Log) Run(ctx context.Context) error {
	ticker := time.NewTicker(g.beat)
	defer ticker.Stop()
	for {
		if err := g.alive(ctx); err != nil && ctx.Err() == nil {
			g.logger.Warn("heartbeat not written", "error", err)
		}
		if _, err := g.expire(ctx, !mutant.On("ageing-before-heartbeat")); err != nil && ctx.Err() == nil {
			g.logger.Warn("expiry did not finish", "error", err)
		}
		select {
		case <-ctx.Done():
			return nil
		case <-ticker.C:
		}
	}
}
