package upstream

import (
	"bufio"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/url"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"
)

const (
	sizedAnswer   = "HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: 5\r\n\r\nhello"
	chunkedAnswer = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nTrailer: X-End\r\n\r\n2\r\nhe\r\n3;ext=1\r\nllo\r\n0\r\nX-End: yes\r\n\r\n"
)

func TestReuse(t *testing.T) {
	cases := []struct {
		name, method, answer, body string
		conns                      int64
	}{
		{"sized", "POST", sizedAnswer, "hello", 1},
		{"chunked", "POST", chunkedAnswer, "hello", 1},
		{"after informational answers", "POST", "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n" + sizedAnswer, "hello", 1},
		{"no content", "DELETE", "HTTP/1.1 204 No Content\r\n\r\n", "", 1},
		{"not modified", "GET", "HTTP/1.1 304 Not Modified\r\nContent-Length: 5\r\n\r\n", "", 1},
		{"head", "HEAD", "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n", "", 1},
		{"empty", "POST", "HTTP/1.1 200\r\nContent-Length: 0\r\n\r\n", "", 1},
		{"the same length twice", "POST", "HTTP/1.1 200 OK\r\nContent-Length: 2\r\nContent-Length: 2\r\n\r\nhi", "hi", 1},
		{"no content with a body", "POST", "HTTP/1.1 204 No Content\r\nContent-Length: 2\r\n\r\n", "", 3},
		{"asked to close", "POST", "HTTP/1.1 200 OK\r\nConnection: x, Close\r\nContent-Length: 2\r\n\r\nhi", "hi", 3},
		{"HTTP/1.0", "POST", "HTTP/1.0 200 OK\r\nContent-Length: 2\r\n\r\nhi", "hi", 3},
		{"bytes after the answer", "POST", sizedAnswer + sizedAnswer, "hello", 3},
		{"bytes after the last chunk", "POST", chunkedAnswer + "x", "hello", 3},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			f := listen(t, always(c.answer))
			client := newClient(t, Config{})
			for range 3 {
				_, body, err := call(t.Context(), client, &Request{Method: c.method, Target: f.url})
				if err != nil || body != c.body {
					t.Fatalf("got %q, %v", body, err)
				}
			}
			if f.conns.Load() != c.conns || f.requests.Load() != 3 {
				t.Errorf("%d connections, %d requests; want %d, 3", f.conns.Load(), f.requests.Load(), c.conns)
			}
		})
	}
}

func TestUntilClose(t *testing.T) {
	f := listen(t, func(p *peer) {
		p.request()
		p.say("HTTP/1.1 200 OK\r\n\r\nall of it")
	})
	_, body, err := call(t.Context(), newClient(t, Config{}), post(f, ""))
	if err != nil || body != "all of it" {
		t.Fatalf("got %q, %v", body, err)
	}
}

// Both clients say of which answers only the end of the connection is the end.
func TestUnframed(t *testing.T) {
	for answer, want := range map[string]bool{"HTTP/1.0 200 OK\r\n\r\n{}": true, "HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n{}": true,
		"HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 2\r\n\r\n{}":                            false,
		"HTTP/1.1 200 OK\r\nConnection: close\r\nTransfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\n\r\n": false} {
		f := listen(t, func(p *peer) {
			p.request()
			p.say(answer)
		})
		c := newClient(t, Config{})
		for name, one := range map[string]Client{"pool": c.plain, "net/http": c.other} {
			resp, body, err := call(t.Context(), one, post(f, ""))
			if err != nil || body != "{}" || resp.Unframed != want {
				t.Errorf("%s of %q: %+v %v", name, answer, resp, err)
			}
		}
	}
}

func TestTrailer(t *testing.T) {
	f := listen(t, always(chunkedAnswer))
	resp, _, err := call(t.Context(), newClient(t, Config{}), post(f, ""))
	if err != nil || resp.Body.Trailer().Get("X-End") != "yes" || resp.Header["Transfer-Encoding"] != nil {
		t.Fatalf("trailer %v, header %v, %v", resp.Body.Trailer(), resp.Header, err)
	}
}

