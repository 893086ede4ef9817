package breaker

import (
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// rig is a breaker in fake time with shorthands.
type rig struct {
	*testing.T
	*Breaker
}

func inBubble(t *testing.T, c Config, f func(r rig)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) { f(rig{t, New(c)}) })
}

func (r rig) acquire() Pass {
	r.Helper()
	p, err := r.Acquire()
	if err != nil {
		r.Fatalf("Acquire: %v", err)
	}
	return p
}

func (r rig) refused() *OpenError {
	r.Helper()
	p, err := r.Acquire()
	var open *OpenError
	if !errors.As(err, &open) || !errors.Is(err, ErrOpen) {
		r.Fatalf("Acquire = %+v, %v; want an OpenError", p, err)
	}
	return open
}

func (r rig) probe() Pass {
	r.Helper()
	p := r.acquire()
	if !p.Probe() || p.Live() {
		r.Fatalf("Probe %v, Live %v; want a probe, which has no further attempts", p.Probe(), p.Live())
	}
	return p
}

func (r rig) end(res Result, n int) {
	r.Helper()
	for range n {
		r.acquire().Done(res)
	}
}

func (r rig) is(want State) {
	r.Helper()
	if got := r.State(); got != want {
		r.Fatalf("%v, want %v", got, want)
	}
}

func TestOpensAfterFailuresInARow(t *testing.T) {
	inBubble(t, Config{}, func(r rig) {
		r.end(Failure, 9)
		r.end(Success, 1)
		r.end(Failure, 9)
		r.end(Ignored, 5) // says nothing, in either direction
		r.is(Closed)
		r.end(Failure, 1)
		r.is(Open)
		if e := r.refused(); e.RetryAfter != 30*time.Second || e.Forced || e.Reason != "failures in a row: 10" {
			t.Errorf("refused with %+v", e)
		}
		time.Sleep(30*time.Second - time.Nanosecond)
		if e := r.refused(); e.RetryAfter != 1 {
			t.Errorf("RetryAfter %v, want 1ns", e.RetryAfter)
		}
		time.Sleep(time.Nanosecond)
		r.probe().Done(Success)
		r.is(Closed)
		if s := r.Snapshot(); s.Failures != 0 || !s.Since.Equal(time.Now()) {
			t.Errorf("closed with %+v", s)
		}
	})
}

// TestOneCallPerResetTimeout asks once a second for an hour.
func TestOneCallPerResetTimeout(t *testing.T) {
	inBubble(t, Config{FailureThreshold: 3}, func(r rig) {
		r.end(Failure, 3)
		calls := 0
		for range 3600 {
			time.Sleep(time.Second)
			if p, err := r.Acquire(); err == nil {
				calls++
				p.Done(Failure)
			}
		}
		if calls != 120 {
			t.Errorf("%d calls in an hour, want 120", calls)
		}
	})
}

func TestSlotReturns(t *testing.T) {
	open := func(t *testing.T, f func(r rig)) {
		inBubble(t, Config{FailureThreshold: 1, ProbeLease: 10 * time.Second}, func(r rig) {
			r.end(Failure, 1)
			time.Sleep(30 * time.Second)
			f(r)
		})
	}
	t.Run("ignored", func(t *testing.T) {
		open(t, func(r rig) {
			for range 3 {
				p := r.probe()
				r.refused()
				p.Done(Ignored)
				r.is(HalfOpen)
			}
			r.probe().Done(Success)
			r.is(Closed)
		})
	})
	t.Run("panic", func(t *testing.T) {
		open(t, func(r rig) {
			func() {
				defer func() { _ = recover() }()
				p := r.probe()
				defer p.Done(Ignored)
				panic("in the call")
			}()
			r.probe()
		})
	})
	t.Run("endless", func(t *testing.T) {
		open(t, func(r rig) {
			endless := r.probe()
			if e := r.refused(); e.RetryAfter != 10*time.Second {
				t.Errorf("RetryAfter %v, want the lease", e.RetryAfter)
			}
			time.Sleep(10 * time.Second)
			second := r.probe()
			r.refused()
			endless.Done(Ignored) // it has no slot to give back any more
			r.refused()
			second.Done(Failure)
			r.is(Open)
		})
	})
	t.Run("slower than the lease", func(t *testing.T) {
		open(t, func(r rig) {
			slow := r.probe()
			time.Sleep(15 * time.Second)
			second := r.probe()
			slow.Done(Success)
			r.is(Closed)
			second.Done(Failure) // of the half-open time, which is over
			if s := r.Snapshot(); s.State != Closed || s.Failures != 0 {
				t.Errorf("then %+v", s)
			}
		})
	})
}

