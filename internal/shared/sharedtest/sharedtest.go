// Package sharedtest holds drivers of shared state to their contract.
package sharedtest

import (
	"bytes"
	"context"
	"errors"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/holdfast-ai/holdfast/internal/shared"
)

// Store is one real store, empty at first.
type Store struct {
	// Open connects to it, for an environment.
	Open func(t *testing.T, env string) shared.Driver
	// Freeze has it answer nothing, with its connections standing, until thaw is called.
	Freeze func(t *testing.T) (thaw func())
}

// Run holds a store to the contract of shared.Driver.
func Run(t *testing.T, s Store) {
	for _, c := range []struct {
		name string
		test func(t *testing.T, s Store)
	}{
		{"SwapComparesVersions", swapCompares}, {"SwapIsOneStep", swapIsOneStep}, {"VersionsNeverComeTwice", versionsOnce},
		{"ChangedTellsWhatIsNew", changedTells}, {"EnvironmentsNeverMeet", environments}, {"LeasesStayWithinTheLimit", leaseLimit},
		{"WhatIsInUseIsHeld", leaseHeld}, {"LateClaimsAreStale", leaseStale}, {"LeasesRunOut", leaseExpires}, {"WantsAreTold", leaseWanted},
		{"LowUrgencyHasItsOwnLimit", leaseBatch}, {"LeasesAreOneStep", leaseIsOneStep}, {"SumsStayWithinTheLimit", spendLimit},
		{"SumsAreRaisedToTheFloor", spendFloor}, {"SumsAreOneStep", spendIsOneStep}, {"NobodyWaitsForAFrozenStore", frozen},
	} {
		t.Run(c.name, func(t *testing.T) { c.test(t, s) })
	}
}

// env is an environment of a test's own.
func (s Store) open(t *testing.T) shared.Driver { return s.Open(t, t.Name()) }

