package gateway

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/holdfast-ai/holdfast/internal/mutant"
	"github.com/holdfast-ai/holdfast/ledger"
)

// Bounds of how often the log is asked of an operation whose end another gateway writes. A notice comes sooner; none is needed.
const (
	firstLook = 50 * time.Millisecond
	slowLook  = 500 * time.Millisecond
)

// awaits are the operations of other gateways whose ends are waited for here: one goroutine asks for all of them, however many
// requests wait.
type awaits struct {
	g    *Gateway
	mu   sync.Mutex
	all  map[*awaited]struct{}
	runs bool
	wake chan struct{}
	stop func() // of the notices
}

// awaited is one of them. What was read of it last stands in news; nil says that it is gone.
type awaited struct {
	id   string
	news chan *ledger.Record
	due  time.Time
	rest time.Duration
}

func newAwaits(g *Gateway) *awaits {
	a := &awaits{g: g, all: map[*awaited]struct{}{}, wake: make(chan struct{}, 1)}
	if n, ok := g.ledger.(ledger.Notifier); ok && g.fleet() {
		a.stop = n.Notices(a.noticed)
	}
	return a
}

func (a *awaits) close() {
	if a.stop != nil {
		a.stop()
	}
}

// noticed has what a notice is about read at once.
func (a *awaits) noticed(n ledger.Notice) {
	if n.Kind == ledger.NoticeReady {
		return
	}
	a.mu.Lock()
	hit := false
	for w := range a.all {
		if n.Kind == ledger.NoticeAll || w.id == n.ID {
			w.due, hit = time.Time{}, true
		}
	}
	a.mu.Unlock()
	if hit {
		a.rouse()
	}
}

func (a *awaits) rouse() {
	select {
	case a.wake <- struct{}{}:
	default:
	}
}

// add has an operation watched until remove.
func (a *awaits) add(id string) *awaited {
	w := &awaited{id: id, news: make(chan *ledger.Record, 1), due: time.Now().Add(firstLook), rest: firstLook}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.all[w] = struct{}{}
	if !a.runs {
		a.runs = true
		go a.run()
	}
	a.rouse()
	return w
}

func (a *awaits) remove(w *awaited) {
	a.mu.Lock()
	delete(a.all, w)
	a.mu.Unlock()
	a.rouse()
}

// soon has w read as soon as can be, and then as often as at first.
func (a *awaits) soon(w *awaited) {
	if mutant.On("await-without-polling-floor") {
		return
	}
	a.mu.Lock()
	w.due, w.rest = time.Time{}, firstLook
	a.mu.Unlock()
	a.rouse()
}

// run asks until nobody waits.
func (a *awaits) run() {
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		due, next, any := a.turn(time.Now())
		if !any {
			return
		}
		for _, w := range due {
			a.look(w)
		}
		if len(due) > 0 {
			continue
		}
		if mutant.On("await-without-polling-floor") {
			next = time.Hour
		}
		timer.Reset(next)
		select {
		case <-timer.C:
		case <-a.wake:
		}
	}
}

// turn takes what is to be read now; else it says in how long something is. any is false once nobody waits.
func (a *awaits) turn(now time.Time) (due []*awaited, next time.Duration, any bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if len(a.all) == 0 {
		a.runs = false
		return nil, 0, false
	}
	next = slowLook
	for w := range a.all {
		floor := !mutant.On("await-without-polling-floor") || w.due.IsZero()
		if in := w.due.Sub(now); in > 0 || !floor {
			next = min(next, in)
			continue
		}
		w.due = now.Add(w.rest)
		w.rest = min(w.rest*3/2, slowLook)
		due = append(due, w)
	}
	return due, next, true
}

// look reads an operation. While the store is away nothing is known: whoever waits has a time of its own.
func (a *awaits) look(w *awaited) {
	ctx, stop := context.WithTimeout(context.Background(), a.g.current.Load().policy.Limits.CommitWait)
	defer stop()
	r, err := a.g.ledger.Get(ctx, w.id)
	if err != nil && !errors.Is(err, ledger.ErrNotFound) {
		return
	}
	select { // the newest alone counts
	case <-w.news:
	default:
	}
	w.news <- r
}
