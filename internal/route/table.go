// Package route holds the live state of each route: provider × model × endpoint family × outgoing credential.
//
// The rules (semantics 34, 35; design.md §3, §4):
//
//   - A call enters by three gates, in this order: the pause of an operator, the cool-down, the breaker.
//   - A cool-down is set by a rate limit. It only ever extends, to at most 24 h ahead, in memory at once and as a row of the
//     ledger, so that a restart does not forget it. Rows are in ledger time; waits go by the monotonic clock.
//   - After a cool-down one probe follows. Until it succeeds all others are refused, and told when it has ended. A probe
//     that ends without success, or does not end within the lease, gives its place to the next caller.
//   - Those who wait are released in waves after a probe's success, so that they do not rush in at one instant. The first
//     of them does not wait, nor does a caller who comes later.
//   - A late result changes nothing: only the probe's own success ends a cool-down.
//   - What operators say holds for routes that match a pattern, also for those not seen yet; what was said last holds. In a
//     pattern * stands for any characters, the slash included. It is forgotten at a restart.
//   - Routes are bounded in number. Those at rest go first; a hostile list of model names cannot push out what an
//     operator said, since that is kept by pattern.
package route

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"hash/maphash"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/holdfast-ai/holdfast/breaker"
	"github.com/holdfast-ai/holdfast/retry"
)

const (
	// maxRoutes bounds the routes that are kept.
	maxRoutes = 10_000
	// maxKey bounds what a hostile model name can make of one.
	maxKey = 512
	shards = 64
)

// Cooldowns is where cool-downs last; ledger.Ledger has it, with these contracts.
type Cooldowns interface {
	Cooldown(ctx context.Context, route string, until time.Time, reason string) (time.Time, error)
	ClearCooldown(ctx context.Context, route string) error
	Cooldowns(ctx context.Context) (map[string]time.Time, error)
	Now() time.Time
}

// Config is what a Table stands on.
type Config struct {
	// Cooldowns keeps cool-downs over a restart; nil keeps them in memory alone.
	Cooldowns Cooldowns
	// Logger hears of injected faults, of what operators do, and of rows that could not be written; nil: nothing is logged.
	Logger *slog.Logger
	// OnBreaker is told of each change of a route's breaker; see breaker.Config.OnChange. It must not call the table.
	OnBreaker func(route string, c breaker.Change)
	// Breakers gives the state of a route's breaker where replicas may share it; nil: each breaker has its own memory.
	Breakers func(route string) breaker.Store
	// MaxRoutes bounds the routes that are kept; 0 means 10,000.
	MaxRoutes int
}

// Table is all routes of an engine. It is safe for concurrent use.
type Table struct {
	cfg   Config
	log   *slog.Logger
	seed  maphash.Seed
	shard [shards]shard
	epoch atomic.Uint64 // of the configuration; see Reload

	voice sync.Mutex // orders are carried out one after the other

	mu     sync.Mutex // guards what follows, and is held while routes are added or evicted
	order  []*Route   // in the order in which they are to be evicted
	said   orders
	faults []*injection

	work sync.WaitGroup // writes and reporters
	done chan struct{}
	once sync.Once
}

type shard struct {
	mu     sync.RWMutex
	routes map[string]*Route
}

// New returns an empty table. Close ends it.
func New(cfg Config) *Table {
	if cfg.MaxRoutes <= 0 {
		cfg.MaxRoutes = maxRoutes
	}
	t := &Table{cfg: cfg, log: cfg.Logger, seed: maphash.MakeSeed(), done: make(chan struct{})}
	if t.log == nil {
		t.log = slog.New(slog.DiscardHandler)
	}
	for i := range t.shard {
		t.shard[i].routes = map[string]*Route{}
	}
	t.epoch.Store(1)
	return t
}

// Close ends faults and waits until the rows of cool-downs are written or given up. Routes may be used further; their
// cool-downs are then kept in memory alone.
func (t *Table) Close() {
	t.once.Do(func() {
		t.mu.Lock()
		close(t.done)
		t.mu.Unlock()
	})
	t.work.Wait()
}

