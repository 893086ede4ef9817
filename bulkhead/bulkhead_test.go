package bulkhead_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-ai/holdfast/bulkhead"
)

const (
	interactive, batch = bulkhead.Interactive, bulkhead.Batch
	low, normal, high  = bulkhead.Low, bulkhead.Normal, bulkhead.High
)

func ExampleSemaphore() {
	chat, report := bulkhead.New(bulkhead.Config{Max: 30}), bulkhead.New(bulkhead.Config{Max: 3})
	admitted := 0
	for range 100 {
		if chat.Try(bulkhead.Interactive) {
			admitted++
		}
	}
	fmt.Println(admitted, "chats of 100")
	fmt.Println("report:", report.Try(bulkhead.Interactive))
	// Output:
	// 30 chats of 100
	// report: true
}

func ExampleSemaphore_Acquire() {
	s := bulkhead.New(bulkhead.Config{Max: 1})
	ctx, stop := context.WithTimeoutCause(context.Background(), time.Millisecond, errors.New("admission time is over"))
	defer stop()
	fmt.Println(s.Acquire(ctx, bulkhead.Interactive, bulkhead.Normal))

	err := s.Acquire(ctx, bulkhead.Interactive, bulkhead.Normal)
	fmt.Println(errors.Is(err, bulkhead.ErrFull))
	fmt.Println(err)

	s.Release(bulkhead.Interactive)
	// Output:
	// <nil>
	// true
	// bulkhead: full until the caller could wait no longer: admission time is over
}

// look fails the test unless the semaphore looks as said.
func look(t *testing.T, s *bulkhead.Semaphore, max, used, batch, waiting int) {
	t.Helper()
	if a, b, c, d := s.Snapshot(); a != max || b != used || c != batch || d != waiting {
		t.Errorf("max %d, used %d, batch %d, waiting %d; want %d, %d, %d, %d", a, b, c, d, max, used, batch, waiting)
	}
}

// 100 at once on 30 slots: 70 are rejected at once, and another bulkhead does not notice.
func TestHundredAtOnceOnThirty(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		chat, report := bulkhead.New(bulkhead.Config{Max: 30, Reserve: 0.2}), bulkhead.New(bulkhead.Config{Max: 3})
		began := time.Now()
		var admitted, rejected atomic.Int64
		var wg sync.WaitGroup
		for range 100 {
			wg.Go(func() {
				if !chat.Try(interactive) {
					rejected.Add(1)
					if time.Since(began) != 0 {
						t.Error("a rejection took time")
					}
					return
				}
				admitted.Add(1)
				time.Sleep(20 * time.Second)
				chat.Release(interactive)
			})
		}
		synctest.Wait()
		if admitted.Load() != 30 || rejected.Load() != 70 {
			t.Errorf("%d admitted, %d rejected", admitted.Load(), rejected.Load())
		}
		look(t, chat, 30, 30, 0, 0)
		look(t, report, 3, 0, 0, 0)
		for range 3 {
			if !report.Try(interactive) {
				t.Error("a report found its bulkhead taken by chats")
			}
		}
		wg.Wait()
		look(t, chat, 30, 0, 0, 0)
	})
}

func TestReserve(t *testing.T) {
	for name, c := range map[string]struct {
		max         int
		reserve     float64
		batch, then int // how many Batch gets, and Interactive after it
	}{
		"a fifth of thirty":        {30, 0.2, 24, 6},
		"a fifth of ten":           {10, 0.2, 8, 2},
		"rounded up":               {3, 0.2, 2, 1},
		"of two":                   {2, 0.2, 1, 1},
		"of a single slot nothing": {1, 0.2, 1, 0},
		"nearly all of it":         {4, 0.999, 1, 3},
		"all":                      {4, 1, 0, 4},
		"more than all":            {4, 7, 0, 4},
		"all of a single slot":     {1, 1, 0, 1},
		"nothing":                  {5, 0, 5, 0},
		"less than nothing":        {5, -1, 5, 0},
		"no number":                {5, math.NaN(), 5, 0},
		"a tenth without a rest":   {10, 0.3, 7, 3},
		"seven of a hundred":       {100, 0.07, 93, 7},
		"of nobody":                {-1, 0.2, 0, 0},
	} {
		t.Run(name, func(t *testing.T) {
			s := bulkhead.New(bulkhead.Config{Max: c.max, Reserve: c.reserve})
			for i, want := range []int{c.batch, c.then} {
				got := 0
				for s.Try([]bulkhead.Class{batch, interactive}[i]) {
					got++
				}
				if got != want {
					t.Errorf("class %d got %d slots, want %d", i, got, want)
				}
			}
			look(t, s, max(c.max, -1), c.batch+c.then, c.batch, 0)
		})
	}
}

