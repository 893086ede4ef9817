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
			r.Push(sent, "rate_limit_exceeded")
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
		r.Push(time.Now(), "overloaded")
		time.Sleep(time.Millisecond)
		is(Reduced, 5)
		r.Ease(sent) // of before
		is(Reduced, 5)
		for range 6 {
			r.Ease(time.Now())
		}
		is(Reduced, 6)
		for range 3 {
			r.Push(time.Now(), "overloaded")
			time.Sleep(time.Millisecond)
		}
		is(Reduced, 1)
		if r.Sheds() {
			t.Error("sheds before the least limit was too much")
		}
		r.Push(time.Now(), "overloaded")
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
		r.Push(time.Now(), "overloaded")
		time.Sleep(6 * time.Minute)
		is(Easy, 0)
	})
}
