package mcp

import (
	"bytes"
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"mime"
	"net"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"time"

	"github.com/holdfast-ai/holdfast/internal/budget"
)

// httpLink is a server behind streamable HTTP (MCP 2025-03-26 and later, basic/transports).
type httpLink struct {
	to     receiver
	client *http.Client
	addr   string
	header http.Header // of the configuration
	max    int64
	mem    *budget.Bytes

	ctx    context.Context
	cancel context.CancelCauseFunc
	all    sync.WaitGroup

	mu        sync.Mutex
	auth      string // the caller's own credential, where the configuration has none
	session   string
	version   string
	listening bool
	closed    bool
}

func dialHTTP(c *http.Client, addr string, header http.Header, auth string, max int64, mem *budget.Bytes, to receiver) *httpLink {
	l := &httpLink{to: to, client: c, addr: addr, header: header, auth: auth, max: max, mem: mem}
	l.ctx, l.cancel = context.WithCancelCause(context.Background())
	return l
}

// begin counts a goroutine of the link's, unless it is closed.
func (l *httpLink) begin(f func()) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		return false
	}
	l.all.Go(f)
	return true
}

func (l *httpLink) send(ctx context.Context, o outgoing) error {
	if o.id != 0 {
		if !l.begin(func() { l.ask(o) }) {
			return &sendError{err: errClosed}
		}
		return nil
	}
	resp, err := l.post(ctx, o)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if resp.StatusCode/100 == 2 {
		_, _ = io.Copy(io.Discard, io.LimitReader(resp.Body, maxErrorBody)) // so that the connection serves again
		return nil
	}
	return l.refused(resp)
}

// ask sends a request and stays until it is answered or will not be.
func (l *httpLink) ask(o outgoing) {
	resp, err := l.post(l.ctx, o)
	if err != nil {
		l.to.unanswered(o.id, asSendError(err))
		return
	}
	defer resp.Body.Close()
	l.keepSession(o, resp)
	kind, _, _ := mime.ParseMediaType(resp.Header.Get("Content-Type"))
	switch {
	case resp.StatusCode/100 != 2:
		l.refusedRequest(o, resp)
	case kind == "text/event-stream":
		l.follow(o, resp)
	default:
		in := &intake{mem: l.mem}
		defer in.end()
		body, err := readAll(counting{resp.Body, in}, l.max)
		if err != nil {
			l.to.unanswered(o.id, &sendError{sent: true, err: err})
		} else if !l.to.received(body, o.id, 0) {
			l.to.unanswered(o.id, &sendError{sent: true, status: resp.StatusCode, err: errNoAnswer})
		}
	}
}

var errNoAnswer = errors.New("the reply is not the answer to the request")

// follow reads an answer's stream, and goes on with it where it broke off: asking for the rest is no second request.
func (l *httpLink) follow(o outgoing, resp *http.Response) {
	f := &feed{l: l, about: o.id, retry: defaultRetry}
	f.read(resp.Body)
	for tries := 0; !f.answered && f.last != "" && tries < maxResumes; tries++ {
		if f.progress {
			f.progress, tries = false, 0
		}
		if !f.pause(l.ctx, tries) {
			break
		}
		resp, err := l.get(f.last)
		if errors.Is(err, errNoHolder) { // the answer was kept in its memory
			break
		}
		if err != nil {
			continue
		}
		if resp.StatusCode != http.StatusOK {
			resp.Body.Close()
			break
		}
		f.read(resp.Body)
		resp.Body.Close()
	}
	if !f.answered {
		l.to.unanswered(o.id, &sendError{sent: true, err: fmt.Errorf("the answer's stream ended without the answer: %w", f.why())})
	}
}

const (
	maxResumes   = 5
	defaultRetry = time.Second
	maxRetry     = 30 * time.Second
	maxErrorBody = 64 << 10
)

// listen keeps the stream on which the server speaks of its own accord. A server without one says so.
func (l *httpLink) listen() {
	l.mu.Lock()
	again := l.listening
	l.listening = true
	l.mu.Unlock()
	if again {
		return
	}
	l.begin(func() {
		f := &feed{l: l, retry: defaultRetry}
		for tries := 0; ; tries++ {
			resp, err := l.get(f.last)
			if err == nil && resp.StatusCode != http.StatusOK {
				resp.Body.Close()
				return
			}
			if err == nil {
				f.read(resp.Body)
				resp.Body.Close()
			}
			if f.progress {
				f.progress, tries = false, 0
			}
			if !f.pause(l.ctx, tries) {
				return
			}
		}
	})
}

