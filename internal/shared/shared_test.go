package shared_test

import (
	"context"
	"errors"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/holdfast-ai/holdfast/breaker"
	"github.com/holdfast-ai/holdfast/bulkhead"
	"github.com/holdfast-ai/holdfast/internal/redistest"
	"github.com/holdfast-ai/holdfast/internal/route"
	"github.com/holdfast-ai/holdfast/internal/shared"
	"github.com/holdfast-ai/holdfast/internal/shared/redis"
	"github.com/holdfast-ai/holdfast/spend"
)

// replica is one process's state over a server; a machine under load must not make it let go of the store.
func replica(t testing.TB, url string, timeout time.Duration) *shared.State {
	t.Helper()
	s := shared.New(t.Context(), shared.Config{Holder: t.Name() + strconv.FormatInt(holders.Add(1), 10), Timeout: timeout, Replicas: 3,
		Open: func(ctx context.Context) (shared.Driver, error) {
			d, err := redis.Open(ctx, redis.Config{URL: url, Env: "test"})
			if err != nil {
				return nil, err
			}
			return d, nil
		}})
	t.Cleanup(s.Close)
	return s
}

var holders atomic.Int64

const patient = time.Minute

// await polls until something is so.
func await(t testing.TB, what string, so func() bool) {
	t.Helper()
	for over := time.Now().Add(time.Minute); !so(); time.Sleep(time.Millisecond) {
		if time.Now().After(over) {
			t.Fatalf("%s is not so within a minute", what)
		}
	}
}

// fleetOf is three route tables, each of a replica of its own, with the same route.
func fleetOf(t *testing.T, url string, conf breaker.Config) (routes [3]*route.Route) {
	t.Helper()
	conf.Shared = true
	for i := range routes {
		s := replica(t, url, patient)
		if !s.Up() {
			t.Fatal("the store is not there")
		}
		table := route.New(route.Config{Breakers: func(key string) breaker.Store { return s.Breaker(key) }})
		t.Cleanup(table.Close)
		routes[i] = table.Get("p/m/chat/c", conf, 0)
	}
	return routes
}

// fail has the replicas fail in turn until one of them knows that the breaker is open, and returns how many failures that took.
func fail(t *testing.T, routes [3]*route.Route) (failures int) {
	t.Helper()
	for {
		for _, r := range routes {
			ticket, refused := r.Enter()
			if refused != nil {
				return failures
			}
			failures++
			ticket.Done(breaker.Failure)
			if _, barred := r.Barred(); barred {
				return failures
			}
		}
	}
}

// BR-037: replicas count failures together, open everywhere, and send one probe.
func TestBR037(t *testing.T) {
	server := redistest.Start(t)
	routes := fleetOf(t, server.URL(), breaker.Config{FailureThreshold: 5, ResetTimeout: 300 * time.Millisecond, ProbeLease: time.Hour})
	if n := fail(t, routes); n != 5 {
		t.Errorf("%d failures in all opened it, want 5", n)
	}
	var probes atomic.Int64
	var holder atomic.Pointer[route.Ticket]
	for round := 0; probes.Load() == 0 || round < 20; round++ {
		var all sync.WaitGroup
		for _, r := range routes {
			all.Go(func() {
				if ticket, refused := r.Enter(); refused == nil && ticket.Probe() {
					probes.Add(1)
					holder.Store(&ticket)
				} else if refused == nil {
					ticket.Done(breaker.Ignored) // of a replica that has not heard yet
				}
			})
		}
		all.Wait()
	}
	if probes.Load() != 1 {
		t.Fatalf("%d probes", probes.Load())
	}
	holder.Load().Done(breaker.Success)
	for i, r := range routes {
		await(t, "replica "+strconv.Itoa(i)+" lets calls in again", func() bool {
			ticket, refused := r.Enter()
			if refused == nil {
				ticket.Done(breaker.Ignored)
			}
			return refused == nil && !ticket.Probe()
		})
	}
}

// BR-037: the place of a probe whose replica was killed is free when its lease runs out, and what it says late changes nothing.
func TestBR037ProbeHolderIsKilled(t *testing.T) {
	server := redistest.Start(t)
	routes := fleetOf(t, server.URL(), breaker.Config{FailureThreshold: 5, ResetTimeout: 20 * time.Millisecond, ProbeLease: 20 * time.Millisecond})
	fail(t, routes)
	probe := func(r *route.Route) (ticket route.Ticket) {
		await(t, "a probe is let in", func() bool {
			var refused *route.Refusal
			ticket, refused = r.Enter()
			if refused == nil && !ticket.Probe() {
				ticket.Done(breaker.Ignored)
			}
			return refused == nil && ticket.Probe()
		})
		return ticket
	}
	killed := probe(routes[0]) // never ended in time
	other := probe(routes[1])
	other.Done(breaker.Failure)
	killed.Done(breaker.Success)
	if ticket, refused := routes[1].Enter(); refused == nil && !ticket.Probe() {
		t.Error("the late success of a probe that lost its place closed the breaker")
	}
}

