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
	"testing"

	"github.com/google/go-cmp/cmp"
)

// tape is a connection on which a fixed answer comes in pieces.
type tape struct {
	net.Conn // absent: nothing else may be called
	rest     []byte
	piece    int
}

func (c *tape) Read(p []byte) (int, error) {
	if len(c.rest) == 0 {
		return 0, io.EOF
	}
	n := copy(p[:min(len(p), c.piece)], c.rest)
	c.rest = c.rest[n:]
	return n, nil
}

func (c *tape) Write(p []byte) (int, error) { return len(p), nil }
func (c *tape) Close() error                { return nil }

// outcome is all that an answer says.
type outcome struct {
	Status          int
	Header, Trailer http.Header
	Body            string
}

// ours reads an answer with the pool's parser.
func ours(answer []byte, method string, piece, read int) (outcome, error) {
	p := newPool(Config{}.withDefaults())
	defer p.CloseIdle()
	r := &Request{Method: method, Target: &url.URL{Scheme: "http", Host: "far.test"}}
	resp, fault := p.exchange(context.Background(), newConn(&tape{rest: answer, piece: piece}, "far.test"), r)
	if fault != nil {
		return outcome{}, fault
	}
	defer resp.Body.Close()
	var body bytes.Buffer
	for buffer := make([]byte, read); ; {
		before := resp.Body.Buffered()
		n, err := resp.Body.Read(buffer)
		body.Write(buffer[:n])
		if n < min(before, read) {
			return outcome{}, errors.New("less was read than was buffered")
		}
		if err == io.EOF {
			return outcome{resp.Status, resp.Header, resp.Body.Trailer(), body.String()}, nil
		}
		if err != nil {
			return outcome{Body: body.String()}, err
		}
	}
}

// theirs reads it with net/http.
func theirs(answer []byte, method string) (outcome, error) {
	in := bufio.NewReader(bytes.NewReader(answer))
	for {
		resp, err := http.ReadResponse(in, &http.Request{Method: method})
		if err != nil {
			return outcome{}, err
		}
		if resp.StatusCode < 200 {
			continue
		}
		body, err := io.ReadAll(resp.Body)
		return outcome{resp.StatusCode, resp.Header, resp.Trailer, string(body)}, err
	}
}

// comparable leaves out what the two are known to hand on differently.
func (o outcome) comparable() outcome {
	clean := func(h http.Header) http.Header {
		out := http.Header{}
		for name, values := range h {
			if len(values) > 0 {
				out[name] = values
			}
		}
		delete(out, "Content-Length") // net/http merges equal ones
		delete(out, "Transfer-Encoding")
		delete(out, "Trailer")
		if out.Get("Pragma") != "" {
			delete(out, "Cache-Control") // net/http adds one
		}
		return out
	}
	o.Header, o.Trailer = clean(o.Header), clean(o.Trailer)
	return o
}

// FuzzAnswer holds three things: the parser survives anything; how the bytes are cut into reads changes nothing; and an
// answer that net/http accepts as well says the same to both.
func FuzzAnswer(f *testing.F) {
	for _, answer := range []string{sizedAnswer, chunkedAnswer, "HTTP/1.1 200 OK\r\n\r\nuntil the close", "HTTP/1.1 204 \r\n\r\n"} {
		f.Add([]byte(answer), false)
	}
	f.Add([]byte(sizedAnswer), true)
	f.Fuzz(func(t *testing.T, answer []byte, isHead bool) {
		method := http.MethodPost
		if isHead {
			method = http.MethodHead
		}
		whole, err := ours(answer, method, len(answer)+1, 64<<10)
		slow, slowErr := ours(answer, method, 1, 3)
		if (err == nil) != (slowErr == nil) || errors.Is(err, ErrMalformed) != errors.Is(slowErr, ErrMalformed) {
			t.Fatalf("whole: %v\nbyte by byte: %v", err, slowErr)
		}
		if diff := cmp.Diff(whole, slow); diff != "" {
			t.Fatalf("whole and byte by byte differ:\n%s", diff)
		}
		if err != nil {
			return
		}
		reference, err := theirs(answer, method)
		if err != nil {
			return
		}
		if diff := cmp.Diff(reference.comparable(), whole.comparable()); diff != "" {
			t.Errorf("net/http and we differ:\n%s", diff)
		}
	})
}

// FuzzRequest holds that a request that passes the check is read by net/http as exactly one request, the one meant.
func FuzzRequest(f *testing.F) {
	f.Add("POST", "/v1/chat%2Fx|y", "key=a&b=%7E", "X-Api-Key", "k", []byte("{}"))
	f.Add("GET", "", "", "Accept", "a\tb", []byte(nil))
	f.Add("DELETE", "//a", "?", "Connection", "x", []byte("body"))
	f.Fuzz(func(t *testing.T, method, path, query, name, value string, body []byte) {
		target := &url.URL{Scheme: "http", Host: "far.test", Path: path, RawPath: path, RawQuery: query}
		r := &Request{Method: method, Target: target, Header: http.Header{name: {value}}, Body: body}
		if checkRequest(r) != nil {
			return
		}
		in := bufio.NewReader(bytes.NewReader(append(appendHead(nil, r), body...)))
		got, err := http.ReadRequest(in)
		if err != nil {
			return // refused is safe
		}
		text, err := io.ReadAll(got.Body)
		if err != nil || !bytes.Equal(text, body) || got.Method != method || got.Host != "far.test" {
			t.Fatalf("%s %s: %q, %v", got.Method, got.Host, text, err)
		}
		if in.Buffered() != 0 {
			t.Fatalf("%d bytes are left for a second request", in.Buffered())
		}
		canonical := http.CanonicalHeaderKey(name)
		if sent := got.Header.Get(canonical); !isHopByHop(name, nil) && sent != strings.Trim(value, " \t") {
			t.Fatalf("%s: %q became %q", name, value, sent)
		}
	})
}
