package retry_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/holdfast-ai/holdfast/retry"
)

func ExampleBudget() {
	b := retry.NewBudget(0.2)
	calls := 0
	for range 30 { // to a provider that fails them all, three attempts each
		b.First()
		calls++
		for attempts := 1; attempts < 3 && b.Take(); attempts++ {
			calls++
		}
	}
	fmt.Println(calls, "calls in place of 90")
	// Output: 45 calls in place of 90
}

// The law of the bucket (semantics 35), over any order of what can happen to it.
func TestRetriesAreAShare(t *testing.T) {
	for seed := range uint64(200) {
		r := rand.New(rand.NewPCG(seed, 5))
		share := []float64{0, 0.01, 0.2, 1. / 3, 0.5, 1, 3}[r.IntN(7)]
		b := retry.NewBudget(share)
		var firsts, taken, sent int
		for range 3000 {
			switch n := r.IntN(10); {
			case n < 4:
				b.First()
				firsts++
			case n < 8:
				if b.Take() {
					taken++
				}
			case taken > 0 && n == 8:
				b.Put()
				taken--
			case taken > 0:
				taken--
				sent++
			}
			if limit := 10 + share*float64(firsts) + 1e-4; float64(taken+sent) > limit {
				t.Fatalf("seed %d: %d retries after %d first attempts with a share of %v", seed, taken+sent, firsts, share)
			}
			if b.Tokens() < 0 || b.Tokens() > 10 {
				t.Fatalf("seed %d: %v tokens", seed, b.Tokens())
			}
		}
	}
}

func TestRetriesAreAShareConcurrently(t *testing.T) {
	const callers, each = 8, 5000
	b := retry.NewBudget(0.2)
	var firsts, retries atomic.Int64
	var wg sync.WaitGroup
	for i := range uint64(callers) {
		wg.Go(func() {
			r := rand.New(rand.NewPCG(i, 6))
			for range each {
				b.First()
				firsts.Add(1)
				for range 2 {
					switch {
					case !b.Take():
					case r.IntN(4) == 0:
						b.Put()
					default:
						retries.Add(1)
					}
				}
			}
		})
	}
	wg.Wait()
	if n, limit := float64(retries.Load()), 10+0.2*float64(firsts.Load()); n > limit || n < limit/2 {
		t.Errorf("%v retries of %d first attempts, the limit is %v", n, firsts.Load(), limit)
	}
}

func TestNoTokenIsLost(t *testing.T) {
	b := retry.NewBudget(0)
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for range 10_000 {
				if b.Take() {
					b.Put()
				}
			}
		})
	}
	wg.Wait()
	if b.Tokens() != 10 {
		t.Errorf("%v tokens, want the ten it began with", b.Tokens())
	}
}

func TestShare(t *testing.T) {
	for _, c := range []struct{ share, after float64 }{
		{0, 0}, {-1, 0}, {math.NaN(), 0}, {math.Inf(-1), 0}, {0.2, 1}, {1, 5}, {10, 10}, {11, 10}, {math.Inf(1), 10}, {math.MaxFloat64, 10},
	} {
		b := retry.NewBudget(c.share)
		for range 10 {
			if !b.Take() {
				t.Fatalf("share %v: less than ten tokens at the start", c.share)
			}
		}
		if b.Take() {
			t.Errorf("share %v: more than ten tokens at the start", c.share)
		}
		for range 5 {
			b.First()
		}
		if got := b.Tokens(); got != c.after {
			t.Errorf("share %v: %v tokens after five first attempts, want %v", c.share, got, c.after)
		}
	}
}

func TestBudgetAllocatesNothing(t *testing.T) {
	b, p := retry.NewBudget(0.2), retry.Policy{}
	if n := testing.AllocsPerRun(100, func() { b.First(); _ = b.Take(); b.Put(); _ = p.Delay(2, 0, nil) }); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

func BenchmarkBudget(b *testing.B) {
	b.Run("healthy", func(b *testing.B) {
		budget := retry.NewBudget(0.2)
		b.RunParallel(func(pb *testing.PB) {
			for pb.Next() {
				budget.First()
			}
		})
	})
	b.Run("outage", func(b *testing.B) {
		budget := retry.NewBudget(0.2)
		b.RunParallel(func(pb *testing.PB) {
			for pb.Next() {
				budget.First()
				_ = budget.Take()
			}
		})
	})
}

func BenchmarkDelay(b *testing.B) {
	for b.Loop() {
		_ = retry.Policy{}.Delay(3, 0, nil)
	}
}
