package simulation

import (
	"context"
	"io"
	"net"
	"os"
	"sync"
	"syscall"
	"time"
)

// segment is what travels: bytes, an end, or a reset.
type segment struct {
	data []byte
	fin  bool
	rst  bool
}

// half is one direction of a link.
type half struct {
	flight []segment // on the way, in order
	flying int
	buf    []byte // arrived, not read
	fin    bool
	sent   int
	cutAt  int // bytes after which the network breaks the link; -1: never
	dark   bool
}

// link is a connection as a network with kernels at both ends has it: a write that succeeded has reached a buffer,
// bytes take their time, and a reset destroys what was not read.
type link struct {
	mu    sync.Mutex
	wake  sync.Cond
	delay time.Duration
	room  int
	dark  bool    // a break is silence, not a reset
	to    [2]half // towards end 0, the dialler's, and end 1
	ends  [2]*end
}

// end is one side of a link, a net.Conn.
type end struct {
	l      *link
	side   int
	closed bool
	reset  bool
	limit  [2]time.Time // of reading, of writing
	timer  [2]*time.Timer
}

// newLink makes a link with room bytes of buffer in each direction.
func newLink(delay time.Duration, room int) *link {
	l := &link{delay: delay, room: room}
	l.wake.L = &l.mu
	for i := range l.ends {
		l.ends[i] = &end{l: l, side: i}
		l.to[i].cutAt = -1
	}
	return l
}

// breakAfter has the network break the link once n bytes went towards a side.
func (l *link) breakAfter(side, n int, dark bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.to[side].cutAt, l.dark = n, dark
}

// sever resets both ends at once, as the death of a process does.
func (l *link) sever() {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, e := range l.ends {
		e.reset = true
		l.to[e.side] = half{cutAt: -1}
	}
	l.wake.Broadcast()
}

// send puts s on its way towards a side; l.mu is held.
func (l *link) send(side int, s segment) {
	h := &l.to[side]
	if h.dark {
		return
	}
	h.flight = append(h.flight, s)
	time.AfterFunc(l.delay, func() { l.arrive(side) })
}

func (l *link) arrive(side int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	h, e := &l.to[side], l.ends[side]
	if len(h.flight) == 0 {
		return
	}
	s := h.flight[0]
	h.flight = h.flight[1:]
	switch {
	case s.rst:
		e.reset, h.buf = true, nil
	case s.fin:
		h.fin = true
	case e.closed: // nobody is there any more: the sender hears of it
		h.flying -= len(s.data)
		l.send(1-side, segment{rst: true})
	default:
		h.flying -= len(s.data)
		h.buf = append(h.buf, s.data...)
	}
	l.wake.Broadcast()
}

// cut breaks the link where its bytes run out; l.mu is held.
func (l *link) cut() {
	if l.dark {
		l.to[0].dark, l.to[1].dark = true, true
		return
	}
	l.send(0, segment{rst: true})
	l.send(1, segment{rst: true})
	l.to[0].dark, l.to[1].dark = true, true
}

func (e *end) Read(p []byte) (int, error) {
	e.l.mu.Lock()
	defer e.l.mu.Unlock()
	h := &e.l.to[e.side]
	for {
		switch {
		case e.closed:
			return 0, net.ErrClosed
		case len(h.buf) > 0:
			n := copy(p, h.buf)
			h.buf = h.buf[n:]
			e.l.wake.Broadcast()
			return n, nil
		case e.reset:
			return 0, syscall.ECONNRESET
		case h.fin:
			return 0, io.EOF
		case e.late(0):
			return 0, os.ErrDeadlineExceeded
		}
		e.l.wake.Wait()
	}
}

func (e *end) Write(p []byte) (n int, err error) {
	e.l.mu.Lock()
	defer e.l.mu.Unlock()
	h := &e.l.to[1-e.side]
	for {
		switch {
		case e.closed:
			return n, net.ErrClosed
		case e.reset:
			return n, syscall.EPIPE
		case n == len(p):
			return n, nil
		case e.late(1):
			return n, os.ErrDeadlineExceeded
		}
		room := e.l.room - len(h.buf) - h.flying
		if room <= 0 {
			e.l.wake.Wait()
			continue
		}
		n += e.put(h, p[n:min(len(p), n+room)])
	}
}

