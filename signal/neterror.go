package signal

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io"
	"net"
	"os"
	"strings"
	"syscall"
)

// errnos by the names that the corpus and other runtimes use.
var errnos = []struct {
	is   error
	name string
}{
	{syscall.ECONNREFUSED, "ECONNREFUSED"},
	{syscall.ECONNRESET, "ECONNRESET"},
	{syscall.ECONNABORTED, "ECONNABORTED"},
	{syscall.EPIPE, "EPIPE"},
	{syscall.ETIMEDOUT, "ETIMEDOUT"},
	{syscall.EHOSTUNREACH, "EHOSTUNREACH"},
	{syscall.ENETUNREACH, "ENETUNREACH"},
	{syscall.EMFILE, "EMFILE"},
	{syscall.ENFILE, "ENFILE"},
	{syscall.EADDRNOTAVAIL, "EADDRNOTAVAIL"},
}

// FromError says what an error of net/http's client means, with what the caller counted on the wire. A dial,
// a name or a certificate that failed overrides sent: no request left. The words of err are reduced to a
// name, because an error of net/http quotes the URL, and the URL may carry a key (semantics 16). It returns
// nil for a nil error.
func FromError(err error, sent Sent, responseBytes int64) *Transport {
	if err == nil {
		return nil
	}
	t := &Transport{Error: errorName(err), RequestBytesSent: sent, ResponseBytes: responseBytes}
	if responseBytes <= 0 && beforeRequest(err) {
		t.RequestBytesSent = SentNone
	}
	if t.RequestBytesSent == "" {
		t.RequestBytesSent = SentAll // not counted: assume the worst
	}
	return t
}

// beforeRequest: the connection never came to be.
func beforeRequest(err error) bool {
	var op *net.OpError
	var dns *net.DNSError
	var cert *tls.CertificateVerificationError
	if errors.As(err, &op) && op.Op == "dial" || errors.As(err, &dns) || errors.As(err, &cert) {
		return true
	}
	return strings.Contains(err.Error(), "TLS handshake timeout")
}

func errorName(err error) string {
	switch {
	case errors.Is(err, context.Canceled):
		return "context canceled"
	case errors.Is(err, context.DeadlineExceeded):
		return "context deadline exceeded"
	}
	if name := dialName(err); name != "" {
		return name
	}
	for _, e := range errnos {
		if errors.Is(err, e.is) {
			return e.name
		}
	}
	if name := http2Name(err.Error()); name != "" {
		return name
	}
	switch {
	case strings.Contains(err.Error(), "TLS handshake timeout"): // a private type of net/http
		return "TLS handshake timeout"
	case errors.Is(err, os.ErrDeadlineExceeded), isTimeout(err):
		return "i/o timeout"
	case errors.Is(err, io.ErrUnexpectedEOF):
		return "unexpected EOF"
	case errors.Is(err, io.EOF):
		return "EOF"
	case errors.Is(err, net.ErrClosed):
		return "use of closed network connection"
	}
	return innermost(err)
}

func isTimeout(err error) bool {
	var n net.Error
	return errors.As(err, &n) && n.Timeout()
}

// dialName names failures of a name or of TLS.
func dialName(err error) string {
	var dns *net.DNSError
	if errors.As(err, &dns) {
		if dns.IsNotFound {
			return "ENOTFOUND"
		}
		return "EAI_AGAIN"
	}
	var cert *tls.CertificateVerificationError
	var host x509.HostnameError
	var unknown x509.UnknownAuthorityError
	var invalid x509.CertificateInvalidError
	switch {
	case errors.As(err, &host):
		return "x509: certificate is not valid for this host"
	case errors.As(err, &unknown):
		return "x509: certificate signed by unknown authority"
	case errors.As(err, &invalid), errors.As(err, &cert):
		return "x509: certificate is not valid"
	}
	return ""
}

// http2Name reads errors whose types net/http keeps private (golang.org/x/net/http2: StreamError, GoAwayError,
// errClientConnGotGoAway); their texts are stable and quoted by others.
func http2Name(s string) string {
	switch {
	case strings.Contains(s, "REFUSED_STREAM"):
		return "http2: RST_STREAM REFUSED_STREAM"
	case strings.Contains(s, "graceful shutdown GOAWAY"):
		return "http2: graceful shutdown GOAWAY"
	case strings.Contains(s, "GOAWAY"):
		return "http2: GOAWAY"
	case strings.Contains(s, "stream error:") && strings.Contains(s, "INTERNAL_ERROR"):
		return "http2: RST_STREAM INTERNAL_ERROR"
	case strings.Contains(s, "stream error:"):
		return "http2: RST_STREAM"
	case strings.Contains(s, "malformed HTTP"):
		return "malformed HTTP response"
	}
	return ""
}

// innermost is the last error of the chain: without the method and URL that url.Error puts in front.
func innermost(err error) string {
	for {
		next := errors.Unwrap(err)
		if next == nil {
			return bounded(err.Error())
		}
		err = next
	}
}
