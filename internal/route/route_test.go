package route

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
	"unicode/utf8"

	"go.uber.org/goleak"

	"github.com/holdfast-ai/holdfast/breaker"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// rows is a store of cool-downs that can be slow or broken.
type rows struct {
	mu    sync.Mutex
	rows  map[string]time.Time
	wrote int
	delay time.Duration
	err   error
}

func newRows() *rows { return &rows{rows: map[string]time.Time{}} }

func (s *rows) Cooldown(_ context.Context, route string, until time.Time, _ string) (time.Time, error) {
	time.Sleep(s.delay)
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.err != nil {
		return time.Time{}, s.err
	}
	s.wrote++
	if until.After(s.rows[route]) {
		s.rows[route] = until
	}
	return s.rows[route], nil
}

func (s *rows) ClearCooldown(_ context.Context, route string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.rows, route)
	return s.err
}

func (s *rows) Cooldowns(context.Context) (map[string]time.Time, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	out := map[string]time.Time{}
	for k, v := range s.rows {
		if v.After(time.Now()) {
			out[k] = v
		}
	}
	return out, s.err
}

func (s *rows) get(route string) time.Time {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.rows[route]
}

func (s *rows) Now() time.Time { return time.Now() }

const key = "openai/gpt/chat/0a1b2c3d"

// rig is a table in fake time with shorthands for one route.
type rig struct {
	*testing.T
	*Table
	*rows
	*Route
}

func inBubble(t *testing.T, f func(r rig)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		s := newRows()
		table := New(Config{Cooldowns: s})
		defer table.Close()
		f(rig{t, table, s, table.Get(key, breaker.Config{}, 0.2)})
	})
}

func (r rig) enter() Ticket {
	r.Helper()
	t, refusal := r.Enter()
	if refusal != nil {
		r.Fatalf("refused: %+v", refusal)
	}
	return t
}

func (r rig) refused(kind Kind) *Refusal {
	r.Helper()
	_, refusal := r.Enter()
	if refusal == nil || refusal.Kind != kind {
		r.Fatalf("Enter refused with %+v, want kind %d", refusal, kind)
	}
	return refusal
}

func isClosed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}

func TestRenew(t *testing.T) {
	inBubble(t, func(r rig) {
		first := r.enter()
		r.Cool(3*time.Second, "429")
		if _, refusal := first.Renew(); refusal == nil || refusal.Wait != 3*time.Second {
			t.Fatalf("renewed in a cool-down: %+v", refusal)
		}
		time.Sleep(3 * time.Second)
		probe, refusal := first.Renew()
		if refusal != nil {
			t.Fatal(refusal)
		}
		again, refusal := probe.Renew() // an attempt after a failure that sets no cool-down
		if refusal != nil {
			t.Fatalf("the probe stands in its own way: %+v", refusal)
		}
		r.refused(Cooling)
		again.Done(breaker.Success)
		r.enter()
	})
	inBubble(t, func(r rig) { // one nest is one result, however many attempts it has
		for range 9 {
			r.enter().Done(breaker.Failure)
		}
		ticket := r.enter()
		for range 5 {
			ticket, _ = ticket.Renew()
		}
		if !ticket.Live() {
			t.Fatal("not live")
		}
		ticket.Done(breaker.Failure)
		r.refused(Open)
	})
}

func TestGatesInOrder(t *testing.T) {
	inBubble(t, func(r rig) {
		must(t)(r.Table.Trip(key, "drill"))
		if got := r.refused(Open); !got.Forced || got.Reason != "drill" || got.Changed != nil {
			t.Errorf("tripped: %+v", got)
		}
		r.Cool(time.Second, "429")
		r.refused(Open) // a person's word goes before a cool-down
		must(t)(r.Table.Pause(key, "maintenance"))
		if got := r.refused(Paused); got.Reason != "maintenance" || got.Wait != 0 || got.Changed != nil {
			t.Errorf("paused: %+v", got)
		}
		must(t)(r.Table.Resume(key))
		time.Sleep(time.Second)
		r.refused(Open) // the breaker refuses, so nobody is the cool-down's probe
		r.refused(Open)
		must(t)(r.Table.Reset(t.Context(), key))
		r.enter().Done(breaker.Success)
	})
}

