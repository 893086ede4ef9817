package upstream

import (
	"bytes"
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"time"
)

// transport calls through net/http: for TLS, HTTP/2 and proxies.
type transport struct {
	http *http.Transport
}

func newTransport(c Config) *transport {
	dial := func(ctx context.Context, network, addr string) (net.Conn, error) {
		conn, err := c.DialContext(ctx, network, addr)
		if err != nil {
			return nil, err
		}
		return &meter{Conn: conn}, nil
	}
	return &transport{&http.Transport{
		Proxy:                  c.Proxy,
		DialContext:            dial,
		TLSClientConfig:        &tls.Config{RootCAs: c.RootCAs, MinVersion: tls.VersionTLS12},
		TLSHandshakeTimeout:    c.TLSHandshakeTimeout,
		DisableCompression:     true,
		MaxIdleConnsPerHost:    c.MaxIdlePerHost,
		IdleConnTimeout:        c.IdleTimeout,
		MaxResponseHeaderBytes: int64(c.HeaderBytes),
		ForceAttemptHTTP2:      true,
		// A connection that a NAT forgot is silent: without pings every call on it would run into its time-out.
		HTTP2: &http.HTTP2Config{SendPingTimeout: 30 * time.Second, PingTimeout: 15 * time.Second},
	}}
}

// maxDeadIdle bounds how many dead connections one call passes over: on HTTP/2 what fails before a byte may be the request.
const maxDeadIdle = 8

// CloseIdle implements Client.
func (t *transport) CloseIdle() { t.http.CloseIdleConnections() }

// Do implements Client for requests that checkRequest has passed.
func (t *transport) Do(ctx context.Context, r *Request) (*Response, error) {
	for deadIdle := 0; ; deadIdle++ {
		resp, watch, err := t.once(ctx, r)
		if err == nil {
			return resp, nil
		}
		if held := watch.held.Load(); held != nil && watch.unsent() {
			return nil, &Error{Phase: PhaseWrite, Err: held}
		}
		// An idle connection can be found dead before a byte was written; then the next one is taken.
		if watch.sent() == None && watch.reused.Load() && ctx.Err() == nil && deadIdle < maxDeadIdle {
			continue
		}
		return nil, newError(ctx, watch.phaseName(), watch.sent(), scrub(err, r))
	}
}

func (t *transport) once(ctx context.Context, r *Request) (*Response, *watch, error) {
	w, asking := &watch{sending: r.Sending}, ctx
	if r.Sending != nil {
		asking, w.cancel = context.WithCancelCause(ctx)
	}
	req := (&http.Request{
		Method: r.Method, URL: exactURL(r.Target), Host: wireHost(r.Target),
		Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		Header: outgoing(r.Header),
		// A body, even an empty one, without GetBody is what keeps net/http from repeating a request by itself: without a
		// body it repeats GET, HEAD and whatever carries an Idempotency-Key, and on HTTP/2 everything.
		Body: io.NopCloser(bytes.NewReader(r.Body)), ContentLength: int64(len(r.Body)),
	}).WithContext(w.attach(asking))
	resp, err := t.http.RoundTrip(req)
	if err != nil {
		w.end()
		return nil, w, err
	}
	if resp.StatusCode == http.StatusSwitchingProtocols {
		_ = resp.Body.Close()
		w.end()
		return nil, w, fmt.Errorf("%w: the protocol was switched unasked", ErrMalformed)
	}
	unframed := resp.ProtoMajor == 1 && resp.ContentLength < 0 && len(resp.TransferEncoding) == 0
	return &Response{resp.StatusCode, resp.Header, &transportBody{ctx: ctx, resp: resp, watch: w, request: r}, unframed}, w, nil
}

// outgoing copies what of the header is for the provider. The values are shared: nobody writes to them.
func outgoing(h http.Header) http.Header {
	named := connectionFields(h)
	out := make(http.Header, len(h)+1)
	for name, values := range h {
		if !isHopByHop(name, named) {
			out[name] = values
		}
	}
	if _, ok := out["User-Agent"]; !ok {
		out["User-Agent"] = nil // keeps net/http from adding its own
	}
	return out
}

// exactURL gives net/http a URL that it writes as it was parsed. It re-encodes a path whose spelling it holds invalid,
// unless that path is opaque. A proxy of plain HTTP needs the absolute form, and a path of two slashes would become one.
func exactURL(u *url.URL) *url.URL {
	exact := &url.URL{Scheme: u.Scheme, Host: u.Host, Path: u.Path, RawPath: u.RawPath, RawQuery: u.RawQuery, ForceQuery: u.ForceQuery}
	if u.RawPath != "" && u.EscapedPath() != u.RawPath {
		exact.Opaque = u.RawPath
		if u.Scheme == "http" || strings.HasPrefix(u.RawPath, "//") {
			exact.Opaque = "//" + u.Host + u.RawPath
		}
	}
	return exact
}

// transportBody gives the body's errors their facts.
type transportBody struct {
	ctx     context.Context
	resp    *http.Response
	watch   *watch
	request *Request
}

func (b *transportBody) Read(p []byte) (int, error) {
	n, err := b.resp.Body.Read(p)
	switch err {
	case nil:
		return n, nil
	case io.EOF:
		b.watch.end()
		return n, err
	case http.ErrBodyReadAfterClose:
		err = ErrClosed
	}
	return n, newError(b.ctx, PhaseBody, max(b.watch.sent(), Partial), scrub(err, b.request))
}

func (b *transportBody) Close() error {
	defer b.watch.end()
	return b.resp.Body.Close()
}
func (b *transportBody) Buffered() int        { return 0 }
func (b *transportBody) Trailer() http.Header { return b.resp.Trailer }
