package gateway

import (
	"errors"
	"io"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/holdfast-ai/holdfast/internal/pause"
	"github.com/holdfast-ai/holdfast/internal/provider"
	"github.com/holdfast-ai/holdfast/internal/route"
	"github.com/holdfast-ai/holdfast/internal/upstream"
)

// errInjected marks what an operator asked for.
var errInjected = errors.New("a fault injected into the route")

// injected stands in the place of an upstream call while an operator's fault is on (holdfast routes fault). A status is
// answered without a call; latency and a cut are added to the call itself.
func (e *execution) injected(f *route.Fault) (*upstream.Response, error) {
	if f.Latency > 0 && !pause.For(e.ctx, f.Latency) {
		return nil, &upstream.Error{Sent: upstream.None, Err: e.cause()}
	}
	if f.Status > 0 {
		return e.injectedAnswer(f), nil
	}
	resp, err := e.g.upstream.Do(e.ctx, e.request)
	if err == nil && f.Cut > 0 {
		resp.Body = &cutBody{Body: resp.Body, left: f.Cut}
	}
	return resp, err
}

func (e *execution) injectedAnswer(f *route.Fault) *upstream.Response {
	body := f.Body
	if body == "" {
		body = string((&provider.Error{Code: "injected_fault", Status: f.Status, Message: errInjected.Error()}).Body(e.asked()))
	}
	h := http.Header{"Content-Type": {provider.ContentType}}
	if f.RetryAfter > 0 {
		set(h, "Retry-After", strconv.FormatInt(int64((f.RetryAfter+time.Second-1)/time.Second), 10))
	}
	return &upstream.Response{Status: f.Status, Header: h, Body: textBody{strings.NewReader(body)}}
}

type textBody struct{ *strings.Reader }

func (textBody) Close() error         { return nil }
func (textBody) Trailer() http.Header { return nil }
func (t textBody) Buffered() int      { return t.Len() }

// cutBody breaks an answer off.
type cutBody struct {
	upstream.Body
	left int
}

func (b *cutBody) Read(p []byte) (int, error) {
	if b.left <= 0 {
		return 0, &upstream.Error{Sent: upstream.All, Err: io.ErrUnexpectedEOF}
	}
	n, err := b.Body.Read(p[:min(len(p), b.left)])
	b.left -= n
	return n, err
}
