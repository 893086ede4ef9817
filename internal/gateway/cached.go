package gateway

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/holdfast-ai/holdfast/cache"
	"github.com/holdfast-ai/holdfast/ledger"
)

// answers are the settled ones that may be given to other requests: an index in memory over rows of the ledger, which are
// the truth (semantics 47). What is slow about it is done behind the answers, by few workers and within bounds.
type answers struct {
	g     *Gateway
	index cache.Index

	embedding atomic.Int64 // vectors being made for look-ups
	purges    atomic.Int64 // how often an operator has purged: what waited then for its row gets none

	mu      sync.Mutex
	waiting []chore
	size    int // of what waits
	workers int
	commits chan struct{} // rows on their way to the log
	closed  bool
	swept   time.Time // ledger time
	all     sync.WaitGroup
	ctx     context.Context
	cancel  context.CancelFunc
}

// chore is something that is done behind the answers. What it holds meanwhile, in bytes, is its size.
type chore struct {
	do   func(context.Context)
	size int
}

const (
	// maxChores and maxChoreBytes bound what waits to be done behind the answers: a burst is to find its place there.
	maxChores     = 8192
	maxChoreBytes = 32 << 20
	// choreWorkers are how many embeddings are made at once for what is stored.
	choreWorkers = 4
	// maxCommits are how many rows are on their way to the log at once. It takes what comes together in one commit, so a
	// worker that waited for each would make no more vectors than there are commits.
	maxCommits = 256
	// maxIndexed bounds the rows that a start reads. Older ones are found again by nobody and end with their time.
	maxIndexed = 200_000
	// indexPage is how many rows are read at once, and removed.
	indexPage = 1000
	// indexSweep is how often expired entries are taken out of memory.
	indexSweep = 5 * time.Minute
)

func newAnswers(g *Gateway) *answers {
	a := &answers{g: g, commits: make(chan struct{}, maxCommits)}
	a.ctx, a.cancel = context.WithCancel(context.Background())
	return a
}

// later has do done by a worker; size is what it holds meanwhile. It is false where too much waits already, or the gateway ends.
func (a *answers) later(size int, do func(context.Context)) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.closed || len(a.waiting) >= maxChores || a.size+size > maxChoreBytes {
		return false
	}
	a.waiting = append(a.waiting, chore{do, size})
	a.size += size
	if a.workers < choreWorkers {
		a.workers++
		a.all.Go(a.work)
	}
	return true
}

func (a *answers) work() {
	for {
		a.mu.Lock()
		if len(a.waiting) == 0 {
			a.waiting = nil
			a.workers--
			a.mu.Unlock()
			return
		}
		next := a.waiting[0]
		a.waiting[0] = chore{}
		a.waiting = a.waiting[1:]
		a.size -= next.size
		a.mu.Unlock()
		next.do(a.ctx)
	}
}

// commit has a worker's row written without the worker's waiting for it, unless too many are on their way.
func (a *answers) commit(write func()) {
	select {
	case a.commits <- struct{}{}:
		a.all.Go(func() {
			defer func() { <-a.commits }()
			write()
		})
	default:
		write()
	}
}

// close drops what waits: it is known to be incomplete, as everything is that may be found again and need not.
func (a *answers) close() {
	a.mu.Lock()
	a.closed, a.waiting, a.size = true, nil, 0
	a.mu.Unlock()
	a.cancel()
	a.all.Wait()
}

// put has entries found from now on: their rows are on record. What has to give way for them loses its row.
func (a *answers) put(bounds cache.Bounds, entries ...*cache.Entry) {
	var gone []*cache.Entry
	for _, e := range entries {
		gone = append(gone, a.index.Put(e, bounds)...)
	}
	a.unlist(gone)
	a.mu.Lock()
	now := a.g.ledger.Now()
	due := now.Sub(a.swept) > indexSweep
	if due {
		a.swept = now
	}
	a.mu.Unlock()
	if due {
		a.later(0, func(context.Context) { a.index.Sweep(a.g.ledger.Now()) }) // the rows are the store's sweep's
	}
}

