package postgres

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/holdfast-ai/holdfast/ledger/internal/stored"
)

const (
	// clockSlew bounds how much faster or slower than the monotonic clock ledger time runs while it follows the database's: 1 %, so that
	// no lease or wait is wrong by more.
	clockSlew = 0.01
	// clockDeadband is a distance not worth following.
	clockDeadband = time.Millisecond
	// clockLeap is the distance ahead from which the database's clock is followed at once, when two looks in a row agree: it was set, or
	// another server has taken over. The other replicas see the same, and a replica that starts now begins there: to lag behind them for
	// minutes would let them take each other's owners for dead.
	clockLeap = time.Second
	// clockCheck and sickCheck are how often the database is asked: for its time, and, after a failure, whether it takes writes again.
	clockCheck = 5 * time.Second
	sickCheck  = 500 * time.Millisecond
	// startLooks is from how many answers the quickest is taken to begin with.
	startLooks = 3
)

// clock is ledger time: the database's clock, as it was seen over some round trips, advanced by the monotonic clock. It is drawn toward what is seen
// and never set back (semantics 11).
type clock struct {
	mono func() time.Duration
	log  *slog.Logger

	mu   sync.Mutex
	base time.Time     // ledger time at mark
	mark time.Duration // monotonic time of base
	rate float64       // slew, -clockSlew … clockSlew
	off  time.Duration // how far the database was ahead at the last look
	leap bool          // so far that the next look decides
	last time.Time
}

// look is one answer of the database to the question for its time.
type look struct {
	at        time.Time
	sent, got time.Duration // monotonic
}

// doubt is how wrong the answer may be: it was given somewhere on the way.
func (k look) doubt() time.Duration { return (k.got - k.sent) / 2 }

// newClock begins at the later of what was seen and the last stamp in the store.
func newClock(mono func() time.Duration, log *slog.Logger, seen look, lastStamp time.Time) *clock {
	c := &clock{mono: mono, log: log, base: seen.at.Add(seen.doubt()), mark: seen.got}
	if lastStamp.After(c.base) {
		c.base = lastStamp
	}
	c.follow(seen)
	return c
}

func (c *clock) now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	t := c.at(c.mono()).Truncate(time.Microsecond)
	if t.Before(c.last) {
		t = c.last
	}
	c.last = t
	return t
}

// at is ledger time at a monotonic time; c.mu is held. The slew never leads past where the database was.
func (c *clock) at(mono time.Duration) time.Time {
	elapsed := mono - c.mark
	d := time.Duration(float64(elapsed) * c.rate)
	if c.rate > 0 {
		d = min(d, c.off)
	} else {
		d = max(d, min(c.off, 0))
	}
	return c.base.Add(elapsed + d)
}

// observe takes a look into account.
func (c *clock) observe(k look) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.base, c.mark = c.at(k.got), k.got
	c.follow(k)
}

// follow compares ledger time, which is c.base, with what was seen and chooses the slew; c.mu is held or c is not shared yet.
func (c *clock) follow(k look) {
	seen := k.at.Add(k.doubt())
	c.off = seen.Sub(c.base)
	leapt := c.leap
	c.leap = c.off > clockLeap
	switch dead := max(clockDeadband, k.doubt()); {
	case c.leap && leapt:
		c.log.Warn("the database's clock is ahead of ledger time, which follows it at once", "by", c.off,
			"next_step", "check the time synchronisation of the database's machines")
		c.base, c.off, c.rate, c.leap = seen, 0, 0, false
	case c.off > dead:
		c.rate = min(clockSlew, c.off.Seconds())
	case c.off < -dead:
		if c.off < -clockLeap {
			c.log.Warn("the database's clock is behind ledger time, which waits for it and is never set back", "by", -c.off)
		}
		c.rate = max(-clockSlew, c.off.Seconds())
	default:
		c.rate = 0
	}
}

// askTime looks at the database's clock once.
func (l *Ledger) askTime(ctx context.Context) (k look, err error) {
	var us int64
	k.sent = l.mono()
	err = l.rows(ctx, func(r pgx.Rows) error {
		k.got = l.mono()
		return r.Scan(&us)
	}, `SELECT (extract(epoch FROM clock_timestamp()) * 1000000)::bigint`)
	k.at = stored.FromMicros(us)
	return k, err
}

// startClock anchors ledger time at the later of the database's clock and every stamp that the store still shows.
func (l *Ledger) startClock(ctx context.Context) error {
	begun := time.Now()
	l.mono = func() time.Duration { return time.Since(begun) }
	var best look
	for n := range startLooks {
		k, err := l.askTime(ctx)
		if err != nil {
			return err
		}
		if n == 0 || k.doubt() < best.doubt() {
			best = k
		}
	}
	var stamp *int64
	err := l.rows(ctx, func(r pgx.Rows) error { return r.Scan(&stamp) }, `SELECT greatest(
		(SELECT created_at FROM intent ORDER BY id DESC LIMIT 1),
		(SELECT max(updated_at) FROM open),
		(SELECT max(settled_at) FROM (SELECT settled_at FROM result ORDER BY id DESC LIMIT 1000) r))`)
	if err != nil {
		return err
	}
	var last time.Time
	if stamp != nil {
		last = stored.FromMicros(*stamp)
	}
	l.clock = newClock(l.mono, l.cfg.Logger, best, last)
	return nil
}

// keepTime asks the database for its time now and then, which tells as well whether it is there.
func (l *Ledger) keepTime() {
	for {
		pause := clockCheck
		if l.Healthy() != nil {
			pause = sickCheck
		}
		select {
		case <-l.closed:
			return
		case <-time.After(pause):
		}
		ctx, cancel := context.WithTimeout(l.ctx, l.cfg.ConnectTimeout)
		if err := l.probe(ctx); err != nil && !l.isClosed() {
			l.sick(err)
		}
		cancel()
	}
}

// probe asks for the time, and after a failure has the database show that it takes writes again.
func (l *Ledger) probe(ctx context.Context) error {
	k, err := l.askTime(ctx)
	if err != nil {
		return err
	}
	if k.doubt() < clockLeap { // else it says nothing
		l.clock.observe(k)
	}
	if l.cfg.ReadOnly || l.Healthy() == nil {
		l.health.CompareAndSwap(l.health.Load(), nil)
		return nil
	}
	if err := l.exec(ctx, `INSERT INTO meta (name, value) VALUES ('probe', $1)
		ON CONFLICT (name) DO UPDATE SET value = excluded.value`, fmt.Sprint(l.Now().UnixMicro())); err != nil {
		return err
	}
	l.well()
	l.cfg.Logger.Info("the store works again", "store", l.where)
	return nil
}
