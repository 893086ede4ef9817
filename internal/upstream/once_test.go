package upstream

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
)

// repeatable are the requests that net/http's transport repeats by itself.
func repeatable(target *url.URL) map[string]*Request {
	keyed := http.Header{"Idempotency-Key": {"k1"}, "X-Idempotency-Key": {"k1"}}
	return map[string]*Request{
		"GET":                      {Method: "GET", Target: target},
		"HEAD":                     {Method: "HEAD", Target: target},
		"POST with a key":          {Method: "POST", Target: target, Header: keyed, Body: []byte("{}")},
		"POST with a key, empty":   {Method: "POST", Target: target, Header: keyed},
		"DELETE with a key":        {Method: "DELETE", Target: target, Header: keyed},
		"POST without a key":       {Method: "POST", Target: target, Body: []byte("{}")},
		"POST of a large body":     {Method: "POST", Target: target, Header: keyed, Body: make([]byte, 2*aside)},
		"GET with a body, and key": {Method: "GET", Target: target, Header: keyed, Body: []byte("{}")},
	}
}

// TestOneSend has the provider take a request on a connection that has served before, and hang up without an answer: to a
// client this is what a closed idle connection looks like, and the reason for which clients send again.
func TestOneSend(t *testing.T) {
	var calls atomic.Int64
	hangUp := func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.ReadAll(r.Body)
		if calls.Add(1) > 1 {
			panic(http.ErrAbortHandler)
		}
	}
	plain := httptest.NewServer(http.HandlerFunc(hangUp))
	t.Cleanup(plain.Close)
	plainURL := parse(t, plain.URL)
	tls1, tls1URL := secure(t, false, hangUp)
	tls2, tls2URL := secure(t, true, hangUp)
	servers := map[string]struct {
		client Client
		url    *url.URL
	}{
		"plain":       {newClient(t, Config{}), plainURL},
		"TLS":         {tls1, tls1URL},
		"TLS, HTTP/2": {tls2, tls2URL},
	}
	for name, s := range servers {
		for kind, r := range repeatable(s.url) {
			t.Run(name+"/"+kind, func(t *testing.T) {
				calls.Store(0)
				if _, _, err := call(t.Context(), s.client, &Request{Method: "POST", Target: s.url, Body: []byte("warm up")}); err != nil {
					t.Fatal(err)
				}
				_, _, err := call(t.Context(), s.client, r)
				if wantFault(t, err, PhaseHead, All); calls.Load() != 2 {
					t.Errorf("%v, and the provider was called %d times for one call", err, calls.Load()-1)
				}
			})
		}
	}
}

// TestRefusedStreamIsNotSentAgain: HTTP/2 lets a client repeat such a request, net/http does, and a ledger must not.
func TestRefusedStreamIsNotSentAgain(t *testing.T) {
	const protocolError, refusedStream = 1, 7
	for _, code := range []byte{protocolError, refusedStream} {
		var streams atomic.Int64
		client, target := framed(t, func(c net.Conn, stream []byte) {
			streams.Add(1)
			writeFrame(c, rstStream, stream, []byte{0, 0, 0, code})
		})
		for kind, r := range repeatable(target) {
			streams.Store(0)
			if _, err := client.Do(t.Context(), r); err == nil || streams.Load() != 1 {
				t.Errorf("%s: %v after %d streams", kind, err, streams.Load())
			}
		}
	}
}

// TestGoAwayIsNotSentAgain covers the other repetition of HTTP/2.
func TestGoAwayIsNotSentAgain(t *testing.T) {
	var streams atomic.Int64
	client, target := framed(t, func(c net.Conn, _ []byte) {
		streams.Add(1)
		writeFrame(c, goAway, make([]byte, 4), make([]byte, 8))
	})
	for kind, r := range repeatable(target) {
		streams.Store(0)
		if _, err := client.Do(t.Context(), r); err == nil || streams.Load() != 1 {
			t.Errorf("%s: %v after %d streams", kind, err, streams.Load())
		}
	}
}

// Types of HTTP/2 frames (RFC 9113 section 6).
const (
	headersFrame  = 1
	rstStream     = 3
	settingsFrame = 4
	goAway        = 7
)

func writeFrame(c net.Conn, kind byte, stream, payload []byte) {
	frame := append([]byte{0, 0, byte(len(payload)), kind, 0}, stream...)
	_, _ = c.Write(append(frame, payload...))
}

// framed is a provider of bare HTTP/2 frames that runs answer at the head of each request.
func framed(t *testing.T, answer func(c net.Conn, stream []byte)) (Client, *url.URL) {
	t.Helper()
	certificate := httptest.NewTLSServer(nil)
	certificate.Close()
	listener, err := tls.Listen("tcp", "127.0.0.1:0", &tls.Config{Certificates: certificate.TLS.Certificates, NextProtos: []string{"h2"}})
	if err != nil {
		t.Fatal(err)
	}
	var running sync.WaitGroup
	running.Go(func() {
		for {
			c, err := listener.Accept()
			if err != nil {
				return
			}
			running.Go(func() { serveFrames(c, answer) })
		}
	})
	roots := x509.NewCertPool()
	roots.AddCert(certificate.Certificate())
	client := New(Config{RootCAs: roots})
	t.Cleanup(func() {
		client.CloseIdle()
		_ = listener.Close()
		running.Wait()
	})
	return client, &url.URL{Scheme: "https", Host: listener.Addr().String(), Path: "/v1/call"}
}

