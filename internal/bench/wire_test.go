package bench

import (
	"errors"
	"io"
	"net"
	"strings"
	"testing"
)

// answered is a connection whose far side takes one request and writes answer in pieces of size bytes.
func answered(t *testing.T, answer string, size int) *conn {
	t.Helper()
	near, far := net.Pipe()
	t.Cleanup(func() { _ = near.Close() })
	go func() {
		defer far.Close()
		if _, err := far.Read(make([]byte, 4096)); err != nil {
			return
		}
		for len(answer) > 0 {
			n := min(size, len(answer))
			if _, err := io.WriteString(far, answer[:n]); err != nil {
				return
			}
			answer = answer[n:]
		}
	}()
	return &conn{Conn: near, buf: make([]byte, 256)}
}

func TestAnswersAreReadToTheirEnd(t *testing.T) {
	for name, c := range map[string]struct {
		answer   string
		status   int
		replayed bool
	}{
		"length":   {"HTTP/1.1 200 OK\r\nContent-Length: 300\r\nIdempotency-Replayed: true\r\n\r\n" + strings.Repeat("x", 300), 200, true},
		"empty":    {"HTTP/1.1 503 Service Unavailable\r\nContent-Length: 0\r\n\r\n", 503, false},
		"chunks":   {"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n1F4\r\n" + strings.Repeat("\n", 500) + "\r\n0\r\n\r\n", 200, false},
		"trailers": {"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nx\r\n0\r\nHoldfast-Attempts: 1\r\nA: b\r\n\r\n", 200, false},
	} {
		for _, size := range []int{1, 7, 10_000} {
			k := answered(t, c.answer, size)
			r, err := k.do(newRequest("GET", "/", ""))
			if err != nil || r.status != c.status || r.replayed != c.replayed || r.first.IsZero() {
				t.Errorf("%s in pieces of %d: %+v, %v", name, size, r, err)
			}
			if _, err := k.Read(make([]byte, 1)); k.from != k.to || err != io.EOF {
				t.Errorf("%s in pieces of %d: something is left, or %v", name, size, err)
			}
		}
	}
}

func TestOtherAnswersAreRefused(t *testing.T) {
	for name, answer := range map[string]string{
		"short":      "HTTP\r\n\r\n",
		"long head":  "HTTP/1.1 200 OK\r\nX: " + strings.Repeat("x", 300),
		"no length":  "HTTP/1.1 200 OK\r\n\r\nbody",
		"chunk size": "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
		"huge chunk": "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nffffffffffffffffffff\r\n",
		"no size":    "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n\r\n",
	} {
		if _, err := answered(t, answer, 50).do(newRequest("GET", "/", "")); !errors.Is(err, errReply) {
			t.Errorf("%s: %v", name, err)
		}
	}
	cut := "HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\n12345"
	if _, err := answered(t, cut, 50).do(newRequest("GET", "/", "")); err != io.EOF {
		t.Errorf("a cut body: %v", err)
	}
}

func TestNumbersMakeRequestsDifferent(t *testing.T) {
	q := newRequest("POST", "/v1/x", `{"n":"`+unnumbered+`"}`, "A: b")
	one, two := q.clone(), q.clone()
	one.number(7)
	two.number(12345678901234567) // one digit too many: the last sixteen count
	if !strings.HasSuffix(string(one.bytes), "\r\n\r\n"+`{"n":"0000000000000007"}`) || !strings.Contains(string(two.bytes), `"2345678901234567"`) {
		t.Errorf("%s\n%s", one.bytes, two.bytes)
	}
	if !strings.Contains(string(one.bytes), "\r\nContent-Length: 24\r\n") {
		t.Errorf("%s", one.bytes)
	}
}

func TestIDsRiseAndAreVersion7(t *testing.T) {
	last, seen := "", map[string]bool{}
	for n := uint64(1); n < 20_000; n++ {
		u := id(n)
		if u <= last || seen[u] || len(u) != 36 || u[14] != '7' || !strings.ContainsRune("89ab", rune(u[19])) {
			t.Fatalf("%d: %s after %s", n, u, last)
		}
		last, seen[u] = u, true
	}
}

func TestTargets(t *testing.T) {
	f := Figure{Holdfast: 10, Reference: 5}
	for _, c := range []struct {
		got  Figure
		want *bool
	}{
		{f.atLeast(2, 2, "≥ 2"), new(true)},
		{f.atLeast(1.9, 2, "≥ 2"), new(false)},
		{f.atMost(2, 2, "≤ 2"), new(true)},
		{f.atMost(2.1, 2, "≤ 2"), new(false)},
		{f.atMost(Value(unknown), 2, "≤ 2"), nil}, // not measured: neither met nor missed
		{f.atMost(1, 2, ""), nil},                 // no target
	} {
		if (c.got.Met == nil) != (c.want == nil) || c.want != nil && *c.got.Met != *c.want {
			t.Errorf("%+v", c.got)
		}
	}
}
