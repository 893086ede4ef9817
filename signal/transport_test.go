package signal_test

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"strings"
	"syscall"
	"testing"

	"github.com/holdfast-ai/holdfast/signal"
)

func TestTransport(t *testing.T) {
	for _, c := range []struct {
		err       string
		sent      signal.Sent
		bytes     int64
		class     signal.Class
		retryable bool
		known     bool
		lane      signal.Lane
	}{
		{"ECONNREFUSED", signal.SentNone, 0, signal.Connection, true, true, signal.RetryInPlace},
		{"ETIMEDOUT", signal.SentNone, 0, signal.Connection, true, true, signal.RetryInPlace},
		{"ETIMEDOUT", signal.SentAll, 0, signal.Timeout, true, false, signal.RetryInPlace},
		{"i/o timeout", signal.SentAll, 900, signal.Timeout, true, false, signal.RetryInPlace},
		{"ECONNRESET", signal.SentNone, 0, signal.Connection, true, true, signal.RetryInPlace},
		{"ECONNRESET", signal.SentPartial, 0, signal.Connection, true, true, signal.RetryInPlace},
		{"ECONNRESET", signal.SentAll, 0, signal.Unknown, true, false, signal.RetryInPlace},
		{"unexpected EOF", signal.SentAll, 100, signal.Unknown, true, false, signal.RetryInPlace},
		{"unexpected EOF", signal.SentNone, 100, signal.Unknown, true, false, signal.RetryInPlace},
		{"context canceled", signal.SentAll, 0, signal.Unknown, false, false, signal.Fail},
		{"context canceled", signal.SentNone, 0, signal.Connection, false, true, signal.Fail},
		{"http2: server sent GOAWAY and closed the connection; LastStreamID=1", signal.SentAll, 0, signal.Unknown, true, false, signal.RetryInPlace},
		{"http2: Transport received Server's graceful shutdown GOAWAY", signal.SentAll, 0, signal.Connection, true, true, signal.RetryInPlace},
		{"stream error: stream ID 3; REFUSED_STREAM; received from peer", signal.SentAll, 0, signal.Connection, true, true, signal.RetryInPlace},
		{"CERT_HAS_EXPIRED", signal.SentNone, 0, signal.Connection, false, true, signal.OwnerReview},
		{"", "", 0, signal.Unknown, true, false, signal.RetryInPlace},
	} {
		s := signal.Classify(signal.Answer{Phase: signal.NoResponse, Transport: &signal.Transport{Error: c.err, RequestBytesSent: c.sent, ResponseBytes: c.bytes}})
		if s.Class != c.class || s.Retryable != c.retryable || s.OutcomeKnown != c.known || s.SuggestedLane != c.lane {
			t.Errorf("%q, %s sent, %d back: %s, retryable %v, known %v, %s", c.err, c.sent, c.bytes, s.Class, s.Retryable, s.OutcomeKnown, s.SuggestedLane)
		}
	}
	if s := signal.Classify(signal.Answer{Phase: signal.NoResponse}); s.OutcomeKnown || s.Class != signal.Unknown {
		t.Errorf("nothing known at all: %+v", s)
	}
}

