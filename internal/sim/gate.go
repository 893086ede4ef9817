package sim

import (
	"context"
	"sync"
)

// gates hold calls at a named point until a test lets them go.
type gates struct {
	mu     sync.Mutex
	closed map[string]*gate
}

type gate struct {
	open    chan struct{}
	waiting int
}

func newGates() *gates { return &gates{closed: map[string]*gate{}} }

// wait blocks until the gate is released; false means that ctx ended first.
func (g *gates) wait(name string, done ...context.Context) bool {
	g.mu.Lock()
	at := g.closed[name]
	if at == nil {
		at = &gate{open: make(chan struct{})}
		g.closed[name] = at
	}
	at.waiting++
	g.mu.Unlock()
	defer func() {
		g.mu.Lock()
		at.waiting--
		g.mu.Unlock()
	}()
	a := done[0].Done()
	b := done[len(done)-1].Done()
	select {
	case <-at.open:
		return true
	case <-a:
	case <-b:
	}
	return false
}

// release lets all go who wait at the gate now and returns how many; later ones wait again.
func (g *gates) release(name string) int {
	g.mu.Lock()
	defer g.mu.Unlock()
	at := g.closed[name]
	if at == nil {
		return 0
	}
	delete(g.closed, name)
	close(at.open)
	return at.waiting
}

func (g *gates) reset() {
	g.mu.Lock()
	defer g.mu.Unlock()
	for name, at := range g.closed {
		close(at.open)
		delete(g.closed, name)
	}
}

func (g *gates) waiting() map[string]int {
	g.mu.Lock()
	defer g.mu.Unlock()
	out := map[string]int{}
	for name, at := range g.closed {
		if at.waiting > 0 {
			out[name] = at.waiting
		}
	}
	return out
}

// store keeps answers that can be read again by id (OpenAI's GET calls), the newest ten thousand.
type store struct {
	mu    sync.Mutex
	byID  map[string]*kept
	order []string
}

type kept struct {
	answer    *answer
	polls     int // a background response is complete from the second look on
	cancelled bool
}

const maxStored = 10_000

func newStore() *store { return &store{byID: map[string]*kept{}} }

func (s *store) reset() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.byID, s.order = map[string]*kept{}, nil
}

func (s *store) put(id string, a *answer) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, ok := s.byID[id]; !ok {
		s.order = append(s.order, id)
	}
	s.byID[id] = &kept{answer: a}
	if len(s.order) > maxStored {
		delete(s.byID, s.order[0])
		s.order = s.order[1:]
	}
}

// with calls f on the answer of that id under the lock and reports whether there is one.
func (s *store) with(id string, f func(*kept)) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	k := s.byID[id]
	if k != nil {
		f(k)
	}
	return k != nil
}

func (s *store) delete(id string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	_, ok := s.byID[id]
	delete(s.byID, id)
	return ok
}
