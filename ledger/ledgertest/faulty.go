package ledgertest

import (
	"context"
	"fmt"
	"hash/fnv"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"github.com/holdfast-ai/holdfast/ledger"
)

// Faults says how often a Faulty ledger does what a ledger may do at its worst, as shares of calls from 0 to 1. The zero value is a ledger without faults.
type Faults struct {
	Seed uint64 // the same seed has the n-th call of each kind meet the same fault

	Refuse float64       // a write fails with ErrUnavailable, and nothing of it is done
	Slow   float64       // a write's outcome is told up to Delay late, though it is durable already
	Late   float64       // it is told LateBy late: whoever asked has given up by then
	Delay  time.Duration // default 20 ms
	LateBy time.Duration // default 1 s

	Read    float64 // a read fails with ErrUnavailable
	Beat    float64 // so does a heartbeat, and its owner looks dead to the others
	Keep    float64 // so does a cool-down, a policy, a secret, a sweep
	Lost    float64 // a notice never comes
	Doubled float64 // a notice comes twice
}

// FaultyLedger is a ledger at its worst: all that happens is allowed by the contract, so that whatever stands on a ledger has to live with it.
// No write is ever told to have failed that was done: a driver looks such a commit up before it says anything.
type FaultyLedger struct {
	ledger.Ledger
	faults Faults
	healed atomic.Bool
	met    atomic.Int64

	mu      sync.Mutex
	counts  map[string]uint64
	telling sync.WaitGroup
	closed  chan struct{}
	once    sync.Once
}

// Faulty puts faults before l. Close closes l.
func Faulty(l ledger.Ledger, f Faults) *FaultyLedger {
	if f.Delay <= 0 {
		f.Delay = 20 * time.Millisecond
	}
	if f.LateBy <= 0 {
		f.LateBy = time.Second
	}
	return &FaultyLedger{Ledger: l, faults: f, counts: map[string]uint64{}, closed: make(chan struct{})}
}

// Heal ends all faults.
func (l *FaultyLedger) Heal() { l.healed.Store(true) }

// Met is how many faults there were so far.
func (l *FaultyLedger) Met() int64 { return l.met.Load() }

// draw is the chance of the next call of a kind. It is false where there are no faults.
func (l *FaultyLedger) draw(kind string) (r *rand.Rand, on bool) {
	if l.healed.Load() || l.faults == (Faults{Seed: l.faults.Seed, Delay: l.faults.Delay, LateBy: l.faults.LateBy}) {
		return nil, false
	}
	l.mu.Lock()
	l.counts[kind]++
	n := l.counts[kind]
	l.mu.Unlock()
	h := fnv.New64a()
	_, _ = h.Write([]byte(kind)) // never fails
	return rand.New(rand.NewPCG(l.faults.Seed^h.Sum64(), n)), true
}

// hits says whether the next call of a kind meets a fault that has this share.
func (l *FaultyLedger) hits(kind string, share float64) bool {
	if share <= 0 {
		return false
	}
	r, on := l.draw(kind)
	hit := on && r.Float64() < share
	if hit {
		l.met.Add(1)
	}
	return hit
}

func unavailable(what string) error {
	return fmt.Errorf("%w: %s meets an injected fault", ledger.ErrUnavailable, what)
}

// Enqueue implements ledger.Ledger. A write is handed on at once or not at all, so that order is kept; only its outcome may be told late.
func (l *FaultyLedger) Enqueue(w *ledger.Write) <-chan struct{} {
	r, on := l.draw("write")
	if !on {
		return l.Ledger.Enqueue(w)
	}
	var wait time.Duration
	switch at, f := r.Float64(), &l.faults; {
	case at < f.Refuse:
		l.met.Add(1)
		w.Err, w.Holder = unavailable("the write"), ""
		done := make(chan struct{})
		close(done)
		return done
	case at < f.Refuse+f.Late:
		wait = f.LateBy
	case at < f.Refuse+f.Late+f.Slow:
		wait = time.Duration(r.Int64N(int64(f.Delay)))
	default:
		return l.Ledger.Enqueue(w)
	}
	l.met.Add(1)
	return l.later(l.Ledger.Enqueue(w), wait)
}

// later is a channel that closes some time after done, at the latest when the ledger does.
func (l *FaultyLedger) later(done <-chan struct{}, wait time.Duration) <-chan struct{} {
	told := make(chan struct{})
	l.telling.Go(func() {
		defer close(told)
		<-done
		select {
		case <-time.After(wait):
		case <-l.closed:
		}
	})
	return told
}

// Close ends the delays, and closes the ledger.
func (l *FaultyLedger) Close() error {
	l.once.Do(func() { close(l.closed) })
	err := l.Ledger.Close()
	l.telling.Wait()
	return err
}

// fault is the error that a call of a kind meets, or nil.
func (l *FaultyLedger) fault(kind string, share float64) error {
	if l.hits(kind, share) {
		return unavailable(kind)
	}
	return nil
}

// read runs a read unless it meets a fault.
func read[T any](l *FaultyLedger, kind string, f func() (T, error)) (T, error) {
	if err := l.fault(kind, l.faults.Read); err != nil {
		var none T
		return none, err
	}
	return f()
}

// Get implements ledger.Ledger, as all that follow do.
func (l *FaultyLedger) Get(ctx context.Context, id string) (*ledger.Record, error) {
	return read(l, "Get", func() (*ledger.Record, error) { return l.Ledger.Get(ctx, id) })
}

