package deadline_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-ai/holdfast/deadline"
)

func ExampleBudget() {
	now := time.Now()
	b := deadline.New(now, 10*time.Second)

	d, whole := b.Attempt(now, 6*time.Second)
	fmt.Println("the first attempt may take", d, whole)

	now = now.Add(6 * time.Second) // it took all of it
	fmt.Println("a wait of 1s and an attempt of 2s:", b.Affords(now, time.Second, 2*time.Second))
	fmt.Println("a wait of 5s:", b.Affords(now, 5*time.Second, 0))

	now = now.Add(time.Second)
	d, whole = b.Attempt(now, 6*time.Second)
	fmt.Println("the second attempt may take", d, whole)
	// Output:
	// the first attempt may take 6s true
	// a wait of 1s and an attempt of 2s: true
	// a wait of 5s: false
	// the second attempt may take 3s false
}

const (
	endless = time.Duration(math.MaxInt64)
	least   = time.Duration(math.MinInt64)
)

func TestRemaining(t *testing.T) {
	now := time.Now()
	for name, c := range map[string]struct {
		total, spent, want time.Duration
	}{
		"at the beginning":       {time.Minute, 0, time.Minute},
		"later":                  {time.Minute, 20 * time.Second, 40 * time.Second},
		"at the end":             {time.Minute, time.Minute, 0},
		"after it":               {time.Minute, time.Hour, 0},
		"long after it":          {time.Minute, endless, 0},
		"a clock stepped back":   {time.Minute, -time.Hour, time.Minute},
		"and as far as it can":   {time.Minute, least, time.Minute},
		"no time":                {0, 0, 0},
		"less than none":         {-1, 0, 0},
		"as little as can be":    {least, 0, 0},
		"and stepped back":       {least, least, 0},
		"endless":                {endless, 0, endless},
		"endless, later":         {endless, time.Hour, endless - time.Hour},
		"endless, stepped back":  {endless, least, endless},
		"endless, and so is now": {endless, endless, 0},
	} {
		t.Run(name, func(t *testing.T) {
			b := deadline.New(now, c.total)
			if got := b.Remaining(now.Add(c.spent)); got != c.want {
				t.Errorf("%v remain, want %v", got, c.want)
			}
			if got := b.Over(now.Add(c.spent)); got != (c.want == 0) {
				t.Errorf("over: %v", got)
			}
		})
	}
}

func TestZeroValueIsSpent(t *testing.T) {
	var b deadline.Budget
	if !b.Over(time.Now()) || !b.Over(time.Time{}) || b.Affords(time.Now(), 0, 0) {
		t.Error("a budget that nobody gave has time left")
	}
}

func TestAttempt(t *testing.T) {
	now := time.Now()
	b := deadline.New(now, 10*time.Second)
	for _, c := range []struct {
		spent, limit, want time.Duration
		whole              bool
	}{
		{0, 6 * time.Second, 6 * time.Second, true},
		{0, 10 * time.Second, 10 * time.Second, true},
		{0, 10*time.Second + 1, 10 * time.Second, false},
		{5 * time.Second, 6 * time.Second, 5 * time.Second, false},
		{10 * time.Second, 6 * time.Second, 0, false},
		{time.Hour, 1, 0, false},
		{0, 0, 10 * time.Second, false},
		{0, -1, 10 * time.Second, false},
		{0, least, 10 * time.Second, false},
		{0, endless, 10 * time.Second, false},
	} {
		if d, whole := b.Attempt(now.Add(c.spent), c.limit); d != c.want || whole != c.whole {
			t.Errorf("after %v an attempt of %v may take %v (whole: %v), want %v (%v)", c.spent, c.limit, d, whole, c.want, c.whole)
		}
	}
}

func TestAffords(t *testing.T) {
	now := time.Now()
	b := deadline.New(now, 10*time.Second)
	for _, c := range []struct {
		wait, least time.Duration
		want        bool
	}{
		{0, 0, true}, {9 * time.Second, time.Second, true}, {9 * time.Second, time.Second + 1, false},
		{10 * time.Second, 0, false}, {10*time.Second - 1, 0, true}, {10*time.Second - 1, 2, false},
		{endless, 0, false}, {0, endless, false}, {endless, endless, false},
		{-time.Hour, 10 * time.Second, true}, {-time.Hour, 10*time.Second + 1, false}, {least, least, true},
		{0, -endless, true}, {10 * time.Second, least, false}, {endless, least, false},
	} {
		if got := b.Affords(now, c.wait, c.least); got != c.want {
			t.Errorf("affords a wait of %v before %v: %v", c.wait, c.least, got)
		}
	}
}

func TestWithin(t *testing.T) {
	now := time.Now()
	for _, c := range []struct{ total, within, want time.Duration }{
		{time.Minute, time.Second, time.Second}, {time.Minute, time.Hour, time.Minute},
		{time.Minute, 0, 0}, {time.Minute, least, 0}, {endless, time.Minute, time.Minute}, {0, time.Minute, 0},
	} {
		b := deadline.New(now, c.total).Within(c.within)
		if b.Total() != c.want || b.Remaining(now) != c.want || !b.End().Equal(now.Add(c.want)) {
			t.Errorf("%v within %v is %v until %v", c.total, c.within, b.Total(), b.End())
		}
	}
}

// However an operation goes about its budget, what it was granted adds up to no more than the budget.
func TestSpendingNeverExceedsTheBudget(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for seed := range uint64(500) {
			r := rand.New(rand.NewPCG(seed, 8))
			began, total := time.Now(), time.Duration(r.Int64N(int64(time.Minute)))
			b := deadline.New(began, total)
			for !b.Over(time.Now()) {
				if wait := time.Duration(r.Int64N(int64(20 * time.Second))); b.Affords(time.Now(), wait, time.Millisecond) {
					time.Sleep(wait)
				}
				d, _ := b.Attempt(time.Now(), time.Duration(1+r.Int64N(int64(20*time.Second))))
				if d <= 0 {
					t.Fatalf("seed %d: an attempt of %v before the end", seed, d)
				}
				time.Sleep(d)
			}
			if spent := time.Since(began); spent != total {
				t.Fatalf("seed %d: %v spent of %v", seed, spent, total)
			}
		}
	})
}

func FuzzBudget(f *testing.F) {
	f.Add(int64(time.Minute), int64(time.Second), int64(time.Second), int64(time.Second))
	f.Add(int64(endless), int64(least), int64(endless), int64(endless))
	f.Add(int64(least), int64(endless), int64(least), int64(least))
	f.Fuzz(func(t *testing.T, total, spent, limit, need int64) {
		began := time.Now()
		b, now := deadline.New(began, time.Duration(total)), began.Add(time.Duration(spent))
		left := b.Remaining(now)
		if left < 0 || left > max(0, time.Duration(total)) {
			t.Fatalf("%v remain", left)
		}
		d, whole := b.Attempt(now, time.Duration(limit))
		if d < 0 || d > left || whole && d != time.Duration(limit) || !whole && d != left {
			t.Fatalf("an attempt of %v (whole: %v) with %v left", d, whole, left)
		}
		if b.Affords(now, time.Duration(limit), time.Duration(need)) && (left == 0 || time.Duration(limit) >= left || time.Duration(need) > left) {
			t.Fatalf("%v afford a wait of %v before %v", left, time.Duration(limit), time.Duration(need))
		}
	})
}
