// Package bulkhead bounds how many calls are in progress at once.
package bulkhead

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"

	"github.com/holdfast-ai/holdfast/internal/mutant"
)

// ErrFull says that no slot was free, or that none became free while the caller could wait. Nothing was taken.
var ErrFull = errors.New("bulkhead: full")

// ErrCrowded says that a caller could not even wait, because too many already do, or was sent away for one that goes
// before it. It is an ErrFull too.
var ErrCrowded = fmt.Errorf("%w, and too many wait already", ErrFull)

// Class says whether somebody waits for the answer.
type Class uint8

// Interactive calls may take every slot; Batch calls all but the reserved ones.
const (
	Interactive Class = iota
	Batch
)

// Priority orders those that wait within a class.
type Priority uint8

// Higher priorities go first.
const (
	Low Priority = iota
	Normal
	High
)

// Limit is the largest number of slots; a Max of so many or more is without limit.
const Limit = 1<<fieldBits - 1

// DefaultWaiting is how many callers may wait for one semaphore where Config.Waiting says nothing.
const DefaultWaiting = 1024

// Config is what a semaphore allows.
type Config struct {
	// Max is the number of slots; 0 is without limit, and less than 0 admits nobody.
	Max int
	// Reserve is the share of the slots, from 0 to 1, that Batch never takes: rounded up to whole slots, but short
	// of all of them unless it is 1, so that a bulkhead with a single slot does not shut Batch out for ever. Without
	// a limit nothing is reserved.
	Reserve float64
	// Waiting is how many callers may wait; 0 is DefaultWaiting, and less than 0 lets nobody wait.
	Waiting int
}

// Semaphore hands out slots. It is the one kind behind a bulkhead and reserved interactive capacity
// (semantics 33). It is safe for concurrent use.
//
// Those that wait are served in order: Interactive before Batch, then the higher priority, then who came first.
// Nobody who comes later overtakes: a slot that is returned while somebody waits goes to him in one step.
type Semaphore struct {
	// state holds the counts and the limit in one word, so that each step is one compare-and-swap: see word.
	state atomic.Uint64
	// reserve is Config.Reserve in millionths; less than 0 after Lend: one less than minus what Batch may have.
	reserve atomic.Int64

	mu    sync.Mutex // guards what follows, and every change of state while somebody waits
	queue queue
	most  int // Config.Waiting
}

// New makes a semaphore with all its slots free.
func New(cfg Config) *Semaphore {
	s := &Semaphore{}
	s.Configure(cfg)
	return s
}

// Try takes a slot if one is free for the class, and reports whether it did. It never waits.
func (s *Semaphore) Try(c Class) bool {
	for {
		w := s.load()
		if !s.fits(w, c) {
			return false
		}
		if s.swap(w, w.take(c)) {
			return true
		}
	}
}

// Fits reports whether a slot is free for the class now. It takes none.
func (s *Semaphore) Fits(c Class) bool { return s.fits(s.load(), c) }

// Acquire takes a slot, waiting for one until ctx ends. The error is ErrFull with ctx's cause in its chain, or
// ErrCrowded; then the caller has no slot. When a slot comes in the same instant as the end of ctx it goes to the
// next one who waits.
func (s *Semaphore) Acquire(ctx context.Context, c Class, p Priority) error {
	if ctx.Err() != nil {
		return ended(ctx)
	}
	if s.Try(c) {
		return nil
	}
	w, err := s.join(c, p)
	if w == nil {
		return err
	}
	select {
	case <-w.done:
	case <-ctx.Done():
		if s.leave(w) {
			return ended(ctx)
		}
	}
	if w.shed {
		return ErrCrowded
	}
	if ctx.Err() != nil { // asked once: whoever is told that the wait ended has no slot to return
		if !mutant.On("slot-lost-on-cancel") {
			s.Release(c)
		}
		return ended(ctx)
	}
	return nil
}

func ended(ctx context.Context) error {
	return fmt.Errorf("%w until the caller could wait no longer: %w", ErrFull, context.Cause(ctx))
}

// Release returns a slot of the class. One that was never taken is a defect of the program, and a panic: going on
// would admit one call too many from then on, for ever.
func (s *Semaphore) Release(c Class) {
	for {
		w := s.load()
		next := w.drop(c)
		if w.waited() {
			s.mu.Lock()
			defer s.mu.Unlock()
			s.settle(func(w word) word { return w.drop(c) })
			return
		}
		if s.swap(w, next) {
			return
		}
	}
}

// Resize changes the number of slots: as Config.Max, 0 is without limit and less than 0 admits nobody. Calls beyond
// a lower limit finish; new ones come in when enough have.
func (s *Semaphore) Resize(max int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.settle(func(w word) word { return w.limit(slots(max)) })
}

// Configure changes everything that cfg says, as a reloaded policy does. Calls in progress keep their slots, those
// that wait their places.
func (s *Semaphore) Configure(cfg Config) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.reserve.Store(millionths(cfg.Reserve))
	s.most = waiting(cfg.Waiting)
	s.settle(func(w word) word { return w.limit(slots(cfg.Max)) })
}

// Lend gives the semaphore exactly so many slots, none for 0, and Batch exactly so many of them, in the place of what Config says of both, until
// Configure: the slots are then a part of somebody else's, who knows what is reserved.
func (s *Semaphore) Lend(all, batch int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.reserve.Store(-1 - int64(max(batch, 0)))
	s.settle(func(w word) word { return w.limit(min(max(all, 0), Limit-1)) })
}

// Usage is how many slots are in use, how many of them by Batch, and how many callers wait.
func (s *Semaphore) Usage() (all, batch, waiting int) {
	_, all, batch, waiting = s.Snapshot()
	return all, batch, waiting
}

// Reserved is how many of so many slots a share of them keeps from Batch; see Config.Reserve.
func Reserved(max int, share float64) int {
	if max <= 0 || max >= Limit {
		return 0
	}
	return reservedOf(max, millionths(share))
}

// Snapshot is what one look sees: the limit as Resize takes it, the slots in use, those of them in use by Batch, and
// how many callers wait.
func (s *Semaphore) Snapshot() (max, used, batch, waiting int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	w := s.load()
	return limitOf(w.max()), w.used(), w.batch(), s.queue.len
}

func (s *Semaphore) load() word { return word(s.state.Load()) }

func (s *Semaphore) swap(old, next word) bool {
	return s.state.CompareAndSwap(uint64(old), uint64(next))
}

// fits reports whether a call of the class may take a slot now.
func (s *Semaphore) fits(w word, c Class) bool {
	return w.used() < w.max() && (c == Interactive || w.batch() < s.batchMax(w.max()))
}

// batchMax is how many of so many slots Batch may have.
func (s *Semaphore) batchMax(max int) int {
	reserve := s.reserve.Load()
	if reserve < 0 {
		return min(max, int(-1-reserve))
	}
	if max == Limit || max == 0 || reserve == 0 || mutant.On("reserve-ignored") {
		return max
	}
	return max - reservedOf(max, reserve)
}

func reservedOf(max int, reserve int64) int {
	reserved := int((int64(max)*reserve + million - 1) / million)
	if reserved == max && reserve < million {
		reserved--
	}
	return reserved
}
