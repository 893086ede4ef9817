package spend_test

import (
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/holdfast-ai/holdfast/spend"
)

func ExampleBook() {
	b := spend.New(func() time.Time { return time.Date(2026, 11, 30, 18, 0, 0, 0, time.UTC) })
	limit := spend.USD(1)
	first, _ := b.Reserve("alice", limit, spend.USD(0.7))
	_, err := b.Reserve("alice", limit, spend.USD(0.7))
	fmt.Println(err)
	first.Settle(spend.USD(0.2))
	_, err = b.Reserve("alice", limit, spend.USD(0.7))
	fmt.Println(err, b.Spent("alice"))
	// Output:
	// $0.7000 of $1.0000 are spent or reserved today, and this takes about $0.7000
	// <nil> $0.9000
}

// Calls at once do not go past a limit together.
func TestReserveIsAtomic(t *testing.T) {
	b := spend.New(time.Now)
	var taken atomic.Int64
	var all sync.WaitGroup
	for range 100 {
		all.Go(func() {
			if _, err := b.Reserve("k", spend.USD(0.1), spend.USD(0.01)); err == nil {
				taken.Add(1)
			} else if !errors.Is(err, spend.ErrExceeded) {
				t.Error(err)
			}
		})
	}
	all.Wait()
	if taken.Load() != 10 {
		t.Errorf("%d of 10 fit", taken.Load())
	}
}

// An account is the sum of what is reserved, kept and settled, each once, whatever ends come after the first; and a day
// ends at midnight UTC, with what is settled later counting for the day of its reservation.
func TestAccounts(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		now := time.Date(2026, 11, 30, 0, 0, 0, 0, time.UTC)
		b := spend.New(func() time.Time { return now })
		type held struct {
			r      *spend.Reservation
			amount spend.Amount
			ended  bool
		}
		var open []*held
		var want spend.Amount
		amount := rapid.Custom(func(t *rapid.T) spend.Amount { return spend.Amount(rapid.Int64Range(0, 1000).Draw(t, "amount")) })
		for range rapid.IntRange(0, 60).Draw(t, "steps") {
			switch rapid.IntRange(0, 5).Draw(t, "step") {
			case 0, 1:
				limit, n := amount.Draw(t, "limit"), amount.Draw(t, "estimate")
				r, err := b.Reserve("k", limit, n)
				if fits := limit == 0 || want+n <= limit; fits != (err == nil) {
					t.Fatalf("%d of %d spent, %d more: %v", want, limit, n, err)
				}
				if err == nil {
					want += n
					open = append(open, &held{r: r, amount: n})
				}
			case 2:
				n := amount.Draw(t, "added")
				b.Add("k", n)
				want += n
			case 3:
				if rapid.IntRange(0, 9).Draw(t, "midnight") == 0 {
					now = now.Add(24 * time.Hour)
					want, open = 0, nil
				}
			default:
				if len(open) == 0 {
					continue
				}
				h := rapid.SampledFrom(open).Draw(t, "which")
				cost := amount.Draw(t, "cost")
				switch rapid.IntRange(0, 2).Draw(t, "end") {
				case 0:
					cost = 0
					h.r.Release()
				case 1:
					cost = h.amount
					h.r.Keep()
				default:
					if over := h.r.Settle(cost); over != max(0, cost-h.amount) {
						t.Fatalf("over by %d", over)
					}
				}
				if !h.ended {
					want += cost - h.amount
				}
				h.ended = true
			}
			if got := b.Spent("k"); got != want {
				t.Fatalf("%d spent, want %d", got, want)
			}
		}
	})
}

// What is found out not to have been spent is given back on its day, and never below nothing.
func TestRefund(t *testing.T) {
	now := time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)
	b := spend.New(func() time.Time { return now })
	b.Add("k", 100)
	b.Refund("k", 30, now.Add(-time.Hour))
	b.Refund("k", 1000, now.Add(-24*time.Hour))
	if got := b.Spent("k"); got != 70 {
		t.Errorf("%d", got)
	}
	b.Refund("k", 1000, now)
	if got := b.Spent("k"); got != 0 {
		t.Errorf("%d", got)
	}
}

// Owners without end share one account in the end, and its limit.
func TestAccountsAreBounded(t *testing.T) {
	b := spend.New(func() time.Time { return time.Unix(0, 0) })
	refused := 0
	for i := range 100_010 {
		if _, err := b.Reserve(fmt.Sprint(i), 5, 1); err != nil {
			refused++
		}
	}
	if refused != 5 {
		t.Errorf("%d refused, want those beyond the shared account's limit", refused)
	}
}

// Amounts are bounded whatever a price or a count says.
func TestAmounts(t *testing.T) {
	nan := 0.0
	nan /= nan
	for _, c := range []struct {
		v    float64
		want spend.Amount
	}{{0, 0}, {-1, 0}, {nan, 0}, {1e-9, 1}, {1.5e-9, 2}, {1, 1e9}, {1e300, 1 << 50}} {
		if got := spend.USD(c.v); got != c.want {
			t.Errorf("USD(%v) is %d, want %d", c.v, got, c.want)
		}
	}
	if got := (spend.Price{Input: 1.25, Output: 10}).Of(1000, -1); got != 1_250_000 {
		t.Errorf("%d", got)
	}
}

// What a log counts and what is counted already are the same money: an account is raised to it, once. What is reserved is in
// no log yet.
func TestAtLeast(t *testing.T) {
	now := time.Date(2026, 11, 30, 18, 0, 0, 0, time.UTC)
	b := spend.New(func() time.Time { return now })
	log := spend.New(func() time.Time { return now })
	b.Add("more", 9)
	b.Add("less", 3)
	open, err := b.Reserve("less", 0, 10)
	if err != nil {
		t.Fatal(err)
	}
	for _, key := range []string{"more", "less", "new"} {
		log.Add(key, 5)
	}
	counts := func(more, less, fresh spend.Amount) {
		t.Helper()
		if m, l, n := b.Spent("more"), b.Spent("less"), b.Spent("new"); m != more || l != less || n != fresh {
			t.Errorf("%d %d %d, want %d %d %d", m, l, n, more, less, fresh)
		}
	}
	for range 2 {
		b.AtLeast(log)
		counts(9, 15, 5)
	}
	open.Settle(1)
	log.Add("less", 1)
	b.AtLeast(log)
	counts(9, 6, 5)
	now = now.Add(6 * time.Hour)
	b.AtLeast(log)
	counts(0, 0, 0)
}