func serveFrames(c net.Conn, answer func(net.Conn, []byte)) {
	defer c.Close()
	const preface = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
	if _, err := io.ReadFull(c, make([]byte, len(preface))); err != nil {
		return
	}
	writeFrame(c, settingsFrame, make([]byte, 4), nil)
	for {
		var head [9]byte
		if _, err := io.ReadFull(c, head[:]); err != nil {
			return
		}
		length := int64(head[0])<<16 | int64(head[1])<<8 | int64(head[2])
		if _, err := io.CopyN(io.Discard, c, length); err != nil {
			return
		}
		if head[3] == headersFrame {
			answer(c, head[5:9])
		}
	}
}

// TestEarlyAnswer has the provider refuse a body that it does not read.
func TestEarlyAnswer(t *testing.T) {
	const refusal = "HTTP/1.1 413 Content Too Large\r\nContent-Length: 9\r\n\r\ntoo large"
	ends := map[string]func(*peer){
		"and waits":  func(p *peer) { <-p.far.done },
		"and closes": func(p *peer) {},
	}
	for name, end := range ends {
		t.Run(name, func(t *testing.T) {
			f := listen(t, func(p *peer) {
				p.head()
				p.say(refusal)
				end(p)
			})
			client := newClient(t, Config{})
			resp, body, err := call(t.Context(), client, &Request{Method: "POST", Target: f.url, Body: make([]byte, 32<<20)})
			close(f.done)
			if err != nil || resp.Status != 413 || body != "too large" {
				t.Fatalf("got %q, %v", body, err)
			}
			if len(client.plain.idle[f.url.Host]) != 0 {
				t.Error("a connection with half a request on it was kept")
			}
		})
	}
}

// TestAnswerBesideTheBody has the provider answer while it goes on to read.
func TestAnswerBesideTheBody(t *testing.T) {
	size := 8 << 20
	f := listen(t, func(p *peer) {
		for range 2 {
			if p.head() == "" {
				return
			}
			p.say("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")
			n, _ := io.CopyN(io.Discard, p.in, int64(size))
			p.far.requests.Add(n / int64(size))
			p.say("4\r\nread\r\n0\r\n\r\n")
		}
	})
	_, body, err := call(t.Context(), newClient(t, Config{}), &Request{Method: "POST", Target: f.url, Body: make([]byte, size)})
	if err != nil || body != "read" || f.requests.Load() != 1 {
		t.Fatalf("got %q, %v", body, err)
	}
}

// TestPartialBodyIsPartlySent has the provider die in the middle of a large body.
func TestPartialBodyIsPartlySent(t *testing.T) {
	f := listen(t, func(p *peer) {
		_, _ = io.CopyN(io.Discard, p.in, 1000)
		p.reset()
	})
	_, err := newClient(t, Config{}).Do(t.Context(), &Request{Method: "POST", Target: f.url, Body: make([]byte, 32<<20)})
	wantFault(t, err, PhaseWrite, Partial)
}

// TestManyCallsLeaveNothing is the leak test: goleak looks at the end, and the pool is empty after CloseIdle.
func TestManyCallsLeaveNothing(t *testing.T) {
	calls := 10_000
	if testing.Short() {
		calls = 500
	}
	answers := []string{sizedAnswer, chunkedAnswer, sizedAnswer[:len(sizedAnswer)-1], "HTTP/1.1 500 \r\nConnection: close\r\n\r\nno"}
	var open atomic.Int64
	f := listen(t, func(p *peer) {
		open.Add(1)
		defer open.Add(-1)
		for {
			r, ok := p.request()
			if !ok {
				return
			}
			text := answers[len(r.URL.RawQuery)%len(answers)]
			p.say(text)
			if !strings.HasSuffix(text, "hello") && text != chunkedAnswer {
				return
			}
		}
	})
	client := newClient(t, Config{MaxIdlePerHost: 4})
	var callers sync.WaitGroup
	for caller := range 16 {
		callers.Go(func() {
			for i := range calls / 16 {
				u := *f.url
				u.RawQuery = strings.Repeat("x", 1+(caller+i)%4)
				ctx, cancel := context.WithCancel(t.Context())
				if i%7 == 0 {
					cancel()
				}
				resp, err := client.Do(ctx, &Request{Method: "POST", Target: &u, Body: make([]byte, i%50/48*aside)})
				if err == nil && i%5 > 0 {
					_, _ = io.ReadAll(resp.Body)
				}
				if err == nil {
					_ = resp.Body.Close()
				}
				cancel()
			}
		})
	}
	callers.Wait()
	client.CloseIdle()
	if len(client.plain.idle) != 0 {
		t.Error("idle connections are left")
	}
	for open.Load() > 0 { // every connection ends on both sides, or this test runs into its time-out
		runtime.Gosched()
	}
}
