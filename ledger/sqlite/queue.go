package sqlite

import (
	"fmt"
	"runtime"
	"sync"
	"time"

	"github.com/holdfast-ai/holdfast/internal/mutant"
	"github.com/holdfast-ai/holdfast/ledger"
)

const (
	// batchItems and batchBytes bound one transaction, so that the first of a crowd does not wait for the last.
	batchItems = 2048
	batchBytes = 16 << 20
	// relaxedWait is how long a write without a hurry waits for one with.
	relaxedWait = 2 * time.Millisecond
	// relaxedItems makes a crowd of unhurried writes go without waiting for the time.
	relaxedItems = 512
)

// batch is what will be one transaction. Everybody in it waits on the one channel.
type batch struct {
	items []*item
	bytes int64
	done  chan struct{}
}

// queue gathers writes, in order, for the one writer.
type queue struct {
	wake chan struct{} // capacity 1
	max  int64

	mu      sync.Mutex
	waiting []*batch // the last one still grows
	bytes   int64    // of all that is queued or being committed
	urgent  bool     // something waits that does not like to
	closed  bool
	timer   *time.Timer // set while only relaxed writes wait
	armed   bool
}

func (q *queue) init(maxBytes int64) {
	q.wake = make(chan struct{}, 1)
	q.max = maxBytes
}

// put queues it and returns the channel of its batch. An error means that it was not queued.
func (q *queue) put(it *item, relaxed bool) (<-chan struct{}, error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.closed {
		return nil, ledger.ErrClosed
	}
	if q.bytes > 0 && q.bytes+it.size > q.max {
		return nil, fmt.Errorf("%w: %d MiB wait for the disk already; it is too slow for this traffic or stuck",
			ledger.ErrUnavailable, q.bytes>>20)
	}
	q.bytes += it.size
	b := q.last()
	b.items = append(b.items, it)
	b.bytes += it.size
	switch {
	case !relaxed || len(b.items) >= relaxedItems || len(q.waiting) > 1:
		if !q.urgent {
			q.urgent = true
			q.signal()
		}
	case !q.urgent && !q.armed:
		q.arm()
	}
	return b.done, nil
}

func (q *queue) last() *batch {
	if n := len(q.waiting); n > 0 {
		if b := q.waiting[n-1]; len(b.items) < batchItems && b.bytes < batchBytes {
			return b
		}
	}
	b := &batch{done: make(chan struct{})}
	q.waiting = append(q.waiting, b)
	return b
}

func (q *queue) signal() {
	select {
	case q.wake <- struct{}{}:
	default:
	}
}

// arm starts the wait of the relaxed writes; q.mu is held.
func (q *queue) arm() {
	q.armed = true
	if q.timer == nil {
		q.timer = time.AfterFunc(relaxedWait, q.hurry)
		return
	}
	q.timer.Reset(relaxedWait)
}

func (q *queue) hurry() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.armed = false
	if len(q.waiting) > 0 {
		q.urgent = true
		q.signal()
	}
}

// take returns the next batch, or nil when nothing is due.
func (q *queue) take() *batch {
	q.mu.Lock()
	defer q.mu.Unlock()
	if !q.urgent || len(q.waiting) == 0 {
		return nil
	}
	return q.first()
}

// board returns the next batch, due or not; nil where there is none, or none that fits beside b into one transaction.
func (q *queue) board(b *batch) *batch {
	q.mu.Lock()
	defer q.mu.Unlock()
	if len(q.waiting) == 0 || len(b.items)+len(q.waiting[0].items) > batchItems || b.bytes+q.waiting[0].bytes > batchBytes {
		return nil
	}
	return q.first()
}

// first takes the first batch out of the queue; q.mu is held.
func (q *queue) first() *batch {
	b := q.waiting[0]
	q.waiting = q.waiting[1:]
	if len(q.waiting) == 0 {
		q.waiting, q.urgent = nil, false
		if q.armed {
			q.timer.Stop()
			q.armed = false
		}
	}
	return b
}

// settled gives back the room of a batch whose outcome is known.
func (q *queue) settled(b *batch) {
	q.mu.Lock()
	q.bytes -= b.bytes
	q.mu.Unlock()
}

// gather lets callers run until nobody adds to the next batch any more. No timer: sleeping costs a millisecond
// where yielding costs what the callers need anyway.
func (q *queue) gather() {
	for n := -1; ; {
		q.mu.Lock()
		now, full := 0, len(q.waiting) > 1
		if len(q.waiting) > 0 {
			now = len(q.waiting[0].items)
		}
		q.mu.Unlock()
		if now == n || full {
			return
		}
		n = now
		runtime.Gosched()
	}
}

// close refuses new writes and sends the writer for the old ones.
func (q *queue) close() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.closed, q.urgent = true, true
	q.signal()
}

// Enqueue implements ledger.Ledger.
func (l *Ledger) Enqueue(w *ledger.Write) <-chan struct{} {
	w.Err, w.Holder = nil, ""
	if l.cfg.ReadOnly {
		return refuse(w, fmt.Errorf("%w: opened read-only", ledger.ErrUnavailable))
	}
	if mutant.On("check-then-set") && w.ClaimKey != "" && l.peekHolder(w) {
		return refuse(w, ledger.ErrClaimed)
	}
	it, err := encode(w)
	if err != nil {
		return refuse(w, err)
	}
	done, err := l.queue.put(it, w.Relaxed)
	if err != nil {
		return refuse(w, err)
	}
	if mutant.On("ack-early") {
		return refuse(w, nil)
	}
	return done
}

func refuse(w *ledger.Write, err error) <-chan struct{} {
	w.Err = err
	done := make(chan struct{})
	close(done)
	return done
}
