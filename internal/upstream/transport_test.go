package upstream

import (
	"context"
	"crypto/x509"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"testing"
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
