package retry_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/holdfast-ai/holdfast/retry"
)

// lowest and highest are the ends of what a source of chance can say.
func lowest(int64) int64    { return 0 }
func highest(n int64) int64 { return n - 1 }

func ExamplePolicy_Delay() {
	p := retry.Policy{Base: 500 * time.Millisecond, Max: 8 * time.Second}
	half := func(n int64) int64 { return n / 2 } // in production nil: real chance
	for failed := 1; failed <= 6; failed++ {
		fmt.Println(p.Delay(failed, 0, half))
	}
	fmt.Println(p.Delay(1, 3*time.Second, half)) // after Retry-After: 3
	// Output:
	// 250ms
	// 500ms
	// 1s
	// 2s
	// 4s
	// 4s
	// 3.25s
}

func TestDelay(t *testing.T) {
	const s, ms = time.Second, time.Millisecond
	p := retry.Policy{MaxAttempts: 3, Base: 500 * ms, Max: 8 * s}
	for name, c := range map[string]struct {
		p           retry.Policy
		failed      int
		floor       time.Duration
		least, most time.Duration
	}{
		"first":                         {p, 1, 0, 0, 500 * ms},
		"second":                        {p, 2, 0, 0, s},
		"third":                         {p, 3, 0, 0, 2 * s},
		"at the limit":                  {p, 5, 0, 0, 8 * s},
		"beyond it":                     {p, 6, 0, 0, 8 * s},
		"none failed":                   {p, 0, 0, 0, 500 * ms},
		"fewer than none":               {p, math.MinInt, 0, 0, 500 * ms},
		"64 failures":                   {p, 64, 0, 0, 8 * s},
		"65 failures":                   {p, 65, 0, 0, 8 * s},
		"endless failures":              {p, math.MaxInt, 0, 0, 8 * s},
		"defaults":                      {retry.Policy{}, 2, 0, 0, s},
		"default limit":                 {retry.Policy{}, 50, 0, 0, 8 * s},
		"negative fields":               {retry.Policy{MaxAttempts: -1, Base: -s, Max: math.MinInt64}, 9, 0, 0, 8 * s},
		"base above the limit":          {retry.Policy{Base: 9 * s, Max: s}, 1, 0, 0, s},
		"endless limit":                 {retry.Policy{Base: s, Max: math.MaxInt64}, 99, 0, 0, retry.Longest},
		"endless base":                  {retry.Policy{Base: math.MaxInt64, Max: math.MaxInt64}, 2, 0, 0, retry.Longest},
		"smallest base":                 {retry.Policy{Base: 1, Max: math.MaxInt64}, 63, 0, 0, retry.Longest},
		"Retry-After":                   {p, 1, 3 * s, 3 * s, 3*s + 500*ms},
		"Retry-After inside the window": {p, 5, s, s, 8 * s},
		"Retry-After of a moment":       {p, 1, 1, 1, 500*ms + 1},
		"Retry-After of the window":     {p, 5, 8 * s, 8 * s, 8*s + 500*ms},
		"Retry-After: 0":                {p, 1, 0, 0, 500 * ms},
		"Retry-After: -1":               {p, 1, -s, 0, 500 * ms},
		"smallest Retry-After":          {p, 1, math.MinInt64, 0, 500 * ms},
		"Retry-After of an hour":        {p, 1, time.Hour, time.Hour, time.Hour + 500*ms},
		"Retry-After of a year":         {p, 1, 8760 * time.Hour, retry.Longest, retry.Longest + 500*ms},
		"largest Retry-After":           {p, 1, math.MaxInt64, retry.Longest, retry.Longest + 500*ms},
		"everything hostile":            {retry.Policy{Base: math.MaxInt64, Max: math.MaxInt64}, math.MaxInt, math.MaxInt64, retry.Longest, 2 * retry.Longest},
	} {
		t.Run(name, func(t *testing.T) {
			low, high := c.p.Delay(c.failed, c.floor, lowest), c.p.Delay(c.failed, c.floor, highest)
			if low != c.least || high != c.most {
				t.Errorf("from %v to %v, want %v to %v", low, high, c.least, c.most)
			}
			for range 1000 {
				if d := c.p.Delay(c.failed, c.floor, nil); d < c.least || d > c.most {
					t.Fatalf("delay %v is not in [%v, %v]", d, c.least, c.most)
				}
			}
		})
	}
}

// A floor is what the far side asked for: nobody is there a nanosecond earlier, whatever chance says.
func TestFloorHolds(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for range 20_000 {
		p := retry.Policy{Base: time.Duration(r.Int64N(1 << r.IntN(50))), Max: time.Duration(r.Int64N(1 << r.IntN(50)))}
		failed, floor := r.IntN(80), time.Duration(r.Int64N(int64(retry.Longest)))
		if d := p.Delay(failed, floor, r.Int64N); d < floor {
			t.Fatalf("%+v after %d failures waits %v although %v was asked for", p, failed, d, floor)
		}
	}
}

// The spread is what full jitter is for: each tenth of the window gets its share of a herd.
func TestSpread(t *testing.T) {
	const herd = 20_000
	p := retry.Policy{Base: time.Second, Max: 8 * time.Second}
	for name, c := range map[string]struct {
		failed        int
		floor         time.Duration
		start, window time.Duration
	}{
		"without a floor":            {3, 0, 0, 4 * time.Second},
		"told the same second":       {1, 30 * time.Second, 30 * time.Second, time.Second},
		"told an impossible while":   {1, math.MaxInt64, retry.Longest, time.Second},
		"told less than the backoff": {5, 2 * time.Second, 2 * time.Second, 6 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			r := rand.New(rand.NewPCG(3, 4))
			var tenths [10]int
			for range herd {
				d := p.Delay(c.failed, c.floor, r.Int64N) - c.start
				tenths[min(9, max(0, d*10/c.window))]++
			}
			if slices.Min(tenths[:]) < herd/10*8/10 || slices.Max(tenths[:]) > herd/10*12/10 {
				t.Errorf("a herd of %d comes back as %v", herd, tenths)
			}
		})
	}
}

func TestMore(t *testing.T) {
	for _, c := range []struct {
		most, made int
		want       bool
	}{{0, 2, true}, {0, 3, false}, {1, 0, true}, {1, 1, false}, {-4, 2, true}, {5, 4, true}, {5, 5, false}, {math.MaxInt, math.MaxInt - 1, true}, {3, math.MaxInt, false}} {
		if got := (retry.Policy{MaxAttempts: c.most}).More(c.made); got != c.want {
			t.Errorf("of %d attempts %d were made: more is %v", c.most, c.made, got)
		}
	}
}

func FuzzDelay(f *testing.F) {
	f.Add(3, int64(500e6), int64(8e9), int64(3e9))
	f.Add(math.MaxInt, int64(math.MaxInt64), int64(math.MaxInt64), int64(math.MaxInt64))
	f.Add(math.MinInt, int64(math.MinInt64), int64(math.MinInt64), int64(math.MinInt64))
	f.Add(64, int64(1), int64(math.MaxInt64), int64(0))
	f.Fuzz(func(t *testing.T, failed int, base, most, floor int64) {
		p := retry.Policy{Base: time.Duration(base), Max: time.Duration(most)}
		for _, random := range []func(int64) int64{nil, lowest, highest} {
			d := p.Delay(failed, time.Duration(floor), random)
			if d < 0 || d > 2*retry.Longest || d < min(time.Duration(floor), retry.Longest) {
				t.Errorf("%+v: %v after %d failures and a floor of %v", p, d, failed, time.Duration(floor))
			}
		}
	})
}
