package sdk

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"sync"
)

// tape records the HTTP exchanges that a client makes for one call of ours, its own retries included.
type tape struct {
	mu        sync.Mutex
	exchanges []*exchange
	// onStatus, if set, is called with each answer's status before the client sees it.
	onStatus func(int)
}

type exchange struct {
	request http.Header
	status  int // 0: no answer came
	header  http.Header
	trailer http.Header // filled when the body was read to its end
	mu      sync.Mutex
	body    bytes.Buffer
}

type tapeKey struct{}

// withTape returns a context whose exchanges are recorded on the tape.
func withTape(ctx context.Context, t *tape) context.Context {
	return context.WithValue(ctx, tapeKey{}, t)
}

// attempts is how many HTTP requests the client made.
func (t *tape) attempts() int {
	t.mu.Lock()
	defer t.mu.Unlock()
	return len(t.exchanges)
}

// last is the newest exchange; an empty one if nothing was sent.
func (t *tape) last() *exchange {
	t.mu.Lock()
	defer t.mu.Unlock()
	if len(t.exchanges) == 0 {
		return &exchange{header: http.Header{}}
	}
	return t.exchanges[len(t.exchanges)-1]
}

func (e *exchange) bytes() []byte {
	e.mu.Lock()
	defer e.mu.Unlock()
	return bytes.Clone(e.body.Bytes())
}

// replayed reports whether the answer says that it is a stored one.
func (e *exchange) replayed() bool { return e.header.Get("Idempotency-Replayed") == "true" }

// recorder is the transport that all clients of the suite share. It changes nothing.
type recorder struct{ next http.RoundTripper }

func (r recorder) RoundTrip(req *http.Request) (*http.Response, error) {
	t, _ := req.Context().Value(tapeKey{}).(*tape)
	if t == nil {
		return r.next.RoundTrip(req)
	}
	e := &exchange{request: req.Header.Clone(), header: http.Header{}}
	t.mu.Lock()
	t.exchanges = append(t.exchanges, e)
	t.mu.Unlock()
	res, err := r.next.RoundTrip(req)
	if err != nil {
		return nil, err
	}
	e.status, e.header, e.trailer = res.StatusCode, res.Header.Clone(), res.Trailer
	res.Body = tee{res.Body, e}
	if t.onStatus != nil {
		t.onStatus(res.StatusCode)
	}
	return res, nil
}

type tee struct {
	io.ReadCloser
	e *exchange
}

func (t tee) Read(p []byte) (int, error) {
	n, err := t.ReadCloser.Read(p)
	t.e.mu.Lock()
	t.e.body.Write(p[:n])
	t.e.mu.Unlock()
	return n, err
}
