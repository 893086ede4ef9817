package postgres

import (
	"log/slog"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// mono is a monotonic clock that a test advances.
type mono struct{ at time.Duration }

func (m *mono) now() time.Duration { return m.at }

var epoch = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

// seen is a look at a database that is ahead of epoch's clock, over a round trip.
func (m *mono) seen(ahead, trip time.Duration) look {
	k := look{sent: m.at, at: epoch.Add(m.at + trip/2 + ahead)}
	m.at += trip
	k.got = m.at
	return k
}

func (m *mono) ahead(c *clock) time.Duration { return c.now().Sub(epoch.Add(m.at)) }

func TestClockFollowsTheDatabase(t *testing.T) {
	m := &mono{}
	c := newClock(m.now, slog.New(slog.DiscardHandler), m.seen(0, time.Millisecond), time.Time{})
	walk := func(off time.Duration, looks int) {
		for range looks {
			m.at += clockCheck
			c.observe(m.seen(off, time.Millisecond))
		}
	}
	near := func(what string, want time.Duration) {
		t.Helper()
		if got := m.ahead(c); got < want-5*time.Millisecond || got > want+5*time.Millisecond {
			t.Errorf("%s: ledger time is ahead by %v, want %v", what, got, want)
		}
	}
	walk(200*time.Millisecond, 10)
	near("drawn ahead", 200*time.Millisecond)
	walk(0, 10)
	near("drawn back", 0)
	walk(time.Hour, 1)
	if got := m.ahead(c); got > time.Second {
		t.Errorf("one look that differs by an hour was believed: %v", got)
	}
	walk(0, 10)
	near("an outlier", 0)
	walk(time.Hour, 2)
	near("a server that is ahead", time.Hour)
	walk(0, 1)
	if got := m.ahead(c); got < time.Hour-time.Second {
		t.Errorf("it was set back to %v", got)
	}
	stamped := newClock(m.now, slog.New(slog.DiscardHandler), m.seen(0, 0), epoch.Add(m.at+time.Minute))
	if got := m.ahead(stamped); got < time.Minute {
		t.Errorf("it begins %v ahead, the store shows a stamp of a minute", got)
	}
}

// TestClockNeverBack: whatever the database says, and however long it takes to say it.
func TestClockNeverBack(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m := &mono{}
		span := rapid.Int64Range(int64(-10*time.Second), int64(10*time.Second))
		trip := rapid.Int64Range(0, int64(time.Second))
		c := newClock(m.now, slog.New(slog.DiscardHandler), m.seen(time.Duration(span.Draw(t, "ahead")), time.Duration(trip.Draw(t, "trip"))), time.Time{})
		last := c.now()
		for range rapid.IntRange(1, 50).Draw(t, "looks") {
			m.at += time.Duration(rapid.Int64Range(0, int64(20*time.Second)).Draw(t, "pause"))
			c.observe(m.seen(time.Duration(span.Draw(t, "ahead")), time.Duration(trip.Draw(t, "trip"))))
			now := c.now()
			if now.Before(last) {
				t.Fatalf("%v after %v", now, last)
			}
			last = now
		}
	})
}
