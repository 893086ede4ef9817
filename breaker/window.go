package breaker

import (
	"fmt"
	"sync"
	"time"
)

const parts = 10 // of a window; a result is forgotten after between 9 and 10 tenths of it

// window counts the results of one generation over the last Config.Window.
type window struct {
	mu         sync.Mutex
	generation uint64
	origin     time.Time // when part 0 began
	head       int64     // the newest part, counted from origin
	ring       [parts]tally
	sum        tally
}

type tally struct{ calls, failures int }

func (t *tally) add(d tally, sign int) {
	t.calls += sign * d.calls
	t.failures += sign * d.failures
}

// add counts a result, and returns why the breaker must open or nothing.
func (w *window) add(generation uint64, res Result, now time.Time, c *Config) string {
	w.mu.Lock()
	defer w.mu.Unlock()
	if generation < w.generation {
		return "" // another call has seen a newer one
	}
	if generation > w.generation || w.origin.IsZero() {
		w.clear(generation, now)
	}
	w.slide(int64(now.Sub(w.origin) / max(1, c.Window/parts)))
	d := tally{calls: 1}
	if res == Failure {
		d.failures = 1
	}
	w.ring[w.head%parts].add(d, 1)
	w.sum.add(d, 1)
	if w.sum.calls < c.MinCalls || float64(w.sum.failures)/float64(w.sum.calls) < c.FailureRate {
		return ""
	}
	return fmt.Sprintf("%d of %d calls failed within %v", w.sum.failures, w.sum.calls, c.Window)
}

// slide empties the parts that have left the window.
func (w *window) slide(head int64) {
	for n := 0; w.head < head && n < parts; n++ {
		w.head++
		old := &w.ring[w.head%parts]
		w.sum.add(*old, -1)
		*old = tally{}
	}
	w.head = max(w.head, head)
}

// forget empties the window, and its next result begins it anew.
func (w *window) forget() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.clear(w.generation, time.Time{})
}

func (w *window) clear(generation uint64, origin time.Time) {
	w.generation, w.origin, w.head = generation, origin, 0
	w.ring, w.sum = [parts]tally{}, tally{}
}
