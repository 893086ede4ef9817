package gateway

import (
	"context"
	"time"

	"github.com/holdfast-ai/holdfast/cache"
	"github.com/holdfast-ai/holdfast/internal/pause"
	"github.com/holdfast-ai/holdfast/ledger"
)

// What other gateways put into the index over answers is learned from its newest rows, a moment later: until then a request misses
// what it might have found, and nothing else. What an operator took out is given by nobody, for a row is read again before its answer is.

const (
	// learnEvery is how often the newest rows are read.
	learnEvery = 2 * time.Second
	// learnPage is how many are read at once, for as long as all of them are new, up to learnMost.
	learnPage = 100
	learnMost = 5000
)

// learns has the index follow that of other gateways until close.
func (a *answers) learns() {
	a.mu.Lock()
	defer a.mu.Unlock()
	if !a.closed {
		a.all.Go(func() {
			known := map[ledger.CachedRef]bool{}
			for pause.For(a.ctx, learnEvery) {
				g := a.g.current.Load()
				if len(g.caches) == 0 {
					continue
				}
				if next, err := a.learn(a.ctx, g.cacheBounds, known); err == nil {
					known = next
				}
			}
		})
	}
}

// learn reads rows from the newest until one page holds none that is not known, and returns what is known now.
func (a *answers) learn(ctx context.Context, bounds func(workflow string) cache.Bounds, known map[ledger.CachedRef]bool) (map[ledger.CachedRef]bool, error) {
	seen, now := map[ledger.CachedRef]bool{}, a.g.ledger.Now()
	var found []*cache.Entry
	for page := (ledger.CachedFilter{Limit: learnPage}); len(seen) < learnMost; {
		rows, err := a.g.ledger.Cached(ctx, page)
		if err != nil {
			return nil, err
		}
		fresh := false
		for i := range rows {
			r := &rows[i]
			seen[r.CachedRef] = true
			if known[r.CachedRef] {
				continue
			}
			fresh = true
			if e, err := entry(r); err == nil && now.Before(e.Expires) { // one of another version is that version's
				found = append(found, e)
			}
		}
		if len(rows) < learnPage || !fresh {
			break
		}
		page.Before = rows[len(rows)-1].CachedRef
	}
	for i := len(found) - 1; i >= 0; i-- {
		a.put(bounds(found[i].Workflow), found[i])
	}
	return seen, nil
}
