package shared

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"strconv"
	"sync"
	"time"
)

const (
	// flushEvery is how long what was settled waits to be told together.
	flushEvery = 100 * time.Millisecond
	// sumTTL is for how long a day's sum is kept.
	sumTTL = 48 * time.Hour
	// mostPending bounds the sums that wait to be told while the store is away.
	mostPending = 100_000
	// flushMost is how many are told in the time of one call.
	flushMost = 16
)

// sums are amounts that all processes add to, each under a key and a day. What is added under a limit is asked for; what is settled later is
// told in the background, also what was added while the store was away.
type sums struct {
	s       *State
	mu      sync.Mutex
	pending map[string]int64
	due     chan struct{}
}

func (g *sums) init(s *State) { g.s, g.pending, g.due = s, map[string]int64{}, make(chan struct{}, 1) }

// sumKey names an account of a day without saying whose it is: tenants may be anything.
func sumKey(account string, day int64) string {
	sum := sha256.Sum256([]byte(account))
	return "spend/" + strconv.FormatInt(day, 10) + "/" + hex.EncodeToString(sum[:16])
}

// Reserve adds an amount to an account of a day where the sum stays within the limit, and returns the sum of all processes. floor is what
// this process knows to have been added at least, in case the store has lost it. fleet is false where the store is away: the caller then
// goes by Share of the limit.
func (s *State) Reserve(account string, day, limit, floor, amount int64) (total int64, ok, fleet bool) {
	key := sumKey(account, day)
	s.sums.mu.Lock()
	floor -= s.sums.pending[key] // what is still to be told is no loss
	s.sums.mu.Unlock()
	err := s.ask("spend", func(ctx context.Context, d Driver) (err error) {
		total, ok, err = d.Spend(ctx, key, Spending{Amount: amount, Floor: max(0, floor), Limit: limit, TTL: sumTTL})
		return err
	})
	return total, ok, err == nil
}

// Add tells the others in a moment of an amount, which may be below 0.
func (s *State) Add(account string, day, amount int64) {
	if amount == 0 {
		return
	}
	key := sumKey(account, day)
	s.sums.mu.Lock()
	defer s.sums.mu.Unlock()
	if _, ok := s.sums.pending[key]; !ok && len(s.sums.pending) >= mostPending {
		return // a share of the limit bounds what is lost of it
	}
	if s.sums.pending[key] += amount; s.sums.pending[key] == 0 {
		delete(s.sums.pending, key)
	}
	s.sums.hint()
}

// Share is this process's part of a limit while the store is away.
func (s *State) Share(limit int64) int64 { return limit / s.replicas.Load() }

// take removes what is to be told, some of it.
func (g *sums) take(most int) map[string]int64 {
	g.mu.Lock()
	defer g.mu.Unlock()
	out := make(map[string]int64, min(most, len(g.pending)))
	for key, n := range g.pending {
		if len(out) == most {
			g.hint()
			break
		}
		out[key] = n
		delete(g.pending, key)
	}
	return out
}

// put gives back what could not be told.
func (g *sums) put(rest map[string]int64) {
	g.mu.Lock()
	defer g.mu.Unlock()
	for key, n := range rest {
		g.pending[key] += n
	}
}

func (g *sums) hint() {
	select {
	case g.due <- struct{}{}:
	default:
	}
}

// flush tells what waits. What may have been told is told again where it adds, and not where it takes off: rather a sum too high than one
// too low.
func (g *sums) flush(ctx context.Context, d Driver, most int) error {
	some := g.take(most)
	for key, n := range some {
		if _, _, err := d.Spend(ctx, key, Spending{Amount: n, TTL: sumTTL}); err != nil {
			if n < 0 {
				delete(some, key)
			}
			g.put(some)
			return err
		}
		delete(some, key)
	}
	return nil
}

// tend flushes now and then until the store is let go of.
func (g *sums) tend(ctx context.Context) {
	for {
		select {
		case <-g.due:
		case <-ctx.Done():
			return
		}
		select {
		case <-time.After(flushEvery):
		case <-ctx.Done():
			return
		}
		if err := g.s.ask("spend", func(ctx context.Context, d Driver) error { return g.flush(ctx, d, flushMost) }); err != nil {
			return
		}
	}
}
