package upstream

import (
	"bufio"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"
)

// secure starts a TLS server and gives a client that trusts it.
func secure(t *testing.T, http2 bool, handler http.HandlerFunc) (Client, *url.URL) {
	t.Helper()
	server := httptest.NewUnstartedServer(handler)
	server.EnableHTTP2 = http2
	server.StartTLS()
	t.Cleanup(server.Close)
	roots := x509.NewCertPool()
	roots.AddCert(server.Certificate())
	client := New(Config{RootCAs: roots})
	t.Cleanup(client.CloseIdle)
	return client, parse(t, server.URL)
}

func parse(t testing.TB, raw string) *url.URL {
	t.Helper()
	u, err := url.Parse(raw)
	if err != nil {
		t.Fatal(err)
	}
	return u
}

func TestTransportForwardsExactly(t *testing.T) {
	for name, http2 := range map[string]bool{"HTTP/1.1": false, "HTTP/2.0": true} {
		t.Run(name, func(t *testing.T) {
			var got *http.Request
			var body []byte
			client, base := secure(t, http2, func(w http.ResponseWriter, r *http.Request) {
				got = r
				body, _ = io.ReadAll(r.Body)
				w.Header().Set("Location", "/elsewhere")
				w.WriteHeader(http.StatusTemporaryRedirect)
				_, _ = io.WriteString(w, "moved")
			})
			target := parse(t, base.String()+"/v1/a%2Fb|c?q=%7E&q=a+b")
			header := http.Header{"X-Api-Key": {"k"}, "Connection": {"x-hop"}, "X-Hop": {"1"}, "Keep-Alive": {"5"}}
			resp, err := client.Do(t.Context(), &Request{Method: "POST", Target: target, Header: header, Body: []byte("{}")})
			if err != nil {
				t.Fatal(err)
			}
			text, err := io.ReadAll(resp.Body)
			if err != nil || string(text) != "moved" || resp.Status != http.StatusTemporaryRedirect {
				t.Fatalf("got %d %q %v", resp.Status, text, err)
			}
			if got.Proto != name || got.RequestURI != "/v1/a%2Fb|c?q=%7E&q=a+b" {
				t.Errorf("got %s %s", got.Proto, got.RequestURI)
			}
			if string(body) != "{}" || got.Header.Get("X-Api-Key") != "k" {
				t.Errorf("body %q, header %v", body, got.Header)
			}
			for _, name := range []string{"User-Agent", "Accept-Encoding", "X-Hop", "Keep-Alive", "Connection"} {
				if got.Header.Get(name) != "" {
					t.Errorf("%s was sent: %q", name, got.Header.Get(name))
				}
			}
		})
	}
}

func TestUntrustedCertificateSendsNothing(t *testing.T) {
	_, base := secure(t, true, func(http.ResponseWriter, *http.Request) { t.Error("was called") })
	_, err := New(Config{}).Do(t.Context(), &Request{Method: "POST", Target: base, Body: []byte("{}")})
	var fault *Error
	if !errors.As(err, &fault) || fault.Phase != PhaseTLS || fault.Sent != None {
		t.Fatalf("got %v", err)
	}
}

func TestTransportCancelledAtTheHead(t *testing.T) {
	reason := errors.New("first token is late")
	ctx, cancel := context.WithCancelCause(t.Context())
	client, base := secure(t, true, func(_ http.ResponseWriter, r *http.Request) {
		_, _ = io.ReadAll(r.Body)
		cancel(reason)
		<-r.Context().Done()
	})
	_, err := client.Do(ctx, &Request{Method: "POST", Target: base, Body: []byte("{}")})
	var fault *Error
	// The provider can have read all before net/http says that it was written.
	if !errors.As(err, &fault) || fault.Sent == None || fault.Timeout || !errors.Is(err, reason) {
		t.Fatalf("got %v", err)
	}
}

// secureRaw is a provider of raw bytes under TLS.
func secureRaw(t *testing.T, config Config, talk func(p *peer)) (Client, *far) {
	t.Helper()
	certificate := httptest.NewTLSServer(nil)
	certificate.Close()
	f := listen(t, func(p *peer) {
		under := tls.Server(p.Conn, &tls.Config{Certificates: certificate.TLS.Certificates})
		talk(&peer{under, p.far, bufio.NewReader(under)})
		_ = under.Close()
	})
	f.url.Scheme = "https"
	config.RootCAs = x509.NewCertPool()
	config.RootCAs.AddCert(certificate.Certificate())
	return newClient(t, config), f
}

func TestTransportCutBody(t *testing.T) {
	for _, answer := range []string{sizedAnswer, chunkedAnswer} {
		client, f := secureRaw(t, Config{}, func(p *peer) {
			p.request()
			p.say(answer[:strings.LastIndex(answer, "lo")])
		})
		_, _, err := call(t.Context(), client, post(f, "{}"))
		if fault := wantFault(t, err, PhaseBody, All); !errors.Is(fault, io.ErrUnexpectedEOF) {
			t.Errorf("got %v", err)
		}
	}
}

