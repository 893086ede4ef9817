package upstream

import (
	"net"
	"syscall"
	"time"
)

// conn is one connection of the pool. It carries one exchange at a time.
type conn struct {
	net.Conn
	key    string
	abort  func()          // Close as a value, made once for context.AfterFunc
	raw    syscall.RawConn // nil where the connection is no socket
	peek   func(fd uintptr) bool
	quiet  bool // what peek saw
	reused bool
	since  time.Time // idle since

	vector  net.Buffers
	vectors [2][]byte
}

func newConn(nc net.Conn, key string) *conn {
	c := &conn{Conn: nc, key: key, abort: func() { _ = nc.Close() }}
	c.peek = func(fd uintptr) bool {
		c.quiet = quiet(fd)
		return true
	}
	if socket, ok := nc.(syscall.Conn); ok {
		if raw, err := socket.SyscallConn(); err == nil {
			c.raw = raw
		}
	}
	return c
}

// alive says whether an idle connection may carry another request, as far as it can be seen.
func (c *conn) alive() bool {
	if c.raw == nil {
		return true
	}
	c.quiet = false
	return c.raw.Read(c.peek) == nil && c.quiet
}

// send hands head and body to the kernel in one call.
func (c *conn) send(head, body []byte) (int64, error) {
	if len(body) == 0 {
		n, err := c.Write(head)
		return int64(n), err
	}
	c.vectors = [2][]byte{head, body}
	c.vector = c.vectors[:]
	n, err := c.vector.WriteTo(c.Conn)
	c.vectors, c.vector = [2][]byte{}, nil
	return n, err
}
