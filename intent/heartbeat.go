package intent

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/holdfast-ai/holdfast/internal/mutant"
	"github.com/holdfast-ai/holdfast/internal/pause"
	"github.com/holdfast-ai/holdfast/ledger"
)

// An owner's leases lean on its one heartbeat row (semantics 6), which others read by ledger time. What the owner itself may go by
// is stricter: it acts only while it knows that nobody can have taken anything over. Both keep a margin, so that between the last
// byte that an owner sends and the first move of a successor there lies a whole interval, whatever their clocks are off by.
//
//	beat ────────── current ──────────┤ margin ├ until ├ grace ├── others take over
const (
	// leaseBeats is how many intervals a heartbeat is good for.
	leaseBeats = 3
	// marginPart is the part of an interval by which an owner's own lease ends sooner, and a successor waits longer.
	marginPart = 2
)

// ErrLeaseOver says that an owner has stood still, or could not renew its heartbeat, for as long as its lease is good: others may
// have taken over what it holds, and it sends nothing. The next dispatch renews it.
var ErrLeaseOver = errors.New("intent: this owner's heartbeat is not current, so that others may have taken its work over")

// heart is what an owner knows of its own heartbeat.
type heart struct {
	turn chan struct{} // of who writes it

	mu    sync.Mutex
	until time.Time // ledger time of the last durable beat's end
	began time.Time // when that was begun, by this machine's clocks
	ended bool
}

func newHeart() *heart {
	return &heart{turn: make(chan struct{}, 1)}
}

func (g *Log) margin() time.Duration { return g.beat / marginPart }

// grace is how long after its end another owner's lease is respected.
func (g *Log) grace() time.Duration {
	if mutant.On("takeover-without-grace") {
		return 0
	}
	return g.beat / marginPart
}

// Alone reports whether the ledger admits one engine at a time.
func (g *Log) Alone() bool { return g.alone }

// Current reports whether this owner's lease is good for sure: its last durable heartbeat ends later than now, by ledger time, by
// the monotonic clock, which stands still while the machine sleeps, and by the wall clock, which does not.
func (g *Log) Current() bool {
	if g.alone {
		return true
	}
	h, now := g.heart, time.Now()
	h.mu.Lock()
	until, began := h.until, h.began
	h.mu.Unlock()
	good := leaseBeats*g.beat - g.margin()
	return !until.IsZero() && g.ledger.Now().Before(until.Add(-g.margin())) &&
		now.Sub(began) < good && now.Round(0).Sub(began.Round(0)) < good
}

// Sending is asked right before the first byte of a durable attempt leaves. It does not wait. An owner that stood still since the
// commit sends nothing: its attempt ends as not sent, by a compare-and-set, unless somebody else has moved it.
func (o *Op) Sending() error {
	if o.log.Current() && o.log.holds(o.ID()) || mutant.On("heartbeat-unchecked-before-send") {
		return nil
	}
	return ErrLeaseOver
}

// holds reports whether the heartbeat is current in the very store that keeps an intent, where there are several.
func (g *Log) holds(id string) bool {
	p, several := g.ledger.(ledger.Parted)
	return g.alone || !several || p.Holds(g.owner, id)
}

// fence has an owner whose heartbeat is not current renew it, durably, before it takes anything on or sends anything. The commit
// behind it is a compare-and-set: what somebody has taken over meanwhile refuses it.
func (g *Log) fence() error {
	if g.Current() || mutant.On("lease-without-fence") {
		return nil
	}
	ctx, stop := context.WithTimeout(context.Background(), g.wait)
	defer stop()
	if err := g.renew(ctx, false); err != nil {
		return fmt.Errorf("intent: the heartbeat could not be renewed (%w): %w", err, ledger.ErrUnavailable)
	}
	return nil
}

// Alive puts the owner's heartbeat on record. Whoever leases beside other engines, and cannot wait for Run to have begun,
// calls it first: they take a lease without a heartbeat for a dead one's.
func (g *Log) Alive(ctx context.Context) error {
	if g.alone {
		return nil
	}
	return g.renew(ctx, true)
}

// renew writes the heartbeat: always, or where it is not current by the time that it is this caller's turn.
func (g *Log) renew(ctx context.Context, always bool) error {
	h := g.heart
	select {
	case h.turn <- struct{}{}:
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	defer func() { <-h.turn }()
	if !always && g.Current() {
		return nil
	}
	began, now := time.Now(), g.ledger.Now()
	if mutant.On("lease-by-wall-clock") {
		now = time.Now()
	}
	until := now.Add(leaseBeats * g.beat)
	h.mu.Lock()
	ended := h.ended
	h.mu.Unlock()
	if ended {
		return ErrLeaseOver
	}
	if err := g.ledger.Beat(ctx, ledger.Owner{ID: g.owner, Until: until, Info: g.info()}); err != nil {
		return err
	}
	h.mu.Lock()
	h.until, h.began = until, began
	h.mu.Unlock()
	return nil
}

// beats keeps the heartbeat and does nothing else, so that no other work holds it up. What could not be written is tried again
// soon: each try has its own time, for a connection may hang.
func (g *Log) beats(ctx context.Context) {
	for {
		each, stop := context.WithTimeout(ctx, g.beat)
		err := g.renew(each, true)
		stop()
		if err != nil && ctx.Err() == nil {
			g.logger.Warn("heartbeat not written; when its lease is over this engine sends nothing, and others take its work over", "error", err)
		}
		if mutant.On("ageing-before-heartbeat") {
			_, _ = g.expire(ctx, false)
		}
		wait := g.beat
		if err != nil {
			wait /= 10
		}
		timer := time.NewTimer(wait)
		select {
		case <-ctx.Done():
		case <-timer.C:
		}
		timer.Stop()
		if ctx.Err() != nil {
			return
		}
	}
}

// resign ends this owner's leases at once: nobody needs to wait for them to run out. Nothing is written as this owner behind it.
func (g *Log) resign() {
	h := g.heart
	h.mu.Lock()
	never := h.until.IsZero()
	h.mu.Unlock()
	if g.alone || never || mutant.On("stop-keeps-its-lease") {
		return
	}
	ctx, stop := context.WithTimeout(context.Background(), g.wait)
	defer stop()
	select {
	case h.turn <- struct{}{}:
	case <-ctx.Done():
		return
	}
	defer func() { <-h.turn }()
	h.mu.Lock()
	h.until, h.ended = time.Time{}, true
	h.mu.Unlock()
	// Before now by as much as others are patient.
	if err := g.ledger.Beat(ctx, ledger.Owner{ID: g.owner, Until: g.ledger.Now().Add(-g.grace() - time.Microsecond), Info: g.info()}); err != nil {
		g.logger.Warn("this engine's leases could not be ended; others wait until they run out", "error", err)
	}
}

// Run keeps the owner's heartbeat, takes over what dead owners left and expires what waited too long, until ctx ends.
func (g *Log) Run(ctx context.Context) error {
	var all sync.WaitGroup
	all.Go(func() { g.beats(ctx) })
	if !g.alone {
		all.Go(func() { g.each(ctx, g.takeOver) })
	}
	all.Go(func() { g.each(ctx, g.age) })
	all.Wait()
	return nil
}

// each does a chore every interval.
func (g *Log) each(ctx context.Context, chore func(context.Context)) {
	for {
		chore(ctx)
		if !pause.For(ctx, g.beat) {
			return
		}
	}
}
