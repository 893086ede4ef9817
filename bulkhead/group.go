package bulkhead

import "sync"

// DefaultKeys is how many semaphores a Group keeps where NewGroup is told nothing.
const DefaultKeys = 65536

// Group makes semaphores by key on demand: for a bulkhead that several workflows share by its name, and for a
// concurrency key. It keeps a bounded number of them and forgets those that have been idle longest. It is safe for
// concurrent use.
type Group struct {
	most int

	mu   sync.Mutex
	keys map[string]*Semaphore
	idle idle
}

// pin is what a group knows of one of its semaphores.
type pin struct {
	key        string
	cfg        Config
	holders    int
	next, prev *Semaphore // among the idle ones
}

// NewGroup makes a group of at most most semaphores; 0 or less is DefaultKeys.
func NewGroup(most int) *Group {
	if most <= 0 {
		most = DefaultKeys
	}
	return &Group{most: most, keys: map[string]*Semaphore{}}
}

// Get returns the key's semaphore and holds it, so that everybody who gets the key gets the same one, until each Get
// is answered by a Put. A cfg that differs from the one of the Get before configures the semaphore anew; the same
// one leaves alone what Resize has done since.
//
// When the group is full of semaphores that are held or in use, a further key gets one that admits nobody: a caller
// who can invent keys meets a full bulkhead, not an unbounded memory.
func (g *Group) Get(key string, cfg Config) *Semaphore {
	g.mu.Lock()
	defer g.mu.Unlock()
	s := g.keys[key]
	switch {
	case s == nil && len(g.keys) >= g.most && !g.forget():
		return New(Config{Max: -1, Waiting: -1})
	case s == nil:
		s = New(cfg)
		s.pin = pin{key: key, cfg: cfg}
		g.keys[key] = s
	case s.pin.cfg != cfg:
		s.Configure(cfg)
		s.pin.cfg = cfg
	}
	if s.pin.holders == 0 {
		g.idle.remove(s)
	}
	s.pin.holders++
	return s
}

// Put ends one hold of a semaphore that Get returned. Slots taken before may be released after it, but none may be
// taken.
func (g *Group) Put(s *Semaphore) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.keys[s.pin.key] != s {
		return // the one that admits nobody
	}
	if s.pin.holders == 0 {
		panic("bulkhead: Put of a semaphore that nobody holds; each Get is answered by one Put")
	}
	s.pin.holders--
	if s.pin.holders == 0 {
		g.idle.push(s)
	}
}

// Len is how many semaphores the group keeps.
func (g *Group) Len() int {
	g.mu.Lock()
	defer g.mu.Unlock()
	return len(g.keys)
}

// Each calls f for every semaphore that is held or in use, in no order, for a report.
func (g *Group) Each(f func(key string, s *Semaphore)) {
	type entry struct {
		key string
		s   *Semaphore
	}
	g.mu.Lock()
	busy := make([]entry, 0, len(g.keys))
	for key, s := range g.keys {
		if s.pin.holders > 0 || !s.free() {
			busy = append(busy, entry{key, s})
		}
	}
	g.mu.Unlock()
	for _, e := range busy {
		f(e.key, e.s)
	}
}

// tries bounds how many semaphores forget looks at: those that nobody holds are in use only while a slot outlives
// its hold.
const tries = 16

// forget makes room for one key.
func (g *Group) forget() bool {
	for range tries {
		s := g.idle.head
		if s == nil {
			return false
		}
		g.idle.remove(s)
		if s.free() {
			delete(g.keys, s.pin.key)
			return true
		}
		g.idle.push(s)
	}
	return false
}

// free reports whether nothing is in use and nobody waits.
func (s *Semaphore) free() bool {
	w := s.load()
	return w.used() == 0 && !w.waited()
}

// idle lists the semaphores that nobody holds, the longest first.
type idle struct{ head, tail *Semaphore }

func (l *idle) push(s *Semaphore) {
	s.pin.prev = l.tail
	if l.tail == nil {
		l.head = s
	} else {
		l.tail.pin.next = s
	}
	l.tail = s
}

func (l *idle) remove(s *Semaphore) {
	if s.pin.prev == nil && l.head != s {
		return // a new one, which was never idle
	}
	if s.pin.prev == nil {
		l.head = s.pin.next
	} else {
		s.pin.prev.pin.next = s.pin.next
	}
	if s.pin.next == nil {
		l.tail = s.pin.prev
	} else {
		s.pin.next.pin.prev = s.pin.prev
	}
	s.pin.next, s.pin.prev = nil, nil
}
