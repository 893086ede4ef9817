package gateway

import (
	"sync"
	"sync/atomic"
	"time"
)

// watch bounds an execution in time: to the boundary by first_token, attempt and total; behind it by idle and
// stream (semantics 30). Progress is a store, not a timer's reset.
type watch struct {
	e       *execution
	timer   *time.Timer
	mu      sync.Mutex
	limit   time.Time // of this phase
	why     error
	last    atomic.Int64  // unix nanoseconds of the last bytes
	idle    time.Duration // 0 before the boundary
	whole   bool          // the attempt had all of its own limit, or nearly
	stopped bool
}

func (e *execution) newWatch() *watch {
	t := e.course.leg().timeouts
	limit, why := t.Attempt, errAttempt
	if e.spec.Stream && t.FirstToken < limit {
		limit, why = t.FirstToken, errFirstToken
	}
	now, own := time.Now(), limit
	if budget := e.budget.Remaining(now); budget < limit {
		limit, why = budget, errTotal
	}
	w := &watch{e: e, why: why, limit: now.Add(limit), whole: limit >= own-own/10}
	w.timer = time.AfterFunc(limit, w.fire)
	return w
}

// crossed says that the boundary was passed.
func (w *watch) crossed() {
	w.mu.Lock()
	defer w.mu.Unlock()
	now := time.Now()
	w.idle, w.why, w.limit = w.e.course.leg().timeouts.Idle, errStreamLimit, now.Add(w.e.course.leg().timeouts.Stream)
	w.last.Store(now.UnixNano())
	w.timer.Reset(min(w.idle, w.e.course.leg().timeouts.Stream))
}

func (w *watch) progress() {
	if w.idle > 0 {
		w.last.Store(time.Now().UnixNano())
	}
}

func (w *watch) fire() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.stopped {
		return
	}
	now := time.Now()
	if !now.Before(w.limit) {
		w.e.cancel(w.why)
		return
	}
	still := now.Sub(time.Unix(0, w.last.Load()))
	if w.idle > 0 && still >= w.idle {
		w.e.cancel(errIdle)
		return
	}
	next := w.limit.Sub(now)
	if w.idle > 0 {
		next = min(next, w.idle-still)
	}
	w.timer.Reset(next)
}

func (w *watch) stop() {
	w.mu.Lock()
	w.stopped = true
	w.mu.Unlock()
	w.timer.Stop()
}