func (l *httpLink) post(ctx context.Context, o outgoing) (*http.Response, error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, l.addr, bytes.NewReader(o.raw))
	if err != nil {
		return nil, &sendError{err: err}
	}
	l.dress(r)
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("Accept", "application/json, text/event-stream")
	for name, values := range o.header {
		r.Header[name] = values
	}
	if o.modern != "" && o.header == nil {
		r.Header.Set("Mcp-Protocol-Version", o.modern)
		r.Header.Set("Mcp-Method", o.method)
		if o.name != "" {
			r.Header.Set("Mcp-Name", headerText(o.name))
		}
	}
	resp, err := l.client.Do(r)
	if err != nil {
		return nil, &sendError{sent: !neverLeft(err), err: bare(err)}
	}
	return resp, nil
}

// headerText is how MCP 2026-07-28 writes a value that a header cannot bear as it is.
func headerText(s string) string {
	plain := s == strings.TrimSpace(s) && !strings.HasPrefix(s, "=?base64?")
	for i := range len(s) {
		plain = plain && s[i] >= ' ' && s[i] <= '~'
	}
	if plain {
		return s
	}
	return "=?base64?" + base64.StdEncoding.EncodeToString([]byte(s)) + "?="
}

// bare is an error without the address, whose query may hold a credential.
func bare(err error) error {
	var u *url.Error
	if errors.As(err, &u) {
		return u.Err
	}
	return err
}

// neverLeft says that there was no connection to send on.
func neverLeft(err error) bool {
	var op *net.OpError
	var dns *net.DNSError
	return errors.As(err, &dns) || errors.As(err, &op) && op.Op == "dial" || errors.Is(err, errNoHolder)
}

func (l *httpLink) get(last string) (*http.Response, error) {
	r, err := http.NewRequestWithContext(l.ctx, http.MethodGet, l.addr, nil)
	if err != nil {
		return nil, err
	}
	l.dress(r)
	r.Header.Set("Accept", "text/event-stream")
	if last != "" {
		r.Header.Set("Last-Event-ID", last)
	}
	return l.client.Do(r)
}

// dress sets what every request bears.
func (l *httpLink) dress(r *http.Request) {
	for name, values := range l.header {
		r.Header[name] = values
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.auth != "" && r.Header.Get("Authorization") == "" {
		r.Header.Set("Authorization", l.auth)
	}
	if l.session != "" {
		r.Header.Set("Mcp-Session-Id", l.session)
	}
	if l.version != "" {
		r.Header.Set("Mcp-Protocol-Version", l.version)
	}
}

// keepSession remembers the session that an answer to initialize begins.
func (l *httpLink) keepSession(o outgoing, resp *http.Response) {
	if o.method != "initialize" || resp.StatusCode/100 != 2 {
		return
	}
	l.mu.Lock()
	l.session = resp.Header.Get("Mcp-Session-Id")
	l.mu.Unlock()
}

func (l *httpLink) negotiated(version string) {
	l.mu.Lock()
	l.version = version
	l.mu.Unlock()
}

func (l *httpLink) credential(authorization string) {
	l.mu.Lock()
	l.auth = authorization
	l.mu.Unlock()
}

func (l *httpLink) refused(resp *http.Response) *sendError {
	body, err := readAll(resp.Body, maxErrorBody)
	if err != nil {
		body = nil
	}
	l.mu.Lock()
	gone := resp.StatusCode == http.StatusNotFound && l.session != ""
	l.mu.Unlock()
	return &sendError{sent: true, gone: gone, status: resp.StatusCode, header: resp.Header, body: body}
}

// refusedRequest hands on a status that is no 2xx: the JSON-RPC error in it, where that names the request.
func (l *httpLink) refusedRequest(o outgoing, resp *http.Response) {
	e := l.refused(resp)
	if m, err := parse(e.body, maxErrorDepth); err == nil && m.isResponse() && string(m.id) == string(number(o.id)) && l.to.received(e.body, o.id, e.status) {
		return
	}
	if e.gone {
		l.to.lost(e) // first: what is sent again must not go this way
	}
	l.to.unanswered(o.id, e)
}

const maxErrorDepth = 32

// endPatience bounds the farewell to a server.
const endPatience = 2 * time.Second

func (l *httpLink) close() {
	l.mu.Lock()
	session, was := l.session, l.closed
	l.closed = true
	l.mu.Unlock()
	if session != "" && !was {
		ctx, cancel := context.WithTimeout(context.Background(), endPatience)
		defer cancel()
		if r, err := http.NewRequestWithContext(ctx, http.MethodDelete, l.addr, nil); err == nil {
			l.dress(r)
			if resp, err := l.client.Do(r); err == nil { // a server that does not hear it forgets the session by itself
				resp.Body.Close()
			}
		}
	}
	l.cancel(errClosed)
	l.all.Wait()
}

// readAll reads a body of at most max bytes.
func readAll(r io.Reader, max int64) ([]byte, error) {
	b, err := io.ReadAll(io.LimitReader(r, max+1))
	if err == nil && int64(len(b)) > max {
		err = errTooLarge
	}
	if err != nil {
		return nil, err
	}
	return b, nil
}