// unlist removes the rows of entries that nobody finds any more. One that is not removed ends with its time.
func (a *answers) unlist(gone []*cache.Entry) {
	if len(gone) == 0 {
		return
	}
	refs := make([]ledger.CachedRef, len(gone))
	for i, e := range gone {
		refs[i] = ledger.CachedRef{Intent: e.Intent, Kind: cachedKinds[e.Kind]}
	}
	a.later(0, func(ctx context.Context) { a.uncache(ctx, refs) })
}

func (a *answers) uncache(ctx context.Context, refs []ledger.CachedRef) {
	for len(refs) > 0 {
		n := min(len(refs), indexPage)
		if err := a.g.ledger.Uncache(ctx, refs[:n]); err != nil {
			a.g.logger.Warn("rows of the cache could not be removed; they end with their time", "rows", len(refs), "error", err)
			return
		}
		refs = refs[n:]
	}
}

// gone takes an intent out whose answer is not to be had, with the rows of each kind: one that stayed would be back at a restart.
func (a *answers) gone(e *cache.Entry) { a.unlist(a.index.Drop(e.Tenant, e.Workflow, e.Intent)) }

var cachedKinds = map[cache.Kind]ledger.CachedKind{cache.Template: ledger.CachedTemplate, cache.Semantic: ledger.CachedSemantic}

// row is an entry as the ledger keeps it.
func row(e *cache.Entry) ledger.Cached {
	return ledger.Cached{CachedRef: ledger.CachedRef{Intent: e.Intent, Kind: cachedKinds[e.Kind]}, Partition: e.Partition,
		Data: cache.AppendEntry(nil, e), ExpiresAt: e.Expires}
}

// entry reads a row back, and holds it to what the intent says: what was written by another version, or does not fit, is
// no entry.
func entry(r *ledger.Cached) (*cache.Entry, error) {
	e, err := cache.DecodeEntry(r.Data)
	if err != nil {
		return nil, err
	}
	if e.Intent != r.Intent || shelved(e.Tenant) != shelved(r.Tenant) || e.Workflow != r.Workflow || cachedKinds[e.Kind] != r.Kind || e.Partition != r.Partition {
		return nil, fmt.Errorf("%w: it is another intent's", cache.ErrEntry)
	}
	return e, nil
}

// load fills the index from the ledger, as a start does.
func (a *answers) load(ctx context.Context, bounds func(workflow string) cache.Bounds) error {
	began, now := time.Now(), a.g.ledger.Now()
	var found []*cache.Entry // newest first
	var bad []ledger.CachedRef
	page := ledger.CachedFilter{Limit: indexPage}
	for read := 0; ; {
		rows, err := a.g.ledger.Cached(ctx, page)
		if err != nil {
			return fmt.Errorf("gateway: read the index over answers: %w", err)
		}
		for i := range rows {
			switch e, err := entry(&rows[i]); {
			case err != nil:
				bad = append(bad, rows[i].CachedRef)
			case now.Before(e.Expires):
				found = append(found, e)
			}
		}
		read += len(rows)
		if len(rows) < indexPage {
			break
		}
		page.Before = rows[len(rows)-1].CachedRef
		if len(found) >= maxIndexed {
			a.g.logger.Warn("the index over answers is larger than a start reads; the oldest rows are left out until they end", "read", read)
			break
		}
		if read%(20*indexPage) == 0 {
			a.g.logger.Info("reading the index over answers", "rows", read)
		}
	}
	var gone []*cache.Entry
	for i := len(found) - 1; i >= 0; i-- { // oldest first, which is the index's own order
		gone = append(gone, a.index.Put(found[i], bounds(found[i].Workflow))...)
	}
	a.unlist(gone)
	if len(bad) > 0 {
		a.g.logger.Warn("rows of the index over answers are of another version; they are removed", "rows", len(bad))
		a.later(0, func(ctx context.Context) { a.uncache(ctx, bad) })
	}
	if len(found) > 0 {
		a.g.logger.Info("the index over answers is read", "entries", len(found), "took", time.Since(began))
	}
	return nil
}
