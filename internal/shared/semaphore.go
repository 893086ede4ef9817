package shared

import (
	"context"

	"github.com/holdfast-ai/holdfast/bulkhead"
)

// Semaphore is a bulkhead.Semaphore whose slots are those of all processes together. It is safe for concurrent use.
type Semaphore struct {
	slots *bulkhead.Semaphore
	pool  *Pool
}

// Semaphore returns the semaphore of a name. cfg.Max must be above 0.
func (s *State) Semaphore(name string, cfg bulkhead.Config) *Semaphore {
	slots := bulkhead.New(cfg)
	return &Semaphore{slots: slots, pool: s.Pool(name, slots, limitOf(cfg))}
}

func limitOf(cfg bulkhead.Config) Slots {
	return Slots{All: cfg.Max, Batch: cfg.Max - bulkhead.Reserved(cfg.Max, cfg.Reserve)}
}

// Try takes a slot as bulkhead.Semaphore.Try does. Where none is on lease here it asks the store for more, which takes no longer than one
// call to it.
func (s *Semaphore) Try(c bulkhead.Class) bool {
	if s.pool.Valid() && s.slots.Try(c) {
		return true
	}
	return s.pool.More(c == bulkhead.Batch) && s.pool.Valid() && s.slots.Try(c)
}

// Fits reports whether a slot is on lease here, or may be had.
func (s *Semaphore) Fits(c bulkhead.Class) bool {
	return s.pool.Valid() && s.slots.Fits(c) || !s.pool.Refused(c == bulkhead.Batch)
}

// Acquire waits as bulkhead.Semaphore.Acquire does; the order among those who wait is that of this process.
func (s *Semaphore) Acquire(ctx context.Context, c bulkhead.Class, p bulkhead.Priority) error {
	if ctx.Err() == nil && s.Try(c) {
		return nil
	}
	return s.slots.Acquire(ctx, c, p)
}

// Release returns a slot. It asks nobody: the slot stays here for the next call, and goes back to the others when it is idle.
func (s *Semaphore) Release(c bulkhead.Class) { s.slots.Release(c) }

// Configure changes the limit of all processes.
func (s *Semaphore) Configure(cfg bulkhead.Config) { s.pool.Resize(limitOf(cfg)) }

// Snapshot is what one look sees here: the limit of all processes, or what is on lease here where there is no more to be had, the slots
// in use by this one, those of them by Batch, and how many wait.
func (s *Semaphore) Snapshot() (limit, used, batch, waiting int) {
	limit, used, batch, waiting = s.slots.Snapshot()
	if !s.pool.Refused(false) {
		limit = s.pool.Limit().All
	}
	return max(limit, 0), used, batch, waiting
}

// Close ends the sharing.
func (s *Semaphore) Close() { s.pool.Close() }
