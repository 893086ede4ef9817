package breaker

import (
	"sync/atomic"
	"time"
)

// Store holds the Record of one breaker: a register with compare-and-set, in memory or shared by the replicas of a fleet. All rules
// are the Breaker's. It is safe for concurrent use.
//
// The window of FailureRate is no part of it: each process counts its own, against its share of MinCalls.
type Store interface {
	// Load returns the newest record known here, never nil, and does not wait: it is asked for each call. A shared store
	// answers from a copy that it keeps fresh.
	Load() *Record
	// Swap puts next in the place of old, which is what Load returned, and reports whether it did; if not, Load has or soon
	// will have what stands there now. A store that cannot be reached goes on with this process's own record, within 100 ms.
	Swap(old, next *Record) bool
	// Now is the time that records are stamped with. It must be the same clock for everybody who shares the record.
	Now() time.Time
}

// Fleet is what a Store may be besides: one whose failures are those of all replicas together.
type Fleet interface {
	// Fleet reports whether that is so now. It may cease and come back: then each process goes by its own share of the threshold.
	Fleet() bool
}

// Sharer is what a Store may be besides: one that is the fleet's or this process's own, as Config.Shared says.
type Sharer interface {
	Share(on bool)
}

// NewStore returns a Store in memory, with a closed record.
func NewStore() Store {
	m := &memory{}
	m.record.Store(&Record{Generation: 1})
	return m
}

type memory struct{ record atomic.Pointer[Record] }

func (m *memory) Load() *Record               { return m.record.Load() }
func (m *memory) Swap(old, next *Record) bool { return m.record.CompareAndSwap(old, next) }
func (m *memory) Now() time.Time              { return time.Now() }
