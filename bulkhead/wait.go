package bulkhead

import "github.com/holdfast-ai/holdfast/internal/mutant"

// join takes a slot after all (nil, nil), or stands in line (the waiter), or refuses.
func (s *Semaphore) join(c Class, p Priority) (*waiter, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for {
		w := s.load()
		switch {
		case s.fits(w, c):
			if s.swap(w, w.take(c)) {
				return nil, nil
			}
		case s.queue.len >= s.most && !s.queue.outranks(c, p):
			return nil, ErrCrowded
		case s.swap(w, w.wait(true)): // from here on every Release comes by the lock
			if s.queue.len >= s.most {
				s.queue.shed()
			}
			return s.queue.push(c, p), nil
		}
	}
}

// leave takes w out of its line, and reports false if its wait has ended already.
func (s *Semaphore) leave(w *waiter) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	select {
	case <-w.done:
		return false
	default:
	}
	s.queue.remove(w)
	s.settle(func(w word) word { return w })
	return true
}

// settle makes a change of the state and, in the same step, gives all slots that are free afterwards to those that
// wait. So there is never a moment in which a slot is free for somebody who waits, which is why Try need not ask who
// does. The caller holds the lock.
func (s *Semaphore) settle(change func(word) word) {
	for {
		old := s.load()
		next := change(old)
		free := max(0, next.max()-next.used())
		first := min(free, s.queue.count[0])
		then := max(0, min(free-first, s.batchMax(next.max())-next.batch(), s.queue.count[1]))
		next += word(first)*oneUsed + word(then)*(oneUsed+oneBatch)
		if s.swap(old, next.wait(s.queue.len > first+then)) {
			s.queue.admit(Interactive, first)
			s.queue.admit(Batch, then)
			return
		}
	}
}

// waiter is one caller of Acquire that found no slot.
type waiter struct {
	next, prev  *waiter
	class, rank int
	// done closes when the wait ends by another's doing: with a slot, or with shed set.
	done chan struct{}
	shed bool
}

// line is one priority of one class, first come first.
type line struct{ head, tail *waiter }

// queue holds those that wait, in lines by class and priority, which are served in this order.
type queue struct {
	lines [2][3]line // Interactive, Batch; from High to Low
	count [2]int     // by class
	len   int
}

// place is where a class and a priority stand; values that are none of the named ones count as the nearest.
func place(c Class, p Priority) (class, rank int) {
	if mutant.On("waits-without-order") {
		return int(min(c, Batch)), 0
	}
	return int(min(c, Batch)), int(High - min(p, High))
}

func (q *queue) push(c Class, p Priority) *waiter {
	w := &waiter{done: make(chan struct{})}
	w.class, w.rank = place(c, p)
	l := &q.lines[w.class][w.rank]
	w.prev = l.tail
	if l.tail == nil {
		l.head = w
	} else {
		l.tail.next = w
	}
	l.tail = w
	q.count[w.class]++
	q.len++
	return w
}

func (q *queue) remove(w *waiter) {
	l := &q.lines[w.class][w.rank]
	if w.prev == nil {
		l.head = w.next
	} else {
		w.prev.next = w.next
	}
	if w.next == nil {
		l.tail = w.prev
	} else {
		w.next.prev = w.prev
	}
	w.next, w.prev = nil, nil
	q.count[w.class]--
	q.len--
}

// admit ends the wait of the first n of a class: they have their slots.
func (q *queue) admit(c Class, n int) {
	for rank := 0; n > 0; {
		w := q.lines[c][rank].head
		if w == nil {
			rank++
			continue
		}
		q.remove(w)
		close(w.done)
		n--
	}
}

// last is who would be served last: the newest of the lowest line.
func (q *queue) last() *waiter {
	for class := len(q.lines) - 1; class >= 0; class-- {
		for rank := len(q.lines[class]) - 1; rank >= 0; rank-- {
			if w := q.lines[class][rank].tail; w != nil {
				return w
			}
		}
	}
	return nil
}

// outranks reports whether such a caller goes before somebody who waits in a lower line.
func (q *queue) outranks(c Class, p Priority) bool {
	w := q.last()
	if w == nil {
		return false
	}
	class, rank := place(c, p)
	return class < w.class || class == w.class && rank < w.rank
}

// shed sends the last one away.
func (q *queue) shed() {
	w := q.last()
	w.shed = true
	q.remove(w)
	close(w.done)
}
