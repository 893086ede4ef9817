package breaker

import (
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// TestTenThousandAtHalfOpen is BR-035: one upstream call until there is a verdict, all others refused at once.
func TestTenThousandAtHalfOpen(t *testing.T) {
	inBubble(t, Config{FailureThreshold: 1}, func(r rig) {
		r.end(Failure, 1)
		for round := range 3 {
			time.Sleep(30 * time.Second)
			var calls, refused atomic.Int64
			var all sync.WaitGroup
			start, begun := make(chan struct{}), time.Now()
			for range 10_000 {
				all.Go(func() {
					<-start
					p, err := r.Acquire()
					if err != nil {
						refused.Add(1)
						if d := time.Since(begun); d != 0 {
							t.Errorf("refused after %v", d)
						}
						return
					}
					calls.Add(1)
					time.Sleep(5 * time.Second)
					p.Done(Failure)
				})
			}
			close(start)
			all.Wait()
			if calls.Load() != 1 || refused.Load() != 9_999 {
				t.Fatalf("round %d: %d calls, %d refused", round, calls.Load(), refused.Load())
			}
			r.is(Open)
		}
	})
}

// TestSharedStore lets three breakers have one record, as replicas with a shared store will (BR-037).
func TestSharedStore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := NewStore()
		var replicas [3]rig
		for i := range replicas {
			replicas[i] = rig{t, New(Config{FailureThreshold: 5, Store: store})}
		}
		for i := range 5 {
			replicas[i%3].end(Failure, 1)
		}
		for range 2 {
			time.Sleep(30 * time.Second)
			replicas[1].probe() // its process dies
			replicas[0].refused()
			replicas[2].refused()
		}
		time.Sleep(30 * time.Second)
		replicas[2].probe().Done(Success)
		replicas[0].is(Closed)
	})
}

func TestSuccessAllocatesNothing(t *testing.T) {
	for name, c := range map[string]Config{"in a row": {}, "rate": {FailureRate: 0.5}} {
		b := New(c)
		n := testing.AllocsPerRun(1000, func() {
			p, _ := b.Acquire()
			p.Done(Success)
		})
		if n != 0 {
			t.Errorf("%s: %v allocations", name, n)
		}
	}
}

// TestConcurrent lets many callers do anything at once, which is for the race detector, and holds that a probe is alone.
func TestConcurrent(t *testing.T) {
	b := New(Config{FailureThreshold: 2, ResetTimeout: time.Nanosecond, ProbeLease: time.Hour, FailureRate: 0.9, MinCalls: 5})
	var probes atomic.Int64
	var all sync.WaitGroup
	for g := range 8 {
		all.Go(func() {
			for i := range 3000 {
				p, err := b.Acquire()
				if err != nil {
					continue
				}
				if p.Probe() {
					if n := probes.Add(1); n != 1 {
						t.Errorf("%d probes at once", n)
					}
					probes.Add(-1)
				}
				p.Live()
				p.Done(Result((i*7 + g) % 3))
				p.Done(Success)
			}
		})
	}
	all.Wait()
	b.Reset()
	if b.State() != Closed {
		t.Error("not closed")
	}
}
