package intent

import (
	"context"
	"errors"
	"hash/fnv"
	"sync"
	"time"

	"github.com/holdfast-ai/holdfast/ledger"
)

// Several engines on one log do what is nobody's in particular — expire what waited too long, take over what a dead one left,
// sweep — each in its turn: who is first for a chore is a function of its name and of who is alive. Two may think so of
// themselves for a moment, and one that is first may be stuck; so it saves work and decides nothing. What must happen once is a
// compare-and-set.
type fleet struct {
	mu     sync.Mutex
	living []string // ids, without this owner's; as last read

	// Of takeOver alone: the heartbeats of dead owners of whom nothing is left to take over, by owner.
	emptied map[string]time.Time
}

// turn is how many living engines come before this one for a chore.
func (g *Log) turn(chore string) (n int) {
	g.fleet.mu.Lock()
	defer g.fleet.mu.Unlock()
	own := weight(chore, g.owner)
	for _, id := range g.fleet.living {
		if w := weight(chore, id); w > own || w == own && id > g.owner {
			n++
		}
	}
	return n
}

// First reports whether a chore that one engine is enough for is this one's, as far as it knows who is alive.
func (g *Log) First(chore string) bool { return g.alone || g.turn(chore) == 0 }

func weight(chore, id string) uint64 {
	h := fnv.New64a()
	_, _ = h.Write([]byte(chore))
	_, _ = h.Write([]byte{0})
	_, _ = h.Write([]byte(id))
	// FNV's upper bits know little of its last bytes.
	w := h.Sum64()
	w ^= w >> 32
	w *= 0x9e3779b97f4a7c15
	return w ^ w>>29
}

// takeOver recovers what dead owners left, once for each heartbeat of theirs that ended. The first in turn does it at once; the
// others an interval later each, and find nothing. What no heartbeat tells of, a sweep of the log finds (Reclaim).
func (g *Log) takeOver(ctx context.Context) {
	owners, err := g.ledger.Owners(ctx)
	if err != nil {
		if ctx.Err() == nil {
			g.logger.Warn("who is alive could not be read", "error", err)
		}
		return
	}
	now, due := g.ledger.Now(), false
	var living []string
	left := map[string]time.Time{}
	var dead []ledger.Owner
	for _, o := range owners {
		over := now.Sub(o.Until) - g.grace()
		switch {
		case o.ID == g.owner:
		case over <= 0:
			living = append(living, o.ID)
		case g.fleet.emptied[o.ID].Equal(o.Until):
			left[o.ID] = o.Until
		default:
			dead = append(dead, o)
		}
	}
	g.fleet.mu.Lock()
	g.fleet.living = living
	g.fleet.mu.Unlock()
	for _, o := range dead {
		due = due || now.Sub(o.Until)-g.grace() >= time.Duration(g.turn("take over "+o.ID))*g.beat
	}
	if due {
		found, err := g.Recover(ctx)
		if found != (Recovered{}) {
			g.logger.Warn("took over what another engine left", "waiting", found.Waiting, "unknown", found.Unknown, "failed", found.Failed,
				"settled", found.Settled, "dropped", found.Dropped)
		}
		if err == nil {
			for _, o := range dead {
				left[o.ID] = o.Until
			}
		} else if ctx.Err() == nil {
			g.logger.Warn("what another engine left could not all be taken over; it is tried again", "error", err)
		}
	}
	g.fleet.emptied = left
}

// lag is how much longer an engine waits that is not the first for expiry, so that it finds nothing where that one works.
const lag = 4

// age expires what waited too long, where it is this engine's turn.
func (g *Log) age(ctx context.Context) {
	late := time.Duration(0)
	if !g.First("expire") {
		late = lag * g.beat
	}
	if _, err := g.expireBefore(ctx, g.ledger.Now().Add(-late), true); err != nil && ctx.Err() == nil {
		g.logger.Warn("expiry did not finish", "error", err)
	}
}

// Reclaim takes over what dead owners hold of a page of the log, and returns what it looked at as it is now. Where the ledger
// admits one engine at a time there is nothing: Recover at the start found everything.
func (g *Log) Reclaim(ctx context.Context, records []*ledger.Record) ([]*ledger.Record, error) {
	if g.alone {
		return records, nil
	}
	foreign := false
	for _, r := range records {
		foreign = foreign || r.LeaseOwner != "" && r.LeaseOwner != g.owner
	}
	if !foreign {
		return records, nil
	}
	dead, err := g.deadOwners(ctx)
	if err != nil {
		return records, err
	}
	var found Recovered
	for i, r := range records {
		if r.LeaseOwner == "" || !dead(r) {
			continue
		}
		err := g.recoverOne(r, &found)
		if err != nil && !errors.Is(err, ledger.ErrStale) {
			return records, err
		}
		if now, err := g.ledger.Get(ctx, r.ID); err == nil {
			records[i] = now
		}
	}
	return records, nil
}

// OnFreed has f told of every job that was taken from a dead owner and waits again, by its record. It is set once, before Run.
func (g *Log) OnFreed(f func(*ledger.Record)) { g.freed.Store(&f) }
