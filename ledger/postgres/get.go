package postgres

import (
	"context"
	"slices"
	"sync"

	"github.com/holdfast-ai/holdfast/ledger"
)

const (
	// getTrips is how many round trips of Get are on their way at once; who comes meanwhile goes with the next one, together.
	getTrips = 2
	// getBatch bounds the intents of one round trip.
	getBatch = 256
)

// getter gathers concurrent reads of single intents: those who await an execution of another replica read it now and then, all of them.
type getter struct {
	mu      sync.Mutex
	waiting []*ask
	trips   int
}

// ask is one Get on its way.
type ask struct {
	id   uuid
	rec  *ledger.Record
	err  error
	done chan struct{}
}

var getQuery = selectRecord + fromAny + `WHERE i.id = ANY($1::uuid[])`

// Get implements ledger.Ledger.
func (l *Ledger) Get(ctx context.Context, id string) (*ledger.Record, error) {
	at, ok := parseID(id)
	if !ok || l.isClosed() {
		return nil, l.absent()
	}
	a := &ask{id: at, done: make(chan struct{})}
	if l.gets.join(a) {
		go l.answerGets() // it ends with its reads, for which Close waits as the pool does
	}
	select {
	case <-a.done:
		return a.rec, a.err
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

// join adds a to those who wait, and says whether somebody has to go for them.
func (g *getter) join(a *ask) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.waiting = append(g.waiting, a)
	if g.trips == getTrips {
		return false
	}
	g.trips++
	return true
}

// next takes those who go together; none ends the trip.
func (g *getter) next() []*ask {
	g.mu.Lock()
	defer g.mu.Unlock()
	n := min(len(g.waiting), getBatch)
	batch := slices.Clone(g.waiting[:n])
	g.waiting = slices.Delete(g.waiting, 0, n)
	if n == 0 {
		g.trips--
	}
	return batch
}

func (l *Ledger) answerGets() {
	for batch := l.gets.next(); len(batch) > 0; batch = l.gets.next() {
		l.answer(batch)
	}
}

// answer reads for all of a batch. Nobody's own context ends it: it is the others' read too. What one row is damaged by is told to all, and read
// again by those who ask for another one.
func (l *Ledger) answer(batch []*ask) {
	ids := make([][16]byte, len(batch))
	for i, a := range batch {
		ids[i] = a.id
	}
	recs, err := l.records(l.ctx, getQuery, ids)
	found := make(map[string]*ledger.Record, len(recs))
	for _, r := range recs {
		found[r.ID] = r
	}
	for _, a := range batch {
		rec := found[a.id.String()]
		switch {
		case err != nil:
			a.err = err
		case rec == nil:
			a.err = ledger.ErrNotFound
		default:
			own := *rec // results belong to their callers
			if own.Answer != nil && len(batch) > 1 {
				answer := *own.Answer
				answer.Header = cloneHeader(answer.Header)
				own.Answer = &answer
			}
			a.rec = &own
		}
		close(a.done)
	}
}

func cloneHeader(h map[string][]string) map[string][]string {
	if h == nil {
		return nil
	}
	out := make(map[string][]string, len(h))
	for name, values := range h {
		out[name] = slices.Clone(values)
	}
	return out
}
