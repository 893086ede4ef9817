package route

import (
	"context"
	"time"
)

// followEvery is how often cool-downs that other processes have set are read.
const followEvery = time.Second

// Follow obeys the cool-downs that other processes of the same ledger set, and lets go of those that one of them has reset, until ctx ends.
func (t *Table) Follow(ctx context.Context) {
	if t.cfg.Cooldowns == nil {
		return
	}
	tick := time.NewTicker(followEvery)
	defer tick.Stop()
	seen := map[string]time.Time{}
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			seen = t.catchUp(ctx, seen)
		}
	}
}

// catchUp takes over the rows of the ledger, and returns them. seen are those of the last time: one that was to last longer and is gone
// was reset by an operator.
func (t *Table) catchUp(ctx context.Context, seen map[string]time.Time) map[string]time.Time {
	limited, stop := context.WithTimeout(ctx, rowLimit)
	defer stop()
	rows, err := t.cfg.Cooldowns.Cooldowns(limited)
	if err != nil {
		if ctx.Err() == nil {
			t.log.Debug("the cool-downs of other processes cannot be read; they are asked for again", "error", err)
		}
		return seen
	}
	now := t.cfg.Cooldowns.Now()
	for key, until := range rows {
		if wait := min(until.Sub(now), maxCooldown); wait > 0 && !until.Equal(seen[key]) {
			t.add(key).gate.close(wait, "set by another replica")
		}
	}
	for key, until := range seen {
		r := t.peek(key)
		if _, stands := rows[key]; stands || r == nil || !until.After(now) {
			continue
		}
		if rest := r.gate.remaining(); rest > 0 && rest <= until.Sub(now)+time.Millisecond {
			r.row.forget()
			r.gate.clear()
		}
	}
	return rows
}
