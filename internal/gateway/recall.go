package gateway

import (
	"context"

	"github.com/holdfast-ai/holdfast/ledger"
)

// recall looks up, once per key, what an earlier process left under it: its deliveries are unknown and read as
// lost (semantics 19). Whoever asks for the same key meanwhile waits for that; other keys do not.
func (c *call) recall() {
	g := c.g
	if c.recalled = !g.left(c.key) || g.ledger.Now().Sub(g.started) > c.wf.Idempotency.Window; c.recalled {
		return
	}
	over, mine := g.sightings.beginRecall(c.key)
	switch {
	case over == nil:
		c.recalled = true
		return
	case !mine:
		select {
		case <-over:
		case <-c.r.Context().Done():
		}
		return
	}
	var found []*sighting
	defer func() { g.sightings.endRecall(c.key, found, c.recalled) }()
	ctx, stop := context.WithTimeout(context.Background(), g.policy.Limits.CommitWait)
	defer stop()
	records, err := g.ledger.Derived(ctx, c.key, maxRecalled)
	if err != nil {
		return // the claim will say that the store is away
	}
	c.recalled = true
	replaced := map[string]bool{} // by a successor, which has their attempts
	for _, r := range records {
		replaced[r.ParentID] = true
	}
	for i := len(records) - 1; i >= 0; i-- {
		if r := records[i]; r.CreatedAt.Before(g.started) && adoptable(r) && !replaced[r.ID] {
			found = append(found, g.remembered(c, r))
		}
	}
}

// maxLeft bounds the keys that are remembered of earlier processes, in a megabyte. An orderly end leaves few.
const maxLeft = 1 << 17

// leftKeys returns a test of the derived keys under which earlier processes may have left something: most requests
// then need no look-up.
func leftKeys(ctx context.Context, l ledger.Ledger) (func(key string) bool, error) {
	maybe := func(string) bool { return true }
	f, ok := l.(ledger.KeyFilter)
	if !ok {
		return maybe, nil
	}
	left, err := f.DerivedKeys(ctx, maxLeft)
	if err != nil || left == nil {
		return maybe, err
	}
	return left, nil
}

// maxRecalled bounds what one key's look-up reads, the newest first.
const maxRecalled = 16

// beginRecall says whether the look-up of a key is the caller's to make. Another's is over when the channel is
// closed; nil: it is over already.
func (b *sightings) beginRecall(key string) (over <-chan struct{}, mine bool) {
	sh := b.shard(key)
	sh.mu.Lock()
	defer sh.mu.Unlock()
	l := sh.of(key)
	switch {
	case l.recalled:
		return nil, false
	case l.reading != nil:
		return l.reading, false
	}
	l.reading = make(chan struct{})
	return l.reading, true
}

// endRecall enters what a look-up found before all that came meanwhile. One that failed is made again by the next.
func (b *sightings) endRecall(key string, found []*sighting, done bool) {
	for _, s := range found {
		s.mu.Lock()
		s.enqueue() // it is forgotten at the end of its window
		s.mu.Unlock()
	}
	sh := b.shard(key)
	sh.mu.Lock()
	defer sh.mu.Unlock()
	l := sh.of(key)
	l.all = append(found, l.all...)
	l.recalled = l.recalled || done
	close(l.reading)
	l.reading = nil
	sh.tidy(key, l)
}

func adoptable(r *ledger.Record) bool {
	return r.LeaseOwner == "" || r.State == ledger.Unknown || r.State == ledger.Settled && (r.Answer != nil || r.BilledMaybe > 0)
}

func (g *Gateway) remembered(c *call, r *ledger.Record) *sighting {
	gone := make(chan struct{})
	close(gone)
	return &sighting{book: &g.sightings, key: r.Key, id: r.ID, who: c.who(), born: r.CreatedAt,
		ends: r.CreatedAt.Add(c.wf.Idempotency.Window), grace: c.wf.DeliveryGrace, record: r, delivery: ledger.DeliveryLost, gone: gone,
		failed: r.Answer == nil, unknown: r.BilledMaybe > 0}
}
