package mcp

import (
	"errors"
	"sync/atomic"
)

// Memory bounds the bytes of bodies held at a time. Its methods are safe for concurrent use.
type Memory interface {
	// TakeBody reports whether there is room for n more bytes, and counts them if so.
	TakeBody(n int) bool
	// GiveBody gives back what TakeBody counted.
	GiveBody(n int)
}

// budget is a Memory of its own; a max of 0 is no bound.
type budget struct {
	used atomic.Int64
	max  int64
}

func (b *budget) TakeBody(n int) bool {
	if b.used.Add(int64(n)) > b.max && b.max > 0 {
		b.used.Add(-int64(n))
		return false
	}
	return true
}

func (b *budget) GiveBody(n int) { b.used.Add(-int64(n)) }

var errMemory = errors.New("limits.body_memory is used up by calls in progress")

// holdBody counts a body that is about to be read, as far as its length is known.
func (x *exchange) holdBody() (held int, ok bool) {
	held = int(min(max(x.r.ContentLength, 0), x.p.limits().MaxRequestBytes))
	return held, x.p.memory.TakeBody(held)
}
