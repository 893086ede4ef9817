package postgres

import (
	"fmt"
	"runtime"
	"sync"
	"time"

	"github.com/holdfast-ai/holdfast/ledger"
)

const (
	// batchItems and batchBytes bound one transaction, so that the first of a crowd does not wait for the last.
	batchItems = 1024
	batchBytes = 8 << 20
	// crowd is how many, at most, have to wait before a second transaction goes beside one that is under way; less than half of what that one carries
	// is not worth one of its own, and goes with what comes until it ends, or for relaxedWait.
	crowd = 32
	// queueLook bounds how many of those that wait are looked at for one batch: most of them may wait for another's transaction.
	queueLook = 8 * batchItems
	// relaxedWait is how long a write without a hurry waits for one with.
	relaxedWait = 2 * time.Millisecond
	// relaxedItems makes a crowd of unhurried writes go without waiting for the time.
	relaxedItems = 512
)

// queue gathers writes, in order, for the writers. What is written to one intent, or claimed under one key, is in one writer's hands at a time: so
// such writes stay in the order in which they were queued, and writers never wait for each other inside the database.
type queue struct {
	wake chan struct{}
	max  int64

	mu      sync.Mutex
	waiting []*item
	busy    map[key]bool // what the writers have in their hands
	blocked map[key]bool // of one walk: what stands before others
	bytes   int64        // of all that is queued or being committed
	flying  int          // items in the writers' hands
	urgent  bool         // something waits that does not like to
	overdue bool         // something has waited for relaxedWait
	closed  bool
	timer   *time.Timer // runs while nothing waits that a transaction is begun for
	armed   bool
}

func (q *queue) init(maxBytes int64, writers int) {
	q.wake = make(chan struct{}, writers)
	q.max = maxBytes
	q.busy, q.blocked = map[key]bool{}, map[key]bool{}
}

// put queues it. An error means that it was not queued.
func (q *queue) put(it *item, relaxed bool) error {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.closed {
		return ledger.ErrClosed
	}
	if q.bytes > 0 && q.bytes+it.size > q.max {
		return fmt.Errorf("%w: %d MiB wait for the database already; it is too slow for this traffic or stuck",
			ledger.ErrUnavailable, q.bytes>>20)
	}
	q.bytes += it.size
	q.waiting = append(q.waiting, it)
	switch {
	case !relaxed || len(q.waiting) >= relaxedItems:
		if !q.urgent || len(q.waiting) == min(q.flying/2, crowd) {
			q.signal()
		}
		q.urgent = true
		if q.flying > 0 && !q.armed {
			q.arm()
		}
	case !q.urgent && !q.armed:
		q.arm()
	}
	return nil
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
		q.urgent, q.overdue = true, true
		q.signal()
	}
}

// take returns the next batch in to, or nothing when nothing is due.
func (q *queue) take(to []*item) []*item {
	q.mu.Lock()
	defer q.mu.Unlock()
	if !q.urgent || !q.overdue && len(q.waiting) < min(q.flying/2, crowd) {
		return to
	}
	q.overdue = false
	clear(q.blocked)
	var bytes int64
	stay := q.waiting[:0]
	for i, it := range q.waiting {
		if i >= queueLook || len(to) >= batchItems || bytes >= batchBytes {
			stay = append(stay, q.waiting[i:]...)
			break
		}
		if q.inTheWay(it) {
			stay = append(stay, it)
			continue
		}
		to = append(to, it)
		bytes += it.size
	}
	clear(q.waiting[len(stay):])
	q.waiting = stay
	for _, it := range to {
		for _, k := range it.keys {
			if k.kind != 0 {
				q.busy[k] = true
			}
		}
	}
	q.flying += len(to)
	q.urgent = len(q.waiting) > 0
	if q.urgent && len(to) > 0 {
		q.signal() // for another writer
	}
	if !q.urgent && q.armed {
		q.timer.Stop()
		q.armed = false
	}
	return to
}

// inTheWay says that it has to wait for another writer, or behind something that has, and then what is behind it too. q.mu is held.
func (q *queue) inTheWay(it *item) bool {
	found := false
	for _, k := range it.keys {
		found = found || k.kind != 0 && (q.busy[k] || q.blocked[k])
	}
	if found {
		for _, k := range it.keys {
			if k.kind != 0 {
				q.blocked[k] = true
			}
		}
	}
	return found
}

// settled gives back the room and the keys of a batch whose outcome is known.
func (q *queue) settled(items []*item) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.flying -= len(items)
	for _, it := range items {
		q.bytes -= it.size
		for _, k := range it.keys {
			delete(q.busy, k)
		}
	}
	if q.urgent {
		q.signal()
	}
}

// rest empties the queue of what no writer has in its hands.
func (q *queue) rest() (items []*item) {
	q.mu.Lock()
	defer q.mu.Unlock()
	items, q.waiting, q.urgent = q.waiting, nil, false
	for _, it := range items {
		q.bytes -= it.size
	}
	return items
}

// gather lets callers run until nobody adds to the queue any more. No timer: sleeping costs a millisecond where yielding costs what the callers
// need anyway.
func (q *queue) gather() {
	for n := -1; ; {
		q.mu.Lock()
		now := len(q.waiting)
		q.mu.Unlock()
		if now == n || now >= batchItems {
			return
		}
		n = now
		runtime.Gosched()
	}
}

// close refuses new writes and sends the writers for the old ones.
func (q *queue) close() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.closed, q.urgent = true, len(q.waiting) > 0
}

// Enqueue implements ledger.Ledger.
func (l *Ledger) Enqueue(w *ledger.Write) <-chan struct{} {
	w.Err, w.Holder = nil, ""
	if l.cfg.ReadOnly {
		return refuse(w, fmt.Errorf("%w: opened read-only", ledger.ErrUnavailable))
	}
	it, err := encode(w)
	if err == nil {
		err = l.queue.put(it, w.Relaxed)
	}
	if err != nil {
		return refuse(w, err)
	}
	return it.done
}

func refuse(w *ledger.Write, err error) <-chan struct{} {
	w.Err = err
	done := make(chan struct{})
	close(done)
	return done
}
