package holdfast

import (
	"context"
	"io"
	"net/http"
	"net/url"
	"strings"

	"github.com/holdfast-ai/holdfast/internal/policy"
)

// Transport returns an http.RoundTripper for any Go SDK. A request below the base_url of a configured provider goes the
// gateway's way in this process, without a listener: the same keys, the same log, the same errors, streams as they come.
// Every other request, and one that asks for another protocol (a WebSocket), goes to base; nil is
// http.DefaultTransport. Cancelling the request's context, or closing an answer's body before its end, is a client that left.
func (e *Engine) Transport(base http.RoundTripper) http.RoundTripper {
	if base == nil {
		base = http.DefaultTransport
	}
	t := &transport{e: e, base: base}
	for i := range e.config().Providers {
		p := &e.config().Providers[i]
		if u, err := url.Parse(strings.TrimSuffix(p.BaseURL, "/")); err == nil {
			t.routes = append(t.routes, home{provider: p, origin: origin(u), path: u.EscapedPath()})
		}
	}
	return t
}

type transport struct {
	e      *Engine
	base   http.RoundTripper
	routes []home
}

// home is where a provider's own SDK sends its requests.
type home struct {
	provider *policy.Provider
	origin   string
	path     string
}

// origin is scheme, host and port as two URLs can be compared by.
func origin(u *url.URL) string {
	scheme, port := strings.ToLower(u.Scheme), u.Port()
	if port == "" {
		port = map[string]string{"http": "80", "https": "443"}[scheme]
	}
	return scheme + "://" + strings.ToLower(u.Hostname()) + ":" + port
}

// way returns the path under which the gateway takes r for the provider with the longest base_url that fits; "" when
// none does.
func (t *transport) way(r *http.Request) string {
	var found *home
	path, rest := r.URL.EscapedPath(), ""
	for i := range t.routes {
		c := &t.routes[i]
		after, ok := strings.CutPrefix(path, c.path)
		if !ok || after != "" && after[0] != '/' || c.origin != origin(r.URL) || found != nil && len(found.path) >= len(c.path) {
			continue
		}
		found, rest = c, after
	}
	if found == nil || r.Method == http.MethodConnect || r.Header.Get("Upgrade") != "" {
		return ""
	}
	if found.provider.Type == policy.TypeOpenAI && strings.HasSuffix(found.path, "/v1") {
		rest = "/v1" + rest // OpenAI's base_url carries the version that the paths of the gateway carry too
	}
	return "/" + found.provider.Name + rest
}

// RoundTrip serves r by the gateway, or passes it on.
func (t *transport) RoundTrip(r *http.Request) (*http.Response, error) {
	way := t.way(r)
	if way == "" {
		return t.base.RoundTrip(r)
	}
	if t.e.gateway == nil {
		closeBody(r)
		return nil, refusal(ErrDraining, "the engine is not running: Start comes first")
	}
	x := newExchange(r)
	inner, err := t.inner(x.ctx, r, way)
	if err == nil && !t.e.exchanges.add(x) {
		err = refusal(ErrDraining, "this engine is stopping; nothing was sent")
	}
	if err != nil {
		x.cancel()
		closeBody(r)
		return nil, err
	}
	go func() {
		defer t.e.exchanges.remove(x)
		defer closeBody(r) // RoundTripper closes it, and may do so late
		x.serve(t.e.gateway, inner, t.e.logger)
	}()
	return x.response(r)
}

// inner is r as a server would have got it.
func (t *transport) inner(ctx context.Context, r *http.Request, way string) (*http.Request, error) {
	u, err := url.ParseRequestURI(way)
	if err != nil {
		return nil, refusal(ErrInvalid, "the request's path is none: "+err.Error())
	}
	u.RawQuery = r.URL.RawQuery
	in := r.Clone(ctx)
	in.URL, in.RequestURI, in.Host, in.RemoteAddr = u, u.RequestURI(), "localhost", "in-process"
	in.Proto, in.ProtoMajor, in.ProtoMinor, in.GetBody, in.Close = "HTTP/1.1", 1, 1, nil, false
	delete(in.Header, "Origin") // the caller is this program, no page
	if in.Body == nil {
		in.Body = http.NoBody
	}
	if in.ContentLength == 0 && in.Body != http.NoBody {
		in.ContentLength = -1 // what 0 means to a client; to a server it means that there is none
	}
	in.Body = readOnly{in.Body}
	return in, nil
}

// readOnly keeps a server's habit of closing the body from the caller's body, which is closed once.
type readOnly struct{ io.Reader }

func (readOnly) Close() error { return nil }

func closeBody(r *http.Request) {
	if r.Body != nil {
		_ = r.Body.Close()
	}
}
