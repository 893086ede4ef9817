package mcp

import (
	"errors"
	"io"
	"sync/atomic"
)

// Memory is the bound of the bytes that bodies may hold, over everything in the process (limits.body_memory). Its methods are
// safe for concurrent use.
type Memory interface {
	// TakeMemory counts n bytes more, and reports whether there is room for them; else nothing is counted.
	TakeMemory(n int) bool
	// GiveMemory takes back what TakeMemory counted.
	GiveMemory(n int)
}

var errMemory = errors.New("limits.body_memory is used up by calls in progress")

// ownMemory is the bound of a proxy that shares none.
type ownMemory struct {
	used atomic.Int64
	most int64
}

func (m *ownMemory) TakeMemory(n int) bool {
	if m.used.Add(int64(n)) > m.most && m.most > 0 {
		m.used.Add(-int64(n))
		return false
	}
	return true
}

func (m *ownMemory) GiveMemory(n int) { m.used.Add(-int64(n)) }

// chargedReader counts what is read of a body while it comes in: a client that announces nothing is bounded too.
type chargedReader struct {
	r    io.Reader
	mem  Memory
	held int
}

func (c *chargedReader) Read(b []byte) (int, error) {
	n, err := c.r.Read(b)
	if n > 0 {
		if !c.mem.TakeMemory(n) {
			return 0, errMemory
		}
		c.held += n
	}
	return n, err
}

// release gives back what the body held.
func (c *chargedReader) release() {
	c.mem.GiveMemory(c.held)
	c.held = 0
}