// The errors are those that net/http's client really returns.
func TestFromErrorOfClient(t *testing.T) {
	drop := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }))
	defer drop.Close()
	cut := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Length", "100")
		_, _ = io.WriteString(w, "half")
	}))
	defer cut.Close()
	secure := httptest.NewUnstartedServer(http.NotFoundHandler())
	secure.Config.ErrorLog = log.New(io.Discard, "", 0)
	secure.StartTLS()
	defer secure.Close()
	closed := httptest.NewServer(http.NotFoundHandler())
	closed.Close()
	expired, cancel := context.WithCancel(context.Background())
	cancel()

	for _, c := range []struct {
		name, url string
		ctx       context.Context
		want      string
		sent      signal.Sent
		class     signal.Class
	}{
		{"refused", closed.URL, t.Context(), "ECONNREFUSED", signal.SentNone, signal.Connection},
		{"dropped", drop.URL, t.Context(), "EOF", signal.SentAll, signal.Unknown},
		{"cut", cut.URL, t.Context(), "unexpected EOF", signal.SentAll, signal.Unknown},
		{"certificate", secure.URL, t.Context(), "x509: certificate signed by unknown authority", signal.SentNone, signal.Connection},
		{"canceled", drop.URL, expired, "context canceled", signal.SentAll, signal.Unknown},
	} {
		t.Run(c.name, func(t *testing.T) {
			req, err := http.NewRequestWithContext(c.ctx, http.MethodGet, c.url+"/?key=sk-secret", nil)
			if err != nil {
				t.Fatal(err)
			}
			got := int64(0)
			resp, err := (&http.Client{Transport: &http.Transport{DisableKeepAlives: true}}).Do(req)
			if err == nil {
				got, err = io.Copy(io.Discard, resp.Body)
				_ = resp.Body.Close()
			}
			tr := signal.FromError(err, signal.SentAll, got)
			if tr == nil || tr.Error != c.want || tr.RequestBytesSent != c.sent {
				t.Fatalf("%v became %+v, want %q, %s sent", err, tr, c.want, c.sent)
			}
			s := signal.Classify(signal.Answer{Phase: signal.NoResponse, Transport: tr})
			if s.Class != c.class || strings.Contains(s.Message+s.ProviderErrorType, "secret") {
				t.Errorf("%+v, want %s and no URL", s, c.class)
			}
		})
	}
}

func TestFromErrorNames(t *testing.T) {
	wrap := func(err error) error { return &url.Error{Op: "Post", URL: "https://x/?key=secret", Err: err} }
	dial := func(err error) error { return wrap(&net.OpError{Op: "dial", Net: "tcp", Err: err}) }
	read := func(err error) error { return wrap(&net.OpError{Op: "read", Net: "tcp", Err: err}) }
	for _, c := range []struct {
		err  error
		want string
		sent signal.Sent
	}{
		{dial(&net.DNSError{Err: "no such host", IsNotFound: true}), "ENOTFOUND", signal.SentNone},
		{dial(&net.DNSError{Err: "server misbehaving", IsTemporary: true}), "EAI_AGAIN", signal.SentNone},
		{dial(os.NewSyscallError("connect", syscall.EHOSTUNREACH)), "EHOSTUNREACH", signal.SentNone},
		{dial(os.ErrDeadlineExceeded), "i/o timeout", signal.SentNone},
		{read(os.NewSyscallError("read", syscall.ECONNRESET)), "ECONNRESET", signal.SentAll},
		{read(os.ErrDeadlineExceeded), "i/o timeout", signal.SentAll},
		{wrap(os.NewSyscallError("write", syscall.EPIPE)), "EPIPE", signal.SentAll},
		{wrap(context.DeadlineExceeded), "context deadline exceeded", signal.SentAll},
		{wrap(&tls.CertificateVerificationError{Err: errors.New("bad")}), "x509: certificate is not valid", signal.SentNone},
		{wrap(errors.New("net/http: TLS handshake timeout")), "TLS handshake timeout", signal.SentNone},
		{wrap(errors.New("stream error: stream ID 5; REFUSED_STREAM; received from peer")), "http2: RST_STREAM REFUSED_STREAM", signal.SentAll},
		{wrap(errors.New("stream error: stream ID 5; INTERNAL_ERROR; received from peer")), "http2: RST_STREAM INTERNAL_ERROR", signal.SentAll},
		{wrap(errors.New("http2: server sent GOAWAY and closed the connection; LastStreamID=1")), "http2: GOAWAY", signal.SentAll},
		{wrap(fmt.Errorf("net/http: HTTP/1.x transport connection broken: %w", errors.New(`malformed HTTP status code "x"`))), "malformed HTTP response", signal.SentAll},
		{wrap(errors.New("something new")), "something new", signal.SentAll},
	} {
		if tr := signal.FromError(c.err, "", 0); tr.Error != c.want || tr.RequestBytesSent != c.sent {
			t.Errorf("%v = %q, %s sent; want %q, %s", c.err, tr.Error, tr.RequestBytesSent, c.want, c.sent)
		}
	}
	if signal.FromError(nil, signal.SentAll, 0) != nil {
		t.Error("no error is no transport failure")
	}
}
