package holdfast

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"runtime/debug"
	"strconv"
	"strings"
	"sync"
	"time"
)

// exchange is one request that a handler in this process answers: the handler's http.ResponseWriter at one end, the
// client's answer at the other. What the handler writes waits until the client takes it, so that a write that succeeded
// did arrive, and a client that reads slowly is one.
type exchange struct {
	client context.Context // the request's own
	ctx    context.Context // the handler's: ends when the client leaves
	cancel context.CancelFunc
	w, r   net.Conn // a pipe that knows deadlines

	header http.Header // the handler's, until it ends
	head   bool        // HEAD: no body
	wrote  bool
	left   int64         // bytes that Content-Length promises; -1: none promised
	ready  chan struct{} // closed when resp is there, or err is
	resp   *http.Response
	err    error // before there was an answer

	mu    sync.Mutex
	cut   error // instead of the body's end
	whole bool  // the client has had everything
}

var errCut = fmt.Errorf("holdfast: the answer broke off: %w", io.ErrUnexpectedEOF)

func newExchange(r *http.Request) *exchange {
	x := &exchange{client: r.Context(), header: http.Header{}, head: r.Method == http.MethodHead, left: -1, ready: make(chan struct{})}
	x.ctx, x.cancel = context.WithCancel(r.Context())
	x.w, x.r = net.Pipe()
	return x
}

// serve runs the handler to its end.
func (x *exchange) serve(h http.Handler, r *http.Request, logger *slog.Logger) {
	defer x.cancel()
	defer x.w.Close()
	defer func() {
		if p := recover(); p != nil {
			if e, ok := p.(error); !ok || !errors.Is(e, http.ErrAbortHandler) {
				logger.Error("panic in a handler", "panic", fmt.Sprint(p), "stack", string(debug.Stack()))
			}
			x.abort(errCut)
		}
	}()
	h.ServeHTTP(x, r)
	x.begin(http.StatusOK)
	if x.left > 0 && !x.head {
		x.abort(errCut)
		return
	}
	for name := range x.resp.Trailer {
		if v := x.header[name]; v != nil {
			x.resp.Trailer[name] = v
		} else {
			delete(x.resp.Trailer, name)
		}
	}
}

// abort ends the answer where it is.
func (x *exchange) abort(why error) {
	x.mu.Lock()
	if x.cut == nil {
		x.cut = why
	}
	x.mu.Unlock()
	if !x.wrote {
		x.wrote, x.err = true, why
		close(x.ready)
	}
}

// response waits for the answer's head.
func (x *exchange) response(r *http.Request) (*http.Response, error) {
	select {
	case <-x.ready:
	case <-x.client.Done():
		x.leave(context.Cause(x.client))
		return nil, x.client.Err()
	}
	if x.err != nil {
		return nil, x.err
	}
	x.resp.Request = r
	stop := context.AfterFunc(x.client, func() { x.leave(x.client.Err()) })
	x.resp.Body = &answerBody{x: x, left: x.resp.ContentLength, stop: stop}
	return x.resp, nil
}

// leave is the client's end of it.
func (x *exchange) leave(why error) {
	x.mu.Lock()
	if x.cut == nil && !x.whole {
		x.cut = why
	}
	x.mu.Unlock()
	x.cancel()
	_ = x.r.Close()
}

// Header, Write and WriteHeader are http.ResponseWriter.
func (x *exchange) Header() http.Header { return x.header }

func (x *exchange) WriteHeader(status int) {
	if status >= 200 { // an interim answer tells a client nothing here
		x.begin(status)
	}
}