func must(t *testing.T) func(int, error) {
	return func(_ int, err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
}

func TestBudgetBelongsToTheRoute(t *testing.T) {
	inBubble(t, func(r rig) {
		n := 0
		for r.Table.Get(key, breaker.Config{}, 5).Budget().Take() {
			n++
		}
		if n != 10 {
			t.Errorf("%d retries, want 10", n)
		}
		r.Table.Reload()
		if r.Table.Get(key, breaker.Config{}, 0.5); !r.Budget().Take() {
			t.Error("the new share has not come with its bucket")
		}
	})
}

func TestConfigurationIsTheFirstUntilReload(t *testing.T) {
	inBubble(t, func(r rig) {
		r.Table.Get(key, breaker.Config{FailureThreshold: 1}, 0.2)
		r.enter().Done(breaker.Failure)
		r.enter().Done(breaker.Ignored)
		r.Table.Reload()
		r.Table.Get(key, breaker.Config{FailureThreshold: 2}, 0.2)
		r.enter().Done(breaker.Failure)
		r.refused(Open)
	})
}

func TestOnBreaker(t *testing.T) {
	var got []string
	table := New(Config{OnBreaker: func(route string, c breaker.Change) {
		got = append(got, fmt.Sprintf("%s: %v to %v", route, c.From, c.To))
	}})
	r := table.Get("r", breaker.Config{FailureThreshold: 1}, 0)
	ticket, _ := r.Enter()
	ticket.Done(breaker.Failure)
	if fmt.Sprint(got) != "[r: closed to open]" {
		t.Errorf("told %v", got)
	}
	if got := r.Cool(time.Minute, "no ledger"); got.IsZero() {
		t.Error("no cool-down without a ledger")
	}
	table.Close()
}

func TestBoundedInNumber(t *testing.T) {
	inBubble(t, func(r rig) {
		table := New(Config{MaxRoutes: 100})
		defer table.Close()
		hot := table.Get("hot", breaker.Config{}, 0)
		cooling := table.Get("cooling", breaker.Config{}, 0)
		cooling.Cool(time.Hour, "429")
		broken := table.Get("broken", breaker.Config{FailureThreshold: 1}, 0)
		ticket, _ := broken.Enter()
		ticket.Done(breaker.Failure)
		must(t)(table.Pause("hostile-77", "by name"))
		for i := range 5000 {
			table.Get(fmt.Sprintf("hostile-%d", i), breaker.Config{}, 0)
			if table.Get("hot", breaker.Config{}, 0) != hot {
				t.Fatalf("a route in use is gone after %d", i)
			}
		}
		if n := len(table.List()); n > 100 {
			t.Errorf("%d routes are kept", n)
		}
		if table.Get("cooling", breaker.Config{}, 0) != cooling || table.Get("broken", breaker.Config{}, 0) != broken {
			t.Error("names alone push out a cool-down or an open breaker")
		}
		if _, refusal := table.Get("hostile-77", breaker.Config{}, 0).Enter(); refusal == nil || refusal.Kind != Paused {
			t.Error("the pause of an evicted route is forgotten")
		}
	})
	inBubble(t, func(r rig) { // even when none is at rest
		table := New(Config{MaxRoutes: 100})
		defer table.Close()
		first := table.Get("first", breaker.Config{}, 0)
		for i := range 1000 {
			table.Get(fmt.Sprint(i), breaker.Config{}, 0).Cool(time.Hour, "429")
		}
		if n := len(table.List()); n > 100 {
			t.Errorf("%d routes are kept", n)
		}
		first.Cool(time.Hour, "its call was on its way when it was evicted")
		if _, refusal := table.Get("first", breaker.Config{}, 0).Enter(); refusal == nil {
			t.Error("the cool-down of an evicted route is lost")
		}
	})
}

// TestLongKeys: a model's name is the client's to choose.
func TestLongKeys(t *testing.T) {
	table := New(Config{})
	defer table.Close()
	long := "openai/" + strings.Repeat("é", 1<<20)
	a, b := table.Get(long+"a", breaker.Config{}, 0), table.Get(long+"b", breaker.Config{}, 0)
	if a == b || a != table.Get(long+"a", breaker.Config{}, 0) {
		t.Error("long keys are mixed up")
	}
	if n := len(a.Key()); n > maxKey || !utf8.ValidString(a.Key()) {
		t.Errorf("a key of %d bytes is kept: %q", n, a.Key())
	}
	a.Cool(time.Minute, "429")
	if _, refusal := table.Get(long+"a", breaker.Config{}, 0).Enter(); refusal == nil {
		t.Error("its cool-down is not found again")
	}
	must(t)(table.Pause("openai/*", ""))
	if _, refusal := b.Enter(); refusal == nil {
		t.Error("a pattern does not find it")
	}
}

func TestHealthyRouteAllocatesNothing(t *testing.T) {
	table := New(Config{})
	defer table.Close()
	c := breaker.Config{}
	table.Get(key, c, 0.2)
	n := testing.AllocsPerRun(1000, func() {
		r := table.Get(key, c, 0.2)
		ticket, _ := r.Enter()
		_ = r.Fault()
		ticket.Done(breaker.Success)
	})
	if n != 0 {
		t.Errorf("%v allocations", n)
	}
}

// TestConcurrent is for the race detector.
func TestConcurrent(t *testing.T) {
	table := New(Config{MaxRoutes: 20, Cooldowns: newRows()})
	var all sync.WaitGroup
	for g := range 4 {
		all.Go(func() {
			for i := range 300 {
				r := table.Get(fmt.Sprint("r", (i*7+g)%30), breaker.Config{FailureThreshold: 2}, 0.2)
				if ticket, refusal := r.Enter(); refusal == nil {
					ticket, _ = ticket.Renew()
					ticket.Done(breaker.Result(i % 3))
				}
				switch i % 50 {
				case 10:
					r.Cool(time.Millisecond, "429")
				case 20:
					must(t)(table.Pause("r1*", ""))
				case 30:
					must(t)(table.Resume("*"))
				case 40:
					must(t)(table.Reset(t.Context(), "r*"))
					table.Reload()
				case 45:
					table.List()
				}
			}
		})
	}
	all.Wait()
	table.Close()
}

func BenchmarkHealthy(b *testing.B) {
	table := New(Config{})
	defer table.Close()
	c := breaker.Config{}
	b.ReportAllocs()
	for b.Loop() {
		r := table.Get(key, c, 0.2)
		ticket, _ := r.Enter()
		_ = r.Fault()
		ticket.Done(breaker.Success)
	}
}