func TestWire(t *testing.T) {
	got := make(chan string, 1)
	f := listen(t, func(p *peer) {
		got <- p.head()
		p.say("HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")
	})
	target := parse(t, f.url.Scheme+"://user:secret@"+f.url.Host+"/v1/a%2fb|c%7E?k=%7e&x=a+b#frag")
	_, _, err := call(t.Context(), newClient(t, Config{}), &Request{Method: "POST", Target: target, Header: http.Header{
		"X-One": {" spaced "}, "Host": {"evil"}, "Content-Length": {"7"}, "Transfer-Encoding": {"chunked"},
		"Connection": {"x-hop, close"}, "X-Hop": {"1"}, "Expect": {"100-continue"},
	}})
	want := "POST /v1/a%2fb|c%7E?k=%7e&x=a+b HTTP/1.1\r\nHost: " + f.url.Host + "\r\nX-One: spaced\r\nContent-Length: 0\r\n\r\n"
	if text := <-got; err != nil || text != want {
		t.Fatalf("got %q, want %q, %v", text, want, err)
	}
}

func TestRefusedRequests(t *testing.T) {
	f := listen(t, always(sizedAnswer))
	with := func(change func(*Request)) *Request {
		r := post(f, "")
		change(r)
		return r
	}
	cases := map[string]*Request{
		"no target":       with(func(r *Request) { r.Target = nil }),
		"relative target": with(func(r *Request) { r.Target = &url.URL{Path: "/v1"} }),
		"other scheme":    with(func(r *Request) { r.Target = &url.URL{Scheme: "ftp", Host: "a"} }),
		"bad method":      with(func(r *Request) { r.Method = "GET /x HTTP/1.1\r\n" }),
		"connect":         with(func(r *Request) { r.Method = "CONNECT" }),
		"split in query":  with(func(r *Request) { u := *f.url; u.RawQuery = "a b"; r.Target = &u }),
		"split in path":   with(func(r *Request) { u := *f.url; u.RawPath = "/a\r\nX: y"; r.Target = &u }),
		"split in value":  with(func(r *Request) { r.Header = http.Header{"X-Key": {"secret\r\nX: y"}} }),
		"split in name":   with(func(r *Request) { r.Header = http.Header{"X\r\nY": {"1"}} }),
	}
	for name, r := range cases {
		t.Run(name, func(t *testing.T) {
			_, err := newClient(t, Config{}).Do(t.Context(), r)
			fault := wantFault(t, err, PhaseWrite, None)
			if !errors.Is(fault, ErrRequest) || strings.Contains(err.Error(), "secret") {
				t.Errorf("got %v", err)
			}
		})
	}
	if f.conns.Load() != 0 {
		t.Error("something was sent")
	}
}

// deadIdle waits until the only idle connection of the pool shows what the far side did to it.
func deadIdle(t *testing.T, c *client, f *far) {
	t.Helper()
	c.plain.mu.Lock()
	defer c.plain.mu.Unlock()
	list := c.plain.idle[f.url.Host]
	if len(list) != 1 {
		t.Fatalf("%d idle connections", len(list))
	}
	for open := true; open; runtime.Gosched() {
		_ = list[0].raw.Read(func(fd uintptr) bool {
			open = quiet(fd)
			return true
		})
	}
}

func TestDeadIdleConnectionIsNotUsed(t *testing.T) {
	after := map[string]func(*peer){
		"closed":          func(*peer) {},
		"reset":           func(p *peer) { p.reset() },
		"unasked answer":  func(p *peer) { p.say(strings.Replace(sizedAnswer, "hello", "evil!", 1)); p.request() },
		"408 and a close": func(p *peer) { p.say("HTTP/1.1 408 Request Timeout\r\nContent-Length: 0\r\n\r\n") },
	}
	for name, end := range after {
		t.Run(name, func(t *testing.T) {
			answered := make(chan struct{})
			f := listen(t, func(p *peer) {
				p.request()
				p.say(sizedAnswer)
				if p.far.conns.Load() == 1 {
					<-answered
					end(p)
				}
			})
			client := newClient(t, Config{})
			if _, _, err := call(t.Context(), client, post(f, "one")); err != nil {
				t.Fatal(err)
			}
			close(answered)
			deadIdle(t, client, f)
			_, body, err := call(t.Context(), client, post(f, "two"))
			if err != nil || body != "hello" || f.requests.Load() != 2 || f.conns.Load() != 2 {
				t.Fatalf("got %q, %v after %d requests", body, err, f.requests.Load())
			}
		})
	}
}

