package sqlite

import (
	"log/slog"
	"sync"
	"time"

	"github.com/holdfast-ai/holdfast/internal/mutant"
)

const (
	// clockAlarm is the distance of the wall clock that is reported (semantics 11).
	clockAlarm = 5 * time.Second
	// clockSlew bounds how much faster or slower than the monotonic clock ledger time runs while it follows
	// the wall clock: 1 %, so that no lease or wait is wrong by more.
	clockSlew = 0.01
	// clockCheck is how often the wall clock is read for the slew.
	clockCheck = time.Second
	// clockDeadband is a distance not worth following: the wall clock's own jitter.
	clockDeadband = time.Millisecond
)

// clock is ledger time: anchored once at the later of the wall clock and the last stamp in the store, advanced
// by the monotonic clock, drawn toward the wall clock and never set to it (semantics 11).
type clock struct {
	wall func() time.Time
	mono func() time.Duration
	log  *slog.Logger

	mu      sync.Mutex
	base    time.Time     // ledger time at mark
	mark    time.Duration // monotonic time of base
	rate    float64       // slew, -clockSlew … clockSlew
	off     time.Duration // wall − ledger at the last check
	alarmed bool
	last    time.Time
}

func newClock(cfg Config, lastStamp time.Time) *clock {
	c := &clock{wall: cfg.Wall, mono: cfg.Mono, log: cfg.Logger}
	if c.wall == nil {
		c.wall = time.Now
	}
	if c.mono == nil {
		start := time.Now()
		c.mono = func() time.Duration { return time.Since(start) }
	}
	c.base = c.wall().Round(0).UTC()
	if lastStamp.After(c.base) {
		c.base = lastStamp
	}
	c.mark = c.mono()
	c.follow()
	return c
}

func (c *clock) now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.read()
}

// read advances the clock; c.mu is held.
func (c *clock) read() time.Time {
	if mutant.On("step-clock") {
		return c.wall().Round(0).UTC()
	}
	elapsed := c.mono() - c.mark
	t := c.base.Add(elapsed + c.slew(elapsed))
	if elapsed >= clockCheck {
		c.base, c.mark = t, c.mark+elapsed
		c.follow()
	}
	t = t.Truncate(time.Microsecond)
	if t.Before(c.last) {
		t = c.last
	}
	c.last = t
	return t
}

// slew is how far ledger time has been drawn toward the wall clock since the last check: never past where the
// wall clock was, however long nobody asked.
func (c *clock) slew(elapsed time.Duration) time.Duration {
	d := time.Duration(float64(elapsed) * c.rate)
	if c.rate > 0 {
		return min(d, c.off)
	}
	return max(d, min(c.off, 0))
}

// follow compares ledger time, which is c.base, with the wall clock and chooses the slew; c.mu is held or c is
// not shared yet.
func (c *clock) follow() {
	c.off = c.wall().Round(0).Sub(c.base)
	far := c.off > clockAlarm || c.off < -clockAlarm
	if far && !c.alarmed {
		c.log.Warn("wall clock is far from ledger time; ledger time follows it slowly and is never set",
			"offset", c.off, "next_step", "check the machine's time synchronisation")
	}
	c.alarmed = far
	switch {
	case c.off > clockDeadband:
		c.rate = min(clockSlew, c.off.Seconds())
	case c.off < -clockDeadband:
		c.rate = max(-clockSlew, c.off.Seconds())
	default:
		c.rate = 0
	}
}

func (c *clock) offset() time.Duration {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.wall().Round(0).Sub(c.read())
}