// TestEchoedCredential has a provider put what it was sent where net/http quotes it.
func TestEchoedCredential(t *testing.T) {
	client, f := secureRaw(t, Config{}, func(p *peer) {
		r, _ := p.request()
		token := strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer ")
		p.say("HTTP/1.1 " + token + r.URL.Query().Get("key") + " OK\r\n\r\n")
	})
	r := post(f, "{}")
	r.Header = http.Header{"Authorization": {"Bearer sk-secret-1"}}
	r.Target.RawQuery = "key=sk-secret-2"
	_, err := client.Do(t.Context(), r)
	if wantFault(t, err, PhaseHead, All); !strings.Contains(err.Error(), "malformed") {
		t.Fatalf("got %v", err)
	}
	for e := err; e != nil; e = errors.Unwrap(e) {
		if strings.Contains(e.Error(), "secret") {
			t.Errorf("got %v", e)
		}
	}
}

// TestTransportSkipsDeadConnections: the write fails before a byte, which is no send.
func TestTransportSkipsDeadConnections(t *testing.T) {
	dead := new(atomic.Bool)
	dial := func(ctx context.Context, network, addr string) (net.Conn, error) {
		c, err := new(net.Dialer).DialContext(ctx, network, addr)
		return &mute{Conn: c, dead: dead}, err
	}
	client, f := secureRaw(t, Config{DialContext: dial}, always(sizedAnswer))
	for range 2 {
		if _, body, err := call(t.Context(), client, post(f, "{}")); err != nil || body != "hello" {
			t.Fatalf("got %q, %v", body, err)
		}
		dead.Store(true)
	}
	if f.requests.Load() != 2 || f.conns.Load() != 2 {
		t.Errorf("%d requests on %d connections", f.requests.Load(), f.conns.Load())
	}
}

// mute is a connection that takes no byte any more once dead was set; one write uses that up for those made later.
type mute struct {
	net.Conn
	dead   *atomic.Bool
	broken atomic.Bool
}

func (m *mute) Write(p []byte) (int, error) {
	if m.dead.CompareAndSwap(true, false) {
		m.broken.Store(true)
	}
	if m.broken.Load() {
		return 0, syscall.EPIPE
	}
	return m.Conn.Write(p)
}

func TestProxy(t *testing.T) {
	var seen []string
	proxy := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		seen = append(seen, r.Method+" "+r.RequestURI)
		if r.Method == http.MethodConnect {
			w.WriteHeader(http.StatusForbidden)
			return
		}
		_, _ = io.WriteString(w, "proxied")
	}))
	t.Cleanup(proxy.Close)
	client := newClient(t, Config{Proxy: http.ProxyURL(parse(t, proxy.URL))})
	_, body, err := call(t.Context(), client, &Request{Method: "POST", Target: parse(t, "http://far.test/a|b?c=d"), Body: []byte("{}")})
	if err != nil || body != "proxied" {
		t.Fatalf("got %q, %v", body, err)
	}
	_, err = client.Do(t.Context(), &Request{Method: "POST", Target: parse(t, "https://far.test/x"), Body: []byte("{}")})
	wantFault(t, err, PhaseDial, None)
	want := []string{"POST http://far.test/a|b?c=d", "CONNECT far.test:443"}
	if !slices.Equal(seen, want) {
		t.Errorf("the proxy saw %q", seen)
	}
}

func TestTransportTimeout(t *testing.T) {
	client, f := secureRaw(t, Config{}, func(p *peer) {
		p.request()
		p.request()
	})
	ctx, cancel := context.WithDeadline(t.Context(), time.Now().Add(-time.Second))
	defer cancel()
	_, err := client.Do(ctx, post(f, "{}"))
	if fault := wantFault(t, err, PhaseDial, None); !fault.Timeout || f.requests.Load() != 0 {
		t.Errorf("got %v", err)
	}
}

// TestMeterCountsFirst: at the moment the far side can have the bytes, they count.
func TestMeterCountsFirst(t *testing.T) {
	near, other := net.Pipe()
	m := &meter{Conn: near}
	wrote := make(chan struct{})
	go func() {
		defer close(wrote)
		_, _ = m.Write([]byte("ab"))
	}()
	if _, err := io.ReadFull(other, make([]byte, 1)); err != nil || m.written.Load() == 0 {
		t.Errorf("%d counted, %v", m.written.Load(), err)
	}
	_ = other.Close()
	<-wrote
	if m.written.Load() != 1 {
		t.Errorf("%d counted after half the write failed", m.written.Load())
	}
}

// TestEmptyBodyOverTLS: the guard against net/http's repetition must not give a GET a body.
func TestEmptyBodyOverTLS(t *testing.T) {
	for _, http2 := range []bool{false, true} {
		client, base := secure(t, http2, func(w http.ResponseWriter, r *http.Request) {
			body, err := io.ReadAll(r.Body)
			_, hasLength := r.Header["Content-Length"]
			if len(body) != 0 || err != nil || hasLength || r.ProtoMajor == 1 && r.TransferEncoding != nil {
				t.Errorf("%s %s: body %q, encoding %v, %v", r.Proto, r.Method, body, r.TransferEncoding, err)
			}
		})
		for _, method := range []string{"GET", "HEAD", "DELETE", "OPTIONS"} {
			if _, _, err := call(t.Context(), client, &Request{Method: method, Target: base}); err != nil {
				t.Error(err)
			}
		}
	}
}
