package gateway

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net/http"
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
	if depth := c.g.policy.Limits.JSONDepth; deeper(body, depth) {
		return errorf(CodeInvalidRequest, fmt.Sprintf("the body nests deeper than limits.json_depth, %d", depth))
	}
	c.body = body
	return nil
}

func (c *call) readAll(limit int64) ([]byte, error) {
	if n := c.r.ContentLength; n > 0 {
		if err := c.charged(int(n)); err != nil {
			return nil, err
		}
		body := make([]byte, n)
		_, err := io.ReadFull(c.r.Body, body)
		return body, err
	}
	var buf bytes.Buffer
	for {
		before := buf.Cap()
		n, err := io.CopyN(&buf, c.r.Body, 64<<10)
		if int64(buf.Len()) > limit {
			return nil, c.tooLarge(limit)
		}
		if refusal := c.charged(buf.Cap() - before); refusal != nil {
			return nil, refusal
		}
		if err == io.EOF || err == nil && n == 0 {
			return buf.Bytes(), nil
		}
		if err != nil {
			return nil, err
		}
	}
}

func (c *call) charged(n int) error {
	if !c.g.mem.take(n) {
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
	return errorf(CodeTooLarge, fmt.Sprintf("the body is over limits.max_request_bytes, %d", limit))
}
