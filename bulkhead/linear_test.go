package bulkhead_test

import (
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/anishathalye/porcupine"

	"github.com/holdfast-ai/holdfast/bulkhead"
)

// op is one call on a semaphore, and seen what it returned.
type op struct {
	kind  int
	class bulkhead.Class
	max   int
}

type seen struct {
	ok               bool
	max, used, batch int
}

const (
	opTry = iota
	opRelease
	opResize
	opSnapshot
)

type counts struct{ max, used, batch int }

// sequential is a semaphore that reserves half of its slots, for one caller at a time.
var sequential = porcupine.Model{
	Init: func() any { return counts{max: 4} },
	Step: func(state, input, output any) (bool, any) {
		s, in, out := state.(counts), input.(op), output.(seen)
		n := 0
		if in.class == batch {
			n = 1
		}
		switch in.kind {
		case opTry:
			fits := s.used < s.max && (n == 0 || s.batch < max(1, s.max/2))
			if fits {
				s.used, s.batch = s.used+1, s.batch+n
			}
			return out.ok == fits, s
		case opRelease:
			s.used, s.batch = s.used-1, s.batch-n
		case opResize:
			s.max = in.max
		case opSnapshot:
			return out == seen{max: s.max, used: s.used, batch: s.batch}, s
		}
		return true, s
	},
}

// Whatever runs at once on a semaphore could have run one after the other.
func TestLinearizable(t *testing.T) {
	for seed := range uint64(150) {
		s := bulkhead.New(bulkhead.Config{Max: 4, Reserve: 0.5})
		var mu sync.Mutex
		var history []porcupine.Operation
		var wg sync.WaitGroup
		began := time.Now()
		for client := range 4 {
			wg.Go(func() {
				r := rand.New(rand.NewPCG(seed, uint64(client)))
				var held []bulkhead.Class
				for range 25 {
					in := random(r, held)
					call := time.Since(began)
					out := play(s, in)
					back := time.Since(began)
					switch {
					case in.kind == opTry && out.ok:
						held = append(held, in.class)
					case in.kind == opRelease:
						held = held[:len(held)-1]
					}
					mu.Lock()
					history = append(history, porcupine.Operation{ClientId: client, Input: in, Output: out, Call: int64(call), Return: int64(back)})
					mu.Unlock()
				}
			})
		}
		wg.Wait()
		if porcupine.CheckOperationsTimeout(sequential, history, 20*time.Second) == porcupine.Illegal {
			t.Fatalf("seed %d: no order of the calls explains what they returned", seed)
		}
	}
}

func random(r *rand.Rand, held []bulkhead.Class) op {
	switch n := r.IntN(10); {
	case n < 4 && len(held) > 0:
		return op{kind: opRelease, class: held[len(held)-1]}
	case n < 8:
		return op{kind: opTry, class: bulkhead.Class(r.IntN(2))}
	case n < 9:
		return op{kind: opResize, max: 1 + 2*r.IntN(3) + r.IntN(2)}
	}
	return op{kind: opSnapshot}
}

func play(s *bulkhead.Semaphore, in op) seen {
	switch in.kind {
	case opTry:
		return seen{ok: s.Try(in.class)}
	case opRelease:
		s.Release(in.class)
	case opResize:
		s.Resize(in.max)
	case opSnapshot:
		most, used, batches, _ := s.Snapshot()
		return seen{max: most, used: used, batch: batches}
	}
	return seen{}
}