func TestLateResultsChangeNothing(t *testing.T) {
	inBubble(t, Config{FailureThreshold: 2}, func(r rig) {
		var late []Pass
		for range 6 {
			late = append(late, r.acquire())
		}
		r.end(Failure, 2)
		if late[0].Live() {
			t.Error("live although the breaker has opened")
		}
		late[0].Done(Success)
		r.is(Open)
		time.Sleep(30 * time.Second)
		probe := r.probe()
		late[1].Done(Success)
		r.is(HalfOpen)
		late[2].Done(Failure)
		r.is(HalfOpen)
		late[3].Done(Ignored)
		r.refused()
		probe.Done(Success)
		late[4].Done(Failure)
		if s := r.Snapshot(); s.State != Closed || s.Failures != 0 {
			t.Errorf("a late failure counts: %+v", s)
		}
		r.end(Failure, 1)
		late[5].Done(Success)
		if s := r.Snapshot(); s.Failures != 1 {
			t.Errorf("a late success counts: %+v", s)
		}
	})
}

func TestByHand(t *testing.T) {
	inBubble(t, Config{FailureThreshold: 1}, func(r rig) {
		p := r.acquire()
		r.Trip("incident 12")
		if e := r.refused(); !e.Forced || e.Reason != "incident 12" || e.RetryAfter != 30*time.Second {
			t.Errorf("refused with %+v", e)
		}
		if p.Live() {
			t.Error("a call goes on with its attempts on a tripped route")
		}
		p.Done(Success)
		time.Sleep(1000 * time.Hour)
		r.refused()
		r.Trip("still")
		if s := r.Snapshot(); s.State != Open || !s.Forced || s.Reason != "still" || !s.Until.IsZero() {
			t.Errorf("tripped: %+v", s)
		}
		r.Reset()
		r.end(Success, 1)

		r.end(Failure, 1)
		time.Sleep(30 * time.Second)
		probe := r.probe()
		r.Trip("while half-open")
		probe.Done(Success)
		time.Sleep(time.Hour)
		r.refused()
		r.Reset()
		r.is(Closed)
	})
}

func TestResetForgetsFailures(t *testing.T) {
	inBubble(t, Config{FailureThreshold: 2, FailureRate: 0.5, MinCalls: 3}, func(r rig) {
		p := r.acquire()
		r.end(Failure, 1)
		r.Reset()
		r.end(Failure, 1)
		r.end(Success, 1)
		r.is(Closed)
		if !p.Live() {
			t.Error("resetting a closed breaker stops the attempts of running calls")
		}
	})
}

func TestDoneTwice(t *testing.T) {
	inBubble(t, Config{FailureThreshold: 3}, func(r rig) {
		p := r.acquire()
		for range 10 {
			p.Done(Failure)
		}
		q := r.acquire() // may have the place of p
		p.Done(Failure)
		p.Done(Success)
		if s := r.Snapshot(); s.State != Closed || s.Failures != 1 {
			t.Errorf("one failed call counts as %+v", s)
		}
		q.Done(Failure)
		r.end(Failure, 1)
		time.Sleep(30 * time.Second)
		first := r.probe()
		first.Done(Ignored)
		second := r.probe()
		first.Done(Ignored)
		first.Done(Success)
		r.refused()
		second.Done(Success)
		r.is(Closed)
	})
	Pass{}.Done(Failure)
	if (Pass{}).Live() || (Pass{}).Probe() {
		t.Error("the zero Pass is live or a probe")
	}
}