// Get is GetAt with the configuration in force.
func (t *Table) Get(key string, b breaker.Config, share float64) *Route {
	return t.GetAt(t.Epoch(), key, b, share)
}

// GetAt returns the route of a key, "provider/model/endpoint/credential". It is made on first use with this breaker and
// this retry share. All callers of a route share its state, whichever workflow they come from, so the first one's
// configuration holds until Reload, whose result is epoch: a call that began before it changes nothing of what later
// ones have brought.
func (t *Table) GetAt(epoch uint64, key string, b breaker.Config, share float64) *Route {
	if len(key) > maxKey {
		key = shorten(key)
	}
	r := t.peek(key)
	switch {
	case r == nil:
		r = t.add(key)
	case !r.used.Load():
		r.used.Store(true)
	}
	if r.epoch.Load() < epoch {
		r.configure(epoch, b, share)
	}
	return r
}

// shorten makes a key of bounded length that is as much its own as the long one.
func shorten(key string) string {
	sum := sha256.Sum256([]byte(key))
	return strings.ToValidUTF8(key[:maxKey-2*len(sum)-1], "") + "~" + hex.EncodeToString(sum[:])
}

// Reload lets every route take the configuration that its next GetAt with the returned epoch brings; its state stays.
func (t *Table) Reload() (epoch uint64) { return t.epoch.Add(1) }

// Epoch is that of the latest Reload, 1 before the first.
func (t *Table) Epoch() uint64 { return t.epoch.Load() }

func (t *Table) peek(key string) *Route {
	s := t.shardOf(key)
	s.mu.RLock()
	defer s.mu.RUnlock()
	return s.routes[key]
}

func (t *Table) shardOf(key string) *shard { return &t.shard[maphash.String(t.seed, key)%shards] }

func (t *Table) add(key string) *Route {
	t.mu.Lock()
	defer t.mu.Unlock()
	if r := t.peek(key); r != nil {
		return r
	}
	r := &Route{key: key, table: t}
	first := breaker.Config{}
	if t.cfg.Breakers != nil {
		first.Store = t.cfg.Breakers(key)
	}
	r.breaker = breaker.New(r.breakerConfig(first))
	r.budget.Store(retry.NewBudget(0))
	t.said.tell(r, t.log)
	t.tellFaults(r)
	t.insert(r)
	return r
}

// insert makes room where there is none. t.mu is held.
func (t *Table) insert(r *Route) {
	if len(t.order) >= t.cfg.MaxRoutes {
		t.evict()
	}
	t.order = append(t.order, r)
	s := t.shardOf(r.key)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.routes[r.key] = r
}

// evict takes out a sixteenth of the routes: those at rest that were not found since it last came by; where those are
// too few, any that are at rest; and at last any. t.mu is held.
func (t *Table) evict() {
	want := max(1, t.cfg.MaxRoutes/16)
	for _, may := range []func(*Route) bool{
		func(r *Route) bool { return !r.used.Swap(false) && r.atRest() },
		(*Route).atRest,
		func(*Route) bool { return true },
	} {
		want -= t.sweep(want, may)
	}
}

// sweep evicts want routes that may go. Those that it passes over come last the next time.
func (t *Table) sweep(want int, may func(*Route) bool) (gone int) {
	var spared []*Route
	i := 0
	for ; i < len(t.order) && gone < want; i++ {
		if r := t.order[i]; may(r) {
			gone++
			t.remove(r.key)
		} else {
			spared = append(spared, r)
		}
	}
	t.order = append(slices.Clone(t.order[i:]), spared...)
	return gone
}

func (t *Table) remove(key string) {
	s := t.shardOf(key)
	s.mu.Lock()
	defer s.mu.Unlock()
	if r := s.routes[key]; r != nil {
		r.breaker.Leave()
	}
	delete(s.routes, key)
}

// all returns the routes that match a pattern. t.mu is held.
func (t *Table) all(pattern string) []*Route {
	var out []*Route
	for _, r := range t.order {
		if match(pattern, r.key) {
			out = append(out, r)
		}
	}
	return out
}
