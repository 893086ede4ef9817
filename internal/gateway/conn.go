package gateway

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"sync/atomic"
	"syscall"

	"github.com/holdfast-ai/holdfast/internal/mutant"
)

// Watch makes a listener tell when a client's connection is reset: a write that succeeded has only reached the
// kernel or a balancer, and the reset is the evidence that the answer did not arrive (semantics 19).
func Watch(l net.Listener) net.Listener { return &watchedListener{l} }

type watchedListener struct{ net.Listener }

func (l *watchedListener) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	return &watchedConn{Conn: c}, nil
}

// watchedConn is one client's connection. It remembers whose answer went over it last.
type watchedConn struct {
	net.Conn
	sent   atomic.Int64 // bytes that the kernel has taken
	last   atomic.Pointer[receipt]
	broken atomic.Bool // reset
	closed atomic.Bool // by the client, in order
}

// receipt says whose answer was written, and to which of its clients.
type receipt struct {
	s    *sighting
	turn int
	end  atomic.Int64 // where in what was sent the answer ends; 0 until it is known
}

func (c *watchedConn) Read(p []byte) (int, error) {
	if r := c.last.Load(); r != nil {
		r.end.CompareAndSwap(0, c.sent.Load()) // the next request is waited for: all of the answer has been written
	}
	n, err := c.Conn.Read(p)
	if err == io.EOF {
		c.closed.Store(true)
	} else if err != nil {
		c.broke(err)
	}
	return n, err
}

func (c *watchedConn) Write(p []byte) (int, error) {
	n, err := c.Conn.Write(p)
	c.sent.Add(int64(n))
	if err != nil {
		c.broke(err)
	}
	return n, err
}

// Close looks whether a client that closed had its last answer. One that closes when it has read everything has
// acknowledged everything; to one that closed before, the rest was sent in vain.
func (c *watchedConn) Close() error {
	if r := c.last.Swap(nil); r != nil && c.closed.Load() {
		r.end.CompareAndSwap(0, c.sent.Load())
		if reached, known := c.reached(r.end.Load()); known && !reached && !mutant.On("close-is-receipt") {
			r.s.wasReset(r.turn)
		}
	}
	return c.Conn.Close()
}

// reached says whether the client's kernel has acknowledged the first end bytes, if ours tells. Behind a client's close it
// acknowledges nothing more, and what it had acknowledged the client has read: for unread bytes it would have reset.
func (c *watchedConn) reached(end int64) (yes, known bool) {
	tcp, ok := c.Conn.(*net.TCPConn)
	if !ok {
		return false, false
	}
	waiting, ok := unacknowledged(tcp)
	return ok && c.sent.Load()-waiting >= end, ok
}

// closedBehind says that the client closed in order, having read at least the first end bytes.
func (c *watchedConn) closedBehind(end int64) bool {
	if c.broken.Load() || !c.closed.Load() {
		return false
	}
	reached, _ := c.reached(end)
	return reached
}

// wrote notes whose answer goes over the connection last, and where it ends, if that has been written (else 0). It fails
// when the client has hung up before: the end is written behind this.
func (c *watchedConn) wrote(s *sighting, turn int, end int64) error {
	r := &receipt{s: s, turn: turn}
	r.end.Store(end)
	c.last.Store(r)
	if c.broken.Load() || c.closed.Load() && !(end > 0 && c.closedBehind(end)) {
		return net.ErrClosed
	}
	return nil
}

// broke tells the last answer's sighting of a reset.
func (c *watchedConn) broke(err error) {
	if !errors.Is(err, syscall.ECONNRESET) && !errors.Is(err, syscall.EPIPE) {
		return
	}
	c.broken.Store(true)
	if r := c.last.Swap(nil); r != nil {
		r.s.wasReset(r.turn)
	}
}

// Receipts is an http.ResponseWriter whose writes wait until the client has taken them: one that succeeded did arrive, whatever
// the client does then.
type Receipts interface {
	http.ResponseWriter
	// Receipts does nothing; it says so.
	Receipts()
}

// receipts says that writes to this client are Receipts.
func (c *call) receipts() bool {
	_, ok := c.out.ResponseWriter.(Receipts)
	return ok
}

type connKey struct{}

// ConnContext is for http.Server.ConnContext, beside Watch.
func ConnContext(ctx context.Context, c net.Conn) context.Context {
	if w, ok := c.(*watchedConn); ok {
		return context.WithValue(ctx, connKey{}, w)
	}
	return ctx
}

// connection is the client's own connection, nil where several requests share one (HTTP/2) or nobody watches.
func (c *call) connection() *watchedConn {
	if c.r.ProtoMajor != 1 {
		return nil
	}
	w, _ := c.r.Context().Value(connKey{}).(*watchedConn)
	return w
}

// sever sees to it that an answer that is broken off looks so: to an HTTP/1.0 client, as some proxies are to us, an
// orderly close is the end of the body (semantics 24).
func (c *call) sever() {
	if c.r.ProtoAtLeast(1, 1) {
		return
	}
	if w := c.connection(); w != nil {
		if tcp, ok := w.Conn.(*net.TCPConn); ok {
			_ = tcp.SetLinger(0) // a close then resets
		}
	}
}
