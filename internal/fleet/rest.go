package fleet

import (
	"sync"
	"time"
)

// rests keeps calls from a peer that does not answer: while it rests nobody waits for it, and when the rest is over one call
// finds out for all.
type rests struct {
	mu sync.Mutex
	of map[string]rest
}

type rest struct {
	long    time.Duration
	until   time.Time
	probing bool // a call is on its way to find out
}

// maxRests bounds how many silent peers are remembered.
const maxRests = 1024

// may reports whether a peer may be called now. Each true is followed by answered, silent or undecided.
func (r *rests) may(owner string, now time.Time) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	x, resting := r.of[owner]
	switch {
	case !resting:
		return true
	case x.probing || now.Before(x.until):
		return false
	}
	x.probing = true
	r.of[owner] = x
	return true
}

func (r *rests) answered(owner string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.of, owner)
}

// silent has a peer rest, twice as long as the last time. Of several calls that met one silence, the first counts.
func (r *rests) silent(owner string, now time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	x, resting := r.of[owner]
	if resting && !x.probing && now.Before(x.until) {
		return
	}
	long := min(max(2*x.long, firstRest), longestRest)
	r.of[owner] = rest{long: long, until: now.Add(long)}
	for id, o := range r.of {
		if len(r.of) <= maxRests {
			break
		}
		if id != owner && now.After(o.until) {
			delete(r.of, id)
		}
	}
}

// undecided gives the place of the one call back that was to find out.
func (r *rests) undecided(owner string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if x, ok := r.of[owner]; ok {
		x.probing = false
		r.of[owner] = x
	}
}
