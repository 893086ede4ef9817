package route

import (
	"context"
	"sync"
	"time"

	"github.com/holdfast-ai/holdfast/internal/mutant"
)

const (
	// rowWait is how long Cool waits for its row; rowLimit is when the write is given up.
	rowWait  = 100 * time.Millisecond
	rowLimit = 5 * time.Second
)

// row is the write of a route's cool-down: one at a time, and what came meanwhile in the next.
type row struct {
	mu      sync.Mutex
	until   time.Time // ledger time to be written
	reason  string
	now     chan struct{} // closed when the write that is running has ended; nil when none is
	next    chan struct{} // closed when the write has ended that begins after it; nil when nothing waits
	cleared uint64
}

// save writes the row and waits for it, but not long.
func (r *Route) save(wait time.Duration, reason string) {
	t := r.table
	if t.cfg.Cooldowns == nil || mutant.On("cooldown-in-memory") {
		return
	}
	written := r.row.want(t.now().Add(wait), reason, func() bool { return t.spawn(r.write) })
	if written == nil {
		return
	}
	limit := time.NewTimer(rowWait)
	defer limit.Stop()
	select {
	case <-written:
	case <-limit.C:
	}
}

// want notes what is to be written and returns what is closed when it was; nil when nobody can write it.
func (w *row) want(until time.Time, reason string, start func() bool) <-chan struct{} {
	w.mu.Lock()
	defer w.mu.Unlock()
	if until.After(w.until) {
		w.until, w.reason = until, reason
	}
	if w.now != nil {
		if w.next == nil {
			w.next = make(chan struct{})
		}
		return w.next
	}
	w.now = make(chan struct{})
	if !start() {
		w.now = nil
		return nil
	}
	return w.now
}

// take returns what to write.
func (w *row) take() (until time.Time, reason string, cleared uint64) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.until, w.reason, w.cleared
}

// finish tells those who wait for the write that has ended, and reports whether more has come.
func (w *row) finish() (more bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	close(w.now)
	w.now, w.next = w.next, nil
	return w.now != nil
}

// spawn runs f in a goroutine that Close waits for; it does not once the table is closed.
func (t *Table) spawn(f func()) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	select {
	case <-t.done:
		return false
	default:
		t.work.Go(f)
		return true
	}
}

// write writes until nothing new has come. What the store cannot take stays in force in memory.
func (r *Route) write() {
	for more := true; more; more = r.row.finish() {
		until, reason, cleared := r.row.take()
		if until.IsZero() {
			continue // reset meanwhile
		}
		ctx, stop := context.WithTimeout(context.Background(), rowLimit)
		inForce, err := r.table.cfg.Cooldowns.Cooldown(ctx, r.key, until, reason)
		stop()
		if err != nil {
			r.table.log.Warn("the cool-down of a route is not in the ledger: it holds until this process ends",
				"route", r.key, "until", until, "error", err)
			continue
		}
		r.written(inForce, until, cleared)
	}
}

// written obeys a row that holds for longer than what was asked for, and undoes one that was reset while it was written.
func (r *Route) written(inForce, until time.Time, cleared uint64) {
	r.row.mu.Lock()
	reset := r.row.cleared != cleared
	r.row.mu.Unlock()
	if reset {
		r.clearRow()
		return
	}
	if inForce.After(until) {
		if wait := min(inForce.Sub(r.table.now()), maxCooldown); wait > 0 {
			r.gate.close(wait, "a longer one is in the ledger")
		}
	}
}

func (r *Route) clearRow() {
	ctx, stop := context.WithTimeout(context.Background(), rowLimit)
	defer stop()
	if err := r.table.cfg.Cooldowns.ClearCooldown(ctx, r.key); err != nil {
		r.table.log.Warn("the cool-down of a route was reset, but its row in the ledger could not be removed: a restart takes it over; reset it again",
			"route", r.key, "error", err)
	}
}

// forget ends what would be written.
func (w *row) forget() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.until, w.reason = time.Time{}, ""
	w.cleared++
}
