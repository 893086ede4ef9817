package queue

import (
	"context"
	"time"

	"github.com/holdfast-ai/holdfast/intent"
	"github.com/holdfast-ai/holdfast/internal/mutant"
	"github.com/holdfast-ai/holdfast/ledger"
)

// Beside other engines a job may be written down by any of them, and each takes what it has room for: the lease decides. Between two
// sweeps the end of the log is read for what has come: when the ledger says so (ledger.Notifier), and in any case now and then, for
// no notice is promised.
const (
	// peekEvery is how often that is without a notice, peekSoon how long after the last time with one.
	peekEvery = time.Second
	peekSoon  = 10 * time.Millisecond
	// peekBack is how much of what was there at the last look is read again: ids are in the order of their makers' clocks, and a
	// commit takes its time. What comes later still is found by the next sweep.
	peekBack = 5 * time.Second
	// peekPages bounds one look.
	peekPages = 4
)

// hearing is what a queue knows of the others' work.
type hearing struct {
	heard bool
	all   bool      // notices may have been lost
	after time.Time // local time before which there is no look
	last  time.Time // ledger time of the last look
	floor time.Time // local time of the next look without a notice
}

// shares reports whether other engines write jobs down that this queue reads.
func (q *Queue) shares() bool { return !q.Log.Alone() && !q.Fed }

// listen has the ledger's notices heard until stop.
func (q *Queue) listen() (stop func()) {
	n, able := q.Ledger.(ledger.Notifier)
	if !able || !q.shares() {
		return func() {}
	}
	return n.Notices(func(n ledger.Notice) {
		if n.Kind != ledger.NoticeReady && n.Kind != ledger.NoticeAll {
			return
		}
		q.mu.Lock()
		q.heard, q.all = true, q.all || n.Kind == ledger.NoticeAll
		q.mu.Unlock()
		q.wake()
	})
}

// peekIn is how long it is until the end of the log is worth a look. Who has no worker free leaves it to those who have. The caller
// has the queue's lock.
func (q *Queue) peekIn() time.Duration {
	now := time.Now()
	switch {
	case !q.shares() || q.running == nil:
		return sweepEvery
	case !q.idles():
		return peekEvery
	case q.heard:
		return max(0, q.hearing.after.Sub(now))
	case mutant.On("notify-without-polling-floor"):
		return sweepEvery
	}
	return max(0, q.hearing.floor.Sub(now))
}

// peekNow reports whether it is now, and begins it.
func (q *Queue) peekNow() (since time.Time, now bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if !q.shares() || !q.idles() || q.peekIn() > 0 {
		return since, false
	}
	since = q.hearing.last
	if q.hearing.last = q.Ledger.Now(); since.IsZero() {
		since = q.hearing.last
	}
	if q.all { // what was lost may be anywhere
		q.hunger = true
	}
	q.heard, q.all = false, false
	return since.Add(-peekBack), true
}

// peek reads the end of the log.
func (q *Queue) peek(ctx context.Context) {
	since, now := q.peekNow()
	if !now {
		return
	}
	began, after := time.Now(), intent.IDAt(since)
	for range peekPages {
		records, err := q.Ledger.Open(ctx, after, page)
		if err != nil {
			break // the next look goes on
		}
		for _, r := range records {
			after = r.ID
			if q.Takes(&r.Intent) {
				q.add(r)
			} else {
				q.Others(r)
			}
		}
		if len(records) < page {
			break
		}
	}
	took := time.Since(began)
	q.mu.Lock()
	q.hearing.after, q.hearing.floor = time.Now().Add(max(peekSoon, dearness*took)), time.Now().Add(max(peekEvery, dearness*took))
	q.mu.Unlock()
}

// doubt puts a job off whose submitter may have been refused: another engine wrote it down, and its commit took longer than a caller
// waits, or else its first sight here did. That engine takes it back behind its commit (semantics 9), if so. The order of what waits
// stays as it is.
func (q *Queue) doubt(r *ledger.Record, e *entry) {
	if q.Log.Alone() || r.Version > 1 || intent.IsCallback(&r.Intent) {
		return
	}
	if now, wait := q.Ledger.Now(), q.Log.CommitWait(); now.Sub(r.CreatedAt) > wait {
		e.readyAt = max(e.readyAt, now.Add(wait).UnixMicro())
	}
}
