package sim

import (
	"context"
	"sync"
)

// gates hold calls at a named point until a test lets them go.
type gates struct {
	entered func() // told when a call waits, so that nobody waits in vain for one that does
	mu      sync.Mutex
	closed  map[string]*gate
}

type gate struct {
	open    chan struct{}
	waiting int
}

func newGates(entered func()) *gates {
	return &gates{entered: entered, closed: map[string]*gate{}}
}

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
	g.entered()
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
