package bulkhead_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/holdfast-ai/holdfast/bulkhead"
)

func ExampleGroup() {
	owners := bulkhead.NewGroup(10_000)
	one := bulkhead.Config{Max: 1}

	first := owners.Get("owner a", one)
	fmt.Println("first of a:", first.Try(bulkhead.Interactive))
	second := owners.Get("owner a", one)
	fmt.Println("second of a:", second.Try(bulkhead.Interactive))
	owners.Put(second)
	other := owners.Get("owner b", one)
	fmt.Println("first of b:", other.Try(bulkhead.Interactive))

	first.Release(bulkhead.Interactive)
	owners.Put(first)
	other.Release(bulkhead.Interactive)
	owners.Put(other)
	// Output:
	// first of a: true
	// second of a: false
	// first of b: true
}

func TestGroupSharesByKey(t *testing.T) {
	g := bulkhead.NewGroup(0)
	a, again, b := g.Get("a", bulkhead.Config{Max: 1}), g.Get("a", bulkhead.Config{Max: 1}), g.Get("b", bulkhead.Config{Max: 1})
	if a != again || a == b {
		t.Error("a key is one semaphore, another key another one")
	}
	g.Put(a)
	g.Put(again)
	if g.Get("a", bulkhead.Config{Max: 1}) != a {
		t.Error("an idle semaphore was forgotten although there is room")
	}
	if g.Len() != 2 {
		t.Errorf("%d semaphores", g.Len())
	}
}

// What adaptive concurrency has lowered stays lowered until the policy says something new.
func TestGroupConfigures(t *testing.T) {
	g := bulkhead.NewGroup(0)
	s := g.Get("a", bulkhead.Config{Max: 30})
	s.Resize(7)
	g.Put(s)
	look(t, g.Get("a", bulkhead.Config{Max: 30}), 7, 0, 0, 0)
	look(t, g.Get("a", bulkhead.Config{Max: 20}), 20, 0, 0, 0)
	look(t, s, 20, 0, 0, 0)
}

func TestGroupForgetsTheLongestIdle(t *testing.T) {
	g := bulkhead.NewGroup(3)
	cfg := bulkhead.Config{Max: 1}
	a, b, c := g.Get("a", cfg), g.Get("b", cfg), g.Get("c", cfg)
	b.Try(interactive) // in use, and no longer held: as a call that ends after its policy
	g.Put(b)
	g.Put(c)
	g.Put(a)
	d := g.Get("d", cfg)
	if g.Len() != 3 || !d.Try(interactive) {
		t.Errorf("%d semaphores", g.Len())
	}
	if g.Get("b", cfg) != b || g.Get("a", cfg) != a {
		t.Error("forgot one in use, or not the longest idle")
	}
	var seen []string
	g.Each(func(key string, s *bulkhead.Semaphore) { seen = append(seen, key) })
	if len(seen) != 3 {
		t.Errorf("a report of %v", seen)
	}
	b.Release(interactive)
}

func TestGroupReportsWhatIsBusy(t *testing.T) {
	g := bulkhead.NewGroup(0)
	cfg := bulkhead.Config{Max: 2}
	held, used, idle := g.Get("held", cfg), g.Get("used", cfg), g.Get("idle", cfg)
	used.Try(batch)
	g.Put(used)
	g.Put(idle)
	seen := map[string]int{}
	g.Each(func(key string, s *bulkhead.Semaphore) {
		_, seen[key], _, _ = s.Snapshot()
		g.Put(g.Get(key, cfg)) // the group holds no lock meanwhile
	})
	if want := map[string]int{"held": 0, "used": 1}; fmt.Sprint(seen) != fmt.Sprint(want) {
		t.Errorf("a report of %v, want %v", seen, want)
	}
	g.Put(held)
}

// Who can invent keys meets a full bulkhead, and grows nothing.
func TestGroupIsBounded(t *testing.T) {
	g := bulkhead.NewGroup(100)
	cfg := bulkhead.Config{Max: 1}
	for i := range 1000 {
		s := g.Get(strconv.Itoa(i), cfg)
		if got := s.Try(interactive); got != (i < 100) {
			t.Fatalf("key %d: admitted is %v", i, got)
		}
		if i >= 100 {
			if err := s.Acquire(t.Context(), interactive, high); !errors.Is(err, bulkhead.ErrCrowded) {
				t.Fatalf("key %d: %v", i, err)
			}
			g.Put(s)
		}
	}
	if g.Len() != 100 {
		t.Errorf("%d semaphores", g.Len())
	}
	idle := bulkhead.NewGroup(100)
	for i := range 100_000 {
		s := idle.Get(strconv.Itoa(i), cfg)
		if !s.Try(interactive) {
			t.Fatalf("key %d: an idle group is full", i)
		}
		s.Release(interactive)
		idle.Put(s)
	}
	if idle.Len() != 100 {
		t.Errorf("%d semaphores", idle.Len())
	}
}

// Semaphores that are still in use are kept, however many nobody holds any more; and one that is idle is found behind
// them.
func TestGroupKeepsWhatIsInUse(t *testing.T) {
	const most = 40
	g := bulkhead.NewGroup(most)
	cfg := bulkhead.Config{Max: 1}
	var all []*bulkhead.Semaphore
	for i := range most {
		s := g.Get(strconv.Itoa(i), cfg)
		s.Try(interactive)
		g.Put(s)
		all = append(all, s)
	}
	if s := g.Get("further", cfg); s.Try(interactive) {
		t.Error("a further key was admitted")
	}
	all[most-1].Release(interactive)
	found := false
	for range most { // a look is bounded: it goes on where the one before has ended
		s := g.Get("further", cfg)
		found = found || s.Try(interactive)
		g.Put(s)
	}
	if !found {
		t.Error("the idle one was never found")
	}
	for i, s := range all[:most-1] {
		if g.Get(strconv.Itoa(i), cfg) != s {
			t.Errorf("%d was forgotten in use", i)
		}
	}
}

func TestPutTooMany(t *testing.T) {
	g := bulkhead.NewGroup(0)
	s := g.Get("a", bulkhead.Config{})
	g.Put(s)
	defer func() {
		if recover() == nil {
			t.Error("no panic")
		}
		_ = g.Len() // it holds no lock
	}()
	g.Put(s)
}

// While keys come and go, more of them than the group keeps, none is ever in use more often than it allows.
func TestGroupUnderChurn(t *testing.T) {
	const keys, callers, each, most = 12, 8, 2000, 2
	g := bulkhead.NewGroup(callers)
	var inUse [keys]atomic.Int64
	var admitted atomic.Int64
	var wg sync.WaitGroup
	for i := range uint64(callers) {
		wg.Go(func() {
			r := rand.New(rand.NewPCG(i, 12))
			for range each {
				k := r.IntN(keys)
				s := g.Get(strconv.Itoa(k), bulkhead.Config{Max: most})
				ctx, cancel := context.WithCancel(t.Context())
				if r.IntN(4) == 0 {
					cancel()
				}
				if s.Acquire(ctx, interactive, normal) == nil {
					if inUse[k].Add(1) > most {
						t.Error("more of a key in progress than it allows")
					}
					admitted.Add(1)
					inUse[k].Add(-1)
					s.Release(interactive)
				}
				cancel()
				g.Put(s)
			}
		})
	}
	wg.Wait()
	g.Each(func(key string, s *bulkhead.Semaphore) { t.Errorf("%s is still held or in use", key) })
	if g.Len() > callers || admitted.Load() < callers*each/2 {
		t.Errorf("%d semaphores, %d admitted", g.Len(), admitted.Load())
	}
}
