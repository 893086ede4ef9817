package breaker

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"testing/synctest"
	"time"

	"github.com/failsafe-go/failsafe-go/circuitbreaker"
)

// rateDifferences are those of FailureRate from failsafe-go's WithFailureRateThreshold, each with calls that show it.
var rateDifferences = []struct {
	rule, why string
	rate      float64
	calls     func(yield func(wait time.Duration, res Result) bool)
	ours      State
	theirs    circuitbreaker.State
}{
	{"edges", "the tenths of its window begin at full multiples of the clock, ours with the first result",
		0.5, func(yield func(time.Duration, Result) bool) {
			_ = yield(900*time.Millisecond, Failure) && yield(0, Failure) && yield(0, Failure) &&
				yield(9200*time.Millisecond, Failure) && yield(0, Failure) && yield(0, Failure)
		}, Open, circuitbreaker.ClosedState},
	{"rounding", "its rates are rounded to whole percents: 0.496 opens a breaker whose threshold is 0.5",
		0.5, func(yield func(time.Duration, Result) bool) {
			for range 66 {
				if !yield(0, Success) {
					return
				}
			}
			for range 65 {
				if !yield(0, Failure) {
					return
				}
			}
		}, Closed, circuitbreaker.OpenState},
}

func ratePair(rate float64) (*Breaker, circuitbreaker.CircuitBreaker[any]) {
	b := New(Config{FailureThreshold: 1 << 30, FailureRate: rate, Window: 10 * time.Second, MinCalls: 6, ResetTimeout: diffReset})
	return b, circuitbreaker.NewBuilder[any]().WithFailureRateThreshold(rate, 6, 10*time.Second).WithSuccessThreshold(1).
		WithDelay(diffReset).Build()
}

// both makes one call on both, and says whether it was admitted by both or by neither.
func both(b *Breaker, other circuitbreaker.CircuitBreaker[any], res Result) bool {
	p, err := b.Acquire()
	if ok := other.TryAcquirePermit(); ok != (err == nil) {
		return false
	}
	p.Done(res)
	switch {
	case err != nil:
	case res == Success:
		other.RecordSuccess()
	default:
		other.RecordFailure()
	}
	return true
}

func TestDifferentialRate(t *testing.T) {
	opened := 0
	synctest.Test(t, func(t *testing.T) {
		for seed := range uint64(1000) {
			rng := rand.New(rand.NewPCG(seed, 33))
			b, other := ratePair(0.5)
			for i := range 150 {
				if rng.IntN(4) == 0 {
					time.Sleep(time.Duration(rng.IntN(8)) * time.Second) // whole tenths of the window
				}
				if !both(b, other, Success+Result(rng.IntN(5)/3)) {
					t.Fatalf("schedule %d, call %d: one admits it, the other does not", seed, i)
				}
				if b.State() == Open {
					opened++
				}
				if fmt.Sprint(b.State()) != fmt.Sprint(other.State()) {
					t.Fatalf("schedule %d, after call %d: %v, failsafe-go %v", seed, i, b.State(), other.State())
				}
			}
		}
	})
	if opened < 1000 {
		t.Errorf("open %d times, which compares little", opened)
	}
}

func TestDifferencesRate(t *testing.T) {
	for _, d := range rateDifferences {
		t.Run(d.rule, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b, other := ratePair(d.rate)
				for wait, res := range d.calls {
					time.Sleep(wait)
					both(b, other, res)
				}
				if b.State() != d.ours || other.State() != d.theirs {
					t.Errorf("%v, failsafe-go %v; want %v, %v: %s", b.State(), other.State(), d.ours, d.theirs, d.why)
				}
			})
		})
	}
}