// BR-041: two replicas with a limit of 10 never have more than 10 calls in progress together, and both get their turn.
func TestBR041(t *testing.T) {
	server := redistest.Start(t)
	const limit, callers, each = 10, 40, 30
	var slots [2]*shared.Semaphore
	for i := range slots {
		slots[i] = replica(t, server.URL(), patient).Semaphore("wf/tier", bulkhead.Config{Max: limit})
	}
	var inside, most, served [2]atomic.Int64
	var total atomic.Int64
	var all sync.WaitGroup
	for i := range callers {
		mine := i % 2
		all.Go(func() {
			for range each {
				if slots[mine].Acquire(t.Context(), bulkhead.Interactive, bulkhead.Normal) != nil {
					continue
				}
				n := total.Add(1)
				for old := most[0].Load(); n > old && !most[0].CompareAndSwap(old, n); old = most[0].Load() {
				}
				inside[mine].Add(1)
				served[mine].Add(1)
				time.Sleep(time.Millisecond) // the call
				inside[mine].Add(-1)
				total.Add(-1)
				slots[mine].Release(bulkhead.Interactive)
			}
		})
	}
	all.Wait()
	if most[0].Load() > limit {
		t.Errorf("%d calls at once, with a limit of %d", most[0].Load(), limit)
	}
	for i, s := range slots {
		if _, used, _, waiting := s.Snapshot(); used != 0 || waiting != 0 || served[i].Load() != callers/2*each {
			t.Errorf("replica %d: %d in use, %d wait, %d served", i, used, waiting, served[i].Load())
		}
	}
}

// A lease that ran out unnoticed lends nothing, whatever this process believes to have.
func TestNothingIsLentPastItsLease(t *testing.T) {
	s := shared.New(t.Context(), shared.Config{Open: func(context.Context) (shared.Driver, error) { return nil, errors.New("none") }})
	t.Cleanup(s.Close)
	slots := s.Semaphore("k", bulkhead.Config{Max: 5})
	if !slots.Try(bulkhead.Interactive) {
		t.Fatal("without a store the share is lent")
	}
	slots.Expire()
	if slots.Try(bulkhead.Interactive) {
		t.Error("a slot was handed out past its lease")
	}
}

// A frozen store is asked no more: what requests do then is local, without a call, until it is back.
func TestFrozenStoreIsNotAsked(t *testing.T) {
	server := redistest.Start(t)
	s := replica(t, server.URL(), 400*time.Millisecond)
	slots := s.Semaphore("k", bulkhead.Config{Max: 7})
	b := breaker.New(breaker.Config{Store: s.Breaker("r"), Shared: true, FailureThreshold: 9, Replicas: 3, ResetTimeout: time.Hour})
	book := spend.New(s.Now)
	book.Join(s)
	await(t, "up", s.Up)
	server.Freeze(t)
	await(t, "degraded", s.Degraded)
	calls := s.Calls()
	got := 0
	for range 20 {
		if slots.Try(bulkhead.Interactive) {
			got++
		}
		if pass, err := b.Acquire(); err == nil {
			pass.Done(breaker.Failure)
		}
	}
	if got != 3 || b.State() != breaker.Open || b.Snapshot().Failures != 3 {
		t.Errorf("%d slots of 7 shared by 3, breaker %+v: want the share, 3, of each", got, b.Snapshot())
	}
	if _, err := book.Reserve("a", 90, 31); !errors.Is(err, spend.ErrExceeded) {
		t.Errorf("31 of a share of 30: %v", err)
	}
	if _, err := book.Reserve("a", 90, 30); err != nil {
		t.Error(err)
	}
	if n := s.Calls() - calls; n != 0 {
		t.Errorf("%d calls to a store that is away", n)
	}
	server.Continue(t)
	await(t, "up again", s.Up)
	await(t, "what was spent alone is told", func() bool { sum, _, up := s.Reserve("a", time.Now().Unix()/86400, 0, 0, 0); return up && sum == 30 })
	if b.State() != breaker.Open {
		t.Error("the outage that was met alone is forgotten")
	}
}

// What a fleet spends stays within the limit together.
func TestSpendTogether(t *testing.T) {
	server := redistest.Start(t)
	var books [2]*spend.Book
	for i := range books {
		s := replica(t, server.URL(), patient)
		books[i] = spend.New(s.Now)
		books[i].Join(s)
	}
	first, err := books[0].Reserve("a", 100, 60)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := books[1].Reserve("a", 100, 60); !errors.Is(err, spend.ErrExceeded) {
		t.Errorf("120 of 100: %v", err)
	}
	first.Settle(10)
	await(t, "what was settled is told", func() bool { _, err := books[1].Reserve("a", 100, 60); return err == nil })
}

func BenchmarkPermit(b *testing.B) {
	server := redistest.Start(b)
	s := replica(b, server.URL(), patient)
	slots := s.Semaphore("k", bulkhead.Config{Max: 10})
	b.Run("returned", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			if slots.Try(bulkhead.Interactive) {
				slots.Release(bulkhead.Interactive)
			}
		}
	})
	b.Run("asked", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			s.Reserve("a", 1, 0, 0, 1)
		}
	})
}