func must[T any](t *testing.T) func(v T, err error) T {
	return func(v T, err error) T {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
}

func swap(t *testing.T, d shared.Driver, version uint64, value string, ttl time.Duration) (shared.Register, bool) {
	t.Helper()
	r, ok, err := d.Swap(t.Context(), shared.Register{Key: "k", Version: version, Value: []byte(value)}, ttl)
	if err != nil {
		t.Fatal(err)
	}
	return r, ok
}

func swapCompares(t *testing.T, s Store) {
	a, b := s.open(t), s.open(t)
	first, ok := swap(t, a, 0, "one", time.Hour)
	if !ok || first.Version == 0 || string(first.Value) != "one" || first.Key != "k" {
		t.Fatalf("a new register: %v, %v", first, ok)
	}
	if now, ok := swap(t, b, 0, "two", time.Hour); ok || now.Version != first.Version || string(now.Value) != "one" {
		t.Fatalf("a second one wrote over it: %v, %v", now, ok)
	}
	second, ok := swap(t, b, first.Version, "two", 0)
	if !ok || second.Version <= first.Version {
		t.Fatalf("the next version: %v, %v", second, ok)
	}
	if now, ok := swap(t, a, first.Version, "three", 0); ok || now.Version != second.Version || string(now.Value) != "two" {
		t.Fatalf("an old version wrote: %v, %v", now, ok)
	}
	binary := []byte{0, 255, '\n', 0}
	if r, ok := swap(t, a, second.Version, string(binary), 0); !ok || !bytes.Equal(r.Value, binary) {
		t.Fatalf("%q, %v", r.Value, ok)
	}
}

// swapIsOneStep counts up from several connections at once: none is lost.
func swapIsOneStep(t *testing.T, s Store) {
	const workers, each = 6, 20
	var all sync.WaitGroup
	for range workers {
		d := s.open(t)
		all.Go(func() {
			at := shared.Register{Key: "k"}
			for done := 0; done < each; {
				n, _ := strconv.Atoi(string(at.Value)) // empty: 0
				now, ok, err := d.Swap(t.Context(), shared.Register{Key: "k", Version: at.Version, Value: []byte(strconv.Itoa(n + 1))}, time.Hour)
				if err != nil {
					t.Error(err)
					return
				}
				if at = now; ok {
					done++
				}
			}
		})
	}
	all.Wait()
	if now, _ := swap(t, s.open(t), 0, "", 0); string(now.Value) != strconv.Itoa(workers*each) {
		t.Errorf("%s of %d steps were counted", now.Value, workers*each)
	}
}

func versionsOnce(t *testing.T, s Store) {
	d := s.open(t)
	first, _ := swap(t, d, 0, "one", time.Millisecond)
	for {
		now, ok := swap(t, d, 0, "two", time.Hour) // once the first has expired
		if ok && now.Version <= first.Version {
			t.Fatalf("version %d behind %d", now.Version, first.Version)
		}
		if ok {
			break
		}
	}
	if _, ok := swap(t, d, first.Version, "late", time.Hour); ok {
		t.Error("a version of before the expiry wrote")
	}
}

func changedTells(t *testing.T, s Store) {
	a, b := s.open(t), s.open(t)
	none, before, err := b.Changed(t.Context(), time.Time{})
	if err != nil || len(none) != 0 || before.IsZero() {
		t.Fatalf("%v, %v, %v", none, before, err)
	}
	put, _ := swap(t, a, 0, "one", time.Hour)
	for _, since := range []time.Time{{}, before} {
		got, now, err := b.Changed(t.Context(), since)
		if err != nil || len(got) != 1 || got[0].Key != "k" || got[0].Version != put.Version || string(got[0].Value) != "one" || now.Before(before) {
			t.Errorf("since %v: %v, %v, %v", since, got, now, err)
		}
	}
	if got, _, err := b.Changed(t.Context(), before.Add(time.Hour)); err != nil || len(got) != 0 {
		t.Errorf("of later: %v, %v", got, err)
	}
}

func environments(t *testing.T, s Store) {
	a, b := s.Open(t, "one:{x}"), s.Open(t, "two")
	swap(t, a, 0, "one", time.Hour)
	if got, _, err := b.Changed(t.Context(), time.Time{}); err != nil || len(got) != 0 {
		t.Errorf("%v, %v", got, err)
	}
	lease(t, a, "h1", 1, shared.Claim{Want: slots(5)})
	if g := lease(t, b, "h2", 1, shared.Claim{Want: slots(5)}); g.All != 5 || g.Holders != 1 {
		t.Errorf("%+v", g)
	}
}

func slots(n int) shared.Slots { return shared.Slots{All: n, Batch: n} }

// lease claims with a limit of 5 where the claim says none, for an hour.
func lease(t *testing.T, d shared.Driver, holder string, seq uint64, c shared.Claim) shared.Grant {
	t.Helper()
	if c.Limit == (shared.Slots{}) {
		c.Limit = slots(5)
	}
	if c.TTL == 0 {
		c.TTL = time.Hour
	}
	if c.UnmetTTL == 0 {
		c.UnmetTTL = time.Hour
	}
	c.Seq = seq
	return must[shared.Grant](t)(d.Lease(t.Context(), "slots/k", holder, c))
}

func leaseLimit(t *testing.T, s Store) {
	a, b := s.open(t), s.open(t)
	if g := lease(t, a, "a", 1, shared.Claim{Want: slots(3)}); g.All != 3 || g.Batch != 3 {
		t.Fatalf("%+v", g)
	}
	if g := lease(t, b, "b", 1, shared.Claim{Want: slots(4)}); g.All != 2 || g.Holders != 2 {
		t.Fatalf("what is left: %+v", g)
	}
	if g := lease(t, a, "a", 2, shared.Claim{Hold: slots(3), Want: slots(1)}); g.All != 3 {
		t.Fatalf("with none left: %+v", g)
	}
	if g := lease(t, a, "a", 3, shared.Claim{Hold: slots(1)}); g.All != 1 {
		t.Fatalf("two given back: %+v", g)
	}
	if g := lease(t, b, "b", 2, shared.Claim{Hold: slots(2), Want: slots(9)}); g.All != 4 {
		t.Fatalf("%+v", g)
	}
}

func leaseHeld(t *testing.T, s Store) {
	d := s.open(t)
	lease(t, d, "a", 1, shared.Claim{Want: slots(5)})
	if g := lease(t, d, "b", 1, shared.Claim{Hold: slots(3), Want: slots(1)}); g.All != 3 {
		t.Fatalf("what is in use cannot be refused, and nothing be given beside it: %+v", g)
	}
	if g := lease(t, d, "c", 1, shared.Claim{Want: slots(1)}); g.All != 0 {
		t.Fatalf("%+v", g)
	}
}

func leaseStale(t *testing.T, s Store) {
	d := s.open(t)
	lease(t, d, "a", 7, shared.Claim{Want: slots(5)})
	for _, seq := range []uint64{7, 6} {
		c := shared.Claim{Seq: seq, Limit: slots(5), TTL: time.Hour}
		if _, err := d.Lease(t.Context(), "slots/k", "a", c); !errors.Is(err, shared.ErrStale) {
			t.Errorf("claim %d behind claim 7: %v", seq, err)
		}
	}
	if g := lease(t, d, "b", 1, shared.Claim{Want: slots(1)}); g.All != 0 {
		t.Errorf("a late claim gave slots back that are in use: %+v", g)
	}
}

func leaseExpires(t *testing.T, s Store) {
	d := s.open(t)
	lease(t, d, "dead", 1, shared.Claim{Want: slots(5), TTL: time.Millisecond})
	for seq := uint64(1); lease(t, d, "b", seq, shared.Claim{Want: slots(5)}).All != 5; seq++ {
	}
}

func leaseWanted(t *testing.T, s Store) {
	d := s.open(t)
	if g := lease(t, d, "a", 1, shared.Claim{Want: slots(5)}); g.Wanted || g.Holders != 1 {
		t.Fatalf("%+v", g)
	}
	if g := lease(t, d, "b", 1, shared.Claim{Want: slots(1)}); g.Wanted || g.Holders != 2 {
		t.Fatalf("its own want: %+v", g)
	}
	if g := lease(t, d, "a", 2, shared.Claim{Hold: slots(5)}); !g.Wanted || g.Holders != 2 {
		t.Fatalf("another one waits: %+v", g)
	}
	lease(t, d, "b", 2, shared.Claim{})
	if g := lease(t, d, "a", 3, shared.Claim{Hold: slots(5)}); g.Wanted || g.Holders != 1 {
		t.Fatalf("nobody waits any more: %+v", g)
	}
}

func leaseBatch(t *testing.T, s Store) {
	d := s.open(t)
	limit := shared.Slots{All: 5, Batch: 3}
	if g := lease(t, d, "a", 1, shared.Claim{Want: slots(2), Limit: limit}); g.All != 2 || g.Batch != 2 {
		t.Fatalf("%+v", g)
	}
	if g := lease(t, d, "b", 1, shared.Claim{Want: slots(2), Limit: limit}); g.All != 2 || g.Batch != 1 {
		t.Fatalf("%+v", g)
	}
}

// leaseIsOneStep has several holders take what they can: together they have the limit, and never more.
func leaseIsOneStep(t *testing.T, s Store) {
	var mu sync.Mutex
	var all sync.WaitGroup
	sum := 0
	for i := range 8 {
		d := s.open(t)
		all.Go(func() {
			g, err := d.Lease(t.Context(), "slots/k", strconv.Itoa(i), shared.Claim{Seq: 1, Want: slots(3), Limit: slots(10), TTL: time.Hour, UnmetTTL: time.Second})
			if err != nil {
				t.Error(err)
			}
			mu.Lock()
			defer mu.Unlock()
			sum += g.All
		})
	}
	all.Wait()
	if sum != 10 {
		t.Errorf("%d slots of 10 are out", sum)
	}
}

func spent(t *testing.T, d shared.Driver, sp shared.Spending) (int64, bool) {
	t.Helper()
	sp.TTL = time.Hour
	total, ok, err := d.Spend(t.Context(), "spend/k", sp)
	if err != nil {
		t.Fatal(err)
	}
	return total, ok
}

func spendLimit(t *testing.T, s Store) {
	a, b := s.open(t), s.open(t)
	const big = 1_000_000_000_001
	for _, c := range []struct {
		name   string
		d      shared.Driver
		sp     shared.Spending
		total  int64
		passes bool
	}{
		{"within", a, shared.Spending{Amount: big, Limit: 2*big + 1}, big, true},
		{"to the limit", b, shared.Spending{Amount: big + 1, Limit: 2*big + 1}, 2*big + 1, true},
		{"past it", a, shared.Spending{Amount: 1, Limit: 2*big + 1}, 2*big + 1, false},
		{"given back", b, shared.Spending{Amount: -big}, big + 1, true},
		{"without limit", a, shared.Spending{Amount: big}, 2*big + 1, true},
		{"never below nothing", a, shared.Spending{Amount: -9 * big}, 0, true},
	} {
		if total, ok := spent(t, c.d, c.sp); total != c.total || ok != c.passes {
			t.Errorf("%s: %d, %v", c.name, total, ok)
		}
	}
}

func spendFloor(t *testing.T, s Store) {
	d := s.open(t)
	if total, ok := spent(t, d, shared.Spending{Amount: 10, Floor: 95, Limit: 100}); total != 95 || ok {
		t.Errorf("what was lost is known again, and bounds: %d, %v", total, ok)
	}
	if total, ok := spent(t, d, shared.Spending{Amount: 5, Floor: 3, Limit: 100}); total != 100 || !ok {
		t.Errorf("a floor below the sum: %d, %v", total, ok)
	}
}

func spendIsOneStep(t *testing.T, s Store) {
	var all sync.WaitGroup
	var mu sync.Mutex
	passed := 0
	for range 8 {
		d := s.open(t)
		all.Go(func() {
			for range 10 {
				_, ok, err := d.Spend(t.Context(), "spend/k", shared.Spending{Amount: 3, Limit: 100, TTL: time.Hour})
				if err != nil {
					t.Error(err)
					return
				}
				if ok {
					mu.Lock()
					passed++
					mu.Unlock()
				}
			}
		})
	}
	all.Wait()
	if passed != 33 {
		t.Errorf("%d of 33 passed", passed)
	}
}

// frozen shows that a call ends with its context, and that the store is of use again afterwards.
func frozen(t *testing.T, s Store) {
	d := s.open(t)
	at, _ := swap(t, d, 0, "one", time.Hour)
	thaw := s.Freeze(t)
	for name, call := range map[string]func(ctx context.Context) error{
		"Changed": func(ctx context.Context) error { _, _, err := d.Changed(ctx, time.Time{}); return err },
		"Swap": func(ctx context.Context) error {
			_, _, err := d.Swap(ctx, shared.Register{Key: "k", Version: at.Version, Value: []byte("two")}, 0)
			return err
		},
		"Lease": func(ctx context.Context) error {
			_, err := d.Lease(ctx, "slots/k", "a", shared.Claim{Seq: 1, Want: slots(1), Limit: slots(1), TTL: time.Hour})
			return err
		},
		"Spend": func(ctx context.Context) error {
			_, _, err := d.Spend(ctx, "spend/k", shared.Spending{Amount: 1, TTL: time.Hour})
			return err
		},
	} {
		ctx, stop := context.WithTimeout(t.Context(), 20*time.Millisecond)
		if err := call(ctx); err == nil {
			t.Errorf("%s: a frozen store answered", name)
		}
		stop()
	}
	thaw()
	for {
		ctx, stop := context.WithTimeout(t.Context(), time.Second)
		_, _, err := d.Changed(ctx, time.Time{})
		stop()
		if err == nil {
			return
		}
		if t.Context().Err() != nil {
			t.Fatal(err)
		}
	}
}
