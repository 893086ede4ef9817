package retry_test

import (
	"errors"
	"math/rand/v2"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/failsafe-go/failsafe-go"
	"github.com/failsafe-go/failsafe-go/retrypolicy"

	"github.com/holdfast-ai/holdfast/retry"
)

// outcome is what one attempt of a schedule comes to.
type outcome struct {
	fails bool
	after time.Duration // the Retry-After of a failure, 0 for none
}

var errAttempt = errors.New("attempt failed")

// run is what a program did with a schedule: its waits, each before one further attempt.
type run struct {
	attempts int
	waits    []time.Duration
}

// reference gives the schedule to failsafe-go, without jitter, in fake time; its waits are measured on the clock.
func reference(p retry.Policy, schedule []outcome) run {
	var r run
	var last outcome
	var ended time.Time
	policy := retrypolicy.NewBuilder[any]().WithMaxAttempts(p.MaxAttempts).WithBackoff(p.Base, p.Max).
		WithDelayFunc(func(failsafe.ExecutionAttempt[any]) time.Duration {
			if last.after > 0 {
				return last.after
			}
			return -1 // its own backoff
		}).Build()
	_ = failsafe.With(policy).Run(func() error {
		if r.attempts > 0 {
			r.waits = append(r.waits, time.Since(ended))
		}
		last, ended = schedule[r.attempts], time.Now()
		r.attempts++
		if last.fails {
			return errAttempt
		}
		return nil
	})
	return r
}

// ours makes the same with Policy, where chance always draws the longest wait: the window.
func ours(p retry.Policy, schedule []outcome) run {
	var r run
	for {
		o := schedule[r.attempts]
		r.attempts++
		if !o.fails || !p.More(r.attempts) {
			return r
		}
		r.waits = append(r.waits, p.Delay(r.attempts, o.after, highest))
	}
}

type rule struct {
	name     string
	explains func(p retry.Policy, at int, schedule []outcome, theirs, ours time.Duration) bool
}

// The rules by which our waits differ from failsafe-go's. Each says whether it explains one wait, and is seen at
// work by the test: a rule that no schedule needs is struck.
var rules = []rule{
	{"Retry-After is a floor: where our own backoff ends later, it stands (interface §5); theirs is replaced by it",
		func(p retry.Policy, at int, s []outcome, theirs, ours time.Duration) bool {
			return s[at].after > 0 && theirs == s[at].after && ours > theirs+min(p.Base, p.Max) && ours <= p.Max
		}},
	{"a herd told the same second is spread: at most base beyond Retry-After; they add no jitter unless asked",
		func(p retry.Policy, at int, s []outcome, theirs, ours time.Duration) bool {
			return s[at].after > 0 && theirs == s[at].after && ours == theirs+min(p.Base, p.Max)
		}},
	{"base above max is max; their first wait is base all the same",
		func(p retry.Policy, at int, s []outcome, theirs, ours time.Duration) bool {
			return s[at].after == 0 && p.Base > p.Max && theirs == p.Base && ours == p.Max
		}},
	{"the window doubles with every failure; theirs only with those that had no Retry-After",
		func(p retry.Policy, at int, s []outcome, theirs, ours time.Duration) bool {
			before := slices.ContainsFunc(s[:at], func(o outcome) bool { return o.after > 0 })
			return s[at].after == 0 && before && theirs < ours && ours <= p.Max
		}},
}

func TestDifferential(t *testing.T) {
	used := make([]int, len(rules))
	equal := 0
	synctest.Test(t, func(t *testing.T) {
		for seed := range uint64(3000) {
			r := rand.New(rand.NewPCG(seed, 7))
			p, schedule := random(r)
			theirs, mine := reference(p, schedule), ours(p, schedule)
			if theirs.attempts != mine.attempts {
				t.Fatalf("seed %d: %d attempts, the reference makes %d (%+v, %+v)", seed, mine.attempts, theirs.attempts, p, schedule)
			}
			for at := range mine.waits {
				if mine.waits[at] == theirs.waits[at] {
					equal++
					continue
				}
				why := slices.IndexFunc(rules, func(x rule) bool {
					return x.explains(p, at, schedule, theirs.waits[at], mine.waits[at])
				})
				if why < 0 {
					t.Fatalf("seed %d: wait %d is %v, the reference's %v, and no rule says why (%+v, %+v)",
						seed, at+1, mine.waits[at], theirs.waits[at], p, schedule)
				}
				used[why]++
			}
		}
	})
	if equal < 2000 {
		t.Errorf("only %d waits were equal", equal)
	}
	for i, n := range used {
		if n == 0 {
			t.Errorf("no schedule needs the rule %q", rules[i].name)
		}
	}
}

func random(r *rand.Rand) (retry.Policy, []outcome) {
	p := retry.Policy{
		MaxAttempts: 1 + r.IntN(12),
		Base:        time.Duration(1+r.IntN(2000)) * time.Millisecond,
		Max:         time.Duration(1+r.IntN(20_000)) * time.Millisecond,
	}
	schedule := make([]outcome, p.MaxAttempts)
	for i := range schedule {
		schedule[i].fails = r.IntN(8) > 0
		if schedule[i].fails && r.IntN(4) == 0 {
			schedule[i].after = time.Duration(1+r.IntN(40_000)) * time.Millisecond
		}
	}
	return p, schedule
}
