package bench

import (
	"bytes"
	"errors"
	"fmt"
	"net"
	"strings"
	"time"
)

// request is one prepared HTTP/1.1 request. Its number, a run of digits, is written over in place: to make a
// request new costs the load generator nothing.
type request struct {
	bytes []byte
	at    int // where the number stands
}

// unnumbered is where a number goes.
const unnumbered = "0000000000000000"

// newRequest puts a request together; number stands where unnumbered does, in a header or in the body.
func newRequest(method, path, body string, header ...string) *request {
	var b strings.Builder
	fmt.Fprintf(&b, "%s %s HTTP/1.1\r\nHost: 127.0.0.1\r\nUser-Agent: holdfast-bench\r\nAccept: application/json\r\n", method, path)
	for _, h := range header {
		b.WriteString(h + "\r\n")
	}
	if method != "GET" {
		fmt.Fprintf(&b, "Content-Type: application/json\r\nContent-Length: %d\r\n", len(body))
	}
	b.WriteString("\r\n" + body)
	return &request{bytes: []byte(b.String()), at: strings.Index(b.String(), unnumbered)}
}

func (q *request) clone() *request { return &request{bytes: bytes.Clone(q.bytes), at: q.at} }

// number makes this the n-th request.
func (q *request) number(n uint64) {
	if q.at < 0 {
		return
	}
	for i := q.at + len(unnumbered) - 1; i >= q.at; i-- {
		q.bytes[i] = '0' + byte(n%10)
		n /= 10
	}
}

// reply is what the load generator needs to know of an answer.
type reply struct {
	status   int
	replayed bool
	first    time.Time // when a byte of the body was there
}

// conn is a client that reads answers without keeping them; net/http's would cost more than what is measured.
type conn struct {
	net.Conn
	buf      []byte
	from, to int
}

const connBuffer = 16 << 10

func dial(addr string) (*conn, error) {
	c, err := net.Dial("tcp", addr)
	if err != nil {
		return nil, err
	}
	return &conn{Conn: c, buf: make([]byte, connBuffer)}, nil
}

var errReply = errors.New("an answer that is not HTTP/1.1 as expected")

var (
	headEnd      = []byte("\r\n\r\n")
	lengthHeader = []byte("\r\nContent-Length: ")
	chunkedHead  = []byte("\r\nTransfer-Encoding: chunked\r\n")
	replayedHead = []byte("\r\nIdempotency-Replayed: true\r\n")
)

// do sends q and reads the whole answer.
func (c *conn) do(q *request) (reply, error) {
	r, length, err := c.begin(q)
	if err != nil {
		return r, err
	}
	if length >= 0 {
		return r, c.skip(length)
	}
	return r, c.skipChunks()
}

// begin sends q and reads until the answer's body begins; length is -1 for a chunked one.
func (c *conn) begin(q *request) (r reply, length int, err error) {
	if _, err := c.Write(q.bytes); err != nil {
		return r, 0, err
	}
	head, err := c.head()
	if err != nil {
		return r, 0, err
	}
	if len(head) < len("HTTP/1.1 200") {
		return r, 0, errReply
	}
	r.status = int(head[9]-'0')*100 + int(head[10]-'0')*10 + int(head[11]-'0')
	r.replayed = bytes.Contains(head, replayedHead)
	length = -1
	if i := bytes.Index(head, lengthHeader); i >= 0 {
		length = 0
		for _, d := range head[i+len(lengthHeader):] {
			if d < '0' || d > '9' {
				break
			}
			length = length*10 + int(d-'0')
		}
	} else if !bytes.Contains(head, chunkedHead) {
		return r, 0, fmt.Errorf("%w: neither a length nor chunks: %.300q", errReply, head)
	}
	if c.from == c.to && length != 0 {
		err = c.fill()
	}
	r.first = time.Now()
	return r, length, err
}

// head returns the answer's head with the empty line, valid until the next read.
func (c *conn) head() ([]byte, error) {
	for {
		if i := bytes.Index(c.buf[c.from:c.to], headEnd); i >= 0 {
			h := c.buf[c.from : c.from+i+len(headEnd)]
			c.from += len(h)
			return h, nil
		}
		if err := c.fill(); err != nil {
			return nil, err
		}
	}
}

// fill reads more behind what is there.
func (c *conn) fill() error {
	if c.from == c.to {
		c.from, c.to = 0, 0
	}
	if c.to == len(c.buf) {
		if c.from == 0 {
			return fmt.Errorf("%w: a line or head of more than %d bytes", errReply, len(c.buf))
		}
		c.to = copy(c.buf, c.buf[c.from:c.to])
		c.from = 0
	}
	n, err := c.Read(c.buf[c.to:])
	c.to += n
	if n > 0 {
		return nil
	}
	return err
}

func (c *conn) skip(n int) error {
	for n > c.to-c.from {
		n -= c.to - c.from
		c.from = c.to
		if err := c.fill(); err != nil {
			return err
		}
	}
	c.from += n
	return nil
}

// skipChunks reads a chunked body and its trailers to their end.
func (c *conn) skipChunks() error {
	for {
		line, err := c.line()
		if err != nil {
			return err
		}
		size, err := chunkSize(line)
		if err != nil {
			return err
		}
		if size > 0 {
			if err := c.skip(size + len("\r\n")); err != nil {
				return err
			}
			continue
		}
		for {
			if line, err = c.line(); err != nil || len(line) == 0 {
				return err
			}
		}
	}
}

// line returns the next line without its end.
func (c *conn) line() ([]byte, error) {
	for {
		if i := bytes.IndexByte(c.buf[c.from:c.to], '\n'); i >= 0 {
			line := c.buf[c.from : c.from+i]
			c.from += i + 1
			return bytes.TrimSuffix(line, []byte("\r")), nil
		}
		if err := c.fill(); err != nil {
			return nil, err
		}
	}
}

func chunkSize(line []byte) (int, error) {
	n := 0
	for _, d := range line {
		switch {
		case d >= '0' && d <= '9':
			n = n<<4 | int(d-'0')
		case d|0x20 >= 'a' && d|0x20 <= 'f':
			n = n<<4 | int(d|0x20-'a'+10)
		default:
			return 0, fmt.Errorf("%w: chunk size %q", errReply, line)
		}
		if n > 1<<30 {
			return 0, fmt.Errorf("%w: chunk size %q", errReply, line)
		}
	}
	if len(line) == 0 {
		return 0, fmt.Errorf("%w: a chunk without a size", errReply)
	}
	return n, nil
}
