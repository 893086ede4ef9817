package gateway

import (
	"bytes"
	"compress/gzip"
	"compress/zlib"
	"errors"
	"io"
	"net/http"
	"strings"
	"time"
)

// bodyPatience bounds how long a client may take to send its body: a slow one would hold its memory.
const bodyPatience = 2 * time.Minute

// read takes the whole body in before anything is sent: it must be hashed, and an upstream that reads from a
// client's connection while the answer begins breaks innocent streams. Paths that are passed through unread
// are left alone.
func (c *call) read() *Error {
	if c.streamsThrough() {
		return nil
	}
	limit := c.g.policy.Limits.MaxRequestBytes
	if c.r.ContentLength > limit {
		return c.tooLarge(limit)
	}
	if c.r.ContentLength == 0 || c.r.Body == http.NoBody {
		return nil
	}
	rc := http.NewResponseController(c.w)
	_ = rc.SetReadDeadline(time.Now().Add(bodyPatience))
	body, err := c.readAll(limit)
	_ = rc.SetReadDeadline(time.Time{})
	var refusal *Error
	switch {
	case errors.As(err, &refusal):
		return refusal
	case err != nil:
		return &Error{Code: CodeInvalidRequest, Message: "the request body did not arrive whole", Err: err}
	}
	c.body = body
	if conn := c.connection(); conn != nil {
		conn.heard()
	}
	if err := c.decode(limit); err != nil {
		return err
	}
	if depth := c.g.policy.Limits.JSONDepth; deeper(c.body, depth) {
		return errorf(CodeInvalidRequest, "the body nests deeper than limits.json_depth, %d", depth)
	}
	return nil
}

// decode takes a coding off that hides what a request means: its model, whether it streams, whether it acts. The
// provider gets the body without it. Other codings pass, as bytes that mean nothing here.
func (c *call) decode(limit int64) *Error {
	var plain io.Reader
	var err error
	switch strings.ToLower(first(c.r.Header["Content-Encoding"])) {
	case "gzip", "x-gzip":
		plain, err = gzip.NewReader(bytes.NewReader(c.body))
	case "deflate":
		plain, err = zlib.NewReader(bytes.NewReader(c.body))
	default:
		return nil
	}
	var body []byte
	if err == nil {
		body, err = c.collect(plain, -1, limit)
	}
	var refusal *Error
	switch {
	case errors.As(err, &refusal):
		return refusal
	case errors.Is(err, errOverLimit):
		return errorf(CodeTooLarge, "the body is over limits.max_request_bytes, %d, when decoded", limit)
	case err != nil:
		return &Error{Code: CodeInvalidRequest, Message: "the request body is not in the coding that Content-Encoding names", Err: err}
	}
	c.body = body
	c.r.Header.Del("Content-Encoding")
	return nil
}

// bodyStep is how much of a body is paid for at a time: a client that only announces a large one holds little.
const bodyStep = 1 << 20

var errOverLimit = errors.New("the body is over limits.max_request_bytes")

func (c *call) readAll(limit int64) ([]byte, error) {
	body, err := c.collect(c.r.Body, c.r.ContentLength, limit)
	if errors.Is(err, errOverLimit) {
		return nil, c.tooLarge(limit)
	}
	return body, err
}

// collect reads from to its end and pays for what comes as it comes: neither an announcement nor a coding holds memory
// that nobody counts. announced is -1 where no length is known.
func (c *call) collect(from io.Reader, announced, limit int64) ([]byte, error) {
	size := min(bodyStep/16, limit+1)
	if announced > 0 {
		size = min(announced, bodyStep)
	}
	if err := c.charged(int(size)); err != nil {
		return nil, err
	}
	body := make([]byte, 0, size)
	for {
		// Not ReadFull, whose ErrUnexpectedEOF may mean either end: a body that is cut would pass for a whole one.
		n, err := from.Read(body[len(body):cap(body)])
		body = body[:len(body)+n]
		switch {
		case int64(len(body)) > limit:
			return nil, errOverLimit
		case int64(len(body)) == announced, err == io.EOF && announced < 0:
			return body, nil
		case err == io.EOF:
			return nil, io.ErrUnexpectedEOF
		case err != nil:
			return nil, err
		case len(body) < cap(body):
			continue
		}
		grown := min(2*int64(cap(body)), limit+1)
		if announced > 0 {
			grown = min(grown, announced)
		}
		if err := c.charged(int(grown) - cap(body)); err != nil {
			return nil, err
		}
		body = append(make([]byte, 0, grown), body...)
	}
}

func (c *call) charged(n int) error {
	if !c.g.mem.Take(n) {
		return errorf(CodeShed, "limits.body_memory is used up by calls in progress")
	}
	c.charge += n
	return nil
}

// tooLarge reads on for a second, so that a client that is still sending sees the answer (interface.md,
// settled questions).
func (c *call) tooLarge(limit int64) *Error {
	rc := http.NewResponseController(c.w)
	_ = rc.SetReadDeadline(time.Now().Add(time.Second))
	_, _ = io.Copy(io.Discard, c.r.Body)
	_ = rc.SetReadDeadline(time.Time{})
	set(c.w.Header(), "Connection", "close")
	return errorf(CodeTooLarge, "the body is over limits.max_request_bytes, %d", limit)
}
