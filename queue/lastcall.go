package queue

import (
	"time"

	"github.com/holdfast-ai/holdfast/internal/mutant"
)

// earliestCall bounds how long before its end a job has its last call.
const earliestCall = time.Minute

// LastCall is the moment from which on a job that may wait until expires waits no more for what bars its way: it goes another one, or is
// over soon. Backpressure comes first, so that it is in the last quarter of its time, and in its last minute.
func LastCall(created, expires time.Time) time.Time {
	return expires.Add(-min(expires.Sub(created)/4, earliestCall))
}

// expect sets the alarm of a job's last call, where it may go another way then.
func (q *Queue) expect(e *entry) {
	if e.line.key.called || e.late != nil || e.expires == 1<<63-1 || !q.Elsewhere(&e.line.head) || mutant.On("no-last-call") {
		return
	}
	e.late = &alarm{job: e}
	q.set(e.late, LastCall(time.UnixMicro(e.created), time.UnixMicro(e.expires)).UnixMicro())
}

// call has a job go a way that no bar shuts. One that waits for a time behind its end goes at once.
func (q *Queue) call(e *entry, now int64) {
	l := e.line
	q.pull(e)
	if e.readyAt >= e.expires {
		e.due(now)
	}
	k := l.key
	k.called = true
	q.push(q.lineAt(k, &l.head), e)
	q.drop(l)
}