func TestUnlimited(t *testing.T) {
	for _, most := range []int{0, bulkhead.Limit, math.MaxInt} {
		s := bulkhead.New(bulkhead.Config{Max: most, Reserve: 0.5})
		for range 100_000 {
			if !s.Try(batch) {
				t.Fatal("a bulkhead without limit is full")
			}
		}
		look(t, s, 0, 100_000, 100_000, 0)
	}
	if s := bulkhead.New(bulkhead.Config{Max: math.MinInt}); s.Try(interactive) {
		t.Error("a bulkhead that admits nobody did")
	}
}

func TestReleaseTooMany(t *testing.T) {
	for name, f := range map[string]func(*bulkhead.Semaphore){
		"of nothing":        func(s *bulkhead.Semaphore) { s.Release(interactive) },
		"of no batch":       func(s *bulkhead.Semaphore) { s.Release(batch) },
		"of the other kind": func(s *bulkhead.Semaphore) { s.Try(interactive); s.Release(batch) },
		"and the reverse":   func(s *bulkhead.Semaphore) { s.Try(batch); s.Release(interactive) },
		"twice":             func(s *bulkhead.Semaphore) { s.Try(batch); s.Release(batch); s.Release(batch) },
	} {
		t.Run(name, func(t *testing.T) {
			s := bulkhead.New(bulkhead.Config{Max: 2})
			defer func() {
				if recover() == nil {
					t.Error("no panic")
				}
				s.Resize(3) // it holds no lock
			}()
			f(s)
		})
	}
}

// caller is one that waits in a bubble.
type caller struct {
	name  string
	class bulkhead.Class
	prio  bulkhead.Priority
}

// The order of those who wait does not depend on the order in which they came, but for equals.
func TestOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := bulkhead.New(bulkhead.Config{Max: 1})
		s.Try(interactive)
		callers := []caller{
			{"batch low", batch, low}, {"batch high", batch, high}, {"low", interactive, low}, {"normal", interactive, normal},
			{"high", interactive, high}, {"high too", interactive, high}, {"normal too", interactive, normal},
			{"batch normal", batch, normal}, {"beyond high", interactive, 200}, {"beyond batch", 200, high},
		}
		var order []string
		for _, c := range callers {
			go func() {
				if err := s.Acquire(t.Context(), c.class, c.prio); err != nil {
					t.Error(err)
				}
				order = append(order, c.name) // one at a time: there is one slot
				time.Sleep(time.Second)
				s.Release(c.class)
			}()
			synctest.Wait()
		}
		look(t, s, 1, 1, 0, len(callers))
		if s.Try(interactive) {
			t.Error("one who came last was first")
		}
		s.Release(interactive)
		time.Sleep(time.Minute)
		synctest.Wait()
		want := "[high high too beyond high normal normal too low batch high beyond batch batch normal batch low]"
		if got := fmt.Sprint(order); got != want {
			t.Errorf("served %s, want %s", got, want)
		}
		look(t, s, 1, 0, 0, 0)
	})
}

// Batch that waits for its share is passed by Interactive, which finds a reserved slot free.
func TestBatchWaitsBesideReserve(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := bulkhead.New(bulkhead.Config{Max: 5, Reserve: 0.2})
		for range 4 {
			s.Try(batch)
		}
		done := make(chan error, 1)
		go func() { done <- s.Acquire(t.Context(), batch, high) }()
		synctest.Wait()
		look(t, s, 5, 4, 4, 1)
		if err := s.Acquire(t.Context(), interactive, low); err != nil {
			t.Error(err)
		}
		s.Release(interactive)
		synctest.Wait()
		look(t, s, 5, 4, 4, 1) // what is reserved is not for those who wait either
		s.Release(batch)
		if err := <-done; err != nil {
			t.Error(err)
		}
		look(t, s, 5, 4, 4, 0)
	})
}

