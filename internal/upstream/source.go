package upstream

import (
	"io"
	"net"
	"sync"
)

const (
	smallBuffer = 4 << 10
	largeBuffer = 32 << 10
)

// buffers lends memory to the exchanges that are under way; idle connections hold none.
type buffers struct {
	small, large, heads sync.Pool
}

func newBuffers() *buffers {
	return &buffers{
		small: sync.Pool{New: func() any { return new([smallBuffer]byte) }},
		large: sync.Pool{New: func() any { return new([largeBuffer]byte) }},
		heads: sync.Pool{New: func() any { b := make([]byte, 0, inline); return &b }},
	}
}

// source is what came from a connection and was not used yet: buf[r:w].
type source struct {
	conn    net.Conn
	buffers *buffers
	small   *[smallBuffer]byte
	large   *[largeBuffer]byte
	buf     []byte
	r, w    int
	err     error // came together with bytes, and is due after them
}

func newSource(conn net.Conn, lender *buffers) source {
	small := lender.small.Get().(*[smallBuffer]byte)
	return source{conn: conn, buffers: lender, small: small, buf: small[:]}
}

func (s *source) bytes() []byte { return s.buf[s.r:s.w] }

// fill waits for at least one more byte. The caller bounds how much it lets gather.
func (s *source) fill() error {
	if s.err != nil {
		return s.err
	}
	s.makeRoom()
	n, err := s.read(s.buf[s.w:])
	s.w += n
	return err
}

// read gives at least one byte or an error, never both.
func (s *source) read(p []byte) (int, error) {
	for range 100 { // as bufio has it: a connection may give nothing, but not for ever
		n, err := s.conn.Read(p)
		if n > 0 {
			s.err = err
			return n, nil
		}
		if err != nil {
			return 0, err
		}
	}
	return 0, io.ErrNoProgress
}

// makeRoom begins with a small buffer, for ten thousand streams may be open and silent; it takes a large one when a read
// filled it, and gives that back when the stream is calm again.
func (s *source) makeRoom() {
	used := s.bytes()
	full := s.w == len(s.buf)
	switch {
	case full && s.large == nil:
		s.large = s.buffers.large.Get().(*[largeBuffer]byte)
		s.buf = s.large[:]
	case len(used) == len(s.buf):
		s.buf = make([]byte, 2*len(s.buf))
	case len(used) == 0 && s.large != nil && s.w <= smallBuffer:
		s.buffers.large.Put(s.large)
		s.large, s.buf = nil, s.small[:]
	}
	if full || len(used) == 0 {
		s.r, s.w = 0, copy(s.buf, used)
	}
}

// section waits for a whole head of at most limit bytes. It is valid until the next fill; the caller consumes it.
func (s *source) section(limit int) ([]byte, error) {
	scanned := 0
	for {
		b := s.bytes()
		if !couldBeHead(b) {
			return nil, malformed("it does not begin with HTTP/1.")
		}
		end, resume, err := sectionEnd(b, scanned)
		if err != nil {
			return nil, err
		}
		if end > limit || end == 0 && len(b) > limit {
			return nil, ErrTooLarge
		}
		if end > 0 {
			return b[:end], nil
		}
		scanned = resume
		if err := s.fill(); err != nil {
			return nil, err
		}
	}
}

// release gives the memory back. Nothing may read from s after it.
func (s *source) release() {
	s.buffers.small.Put(s.small)
	if s.large != nil {
		s.buffers.large.Put(s.large)
	}
	s.buf, s.small, s.large, s.r, s.w = nil, nil, nil, 0, 0
}
