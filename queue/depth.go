package queue

import (
	"time"

	"github.com/holdfast-ai/holdfast/intent"
	"github.com/holdfast-ai/holdfast/ledger"
)

// Depth is what waits, and how much of it could be started now but for its limits.
type Depth struct{ Waiting, Ready, Working int }

// Depth says what the schedule holds.
func (q *Queue) Depth() Depth {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.depth(q.Ledger.Now())
}

func (q *Queue) depth(now time.Time) Depth {
	q.ring(now)
	return Depth{Waiting: q.waiting, Ready: q.ready, Working: q.working}
}

// Lane is what a lane holds.
type Lane struct {
	Depth int // operations in it
	Ready int // of them, those whose time has come; only where workers take them
	// Age is that of the oldest of them.
	Age time.Duration
	// Working is how many are in workers' hands, Longest for how long the first of them has been: one that stays there is
	// a worker that hangs.
	Working int
	Longest time.Duration
}

// Lanes says what each lane holds: of jobs that wait for a worker now, of the others as the log was last read.
func (q *Queue) Lanes() map[string]Lane {
	now := q.Ledger.Now()
	q.mu.Lock()
	defer q.mu.Unlock()
	all := map[string]Lane{}
	for name, n := range q.seen {
		all[name] = Lane{Depth: n.count, Age: max(0, now.Sub(n.oldest))}
	}
	d, oldest := q.depth(now), now
	for _, e := range q.known {
		if e.line != nil {
			oldest = earlier(oldest, e.created)
		}
	}
	own := Lane{Depth: d.Waiting, Ready: d.Ready, Working: d.Working, Age: now.Sub(oldest)}
	for _, since := range q.hands {
		own.Longest = max(own.Longest, now.Sub(since))
	}
	all[intent.LaneBackground] = own
	return all
}

func earlier(t time.Time, micro int64) time.Time {
	if at := time.UnixMicro(micro); at.Before(t) {
		return at
	}
	return t
}

// census counts what one reading of the log finds in each lane.
type census map[string]tally

type tally struct {
	count  int
	oldest time.Time
}

func (c census) add(r *ledger.Record) {
	t := c[r.Lane]
	if t.count++; t.count == 1 || r.CreatedAt.Before(t.oldest) {
		t.oldest = r.CreatedAt
	}
	c[r.Lane] = t
}