func TestFailureRate(t *testing.T) {
	c := Config{FailureThreshold: 1000, FailureRate: 0.5, Window: 10 * time.Second, MinCalls: 10}
	inBubble(t, c, func(r rig) {
		for range 4 {
			r.end(Failure, 1)
			r.end(Success, 1)
		}
		r.end(Ignored, 100)
		r.is(Closed) // eight results are too few
		r.end(Success, 1)
		r.end(Failure, 1)
		r.is(Open)
		if e := r.refused(); e.Reason != "5 of 10 calls failed within 10s" {
			t.Errorf("Reason %q", e.Reason)
		}
		time.Sleep(30 * time.Second)
		r.probe().Done(Success)
		r.end(Failure, 9)
		r.is(Closed) // what was counted before it opened is forgotten
	})
	inBubble(t, c, func(r rig) {
		r.end(Failure, 9)
		time.Sleep(11 * time.Second)
		r.end(Failure, 9)
		r.is(Closed)
		r.end(Failure, 1)
		r.is(Open)
	})
}

func TestReplicasShareThresholds(t *testing.T) {
	for _, c := range []struct{ threshold, replicas, want int }{{10, 0, 10}, {10, 1, 10}, {10, 3, 3}, {10, 4, 2}, {10, 50, 1}, {0, 5, 2}} {
		inBubble(t, Config{FailureThreshold: c.threshold, Replicas: c.replicas}, func(r rig) {
			n := 0
			for ; r.State() == Closed; n++ {
				r.end(Failure, 1)
			}
			if n != c.want {
				t.Errorf("%+v: opened after %d failures", c, n)
			}
		})
	}
}

func TestOnChange(t *testing.T) {
	var got []string
	var b *Breaker
	c := Config{FailureThreshold: 1, OnChange: func(c Change) {
		got = append(got, fmt.Sprintf("%v>%v %s forced=%v now=%v", c.From, c.To, c.Reason, c.Forced, b.State()))
	}}
	synctest.Test(t, func(t *testing.T) {
		b = New(c)
		r := rig{t, b}
		r.end(Failure, 1)
		time.Sleep(30 * time.Second)
		r.probe().Done(Ignored)
		r.probe().Done(Failure)
		r.Trip("why")
		r.Trip("why again")
		r.Reset()
		r.Reset()
	})
	want := []string{
		"closed>open failures in a row: 1 forced=false now=open",
		"open>half-open failures in a row: 1 forced=false now=half-open",
		"half-open>open the probe failed forced=false now=open",
		"open>open why forced=true now=open",
		"open>closed reset by hand forced=true now=closed",
	}
	if fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("changes:\n%q\nwant\n%q", got, want)
	}
}

func TestConfigure(t *testing.T) {
	inBubble(t, Config{FailureThreshold: 5}, func(r rig) {
		r.end(Failure, 2)
		r.Configure(Config{FailureThreshold: 3, ResetTimeout: time.Second})
		r.end(Failure, 1)
		r.is(Open)
		time.Sleep(time.Second)
		r.probe()
	})
}

// A probe whose answer has begun blocks nobody: the next caller may find out too, and the first verdict counts.
func TestAnsweredProbeGivesUpItsSlot(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := New(Config{FailureThreshold: 1, ResetTimeout: time.Second, ProbeLease: time.Hour})
		p, _ := b.Acquire()
		p.Done(Failure)
		time.Sleep(time.Second)
		first, err := b.Acquire()
		if err != nil || !first.Probe() {
			t.Fatal(err)
		}
		if _, err := b.Acquire(); err == nil {
			t.Fatal("two probes at once")
		}
		first.Answered()
		first.Answered()
		second, err := b.Acquire()
		if err != nil || !second.Probe() {
			t.Fatal(err)
		}
		first.Answered() // it has no slot any more, and gives nobody else's back
		if _, err := b.Acquire(); err == nil {
			t.Fatal("the slot of another was given back")
		}
		first.Done(Success)
		if b.State() != Closed {
			t.Errorf("%v after the first verdict", b.State())
		}
		second.Done(Failure) // late
		if b.State() != Closed {
			t.Errorf("%v after a late one", b.State())
		}
	})
}
