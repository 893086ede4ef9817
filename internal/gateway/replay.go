package gateway

import (
	"container/list"
	"sync"
	"time"

	"github.com/holdfast-ai/holdfast/ledger"
)

// replayBytes is what recent answers may take in memory; the ledger has the rest.
const replayBytes = 64 << 20

// stored is a settled answer as it is replayed.
type stored struct {
	key    string
	fp     [32]byte
	id     string
	answer ledger.Answer
	body   []byte
	until  time.Time // end of the claim, ledger time
	at     time.Time // when it was made
	model  [2]string // requested, served
	tries  int
	reason string // instead of an answer: why none is kept
}

// replayCache keeps the newest answers of this process that are durable in the ledger, least recently used out
// first. Claims of this process's own answers only end with time, so what it holds is never out of date.
type replayCache struct {
	mu    sync.Mutex
	max   int
	used  int
	order list.List // of *stored, newest first
	byKey map[string]*list.Element
}

func newReplayCache(max int) *replayCache {
	return &replayCache{max: max, byKey: map[string]*list.Element{}}
}

func (c *replayCache) get(key string, now time.Time) *stored {
	c.mu.Lock()
	defer c.mu.Unlock()
	el := c.byKey[key]
	if el == nil {
		return nil
	}
	s := el.Value.(*stored)
	if !now.Before(s.until) {
		c.drop(el)
		return nil
	}
	c.order.MoveToFront(el)
	return s
}

func (c *replayCache) put(s *stored) {
	if s.cost() > c.max/8 {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if el := c.byKey[s.key]; el != nil {
		c.drop(el)
	}
	c.byKey[s.key] = c.order.PushFront(s)
	for c.used += s.cost(); c.used > c.max; {
		c.drop(c.order.Back())
	}
}

func (c *replayCache) drop(el *list.Element) {
	s := c.order.Remove(el).(*stored)
	delete(c.byKey, s.key)
	c.used -= s.cost()
}

func (s *stored) cost() int { return len(s.body) + 1024 }
