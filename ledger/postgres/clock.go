package postgres

import (
	"context"
	"sync"
	"time"
)

// clock is ledger time.
type clock struct {
	mu   sync.Mutex
	last time.Time
}

func (c *clock) now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	t := time.Now().UTC().Truncate(time.Microsecond)
	if t.Before(c.last) {
		t = c.last
	}
	c.last = t
	return t
}

func (l *Ledger) startClock(ctx context.Context) error {
	l.clock = &clock{}
	return nil
}
