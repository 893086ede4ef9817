package cache

import (
	"container/heap"
	"time"
)

// roomShare is the part of its bound, as 1/n, that an index frees at once: finding the oldest entries takes a look at each shelf.
const roomShare = 8

// makeRoom takes out the oldest entries, whosever they are, where all of them together take more than they may.
func (x *Index) makeRoom() (evicted []*Entry) {
	most := x.Bytes
	if most <= 0 {
		most = DefaultTotal
	}
	if x.total.Load() <= most || !x.trim.TryLock() {
		return nil
	}
	defer x.trim.Unlock()
	var oldest shelvesByAge
	x.each(func(name shelfName, s *shelf) {
		if at := s.order.Front(); at != nil {
			oldest = append(oldest, aged{name, s, at.Value.(*Entry).Made})
		}
	})
	heap.Init(&oldest)
	for len(oldest) > 0 && x.total.Load() > most-most/roomShare {
		evicted = append(evicted, x.makeRoomOn(&oldest)...)
	}
	return evicted
}

// makeRoomOn takes an entry from the shelf with the oldest one.
func (x *Index) makeRoomOn(oldest *shelvesByAge) (evicted []*Entry) {
	top := &(*oldest)[0]
	top.shelf.mu.Lock()
	defer x.unlock(top.name, top.shelf)
	if top.shelf.order.Len() > 0 {
		evicted = append(evicted, top.shelf.shift())
	}
	at := top.shelf.order.Front()
	if at == nil {
		heap.Pop(oldest)
		return evicted
	}
	top.made = at.Value.(*Entry).Made
	heap.Fix(oldest, 0)
	return evicted
}

// aged is a shelf and when its oldest entry was made.
type aged struct {
	name  shelfName
	shelf *shelf
	made  time.Time
}

// shelvesByAge is a heap with the oldest entry at its top.
type shelvesByAge []aged

func (h shelvesByAge) Len() int           { return len(h) }
func (h shelvesByAge) Less(i, j int) bool { return h[i].made.Before(h[j].made) }
func (h shelvesByAge) Swap(i, j int)      { h[i], h[j] = h[j], h[i] }

// Push is heap.Interface's.
func (h *shelvesByAge) Push(x any) { *h = append(*h, x.(aged)) }

// Pop is heap.Interface's.
func (h *shelvesByAge) Pop() any {
	last := (*h)[len(*h)-1]
	(*h)[len(*h)-1] = aged{}
	*h = (*h)[:len(*h)-1]
	return last
}
