package gateway

import (
	"context"
	"errors"
	"net"
	"sync/atomic"
	"syscall"
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
	last   atomic.Pointer[receipt]
	broken atomic.Bool
}

// receipt says whose answer was written, and to which of its clients.
type receipt struct {
	s    *sighting
	turn int
}

func (c *watchedConn) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	if err != nil {
		c.broke(err)
	}
	return n, err
}

func (c *watchedConn) Write(p []byte) (int, error) {
	n, err := c.Conn.Write(p)
	if err != nil {
		c.broke(err)
	}
	return n, err
}

// wrote notes whose answer went over the connection last; it fails when the connection was reset before that.
func (c *watchedConn) wrote(r receipt) error {
	c.last.Store(&r)
	if c.broken.Load() {
		return net.ErrClosed
	}
	return nil
}

// broke tells the last answer's sighting of a reset. An orderly end says nothing: clients close when they have
// read everything.
func (c *watchedConn) broke(err error) {
	if !errors.Is(err, syscall.ECONNRESET) && !errors.Is(err, syscall.EPIPE) {
		return
	}
	c.broken.Store(true)
	if r := c.last.Swap(nil); r != nil {
		r.s.wasReset(r.turn)
	}
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