func (x *exchange) begin(status int) {
	if x.wrote {
		return
	}
	x.wrote = true
	h := x.header.Clone()
	resp := &http.Response{Status: strconv.Itoa(status) + " " + http.StatusText(status), StatusCode: status, Proto: "HTTP/1.1", ProtoMajor: 1,
		ProtoMinor: 1, Header: h, ContentLength: -1}
	for _, v := range h["Trailer"] {
		for name := range strings.SplitSeq(v, ",") {
			if resp.Trailer == nil {
				resp.Trailer = http.Header{}
			}
			resp.Trailer[http.CanonicalHeaderKey(strings.TrimSpace(name))] = nil
		}
	}
	delete(h, "Trailer")
	if n, err := strconv.ParseInt(h.Get("Content-Length"), 10, 64); err == nil && n >= 0 {
		resp.ContentLength, x.left = n, n
	}
	if status == http.StatusNoContent || status == http.StatusNotModified {
		x.head = true
		resp.ContentLength = max(resp.ContentLength, 0)
	}
	x.resp = resp
	close(x.ready)
}

func (x *exchange) Write(p []byte) (int, error) {
	x.begin(http.StatusOK)
	if x.head || len(p) == 0 { // net.Pipe would hand over even nothing
		return len(p), nil
	}
	if x.left >= 0 {
		if int64(len(p)) > x.left {
			return 0, http.ErrContentLength
		}
		x.left -= int64(len(p))
	}
	return x.w.Write(p)
}

// Receipts is gateway.Receipts: the pipe hands over what is written.
func (x *exchange) Receipts() {}

// FlushError, SetWriteDeadline and EnableFullDuplex are what http.ResponseController asks for.
func (x *exchange) FlushError() error {
	x.begin(http.StatusOK)
	return nil
}

func (x *exchange) Flush() { x.begin(http.StatusOK) }

func (x *exchange) SetWriteDeadline(t time.Time) error { return x.w.SetWriteDeadline(t) }
func (x *exchange) EnableFullDuplex() error            { return nil }

// answerBody is the client's side of an answer's body.
type answerBody struct {
	x    *exchange
	left int64 // of Content-Length; -1: not known
	stop func() bool
	once sync.Once
}

func (b *answerBody) Read(p []byte) (int, error) {
	if b.left == 0 || b.x.head {
		b.over()
		return 0, io.EOF
	}
	if err := b.x.client.Err(); err != nil && !b.x.hadAll() {
		b.x.leave(err)
		return 0, err
	}
	if b.left > 0 && int64(len(p)) > b.left {
		p = p[:b.left]
	}
	n, err := b.x.r.Read(p)
	if b.left > 0 {
		if b.left -= int64(n); b.left == 0 {
			b.over()
			return n, nil
		}
	}
	if err == nil {
		return n, nil
	}
	b.x.mu.Lock()
	defer b.x.mu.Unlock()
	switch {
	case b.x.cut != nil:
		return n, b.x.cut
	case errors.Is(err, io.EOF):
		b.x.whole = true
		return n, io.EOF
	}
	return n, err
}

// over notes that the client has everything: what it does now is no leaving.
func (b *answerBody) over() {
	b.x.mu.Lock()
	b.x.whole = true
	b.x.mu.Unlock()
}

func (x *exchange) hadAll() bool {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.whole
}

func (b *answerBody) Close() error {
	b.once.Do(func() {
		b.stop()
		if !b.x.hadAll() {
			b.x.leave(http.ErrBodyReadAfterClose)
		}
		_ = b.x.r.Close()
	})
	return nil
}

// exchanges are those in progress; Stop waits for them.
type exchanges struct {
	mu     sync.Mutex
	all    map[*exchange]struct{}
	count  sync.WaitGroup
	closed bool
}

func (s *exchanges) add(x *exchange) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return false
	}
	if s.all == nil {
		s.all = map[*exchange]struct{}{}
	}
	s.all[x] = struct{}{}
	s.count.Add(1)
	return true
}

func (s *exchanges) remove(x *exchange) {
	s.mu.Lock()
	delete(s.all, x)
	s.mu.Unlock()
	s.count.Done()
}

// close lets clients read what is complete, for closeWait, and then breaks off what is left.
func (s *exchanges) close() {
	s.mu.Lock()
	s.closed = true
	s.mu.Unlock()
	timer := time.AfterFunc(closeWait, func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		for x := range s.all {
			x.leave(errCut)
		}
	})
	defer timer.Stop()
	s.count.Wait()
}
