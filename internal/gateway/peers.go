package gateway

import (
	"context"
	"net/http"
	"sync"
	"time"

	"github.com/holdfast-ai/holdfast/internal/pause"
	"github.com/holdfast-ai/holdfast/ledger"
)

// Peers calls the other gateways that work on the same ledger, and serves their calls: a *fleet.Peers.
type Peers interface {
	// Do calls an owner's gateway; target is path and query. An error says that it is not reached, and costs little where it was not
	// a moment ago. The answer's body is the caller's to close.
	Do(ctx context.Context, owner, method, target string, header http.Header, body []byte) (*http.Response, error)
	// Silent says of an owner that it began to answer and then said nothing more.
	Silent(owner string)
	// Handle has the calls of others that a pattern of http.ServeMux fits served, of which it is known that they are theirs.
	Handle(pattern string, h http.Handler)
}

// fleet says that other gateways may work on this ledger: what is on record under a key may be in their hands.
func (g *Gateway) fleet() bool { return g.peers != nil }

// elsewhere says that a call is in the hands of another gateway, so that its answer is made there.
func (g *Gateway) elsewhere(r *ledger.Record) bool {
	return g.fleet() && r.JobID == "" && r.LeaseOwner != "" && r.LeaseOwner != g.log.Owner() &&
		(r.State == ledger.Created || r.State == ledger.Dispatched || r.State == ledger.Confirmed)
}

// ownersAge is for how long what the ledger says of owners is taken to hold: a fraction of the least lease.
const ownersAge = 500 * time.Millisecond

// owners is what the ledger says of who lives, read once for all who ask at the same time.
type owners struct {
	mu    sync.Mutex
	read  time.Time
	until map[string]time.Time
}

// lives says that an owner's heartbeat has not ended, as far as can be known: what cannot be read tells of no death.
func (g *Gateway) lives(ctx context.Context, owner string) bool {
	until, ok := g.allOwners(ctx)
	return !ok || !g.ledger.Now().After(until[owner])
}

// allOwners is until when each owner is known to live. Nobody changes the map.
func (g *Gateway) allOwners(ctx context.Context) (until map[string]time.Time, ok bool) {
	o := &g.owners
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.until == nil || time.Since(o.read) > ownersAge {
		all, err := g.ledger.Owners(ctx)
		if err != nil {
			return nil, false
		}
		o.read, o.until = time.Now(), make(map[string]time.Time, len(all))
		for _, x := range all {
			o.until[x.ID] = x.Until
		}
	}
	return o.until, true
}

// maxAsked bounds how many peers one request asks.
const maxAsked = 8

// others are the owners that live beside this one: those that have these operations first, for what they know may have been handed on.
func (g *Gateway) others(ctx context.Context, records []*ledger.Record) (list []string) {
	until, ok := g.allOwners(ctx)
	if !ok {
		return nil
	}
	now, seen := g.ledger.Now(), map[string]bool{g.log.Owner(): true, "": true}
	add := func(owner string) {
		if !seen[owner] && len(list) < maxAsked && !now.After(until[owner]) {
			seen[owner] = true
			list = append(list, owner)
		}
	}
	for _, r := range records {
		add(r.LeaseOwner)
	}
	for owner := range until {
		add(owner)
	}
	return list
}

// reclaims has what dead owners held gone on with, unless that is being done: whoever waits for one of them goes on with it then. The
// engine does so by itself now and then, which nobody who waits need wait for.
func (g *Gateway) reclaims() {
	if !g.reclaiming.CompareAndSwap(false, true) {
		return
	}
	g.running.begin()
	go func() {
		defer g.running.end()
		defer g.reclaiming.Store(false)
		ctx, stop := context.WithTimeout(g.halted, reclaimTime)
		defer stop()
		if _, err := g.log.Recover(ctx); err != nil && ctx.Err() == nil {
			g.logger.Warn("what an ended replica held could not be taken over", "error", err)
		}
		pause.For(ctx, ownersAge)
	}()
}

// reclaimTime bounds one look through what ended replicas held.
const reclaimTime = 10 * time.Second
