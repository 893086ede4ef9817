package queue

import (
	"bytes"
	"context"

	"github.com/holdfast-ai/holdfast/intent"
	"github.com/holdfast-ai/holdfast/internal/mutant"
	"github.com/holdfast-ai/holdfast/ledger"
)

// Submit writes a job down, with its claim in the same commit, and has it worked on; in a lane that only a person leaves, it
// waits there. Where its key is held the error is an *intent.DuplicateError.
//
// A worker that has nothing else to do has the job from the beginning: its lease is in the same commit.
func (q *Queue) Submit(b intent.Begin) (*intent.Op, error) {
	if b.Job, b.Visibility = true, ledger.VisBackground; !intent.Parked(b.Lane) {
		b.Lane = intent.LaneBackground
	}
	h, reserved := q.reserve(&b)
	begun := false
	defer func() {
		if reserved && !begun {
			q.unreserve(h)
		}
	}()
	b.Leased = reserved
	op, err := q.Log.Begin(b)
	if err != nil {
		return nil, err
	}
	r := ledger.Record{Intent: *op.Head(), Status: op.Status()}
	e := entryOf(&r)
	e.fresh = freshOf(q.Log.Load(&r).Patient(), &b)
	if !reserved {
		q.enter(&r, e)
		return op, nil
	}
	begun = true
	q.begin(e, h)
	return op, nil
}

// reserve keeps a worker for a job that is about to be submitted, where it would be the next to be worked on. Such a job is
// leased from the beginning.
func (q *Queue) reserve(b *intent.Begin) (h hands, ok bool) {
	now := q.Ledger.Now()
	if intent.Parked(b.Lane) || b.ReadyAt.After(now) || !q.Takes(&b.Head) {
		return h, false
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.hire(); !q.idles() { // those that wait go first
		return h, false
	}
	l := q.lineOf(&b.Head, 0)
	w := l.way
	if (w.shut || w.barred || w.partial || !q.room(w) || q.obstacle(l) != nil || q.bar(w, now)) && !mutant.On("reserve-out-of-turn") {
		q.drop(l)
		return h, false
	}
	q.pace(w, now)
	return q.take(l), true
}

// unreserve gives back what was kept for a job that was not submitted.
func (q *Queue) unreserve(h hands) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.giveBack(h)
	q.released()
	q.left()
	q.wake()
}

// begin has a worker do the job that it was kept for.
func (q *Queue) begin(e *entry, h hands) {
	q.mu.Lock()
	q.known[e.id], q.hands[e.id] = e, q.Ledger.Now()
	q.keep(e)
	ctx := context.WithoutCancel(q.running) // Run waits for this worker
	q.mu.Unlock()
	go q.work(ctx, e, h)
}

// fresh is what is at hand of a job between its submission and its first worker.
type fresh struct {
	op              *intent.Op
	request, header *ledger.Body // nil: only in the log
	size            int
}

// freshOf is of a job that b made. Its bodies are copies: whoever submitted it may go on with his.
func freshOf(op *intent.Op, b *intent.Begin) *fresh {
	f := &fresh{op: op}
	if b.Request == nil || b.Header == nil || len(b.Request.Data)+len(b.Header.Data) > mostKept {
		return f
	}
	f.request, f.header = copied(b.Request), copied(b.Header)
	f.size = len(f.request.Data) + len(f.header.Data)
	return f
}

func copied(b *ledger.Body) *ledger.Body {
	c := *b
	c.Data = bytes.Clone(b.Data)
	return &c
}

// keep counts the bodies of a fresh job, or drops them where there are too many. The caller has the queue's lock.
func (q *Queue) keep(e *entry) {
	if f := e.fresh; q.kept+f.size > mostKeptBytes {
		f.request, f.header, f.size = nil, nil, 0
	}
	q.kept += e.fresh.size
}
