package bench

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"time"
)

// upstreamIdle keeps every connection that the load opens: dialling anew would be measured as proxying.
const upstreamIdle = 1 << 15

// ServeReverseProxy is the reference that every figure of the gateway stands beside: the standard library's
// proxy without any logic, in a process of its own. It says where it listens on out and serves until ctx ends.
func ServeReverseProxy(ctx context.Context, listen, upstream string, out io.Writer) error {
	to, err := url.Parse(upstream)
	if err != nil || to.Host == "" {
		return fmt.Errorf("--upstream %q: write a base URL such as http://127.0.0.1:9797", upstream)
	}
	transport := http.DefaultTransport.(*http.Transport).Clone()
	transport.Proxy, transport.DisableCompression = nil, true
	transport.MaxIdleConns, transport.MaxIdleConnsPerHost = upstreamIdle, upstreamIdle
	quiet := log.New(io.Discard, "", 0)
	server := &http.Server{ReadHeaderTimeout: 10 * time.Second, ErrorLog: quiet, Handler: &httputil.ReverseProxy{
		Rewrite: func(r *httputil.ProxyRequest) { r.SetURL(to) }, Transport: transport, ErrorLog: quiet}}
	l, err := net.Listen("tcp", listen)
	if err != nil {
		return fmt.Errorf("listen on %s: %w", listen, err)
	}
	stopped := context.AfterFunc(ctx, func() { _ = server.Close() })
	defer stopped()
	fmt.Fprintf(out, "reverse proxy on http://%s to %s\n", l.Addr(), to)
	if err := server.Serve(l); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}
