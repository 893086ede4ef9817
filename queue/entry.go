package queue

import (
	"cmp"
	"time"

	"github.com/holdfast-ai/holdfast/internal/mutant"
	"github.com/holdfast-ai/holdfast/ledger"
)

// entry is what the schedule knows of a job.
type entry struct {
	id       string
	bucket   int64 // of ready_at: priority decides within a second (semantics 38)
	readyAt  int64 // microseconds
	created  int64
	expires  int64 // the greatest number where it does not age
	attempt  int
	crashes  int
	priority int8   // 0 goes first
	told     string // the route that named the time which it waits for; "" where none did
	fresh    *fresh // as it was written down a moment ago; a lease on it is refused if it has moved since

	line   *line           // nil: in a worker's hands
	in     *ranked[*entry] // of its line
	late   *alarm          // of its last call; nil where it has none
	pos    int
	looked bool   // somebody has had it looked at while a worker had it
	sweep  uint64 // the last one that found it in the log, or that was going on when it came
}

var priorities = map[string]int8{"high": 0, "normal": 1, "low": 2}

func entryOf(r *ledger.Record) *entry {
	e := &entry{id: r.ID, created: r.CreatedAt.UnixMicro(), expires: 1<<63 - 1, attempt: r.Attempt, crashes: r.Crashes, priority: 1}
	if p, ok := priorities[r.Priority]; ok {
		e.priority = p
	}
	if !r.ExpiresAt.IsZero() {
		e.expires = r.ExpiresAt.UnixMicro()
	}
	e.readyAt = e.created
	if !r.ReadyAt.IsZero() {
		e.readyAt = r.ReadyAt.UnixMicro()
	}
	e.bucket = e.readyAt / time.Second.Microseconds()
	if r.RetryAfter > 0 {
		e.told = r.RouteKey
	}
	return e
}

// due has a job's time come.
func (e *entry) due(now int64) { e.readyAt, e.bucket = now, now/time.Second.Microseconds() }

// over reports whether its time is over: the log parks it.
func (e *entry) over(now time.Time) bool {
	return e.expires <= now.UnixMicro() && !mutant.On("age-ignored")
}

// defaultOrder is release_order where a policy says nothing, and the one between lines.
var defaultOrder = []string{"ready_at", "priority", "created_at"}

// less reports whether a leaves before b. It is a total order: what is alike in all that order names goes by its id.
func less(order []string, a, b *entry) bool {
	if mutant.On("release-order-ignored") {
		return a.id > b.id
	}
	for _, name := range order {
		if c := compare(name, a, b); c != 0 {
			return c < 0
		}
	}
	return a.id < b.id
}

func compare(name string, a, b *entry) int {
	switch name {
	case "ready_at":
		return cmp.Compare(a.bucket, b.bucket)
	case "priority":
		return cmp.Compare(a.priority, b.priority)
	case "created_at":
		return cmp.Compare(a.created, b.created)
	case "expires_at":
		return cmp.Compare(a.expires, b.expires)
	case "attempt":
		return cmp.Compare(a.attempt, b.attempt)
	}
	return 0
}

// waiting is a heap of entries by an order.
func waiting(before func(a, b *entry) bool) ranked[*entry] {
	return ranked[*entry]{less: before, place: func(e *entry) *int { return &e.pos }}
}

// sooner is by ready_at to the microsecond: of those whose time has not come.
func sooner(a, b *entry) bool { return a.readyAt < b.readyAt }
