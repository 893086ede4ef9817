package route

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-ai/holdfast/breaker"
)

// A signal stops new low-urgency work for a moment and halves what may be in progress, once for all that was sent before
// it; successes raise it by one a round, until it is none any more.
func TestPressure(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tab := New(Config{})
		r := tab.Get("openai/m/chat/x", breaker.Config{}, 0.2)
		take := func() bool { _, ok := r.TakeBatch(); return ok }
		is := func(level Level, limit int) {
			t.Helper()
			if p := r.Pressure(); p.Level != level || p.Limit != limit {
				t.Errorf("%+v, want %s and %d", p, level, limit)
			}
		}
		for range 20 {
			if !take() {
				t.Fatal("limited without a signal")
			}
		}
		is(Easy, 0)
		sent := time.Now()
		time.Sleep(time.Millisecond)
		for range 20 { // one wave is one signal
			r.Push(sent, false, "rate_limit_exceeded")
		}
		is(Reduced, 10)
		if wait, ok := r.TakeBatch(); ok || wait != time.Second {
			t.Errorf("new work begins behind a signal: %v, %v", wait, ok)
		}
		for range 15 {
			r.PutBatch()
		}
		time.Sleep(time.Second)
		n := 0
		for take() {
			n++
		}
		if n != 5 {
			t.Errorf("%d more beside 5, want 10 in all", n)
		}
		r.Push(time.Now(), false, "overloaded")
		time.Sleep(time.Millisecond)
		is(Reduced, 5)
		r.Ease(sent) // of before
		is(Reduced, 5)
		for range 6 {
			r.Ease(time.Now())
		}
		is(Reduced, 6)
		for range 3 {
			r.Push(time.Now(), false, "overloaded")
			time.Sleep(time.Millisecond)
		}
		is(Reduced, 1)
		if r.Sheds() {
			t.Error("sheds before the least limit was too much")
		}
		r.Push(time.Now(), false, "overloaded")
		is(Shedding, 1)
		if !r.Sheds() {
			t.Error("does not shed")
		}
		time.Sleep(10 * time.Second)
		is(Reduced, 1)
		rounds := 0
		for ; r.Pressure().Level == Reduced && rounds < 5000; rounds++ {
			r.Ease(time.Now())
		}
		is(Easy, 0)
		if rounds < 1000 || rounds > 3000 {
			t.Errorf("%d successes lifted the limit; additive increase takes some 2,000", rounds)
		}
		r.Push(time.Now(), false, "overloaded")
		time.Sleep(6 * time.Minute)
		is(Easy, 0)
	})
}

// A call that finds a route overloaded now and then is chance; where it is one of five the limit falls. A word that names its
// time holds nothing back beyond that.
func TestStrain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := New(Config{}).Get("openai/m/chat/x", breaker.Config{}, 0.2)
		for range 200 { // 6 of 100
			for range 15 {
				r.Ease(time.Now())
			}
			r.Strain(time.Now(), false, "overloaded")
		}
		if p := r.Pressure(); p.Level != Easy {
			t.Errorf("6 %% of chance: %+v", p)
		}
		for range 40 {
			r.Strain(time.Now(), false, "overloaded")
		}
		if p := r.Pressure(); p.Level == Easy || p.Limit < 1 {
			t.Errorf("40 in a row: %+v", p)
		}
		cooled := New(Config{}).Get("openai/m/chat/y", breaker.Config{}, 0.2)
		cooled.Push(time.Now(), true, "rate_limit_exceeded")
		if p := cooled.Pressure(); p.Level != Reduced || p.Hold != 0 {
			t.Errorf("%+v", p)
		}
	})
}
