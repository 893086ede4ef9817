package bulkhead_test

import (
	"context"
	"errors"
	"math/rand/v2"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/holdfast-ai/holdfast/bulkhead"
)

// A slot that comes in the same instant as the end of the wait goes on to the next, or is free.
func TestSlotAtTheInstantOfCancel(t *testing.T) {
	for i := range 2000 {
		s := bulkhead.New(bulkhead.Config{Max: 1})
		s.Try(interactive)
		ctx, cancel := context.WithCancel(t.Context())
		result := make(chan error, 1)
		go func() { result <- s.Acquire(ctx, interactive, normal) }()
		for waiting := 0; waiting == 0; {
			runtime.Gosched()
			_, _, _, waiting = s.Snapshot()
		}
		if i%2 == 0 {
			cancel()
			s.Release(interactive)
		} else {
			s.Release(interactive)
			cancel()
		}
		if err := <-result; err == nil {
			s.Release(interactive)
		} else if !errors.Is(err, bulkhead.ErrFull) {
			t.Fatal(err)
		}
		look(t, s, 1, 0, 0, 0)
		if t.Failed() {
			t.FailNow()
		}
	}
}

// However callers come, wait, leave and finish, while the limit moves: never more are in progress than the highest
// limit, never more of Batch than its part of it, and in the end every slot is back.
func TestNoSlotIsLost(t *testing.T) {
	const most, callers, each = 5, 16, 300
	s := bulkhead.New(bulkhead.Config{Max: most, Reserve: 0.4, Waiting: 8})
	var used, batches atomic.Int64
	work := func(r *rand.Rand, c bulkhead.Class) {
		if used.Add(1) > most {
			t.Error("more in progress than the limit")
		}
		if c == batch && batches.Add(1) > most-2 {
			t.Error("batch took a reserved slot")
		}
		for range r.IntN(50) {
			_, _, _, _ = s.Snapshot() // somewhere to lose the processor
		}
		if c == batch {
			batches.Add(-1)
		}
		used.Add(-1)
		s.Release(c)
	}
	var wg sync.WaitGroup
	for i := range uint64(callers) {
		wg.Go(func() {
			r := rand.New(rand.NewPCG(i, 10))
			for range each {
				c, p := bulkhead.Class(r.IntN(2)), bulkhead.Priority(r.IntN(3))
				ctx, cancel := context.WithCancel(t.Context())
				switch r.IntN(3) {
				case 0:
					if s.Try(c) {
						work(r, c)
					}
				case 1:
					go func() { cancel() }()
					fallthrough
				default:
					if s.Acquire(ctx, c, p) == nil {
						work(r, c)
					}
				}
				cancel()
			}
		})
	}
	wg.Go(func() {
		r := rand.New(rand.NewPCG(1, 11))
		for range each {
			s.Resize(1 + r.IntN(most))
		}
		s.Resize(most)
	})
	wg.Wait()
	look(t, s, most, 0, 0, 0)
}

// Whoever waits is served in the end, with all slots returned by others: no wake-up is lost between a Release that
// sees nobody wait and a caller that sees no slot free.
func TestNoWakeUpIsLost(t *testing.T) {
	s := bulkhead.New(bulkhead.Config{Max: 1})
	var wg sync.WaitGroup
	for i := range 4 {
		wg.Go(func() {
			for range 5000 {
				if err := s.Acquire(t.Context(), interactive, bulkhead.Priority(i%3)); err != nil {
					t.Error(err)
					return
				}
				s.Release(interactive)
			}
		})
	}
	wg.Wait()
	look(t, s, 1, 0, 0, 0)
}

func TestFreeSlotAllocatesNothing(t *testing.T) {
	s := bulkhead.New(bulkhead.Config{Max: 3, Reserve: 0.2})
	ctx := t.Context()
	if n := testing.AllocsPerRun(100, func() {
		s.Try(batch)
		_ = s.Acquire(ctx, interactive, high)
		s.Release(interactive)
		s.Release(batch)
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

// late is a context that ends after it was asked n times.
type late struct {
	context.Context
	n int
}

func (l *late) Err() error {
	if l.n--; l.n >= 0 {
		return nil
	}
	return context.Canceled
}

// Wherever the end of the wait falls among the steps of Acquire: one who is told that he has no slot holds none.
func TestEndBetweenTwoLooks(t *testing.T) {
	for looks := range 4 {
		s := bulkhead.New(bulkhead.Config{Max: 1})
		s.Try(interactive)
		result := make(chan error, 1)
		go func() { result <- s.Acquire(&late{t.Context(), looks}, interactive, normal) }()
		for waiting := 0; waiting == 0 && len(result) == 0; {
			runtime.Gosched()
			_, _, _, waiting = s.Snapshot()
		}
		s.Release(interactive)
		used := 1
		if err := <-result; err != nil {
			used = 0
		}
		look(t, s, 1, used, 0, 0)
	}
}