func TestResize(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := bulkhead.New(bulkhead.Config{Max: 4})
		for range 4 {
			s.Try(interactive)
		}
		s.Resize(2)
		look(t, s, 2, 4, 0, 0)
		for range 2 { // calls beyond the new limit finish and let nobody in
			s.Release(interactive)
			if s.Try(interactive) {
				t.Error("admitted above the new limit")
			}
		}
		s.Release(interactive)
		if !s.Try(interactive) {
			t.Error("not admitted below the new limit")
		}
		var admitted atomic.Int64
		for range 5 {
			go func() {
				if s.Acquire(t.Context(), interactive, normal) == nil {
					admitted.Add(1)
				}
			}()
		}
		synctest.Wait()
		look(t, s, 2, 2, 0, 5)
		s.Resize(5)
		synctest.Wait()
		look(t, s, 5, 5, 0, 2)
		s.Resize(-1)
		look(t, s, -1, 5, 0, 2)
		s.Resize(0)
		synctest.Wait()
		look(t, s, 0, 7, 0, 0)
		if admitted.Load() != 5 {
			t.Errorf("%d of five were admitted", admitted.Load())
		}
	})
}

// A reloaded policy that reserves less lets Batch in that waits.
func TestConfigureWakes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := bulkhead.New(bulkhead.Config{Max: 4, Reserve: 1})
		done := make(chan error, 1)
		go func() { done <- s.Acquire(t.Context(), batch, low) }()
		synctest.Wait()
		look(t, s, 4, 0, 0, 1)
		s.Configure(bulkhead.Config{Max: 4, Reserve: 0.5})
		if err := <-done; err != nil {
			t.Error(err)
		}
		look(t, s, 4, 1, 1, 0)
	})
}

func TestEndOfWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := bulkhead.New(bulkhead.Config{Max: 1})
		s.Try(interactive)
		cause := errors.New("the client left")
		ctx, cancel := context.WithCancelCause(t.Context())
		time.AfterFunc(4*time.Second, func() { cancel(cause) })
		began := time.Now()
		err := s.Acquire(ctx, interactive, high)
		if !errors.Is(err, bulkhead.ErrFull) || !errors.Is(err, cause) || errors.Is(err, bulkhead.ErrCrowded) {
			t.Errorf("%v is not ErrFull with its cause", err)
		}
		if time.Since(began) != 4*time.Second {
			t.Errorf("waited %v", time.Since(began))
		}
		s.Release(interactive)
		if err := s.Acquire(ctx, interactive, high); !errors.Is(err, cause) { // a slot is free, and nobody is there for it
			t.Errorf("one who has left got %v", err)
		}
		look(t, s, 1, 0, 0, 0)
	})
}

func TestCrowd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := bulkhead.New(bulkhead.Config{Max: 1, Waiting: 2})
		s.Try(interactive)
		first, second, third := make(chan error, 1), make(chan error, 1), make(chan error, 1)
		go func() { first <- s.Acquire(t.Context(), batch, high) }()
		synctest.Wait()
		go func() { second <- s.Acquire(t.Context(), interactive, low) }()
		synctest.Wait()
		for _, c := range []caller{{"an equal", batch, high}, {"a lesser", batch, low}} {
			if err := s.Acquire(t.Context(), c.class, c.prio); !errors.Is(err, bulkhead.ErrCrowded) || !errors.Is(err, bulkhead.ErrFull) {
				t.Errorf("%s got %v", c.name, err)
			}
		}
		look(t, s, 1, 1, 0, 2)
		go func() { third <- s.Acquire(t.Context(), interactive, low) }()
		if err := <-first; !errors.Is(err, bulkhead.ErrCrowded) { // a backlog of batch cannot keep Interactive from waiting
			t.Errorf("the one who goes last got %v", err)
		}
		synctest.Wait()
		look(t, s, 1, 1, 0, 2)
		s.Release(interactive)
		if err := <-second; err != nil {
			t.Error(err)
		}
		s.Release(interactive)
		if err := <-third; err != nil {
			t.Error(err)
		}
		look(t, s, 1, 1, 0, 0)
		none := bulkhead.New(bulkhead.Config{Max: -1, Waiting: -1})
		if err := none.Acquire(t.Context(), interactive, high); !errors.Is(err, bulkhead.ErrCrowded) {
			t.Errorf("where nobody may wait: %v", err)
		}
	})
}
