package queue

import (
	"context"
	"time"
)

// leastWait is how long Run sleeps at least, whatever is due: what has become due meanwhile goes together.
const leastWait = time.Millisecond

// fill gives jobs to free workers and returns how long it is until another may be due.
func (q *Queue) fill() time.Duration {
	q.mu.Lock()
	defer q.mu.Unlock()
	wait := max(leastWait, min(q.hire(), q.appetite(), q.peekIn()))
	q.rings = q.Ledger.Now().Add(wait)
	return wait
}

// hire is fill under the queue's lock.
func (q *Queue) hire() time.Duration {
	for {
		e, h, wait := q.next()
		if e == nil {
			return wait
		}
		go q.work(context.WithoutCancel(q.running), e, h)
	}
}

// next takes the job that goes next for a free worker; nil where there is no such job or no such worker, and then how long
// it is until there might be one.
func (q *Queue) next() (*entry, hands, time.Duration) {
	if !q.idles() {
		return nil, hands{}, sweepEvery
	}
	now := q.Ledger.Now()
	l := q.choose(now)
	if l == nil {
		return nil, hands{}, q.quiet(now)
	}
	q.pace(l.way, now)
	e := l.first()
	h := q.take(l)
	q.pull(e)
	q.hands[e.id] = now
	return e, h, 0
}

// idles reports whether a worker may take a job.
func (q *Queue) idles() bool {
	return q.running != nil && q.running.Err() == nil && q.working < q.Workers
}

// quiet is how long nothing changes by itself.
func (q *Queue) quiet(now time.Time) time.Duration {
	if q.alarms.empty() {
		return sweepEvery
	}
	return min(sweepEvery, time.UnixMicro(q.alarms.first().at).Sub(now))
}

// choose is the line whose first job goes next, nil where none may. Each step takes a line or a way from where it stands to
// where it has to wait, and it comes back when that has changed: what one job costs does not grow with how many wait, but
// for the depth of the heaps.
func (q *Queue) choose(now time.Time) *line {
	q.ring(now)
	for {
		q.admit()
		if q.open.empty() {
			return nil
		}
		w := q.open.first()
		l := w.standing.first()
		if l.first().over(now) {
			q.remove(l.first())
			continue
		}
		if g := q.obstacle(l); g != nil {
			q.stand(l, g)
			continue
		}
		if l.key.called || !q.bar(w, now) {
			return l
		}
	}
}

// ring does what is due.
func (q *Queue) ring(now time.Time) {
	for at := now.UnixMicro(); !q.alarms.empty() && q.alarms.first().at <= at; {
		a := q.alarms.first()
		switch {
		case a.job != nil:
			q.call(a.job, at)
			continue
		case a.way == nil:
			q.promote(a.line, at)
			continue
		}
		q.unset(a)
		a.way.shut = false
		q.rank(a.way)
	}
}
