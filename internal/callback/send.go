package callback

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptrace"
	"net/netip"
	"net/url"
	"strconv"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/holdfast-ai/holdfast/internal/mutant"
)

const (
	// Timeout bounds one attempt, from the name's resolution to the end of the answer's head.
	Timeout = 15 * time.Second
	// maxHead and maxBody bound what is read of an answer. Nothing of its body is kept.
	maxHead, maxBody = 16 << 10, 16 << 10
)

// Delivery is one attempt to deliver a callback.
type Delivery struct {
	URL   string
	ID    string    // webhook-id, the same with every attempt
	At    time.Time // webhook-timestamp, of this attempt
	Body  []byte
	Key   []byte // see Key
	Allow Allow
}

// Result is what became of an attempt.
type Result struct {
	Status  int // 0 where no answer came
	Header  http.Header
	Address string // that was connected to, "" where none was
	// Err says why no answer came. It is an ErrURL or ErrAddress where the attempt was refused here; no text of it says
	// more of the URL than its host.
	Err error
	// Sent says that a connection stood: where Err is set as well, nobody knows whether the receiver has it.
	Sent bool
}

// Sender delivers callbacks. The zero value resolves names as the system does. It is safe for concurrent use.
type Sender struct {
	Resolver *net.Resolver
}

// Send makes one attempt, by a connection of its own: what one allow list permits, no other finds open. It goes through no
// proxy, which would do the resolving, and follows no redirect.
func (s *Sender) Send(ctx context.Context, d Delivery) Result {
	t, err := parse(d.URL)
	if err != nil {
		return Result{Err: err}
	}
	ctx, cancel := context.WithTimeout(ctx, Timeout)
	defer cancel()
	var r Result
	var sent atomic.Bool
	var address atomic.Value
	ctx = httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{GotConn: func(c httptrace.GotConnInfo) {
		sent.Store(true)
		address.Store(c.Conn.RemoteAddr().String())
	}})
	transport := s.transport(t, &d.Allow)
	defer transport.CloseIdleConnections()
	client := &http.Client{Transport: transport, CheckRedirect: func(*http.Request, []*http.Request) error {
		if mutant.On("callback-follows-redirect") {
			return nil
		}
		return http.ErrUseLastResponse
	}}
	req, err := request(ctx, t, &d)
	if err != nil {
		return Result{Err: ErrURL}
	}
	resp, err := client.Do(req)
	if r.Sent = sent.Load(); r.Sent {
		r.Address, _ = address.Load().(string)
	}
	if err != nil {
		r.Err = bare(err)
		return r
	}
	_, _ = io.Copy(io.Discard, io.LimitReader(resp.Body, maxBody)) // so that its writer is not cut off; the status has decided
	_ = resp.Body.Close()
	r.Status, r.Header = resp.StatusCode, resp.Header
	return r
}

func request(ctx context.Context, t *target, d *Delivery) (*http.Request, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, t.url.String(), bytes.NewReader(d.Body))
	if err != nil {
		return nil, err
	}
	for name, value := range map[string]string{"Content-Type": "application/json", "User-Agent": "Holdfast", "Webhook-Id": d.ID,
		"Webhook-Timestamp": strconv.FormatInt(d.At.Unix(), 10), "Webhook-Signature": Sign(d.Key, d.ID, d.At, d.Body)} {
		req.Header.Set(name, value)
	}
	return req, nil
}

// transport is one attempt's own.
func (s *Sender) transport(t *target, a *Allow) *http.Transport {
	dialer := &net.Dialer{Resolver: s.Resolver, KeepAlive: -1, Control: func(_, address string, _ syscall.RawConn) error {
		at, err := netip.ParseAddrPort(address)
		if err != nil {
			return ErrAddress
		}
		return t.permit(at.Addr(), at.Port(), a)
	}}
	return &http.Transport{DialContext: dialer.DialContext, DisableKeepAlives: true, DisableCompression: true,
		MaxResponseHeaderBytes: maxHead, TLSHandshakeTimeout: Timeout, ResponseHeaderTimeout: Timeout}
}

// bare is an error without the address that net/http puts before it, whose query may be a secret.
func bare(err error) error {
	var u *url.Error
	if errors.As(err, &u) {
		return u.Err
	}
	return err
}
