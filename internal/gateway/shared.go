package gateway

import (
	"context"

	"github.com/holdfast-ai/holdfast/bulkhead"
	"github.com/holdfast-ai/holdfast/spend"
)

// Shared is what replicas share. While its store is away each goes on with its part of every limit.
type Shared interface {
	spend.Fleet
	// Semaphore returns the slots of a name, which is the same in all replicas: a *bulkhead.Semaphore of them all.
	Semaphore(name string, size bulkhead.Config) Slots
	// Degraded reports whether the store is away.
	Degraded() bool
}

// Slots is a bulkhead.Semaphore, or one that has its slots from a fleet's.
type Slots interface {
	Try(c bulkhead.Class) bool
	Fits(c bulkhead.Class) bool
	Acquire(ctx context.Context, c bulkhead.Class, p bulkhead.Priority) error
	Release(c bulkhead.Class)
	Configure(size bulkhead.Config)
	Snapshot() (limit, used, batch, waiting int)
}

type slots = Slots

// part is a replica's part of a limit where each counts for itself: rounded up, so that it has one.
func part(limit, replicas int) int {
	if limit <= 0 || replicas <= 1 {
		return limit
	}
	return (limit + replicas - 1) / replicas
}
