package mcp

import (
	"errors"
	"io"
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

// charged counts what comes in of a body beyond what it has announced: one that announces nothing is bounded while it is read.
type charged struct {
	r    io.Reader
	mem  Memory
	held int // counted
	read int
}

func (c *charged) Read(b []byte) (int, error) {
	n, err := c.r.Read(b)
	c.read += n
	if more := c.read - c.held; more > 0 {
		if !c.mem.TakeBody(more) {
			return 0, errMemory
		}
		c.held += more
	}
	return n, err
}

// holdBody counts a body that is about to be read, as far as its length is known.
func (x *exchange) holdBody() (held int, ok bool) {
	held = int(min(max(x.r.ContentLength, 0), x.p.limits().MaxRequestBytes))
	return held, x.p.memory.TakeBody(held)
}
