package gateway

import "sync"

// repeats decides which of an operation's repetitions are written down: the first eight one by one, then one
// line at each doubling, so that a client that asks for ever does not write for ever.
type repeats struct {
	mu   sync.Mutex
	seen map[string]int64
}

// maxRepeats bounds the operations that are counted; beyond it counting begins anew.
const maxRepeats = 1 << 14

// worth returns how many requests the line for this repetition of id stands for, 0 for no line.
func (r *repeats) worth(id string) int64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.seen == nil || len(r.seen) >= maxRepeats {
		r.seen = map[string]int64{}
	}
	n := r.seen[id] + 1
	r.seen[id] = n
	switch {
	case n <= 8:
		return 1
	case n&(n-1) == 0:
		return n / 2
	}
	return 0
}
