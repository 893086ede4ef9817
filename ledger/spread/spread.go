// Package spread is one ledger over several: each operation is kept in one of them, found by its key, and listings are merged.
package spread

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/holdfast-ai/holdfast/internal/mutant"
	"github.com/holdfast-ai/holdfast/ledger"
)

// Ledger is several stores as one. An operation is kept in the store that its key belongs to by rendezvous hashing of the key with a name that
// each store has for itself: neither the order nor the spelling of their addresses matters. Whoever claims a key, or asks who has it, asks that
// one store; what goes by an id asks the store that is known for it, else all of them.
//
// A store that is away takes its own keys with it, and nothing else: the others are written and read as before. What is only true of all
// of them together (List, Counts, Cached, Owners) is ErrUnavailable meanwhile; Open and Due leave out what it holds.
type Ledger struct {
	stores []*store
	names  []string // theirs
	anchor *store   // whose secrets are the set's
	log    *slog.Logger

	mu      sync.Mutex // of places, lookups and closed
	places  places
	lookups map[string]*lookup
	closed  bool

	secrets   sync.Map // by name: they are never made anew
	last      atomic.Int64
	sweepTurn atomic.Uint64

	ctx    context.Context // of what goes on behind a heartbeat
	cancel context.CancelFunc
	work   sync.WaitGroup
}

// store is one of the ledgers.
type store struct {
	ledger.Ledger
	name    string
	at      int // in Ledger.stores
	beating atomic.Bool

	mu    sync.Mutex
	beats map[string]beat // the last durable ones of this process's owners
}

var (
	_ ledger.Ledger    = (*Ledger)(nil)
	_ ledger.Notifier  = (*Ledger)(nil)
	_ ledger.KeyFilter = (*Ledger)(nil)
	_ ledger.Parted    = (*Ledger)(nil)
)

// New makes one ledger of stores, which are those that it was made of before, or empty ones: what was claimed in another set would be
// looked for in the wrong store. Close closes them; an error of New leaves them open. Errors: *SetError.
func New(ctx context.Context, stores []ledger.Ledger, log *slog.Logger) (*Ledger, error) {
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	names, anchor, err := settle(ctx, stores)
	if err != nil {
		return nil, err
	}
	l := &Ledger{names: names, log: log, lookups: map[string]*lookup{}}
	l.ctx, l.cancel = context.WithCancel(context.Background())
	for i, s := range stores {
		at := &store{Ledger: s, name: names[i], at: i, beats: map[string]beat{}}
		l.stores = append(l.stores, at)
		if at.name == anchor {
			l.anchor = at
		}
	}
	l.compareClocks()
	return l, nil
}

// clocksApart is the difference of two databases' clocks that is told of.
const clocksApart = time.Second

// compareClocks warns of databases that do not have the same time: what one of them says has ended may go on in another.
func (l *Ledger) compareClocks() {
	for _, s := range l.stores[1:] {
		if d := s.Now().Sub(l.stores[0].Now()); d > clocksApart || d < -clocksApart {
			l.log.Warn("the clocks of two databases of the store are apart", "difference", d, "next_step", "check the time synchronisation of their machines")
		}
	}
}

// home is the store of a key: the one that scores highest with it.
func (l *Ledger) home(key string) *store {
	if mutant.On("spread-by-order") {
		sum := sha256.Sum256([]byte(key))
		return l.stores[binary.BigEndian.Uint64(sum[:8])%uint64(len(l.stores))]
	}
	name := homeOf(l.names, key)
	return l.stores[slices.Index(l.names, name)]
}

// homeOf is home among the names of stores.
func homeOf(names []string, key string) string {
	best, most := "", uint64(0)
	for _, name := range names {
		if n := score(name, key); best == "" || n > most || n == most && name > best {
			best, most = name, n
		}
	}
	return best
}

// score is stable: what is claimed depends on it.
func score(name, key string) uint64 {
	b := make([]byte, 0, 256)
	b = append(b, name...)
	b = append(b, 0)
	b = append(b, key...)
	sum := sha256.Sum256(b)
	return binary.BigEndian.Uint64(sum[:8])
}

// Together reports whether two keys are kept in the same store.
func (l *Ledger) Together(a, b string) bool { return l.home(a) == l.home(b) }

// Now implements ledger.Ledger: the time of the store that is ahead, which never steps back.
func (l *Ledger) Now() time.Time {
	now := l.stores[0].Now()
	for _, s := range l.stores[1:] {
		if t := s.Now(); t.After(now) {
			now = t
		}
	}
	for {
		last := l.last.Load()
		if now.UnixMicro() <= last {
			return time.UnixMicro(last).UTC()
		}
		if l.last.CompareAndSwap(last, now.UnixMicro()) {
			return now
		}
	}
}

// Healthy implements ledger.Ledger: nil while one of the stores is healthy, for it serves its keys.
func (l *Ledger) Healthy() error {
	var errs []error
	for _, s := range l.stores {
		err := s.Healthy()
		if err == nil {
			return nil
		}
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

// HealthOf implements ledger.Parted. Where the store of an intent is not known, all of them count.
func (l *Ledger) HealthOf(id string) error {
	if s := l.known(id); s != nil {
		return s.Healthy()
	}
	for _, s := range l.stores {
		if err := s.Healthy(); err != nil {
			return err
		}
	}
	return nil
}

// Away implements ledger.Parted.
func (l *Ledger) Away() (n int) {
	for _, s := range l.stores {
		if s.Healthy() != nil {
			n++
		}
	}
	return n
}

// Close implements ledger.Ledger.
func (l *Ledger) Close() error {
	l.mu.Lock()
	l.closed = true
	l.mu.Unlock()
	l.cancel()
	l.work.Wait()
	_, errs := ask(l.stores, func(s *store) (struct{}, error) { return struct{}{}, s.Close() })
	return errors.Join(errs...)
}

// ask puts a question to stores at the same time. Answers and errors stand in their order.
func ask[T any](stores []*store, question func(*store) (T, error)) ([]T, []error) {
	answers, errs := make([]T, len(stores)), make([]error, len(stores))
	var all sync.WaitGroup
	for i, s := range stores[1:] {
		all.Go(func() { answers[i+1], errs[i+1] = question(s) })
	}
	answers[0], errs[0] = question(stores[0])
	all.Wait()
	return answers, errs
}

// first is the first error there is.
func first(errs []error) error {
	return cmp.Or(errs...)
}

// some is nil where one of the stores answered.
func some(errs []error) error {
	for _, err := range errs {
		if err == nil {
			return nil
		}
	}
	return first(errs)
}
