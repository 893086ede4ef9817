// Package upstream sends one request to a provider exactly once and hands back its answer as it arrives.
package upstream

import (
	"context"
	"crypto/x509"
	"io"
	"net"
	"net/http"
	"net/url"
	"time"
)

// Client calls providers. It is safe for concurrent use.
//
// Do puts one request on the wire at most once. It never repeats a request of which a byte may have left, follows no
// redirect (a 3xx is an answer), decompresses nothing and adds no header beyond Host and Content-Length. An error is
// always an *Error. A cancelled ctx closes the exchange at once, also while the body is read, and its cause is what the
// error wraps: ctx must live until the body has been read or closed. Hop-by-hop headers of the request (RFC 9110 section
// 7.6.1), Host, Content-Length and Expect are left out: the body goes with the head, so there is nothing to wait for.
//
// Informational answers (1xx) are skipped. An answer may come before the request was wholly written (a 413).
type Client interface {
	Do(ctx context.Context, r *Request) (*Response, error)
	// CloseIdle closes the connections that carry no request now.
	CloseIdle()
}

// Request is one call. The client reads it until Do returned and, if Do gave an answer, until its body was closed or read
// to its end; it changes nothing in it.
type Request struct {
	Method string
	// Target is absolute, http or https. Path and query are sent as they were parsed, never re-encoded; user info and
	// fragment are not sent.
	Target *url.URL
	Header http.Header
	Body   []byte
	// Sending, when set, is called before the first byte may leave: until then a cancelled call was not sent, and its error
	// has none leave. It may be called again, from any goroutine, and must not block.
	Sending func() error
}

// Response is the head of an answer, and its body, which must be read to its end or closed.
type Response struct {
	Status int
	// Header holds what the provider sent but for Transfer-Encoding and Trailer.
	Header http.Header
	Body   Body
	// Unframed says that the body ends where the connection does, as of HTTP/1.0: one that is cut off looks whole.
	Unframed bool
}

// Body is read by one goroutine; only Close may come from another one, and then ends a waiting Read.
// Every error of Read but io.EOF is an *Error. io.EOF means that the answer ended as its framing said it would.
type Body interface {
	io.ReadCloser
	// Buffered is the number of bytes that Read gives without waiting; 0 when there are none or it is unknown.
	Buffered() int
	// Trailer is what followed the body; it is complete once Read returned io.EOF.
	Trailer() http.Header
}

// Config is how connections are made and kept. The zero value means the defaults given with each field.
type Config struct {
	DialTimeout         time.Duration // 10s
	TLSHandshakeTimeout time.Duration // 10s
	IdleTimeout         time.Duration // 90s
	MaxIdlePerHost      int           // 512
	// HeaderBytes bounds the head of an answer, with the 1xx heads before it, and apart from it its trailer: 64 KiB.
	HeaderBytes int
	// RootCAs are trusted instead of the system's when set.
	RootCAs *x509.CertPool
	// Proxy names the proxy of a request, as http.ProxyFromEnvironment does; nil means none.
	Proxy func(*http.Request) (*url.URL, error)
	// DialContext replaces the dialler of TCP connections.
	DialContext func(ctx context.Context, network, addr string) (net.Conn, error)
}

func (c Config) withDefaults() Config {
	orDuration(&c.DialTimeout, 10*time.Second)
	orDuration(&c.TLSHandshakeTimeout, 10*time.Second)
	orDuration(&c.IdleTimeout, 90*time.Second)
	if c.MaxIdlePerHost == 0 {
		c.MaxIdlePerHost = 512
	}
	if c.HeaderBytes == 0 {
		c.HeaderBytes = 64 << 10
	}
	if c.DialContext == nil {
		c.DialContext = new(net.Dialer).DialContext
	}
	dial, limit := c.DialContext, c.DialTimeout
	c.DialContext = func(ctx context.Context, network, addr string) (net.Conn, error) {
		ctx, cancel := context.WithTimeout(ctx, limit)
		defer cancel()
		return dial(ctx, network, addr)
	}
	return c
}

func orDuration(d *time.Duration, value time.Duration) {
	if *d == 0 {
		*d = value
	}
}

// New makes a client.
func New(config Config) Client {
	config = config.withDefaults()
	return &client{plain: newPool(config), other: newTransport(config), proxy: config.Proxy}
}

// client sends plain HTTP over the pool, and what needs TLS or a proxy through net/http.
type client struct {
	plain *pool
	other *transport
	proxy func(*http.Request) (*url.URL, error)
}

func (c *client) Do(ctx context.Context, r *Request) (*Response, error) {
	if err := checkRequest(r); err != nil {
		return nil, &Error{Phase: PhaseWrite, Err: err}
	}
	if c.isDirect(r) {
		return c.plain.Do(ctx, r)
	}
	return c.other.Do(ctx, r)
}

// isDirect says whether the pool can take r: it knows no proxies and leaves international host names to net/http.
func (c *client) isDirect(r *Request) bool {
	if r.Target.Scheme != "http" || !isASCII(r.Target.Host) {
		return false
	}
	if c.proxy == nil {
		return true
	}
	via, err := c.proxy(&http.Request{Method: r.Method, URL: r.Target, Header: r.Header})
	return via == nil && err == nil
}

func (c *client) CloseIdle() {
	c.plain.CloseIdle()
	c.other.CloseIdle()
}
