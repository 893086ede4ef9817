package gateway

import (
	"context"
	"errors"
	"time"
)

// cursor is one client's place in a recording.
type cursor struct {
	rec   *recording
	news  chan struct{}
	pos   int64
	block int
	off   int

	last bool // what was read last is the end of the recording
}

// attach puts a client at the first byte; nil when that is no longer kept.
func (r *recording) attach() *cursor {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.first > 0 {
		return nil
	}
	c := &cursor{rec: r, news: make(chan struct{}, 1)}
	r.cursors = append(r.cursors, c)
	return c
}

func (c *cursor) detach() {
	r := c.rec
	r.mu.Lock()
	for i, x := range r.cursors {
		if x == c {
			r.cursors[i] = r.cursors[len(r.cursors)-1]
			r.cursors = r.cursors[:len(r.cursors)-1]
			break
		}
	}
	r.signalRoom()
	r.mu.Unlock()
}

func (r *recording) signalRoom() {
	if r.dropped {
		select {
		case r.room <- struct{}{}:
		default:
		}
	}
}

// begin waits for the head or for an end without one.
// When tick comes first it returns errBridge.
func (c *cursor) begin(ctx context.Context, tick <-chan time.Time) (*head, *ending, error) {
	for {
		c.rec.mu.Lock()
		h, e := c.rec.head, c.rec.end
		c.rec.mu.Unlock()
		if h != nil || e != nil {
			return h, e, nil
		}
		select {
		case <-c.news:
		case <-tick:
			return nil, nil, errBridge
		case <-ctx.Done():
			return nil, nil, context.Cause(ctx)
		}
	}
}

// errBridge says that the wait for a head must be bridged.
var errBridge = errors.New("the wait is long")

// next returns the next readable bytes, which stay valid until free; more says that others can be had without
// waiting. At the end it returns the ending.
func (c *cursor) next(ctx context.Context) (p []byte, more bool, end *ending, err error) {
	for {
		if p, more, end = c.read(); p != nil || end != nil {
			return p, more, end, nil
		}
		if err := c.wait(ctx); err != nil {
			return nil, false, nil, err
		}
	}
}

func (c *cursor) read() ([]byte, bool, *ending) {
	r := c.rec
	r.mu.Lock()
	defer r.mu.Unlock()
	for c.pos < r.visible {
		b := r.blocks[c.block]
		if c.off == len(b) {
			c.block, c.off = c.block+1, 0
			continue
		}
		n := min(int64(len(b)-c.off), r.visible-c.pos)
		p := b[c.off : c.off+int(n)]
		c.off, c.pos = c.off+int(n), c.pos+n
		c.last = c.pos == r.visible && r.end != nil && r.end.tail == nil && !r.end.abort
		r.signalRoom()
		return p, c.pos < r.visible || r.end != nil, nil
	}
	return nil, false, r.end
}

func (c *cursor) wait(ctx context.Context) error {
	select {
	case <-c.news:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
