package queue

import (
	"context"
	"slices"
	"time"

	"github.com/holdfast-ai/holdfast/intent"
	"github.com/holdfast-ai/holdfast/internal/mutant"
	"github.com/holdfast-ai/holdfast/ledger"
)

// sweepEvery is how often the log is read for jobs that nobody announced, found by state and not by their lease, and for what
// has become of those that are known.
const sweepEvery = 30 * time.Second

// Sweeps that are made because there is room come a second behind the last one at the earliest, and four times as long as that
// one took: where a log is long, reading it is dear.
const (
	hungrily = time.Second
	dearness = 4
)

// sweep reads every job that waits from the log, and reports whether it came to the log's end.
func (q *Queue) sweep(ctx context.Context) (whole bool) {
	number, began := q.beginSweep(), q.Ledger.Now()
	if q.Fed { // by the sweeps of another, which may lie anywhere between two of its own
		q.endSweep(max(number, 2)-2, nil, began)
		return true
	}
	found := census{}
	for after := ""; ctx.Err() == nil; {
		records, err := q.Ledger.Open(ctx, after, page)
		if err != nil {
			if ctx.Err() == nil {
				q.Logger.Warn("waiting jobs could not be read; the next sweep tries again", "error", err)
			}
			return false
		}
		if records, err = q.Log.Reclaim(ctx, records); err != nil && ctx.Err() == nil {
			q.Logger.Warn("leases that ran out could not be looked for; the next sweep tries again", "error", err)
		}
		for _, r := range records {
			after = r.ID
			found.add(r)
			if !q.Takes(&r.Intent) {
				q.Others(r)
				continue
			}
			q.spot(r)
			q.as(ctx, r)
			q.add(r)
		}
		if len(records) < page {
			q.endSweep(number, found, began)
			return true
		}
	}
	return false
}

func (q *Queue) beginSweep() (number uint64) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.starved {
		q.share()
	}
	q.sweeps++
	q.hunger, q.starved = false, false
	return q.sweeps
}

// endSweep forgets what waits no more: who ended it need not have told.
func (q *Queue) endSweep(number uint64, found census, began time.Time) {
	q.collect(number)
	for _, e := range q.gone(number) {
		q.mu.Lock()
		if q.known[e.id] == e && e.line != nil && !mutant.On("gone-stays-known") {
			q.remove(e)
		}
		q.mu.Unlock()
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	now := q.Ledger.Now()
	q.seen, q.hungry = found, now.Add(max(hungrily, dearness*now.Sub(began)))
	for _, w := range q.ways {
		w.partial = w.refused == number
		q.drained(w)
	}
}

// gone are those that wait here which the sweep did not find, or whose time is over.
func (q *Queue) gone(number uint64) (list []*entry) {
	now := q.Ledger.Now()
	q.mu.Lock()
	defer q.mu.Unlock()
	for _, e := range q.known {
		if e.line != nil && (e.sweep < number || e.over(now)) {
			list = append(list, e)
		}
	}
	return list
}

// room reports whether one more job of a way may be known: each may have half of what is free.
func (q *Queue) room(w *way) bool {
	free := q.most - len(q.known)
	if mutant.On("one-route-fills-all") {
		return free > 0
	}
	return w.waiting < (free+1)/2
}

// refuse leaves a job of a line in the log.
func (q *Queue) refuse(l *line) {
	w := l.way
	w.partial, w.refused, w.low = true, q.sweeps, w.waiting/2
	if w.waiting == 0 {
		q.starved = true
	}
	q.drop(l)
}

// drained has the log read where a way has room for what was left there of it.
func (q *Queue) drained(w *way) {
	if w.partial && w.waiting <= w.low {
		q.hunger = true
		q.wake()
	}
}

// appetite is how long it is until the log is worth another look because there is room.
func (q *Queue) appetite() time.Duration {
	if !q.Fed && (q.hunger || q.starved && len(q.known) < q.most/2) {
		return max(0, q.hungry.Sub(q.Ledger.Now()))
	}
	return sweepEvery
}

// starves reports whether that is now.
func (q *Queue) starves() bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.appetite() == 0
}

// share makes room where ways were left none: of each that has more than its part of three quarters, the last to go are
// dropped back to the log.
func (q *Queue) share() {
	part, all := q.most*3/4/max(1, len(q.ways)), map[*way]int{}
	for _, w := range q.ways {
		all[w] = w.waiting
	}
	for _, l := range q.lines {
		if had := all[l.way]; had > part {
			q.cut(l, (len(l.ready.list)+len(l.later.list))*part/had)
		}
	}
}

// cut leaves a line no more than its first jobs.
func (q *Queue) cut(l *line, most int) {
	all := slices.Concat(l.ready.list, l.later.list)
	slices.SortFunc(all, func(a, b *entry) int {
		switch {
		case a.in != b.in && a.in == &l.ready, a.in == b.in && a.in.less(a, b):
			return -1
		}
		return 1
	})
	l.way.partial, l.way.refused, l.way.low = true, q.sweeps, 0
	for _, e := range all[most:] {
		q.remove(e)
	}
}

// replayed is the version of a job's record before which no person can have sent it back: it is made, parked and revived.
const replayed = 3

// as makes of a record that is about to enter the schedule what it counts as there. What is known already costs nothing.
func (q *Queue) as(ctx context.Context, r *ledger.Record) {
	if q.As == nil || r.Version < replayed || !q.waits(&r.Intent, &r.Status) {
		return
	}
	q.mu.Lock()
	known := q.known[r.ID] != nil
	q.mu.Unlock()
	if known {
		return
	}
	events, err := q.Ledger.History(ctx, r.ID)
	if err != nil {
		return // its worker reads it again
	}
	if said := intent.LifeOf(events).Said; said != nil {
		r.Intent = q.As(r.Intent, said)
	}
}