// piped gives a client whose connections are pipes in memory, each served by talk.
func piped(t *testing.T, config Config, talk func(p *peer)) (*client, *far) {
	f := &far{url: &url.URL{Scheme: "http", Host: "far.test", Path: "/v1/call"}, done: make(chan struct{})}
	config.DialContext = func(context.Context, string, string) (net.Conn, error) {
		near, other := net.Pipe()
		f.conns.Add(1)
		go func() {
			defer other.Close()
			talk(&peer{other, f, bufio.NewReader(other)})
		}()
		return near, nil
	}
	return New(config).(*client), f
}

func TestDeadPipeIsPassedOver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		client, f := piped(t, Config{}, func(p *peer) {
			p.request()
			p.say(sizedAnswer)
		})
		for range 2 {
			if _, body, err := call(t.Context(), client, post(f, strings.Repeat("x", aside))); err != nil || body != "hello" {
				t.Fatalf("got %q, %v", body, err)
			}
			synctest.Wait()
		}
		if f.requests.Load() != 2 || f.conns.Load() != 2 {
			t.Errorf("%d requests on %d connections", f.requests.Load(), f.conns.Load())
		}
		client.CloseIdle()
	})
}

func TestIdleTimeout(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		client, f := piped(t, Config{IdleTimeout: time.Minute}, always(sizedAnswer))
		ended := make(chan struct{})
		inner := client.plain.config.DialContext
		client.plain.config.DialContext = func(ctx context.Context, network, addr string) (net.Conn, error) {
			c, err := inner(ctx, network, addr)
			return &closeSignal{c, ended}, err
		}
		call(t.Context(), client, post(f, ""))
		begin := time.Now()
		<-ended
		if idle := time.Since(begin); idle != time.Minute {
			t.Errorf("closed after %v", idle)
		}
		synctest.Wait()
		if client.plain.timer != nil || len(client.plain.idle) != 0 {
			t.Error("the pool still holds something")
		}
	})
}

type closeSignal struct {
	net.Conn
	closed chan struct{}
}

func (c *closeSignal) Close() error {
	close(c.closed)
	return c.Conn.Close()
}

func TestMaxIdlePerHost(t *testing.T) {
	f := listen(t, always(sizedAnswer))
	client := newClient(t, Config{MaxIdlePerHost: 2})
	var open []*Response
	for range 5 {
		resp, err := client.Do(t.Context(), post(f, ""))
		if err != nil {
			t.Fatal(err)
		}
		open = append(open, resp)
	}
	for _, resp := range open {
		if _, err := io.ReadAll(resp.Body); err != nil {
			t.Fatal(err)
		}
	}
	if n := len(client.plain.idle[f.url.Host]); n != 2 {
		t.Errorf("%d idle", n)
	}
}

func TestDialFaults(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	refused := "http://" + listener.Addr().String()
	_ = listener.Close()
	_, err = newClient(t, Config{}).Do(t.Context(), &Request{Method: "POST", Target: parse(t, refused)})
	if fault := wantFault(t, err, PhaseDial, None); !errors.Is(fault, syscall.ECONNREFUSED) || fault.Timeout {
		t.Errorf("got %v", err)
	}
	noName := &net.DNSError{Err: "no such host", Name: "nowhere.test", IsNotFound: true}
	for _, scheme := range []string{"http", "https"} {
		client := newClient(t, Config{DialContext: func(_ context.Context, _, addr string) (net.Conn, error) {
			if !strings.HasPrefix(addr, "nowhere.test:") {
				t.Errorf("dialled %s", addr)
			}
			return nil, &net.OpError{Op: "dial", Err: noName}
		}})
		_, err = client.Do(t.Context(), &Request{Method: "POST", Target: parse(t, scheme+"://nowhere.test/x?key=secret-key")})
		var dns *net.DNSError
		if fault := wantFault(t, err, PhaseDial, None); !errors.As(fault, &dns) || strings.Contains(err.Error(), "secret") {
			t.Errorf("got %v", err)
		}
	}
}

func TestDialTimeout(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, scheme := range []string{"http", "https"} {
			client := New(Config{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
				<-ctx.Done()
				return nil, ctx.Err()
			}})
			begin := time.Now()
			_, err := client.Do(t.Context(), &Request{Method: "POST", Target: parse(t, scheme+"://far.test/")})
			if fault := wantFault(t, err, PhaseDial, None); !fault.Timeout || time.Since(begin) != 10*time.Second {
				t.Errorf("got %v after %v", err, time.Since(begin))
			}
			client.CloseIdle()
		}
	})
}
