package mcp

import (
	"errors"
	"io"

	"github.com/holdfast-ai/holdfast/internal/budget"
)

var errMemory = errors.New("limits.body_memory is used up by calls in progress")

// charged counts what comes in of a body beyond what it has announced: one that announces nothing is bounded while it is read.
type charged struct {
	r    io.Reader
	mem  *budget.Bytes
	held int // counted
	read int
}

func (c *charged) Read(b []byte) (int, error) {
	n, err := c.r.Read(b)
	c.read += n
	if more := c.read - c.held; more > 0 {
		if !c.mem.Take(more) {
			return 0, errMemory
		}
		c.held += more
	}
	return n, err
}

// holdBody counts a body that is about to be read, as far as its length is known.
func (x *exchange) holdBody() (held int, ok bool) {
	held = int(min(max(x.r.ContentLength, 0), x.p.limits().MaxRequestBytes))
	return held, x.p.memory.Take(held)
}

// smallAnswer is what a server may say without asking for room: an answer that finds none makes a write's outcome unknown, which
// costs more than the bytes. It is counted by who keeps it, as every other.
const smallAnswer = 64 << 10

// intake counts one message of a server's while it is read and passed on.
type intake struct {
	mem  *budget.Bytes
	read int
	held int // counted
}

// add counts n more bytes of the message. False: there is no room for them.
func (i *intake) add(n int) bool {
	i.read += n
	if i.read <= smallAnswer {
		return true
	}
	if !i.mem.Take(i.read - i.held) {
		return false
	}
	i.held = i.read
	return true
}

// end gives back what the message took.
func (i *intake) end() {
	if i.held > 0 {
		i.mem.Give(i.held)
	}
	i.read, i.held = 0, 0
}

// counting is a body whose bytes an intake counts.
type counting struct {
	r  io.Reader
	in *intake
}

func (c counting) Read(b []byte) (int, error) {
	n, err := c.r.Read(b)
	if !c.in.add(n) {
		return 0, errMemory
	}
	return n, err
}
