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
	begun  atomic.Int64 // bytes of all writes, those under way included
	sent   atomic.Int64 // bytes that the kernel has taken
	got    atomic.Int64 // bytes that came from the client
	asked  atomic.Int64 // … when its last request had come
	ahead  atomic.Bool  // it sends requests before the answers to earlier ones have ended
	last   atomic.Pointer[receipt]
	broken atomic.Bool // reset
	closed atomic.Bool // by the client, in order
}

// receipt says whose answer was written, and to which of its clients.
type receipt struct {
	s    *sighting
	turn int
	from int64        // of begun, when all but the end of the answer had been written
	end  atomic.Int64 // where in what was sent the answer ends; 0 until it is known
}

func (c *watchedConn) Read(p []byte) (int, error) {
	if r := c.last.Load(); r != nil {
		r.end.CompareAndSwap(0, c.sent.Load()) // the next request is waited for: all of the answer has been written
	}
	n, err := c.Conn.Read(p)
	c.got.Add(int64(n))
	if n > 0 {
		c.askedOn()
	}
	if err == io.EOF {
		c.closed.Store(true)
	} else if err != nil {
		c.broke(err)
	}
	return n, err
}

func (c *watchedConn) Write(p []byte) (int, error) {
	c.begun.Add(int64(len(p)))
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

// wrote notes whose answer goes over the connection last. It fails when the client has hung up before: the end is written
// behind this.
func (c *watchedConn) wrote(s *sighting, turn int) error {
	if c.got.Load() != c.asked.Load() {
		c.ahead.Store(true)
	}
	c.last.Store(&receipt{s: s, turn: turn, from: c.begun.Load()})
	if c.broken.Load() || c.closed.Load() {
		return net.ErrClosed
	}
	return nil
}

// heard notes that a request has been read, whole. One that needed no byte more than the requests before it came with
// them: this client does not wait for its answers.
func (c *watchedConn) heard() {
	if got := c.got.Load(); c.asked.Swap(got) == got {
		c.ahead.Store(true)
	}
}

// askedOn hears that the client has sent more. Behind the end of an answer that is its next request: it has that answer, and what
// becomes of the connection now is the next one's fate. Bytes that came before the end, or before it was acknowledged, show a
// client that sends ahead, and prove nothing. The end is one write, and net/http may be listening since before it.
func (c *watchedConn) askedOn() {
	r := c.last.Load()
	if r == nil {
		return
	}
	if c.begun.Load() == r.from || c.waits() {
		c.ahead.Store(true)
	}
	if !c.ahead.Load() && !mutant.On("next-request-proves-nothing") {
		c.last.CompareAndSwap(r, nil)
	}
}

// waits says that some of what was sent is known not to be acknowledged yet.
func (c *watchedConn) waits() bool {
	tcp, ok := c.Conn.(*net.TCPConn)
	if !ok {
		return false
	}
	waiting, known := unacknowledged(tcp)
	return known && waiting > 0
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
