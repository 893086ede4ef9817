package sqlite

import (
	"bytes"
	"log/slog"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// hands are the clocks beneath a clock, moved by the test.
type hands struct {
	wall time.Time
	mono time.Duration
}

func (h *hands) config(log *slog.Logger) Config {
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	return Config{Logger: log, Wall: func() time.Time { return h.wall }, Mono: func() time.Duration { return h.mono }}
}

// pass lets d go by on both.
func (h *hands) pass(d time.Duration) { h.wall, h.mono = h.wall.Add(d), h.mono+d }

var noon = time.Date(2026, 11, 29, 12, 0, 0, 0, time.UTC)

// TestClockSteppedByAnHour: a step of the wall clock moves ledger time by no step, forward or back, and is
// reported. It kills the mutant step-clock.
func TestClockSteppedByAnHour(t *testing.T) {
	for _, step := range []time.Duration{time.Hour, -time.Hour} {
		var said bytes.Buffer
		h := &hands{wall: noon}
		c := newClock(h.config(slog.New(slog.NewTextHandler(&said, nil))), time.Time{})
		h.pass(10 * time.Second)
		before := c.now()
		h.wall = h.wall.Add(step)
		if d := c.now().Sub(before); d != 0 {
			t.Errorf("a step of %v moved ledger time by %v", step, d)
		}
		h.pass(2 * time.Second)
		c.now()
		h.pass(100 * time.Second)
		d := c.now().Sub(before) - 102*time.Second
		if off := d.Abs(); off > 2*time.Second || off == 0 || (d > 0) != (step > 0) {
			t.Errorf("102 s after a step of %v ledger time is %v from the monotonic clock; want a little toward it", step, d)
		}
		if got := c.offset(); (got - step).Abs() > 3*time.Second {
			t.Errorf("offset() = %v after a step of %v", got, step)
		}
		if n := strings.Count(said.String(), "wall clock is far"); n != 1 {
			t.Errorf("reported %d times: %s", n, said.String())
		}
	}
}

func TestClockStartsAtTheLastStamp(t *testing.T) {
	h := &hands{wall: noon}
	c := newClock(h.config(nil), noon.Add(time.Hour))
	if got := c.now(); !got.Equal(noon.Add(time.Hour)) {
		t.Errorf("now() = %v with an older wall clock", got)
	}
	c = newClock(h.config(nil), noon.Add(-time.Hour))
	if got := c.now(); !got.Equal(noon) {
		t.Errorf("now() = %v with a newer wall clock", got)
	}
}

// TestClockConverges: a small distance is followed until it is gone, and not past.
func TestClockConverges(t *testing.T) {
	h := &hands{wall: noon}
	c := newClock(h.config(nil), noon.Add(3*time.Second))
	for range 1000 {
		h.pass(time.Second)
		c.now()
	}
	if off := c.offset(); off.Abs() > 10*time.Millisecond {
		t.Errorf("still %v away after 1000 s", off)
	}
	h.wall = h.wall.Add(5 * time.Millisecond)
	h.pass(2 * time.Second)
	c.now()
	h.pass(time.Hour) // nobody asked for an hour: the slew must not have gone on
	c.now()
	if off := c.offset(); off.Abs() > 10*time.Millisecond {
		t.Errorf("%v away after an idle hour", off)
	}
}

// TestClockNeverBack: whatever the wall clock does, ledger time never falls and never leaves the monotonic clock
// by more than 1 %.
func TestClockNeverBack(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		h := &hands{wall: noon}
		c := newClock(h.config(nil), noon.Add(time.Duration(rapid.Int64Range(-5e12, 5e12).Draw(t, "stamp"))))
		first, start := c.now(), h.mono
		last := first
		for range rapid.IntRange(1, 50).Draw(t, "n") {
			h.pass(time.Duration(rapid.Int64Range(0, 5e9).Draw(t, "pass")))
			if rapid.Bool().Draw(t, "step?") {
				h.wall = h.wall.Add(time.Duration(rapid.Int64Range(-5e12, 5e12).Draw(t, "step")))
			}
			now := c.now()
			if now.Before(last) {
				t.Fatalf("%v after %v", now, last)
			}
			last = now
			run, truth := now.Sub(first), h.mono-start
			if d := (run - truth).Abs(); d > truth/100+time.Millisecond {
				t.Fatalf("after %v ledger time has run %v", truth, run)
			}
		}
	})
}