// put hands bytes to the network; l.mu is held.
func (e *end) put(h *half, p []byte) int {
	h.flying += len(p)
	part, breaks := p, h.cutAt >= 0 && h.sent+len(p) > h.cutAt
	if breaks {
		part = p[:max(0, h.cutAt-h.sent)]
	}
	h.sent += len(p)
	if len(part) > 0 {
		e.l.send(1-e.side, segment{data: append([]byte(nil), part...)})
	}
	if breaks {
		h.cutAt = -1
		e.l.cut()
	}
	return len(p)
}

// Close ends the connection in order, unless bytes were not read: then the peer hears a reset.
func (e *end) Close() error {
	e.l.mu.Lock()
	defer e.l.mu.Unlock()
	if len(e.l.to[e.side].buf) > 0 {
		e.shut(segment{rst: true})
	} else {
		e.shut(segment{fin: true})
	}
	return nil
}

// abort resets the connection.
func (e *end) abort() {
	e.l.mu.Lock()
	defer e.l.mu.Unlock()
	e.shut(segment{rst: true})
}

func (e *end) shut(s segment) {
	if e.closed {
		return
	}
	e.closed = true
	for _, t := range e.timer {
		if t != nil {
			t.Stop()
		}
	}
	if !e.reset {
		e.l.send(1-e.side, s)
	}
	e.l.wake.Broadcast()
}

func (e *end) late(i int) bool { return !e.limit[i].IsZero() && !time.Now().Before(e.limit[i]) }

func (e *end) setLimit(i int, t time.Time) {
	e.l.mu.Lock()
	defer e.l.mu.Unlock()
	e.limit[i] = t
	if e.timer[i] != nil {
		e.timer[i].Stop()
		e.timer[i] = nil
	}
	if !t.IsZero() && !e.closed {
		e.timer[i] = time.AfterFunc(time.Until(t), func() {
			e.l.mu.Lock()
			e.l.wake.Broadcast()
			e.l.mu.Unlock()
		})
	}
	e.l.wake.Broadcast()
}

func (e *end) SetDeadline(t time.Time) error {
	e.setLimit(0, t)
	e.setLimit(1, t)
	return nil
}
func (e *end) SetReadDeadline(t time.Time) error  { e.setLimit(0, t); return nil }
func (e *end) SetWriteDeadline(t time.Time) error { e.setLimit(1, t); return nil }
func (e *end) LocalAddr() net.Addr                { return address }
func (e *end) RemoteAddr() net.Addr               { return address }

var address = &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 80}

// listener takes the far ends of links.
type listener struct {
	mu     sync.Mutex
	wake   sync.Cond
	queue  []*end
	links  []*link
	closed bool
}

func newListener() *listener {
	l := &listener{}
	l.wake.L = &l.mu
	return l
}

func (l *listener) Accept() (net.Conn, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for len(l.queue) == 0 {
		if l.closed {
			return nil, net.ErrClosed
		}
		l.wake.Wait()
	}
	e := l.queue[0]
	l.queue = l.queue[1:]
	return e, nil
}

func (l *listener) Addr() net.Addr { return address }

func (l *listener) Close() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.closed = true
	l.wake.Broadcast()
	return nil
}

// kill refuses everybody and resets every link: the process is dead.
func (l *listener) kill() {
	l.mu.Lock()
	l.closed = true
	links := l.links
	l.wake.Broadcast()
	l.mu.Unlock()
	for _, k := range links {
		k.sever()
	}
}

// dial connects to l over k.
func (l *listener) dial(ctx context.Context, k *link) (net.Conn, error) {
	arrived := time.NewTimer(2 * k.delay)
	defer arrived.Stop()
	select {
	case <-arrived.C:
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		return nil, syscall.ECONNREFUSED
	}
	l.queue, l.links = append(l.queue, k.ends[1]), append(l.links, k)
	l.wake.Broadcast()
	return k.ends[0], nil
}
