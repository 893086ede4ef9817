package bulkhead_test

import (
	"context"
	"errors"
	"math/rand/v2"
	"slices"
	"testing"
	"testing/synctest"

	"github.com/holdfast-ai/holdfast/bulkhead"
)

// model is a bulkhead as one would explain it: every step walks over all that wait.
type model struct {
	max, waiting int
	reserve      float64
	used, batch  int
	queue        []*attempt
}

// attempt is one Acquire, in the model and in the bubble.
type attempt struct {
	class  bulkhead.Class
	prio   bulkhead.Priority
	cancel context.CancelFunc
	came   int
	want   error // what the model says it ended with; errWaits while it waits
	got    error
}

var errWaits = errors.New("still waits")

// before is the order of service; equals go by their coming.
func before(a, b *attempt) bool {
	if a.class != b.class {
		return a.class == interactive
	}
	if a.prio != b.prio {
		return a.prio > b.prio
	}
	return a.came < b.came
}

func (m *model) fits(c bulkhead.Class) bool {
	return m.used < m.max && (c == interactive || m.batch < m.max-m.reserved())
}

func (m *model) take(c bulkhead.Class) bool {
	if !m.fits(c) {
		return false
	}
	m.used++
	if c == batch {
		m.batch++
	}
	return true
}

func (m *model) drop(c bulkhead.Class) {
	m.used--
	if c == batch {
		m.batch--
	}
	m.serve()
}

func (m *model) serve() {
	for i := 0; i < len(m.queue); {
		if a := m.queue[i]; m.take(a.class) {
			a.want = nil
			m.queue = slices.Delete(m.queue, i, i+1)
			continue
		}
		i++
	}
}

func (m *model) acquire(a *attempt) {
	if m.take(a.class) {
		a.want = nil
		return
	}
	a.want = errWaits
	at := slices.IndexFunc(m.queue, func(b *attempt) bool { return before(a, b) })
	if at < 0 {
		at = len(m.queue)
	}
	m.queue = slices.Insert(m.queue, at, a)
	if len(m.queue) > m.waiting {
		m.queue[m.waiting].want = bulkhead.ErrCrowded
		m.queue = m.queue[:m.waiting]
	}
}

func (m *model) reserved() int {
	n := 0
	for float64(n) < float64(m.max)*m.reserve-1e-6 {
		n++
	}
	if n == m.max && m.reserve < 1 {
		n--
	}
	return n
}

// history is one random history of a semaphore and its model.
type history struct {
	t    *testing.T
	r    *rand.Rand
	s    *bulkhead.Semaphore
	m    *model
	all  []*attempt
	held []bulkhead.Class
}

func TestModel(t *testing.T) {
	for seed := range uint64(300) {
		synctest.Test(t, func(t *testing.T) {
			h := &history{t: t, r: rand.New(rand.NewPCG(seed, 9)), m: &model{max: 1, waiting: 3}, s: bulkhead.New(bulkhead.Config{Max: 1, Waiting: 3})}
			for step := range 120 {
				h.step(step)
				synctest.Wait()
				if !h.same() {
					t.Fatalf("seed %d, step %d", seed, step)
				}
			}
			h.finish()
			look(t, h.s, h.m.max, 0, 0, 0)
		})
		if t.Failed() {
			return
		}
	}
}

func (h *history) class() bulkhead.Class { return bulkhead.Class(h.r.IntN(2)) }

func (h *history) step(n int) {
	switch h.r.IntN(10) {
	case 0, 1:
		c := h.class()
		got, want := h.s.Try(c), h.m.take(c)
		if got != want {
			h.t.Errorf("Try of class %d: %v, want %v", c, got, want)
		}
		if got {
			h.held = append(h.held, c)
		}
	case 2, 3, 4:
		h.acquire(n)
	case 5:
		if len(h.m.queue) > 0 {
			h.cancel(h.m.queue[h.r.IntN(len(h.m.queue))])
		}
	case 6, 7, 8:
		if len(h.held) > 0 {
			h.release(h.r.IntN(len(h.held)))
		}
	case 9:
		h.configure()
	}
}

func (h *history) acquire(n int) {
	ctx, cancel := context.WithCancel(h.t.Context())
	a := &attempt{class: h.class(), prio: bulkhead.Priority(h.r.IntN(3)), cancel: cancel, came: n, got: errWaits}
	h.all = append(h.all, a)
	h.m.acquire(a)
	go func() { a.got = h.s.Acquire(ctx, a.class, a.prio) }()
}

func (h *history) cancel(a *attempt) {
	h.m.queue = slices.DeleteFunc(h.m.queue, func(b *attempt) bool { return a == b })
	a.want = context.Canceled
	a.cancel()
}

func (h *history) release(i int) {
	c := h.held[i]
	h.held = slices.Delete(h.held, i, i+1)
	h.s.Release(c)
	h.m.drop(c)
}

// configure changes the limit alone, or all there is. A room for waiters smaller than those who wait sends none away.
func (h *history) configure() {
	h.m.max = 1 + h.r.IntN(6)
	if h.r.IntN(2) == 0 {
		h.s.Resize(h.m.max)
		h.m.serve()
		return
	}
	h.m.reserve, h.m.waiting = []float64{0, 0.2, 0.5, 1}[h.r.IntN(4)], max(2+h.r.IntN(6), len(h.m.queue))
	h.s.Configure(bulkhead.Config{Max: h.m.max, Reserve: h.m.reserve, Waiting: h.m.waiting})
	h.m.serve()
}

// same compares what can be seen, and takes over the slots of those who have stopped waiting.
func (h *history) same() bool {
	for i := 0; i < len(h.all); i++ {
		a := h.all[i]
		if a.got != a.want && (a.got == nil || a.want == nil || !errors.Is(a.got, a.want)) {
			h.t.Errorf("the caller of step %d (class %d, priority %d) got %v, want %v", a.came, a.class, a.prio, a.got, a.want)
			return false
		}
		if a.got == errWaits {
			continue
		}
		if a.got == nil {
			h.held = append(h.held, a.class)
		}
		a.cancel()
		h.all = slices.Delete(h.all, i, i+1)
		i--
	}
	look(h.t, h.s, h.m.max, h.m.used, h.m.batch, len(h.m.queue))
	return !h.t.Failed()
}

func (h *history) finish() {
	for len(h.m.queue) > 0 {
		h.cancel(h.m.queue[0])
	}
	synctest.Wait()
	h.same()
	for len(h.held) > 0 {
		h.release(0)
	}
}
