package upstream

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// far is a provider made of raw connections. It counts what arrives.
type far struct {
	url             *url.URL
	conns, requests atomic.Int64
	done            chan struct{} // for a talk that waits for its test
}

// peer is one connection of far.
type peer struct {
	net.Conn
	far *far
	in  *bufio.Reader
}

// request reads one whole request; false when there is none.
func (p *peer) request() (*http.Request, bool) {
	r, err := http.ReadRequest(p.in)
	if err != nil {
		return nil, false
	}
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return nil, false
	}
	p.far.requests.Add(1)
	r.Body = io.NopCloser(bytes.NewReader(body))
	return r, true
}

// head reads the head of a request alone; empty when there is none.
func (p *peer) head() string {
	var head strings.Builder
	for {
		line, err := p.in.ReadString('\n')
		if err != nil {
			return ""
		}
		if head.WriteString(line); line == "\r\n" {
			return head.String()
		}
	}
}

func (p *peer) say(text string) { _, _ = io.WriteString(p, text) }

// reset closes the connection with RST.
func (p *peer) reset() {
	_ = p.Conn.(*net.TCPConn).SetLinger(0)
	_ = p.Close()
}

// listen starts a provider on TCP that runs talk on each connection.
func listen(t testing.TB, talk func(p *peer)) *far {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	f := &far{url: &url.URL{Scheme: "http", Host: listener.Addr().String(), Path: "/v1/call"}, done: make(chan struct{})}
	var running sync.WaitGroup
	var mu sync.Mutex
	open := map[net.Conn]bool{}
	running.Go(func() {
		for {
			c, err := listener.Accept()
			if err != nil {
				return
			}
			mu.Lock()
			open[c] = true
			mu.Unlock()
			f.conns.Add(1)
			running.Go(func() {
				defer c.Close()
				talk(&peer{c, f, bufio.NewReader(c)})
			})
		}
	})
	t.Cleanup(func() {
		_ = listener.Close()
		mu.Lock()
		for c := range open {
			_ = c.Close()
		}
		mu.Unlock()
		running.Wait()
	})
	return f
}

// always answers every request of a connection with text.
func always(text string) func(p *peer) {
	return func(p *peer) {
		for {
			if _, ok := p.request(); !ok {
				return
			}
			p.say(text)
		}
	}
}

func newClient(t testing.TB, config Config) *client {
	c := New(config).(*client)
	t.Cleanup(c.CloseIdle)
	return c
}

func post(f *far, body string) *Request {
	return &Request{Method: "POST", Target: f.url, Body: []byte(body)}
}

// call sends and reads to the end.
func call(ctx context.Context, c Client, r *Request) (*Response, string, error) {
	resp, err := c.Do(ctx, r)
	if err != nil {
		return nil, "", err
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	return resp, string(text), err
}

// wantFault asserts the facts of an error.
func wantFault(t *testing.T, err error, phase string, sent Sent) *Error {
	t.Helper()
	var fault *Error
	if !errors.As(err, &fault) {
		t.Fatalf("got %v, not an *Error", err)
	}
	if fault.Phase != phase || fault.Sent != sent {
		t.Fatalf("got phase %s, sent %s (%v), want %s, %s", fault.Phase, fault.Sent, err, phase, sent)
	}
	return fault
}