func (l *FaultyLedger) Holder(ctx context.Context, key string) (*ledger.Record, error) {
	return read(l, "Holder", func() (*ledger.Record, error) { return l.Ledger.Holder(ctx, key) })
}

func (l *FaultyLedger) Derived(ctx context.Context, key string, limit int) ([]*ledger.Record, error) {
	return read(l, "Derived", func() ([]*ledger.Record, error) { return l.Ledger.Derived(ctx, key, limit) })
}

func (l *FaultyLedger) History(ctx context.Context, id string) ([]ledger.Event, error) {
	return read(l, "History", func() ([]ledger.Event, error) { return l.Ledger.History(ctx, id) })
}

func (l *FaultyLedger) Body(ctx context.Context, id string, kind ledger.BodyKind) (*ledger.Body, error) {
	return read(l, "Body", func() (*ledger.Body, error) { return l.Ledger.Body(ctx, id, kind) })
}

func (l *FaultyLedger) List(ctx context.Context, f ledger.Filter) ([]*ledger.Record, error) {
	return read(l, "List", func() ([]*ledger.Record, error) { return l.Ledger.List(ctx, f) })
}

func (l *FaultyLedger) Open(ctx context.Context, after string, limit int) ([]*ledger.Record, error) {
	return read(l, "Open", func() ([]*ledger.Record, error) { return l.Ledger.Open(ctx, after, limit) })
}

func (l *FaultyLedger) Due(ctx context.Context, now time.Time, limit int) ([]*ledger.Record, error) {
	return read(l, "Due", func() ([]*ledger.Record, error) { return l.Ledger.Due(ctx, now, limit) })
}

func (l *FaultyLedger) Counts(ctx context.Context) (map[ledger.State]int64, error) {
	return read(l, "Counts", func() (map[ledger.State]int64, error) { return l.Ledger.Counts(ctx) })
}

func (l *FaultyLedger) Owners(ctx context.Context) ([]ledger.Owner, error) {
	return read(l, "Owners", func() ([]ledger.Owner, error) { return l.Ledger.Owners(ctx) })
}

func (l *FaultyLedger) Cooldowns(ctx context.Context) (map[string]time.Time, error) {
	return read(l, "Cooldowns", func() (map[string]time.Time, error) { return l.Ledger.Cooldowns(ctx) })
}

func (l *FaultyLedger) Cached(ctx context.Context, f ledger.CachedFilter) ([]ledger.Cached, error) {
	return read(l, "Cached", func() ([]ledger.Cached, error) { return l.Ledger.Cached(ctx, f) })
}

func (l *FaultyLedger) Beat(ctx context.Context, o ledger.Owner) error {
	if err := l.fault("Beat", l.faults.Beat); err != nil {
		return err
	}
	return l.Ledger.Beat(ctx, o)
}

func (l *FaultyLedger) Cooldown(ctx context.Context, route string, until time.Time, reason string) (time.Time, error) {
	if err := l.fault("Cooldown", l.faults.Keep); err != nil {
		return time.Time{}, err
	}
	return l.Ledger.Cooldown(ctx, route, until, reason)
}

func (l *FaultyLedger) ClearCooldown(ctx context.Context, route string) error {
	if err := l.fault("ClearCooldown", l.faults.Keep); err != nil {
		return err
	}
	return l.Ledger.ClearCooldown(ctx, route)
}

func (l *FaultyLedger) Uncache(ctx context.Context, rows []ledger.CachedRef) error {
	if err := l.fault("Uncache", l.faults.Keep); err != nil {
		return err
	}
	return l.Ledger.Uncache(ctx, rows)
}

func (l *FaultyLedger) PutPolicy(ctx context.Context, revision string, text []byte) error {
	if err := l.fault("PutPolicy", l.faults.Keep); err != nil {
		return err
	}
	return l.Ledger.PutPolicy(ctx, revision, text)
}

func (l *FaultyLedger) Secret(ctx context.Context, name string) ([]byte, error) {
	if err := l.fault("Secret", l.faults.Keep); err != nil {
		return nil, err
	}
	return l.Ledger.Secret(ctx, name)
}

func (l *FaultyLedger) Sweep(ctx context.Context, p ledger.Retention) (ledger.Swept, bool, error) {
	if err := l.fault("Sweep", l.faults.Keep); err != nil {
		return ledger.Swept{}, true, err
	}
	return l.Ledger.Sweep(ctx, p)
}

// DerivedKeys implements ledger.KeyFilter: there is no filter where the ledger has none.
func (l *FaultyLedger) DerivedKeys(ctx context.Context, limit int) (func(key string) bool, error) {
	filter, ok := l.Ledger.(ledger.KeyFilter)
	if !ok {
		return nil, nil
	}
	return read(l, "DerivedKeys", func() (func(key string) bool, error) { return filter.DerivedKeys(ctx, limit) })
}

// Notices implements ledger.Notifier: none comes where the ledger tells none.
func (l *FaultyLedger) Notices(f func(ledger.Notice)) (stop func()) {
	notifier, ok := l.Ledger.(ledger.Notifier)
	if !ok {
		return func() {}
	}
	return notifier.Notices(func(n ledger.Notice) {
		if l.hits("lost notice", l.faults.Lost) {
			return
		}
		f(n)
		if l.hits("doubled notice", l.faults.Doubled) {
			f(n)
		}
	})
}
