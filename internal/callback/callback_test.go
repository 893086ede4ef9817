package callback

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// The specification's own example (Standard Webhooks, reference libraries).
func TestSignatureOfTheSpecification(t *testing.T) {
	key, err := Key("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw")
	if err != nil {
		t.Fatal(err)
	}
	got := Sign(key, "msg_p5jXN8AQM9LWM0D4loKWxJek", time.Unix(1614265330, 0), []byte(`{"test": 2432232314}`))
	if want := "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE="; got != want {
		t.Errorf("%s, want %s", got, want)
	}
	if key, err := Key("a plain text"); err != nil || string(key) != "a plain text" {
		t.Errorf("%q %v", key, err)
	}
	for _, bad := range []string{"whsec_", "whsec_?", "whsec_c2hvcnQ="} {
		if _, err := Key(bad); !errors.Is(err, ErrSecret) {
			t.Errorf("%s: %v", bad, err)
		}
	}
}

func TestPublicAddresses(t *testing.T) {
	for text, want := range map[string]bool{
		"93.184.216.34": true, "1.1.1.1": true, "2606:4700::1111": true, "2a00:1450:4001:829::200e": true, "172.32.0.1": true,
		"127.0.0.1": false, "127.9.9.9": false, "0.0.0.0": false, "0.1.2.3": false, "10.0.0.1": false, "172.16.0.1": false, "172.31.255.255": false,
		"192.168.1.1": false, "100.64.0.1": false, "100.100.100.200": false, "169.254.169.254": false, "192.0.0.192": false, "168.63.129.16": false,
		"198.18.0.1": false, "203.0.113.9": false, "224.0.0.1": false, "255.255.255.255": false, "240.0.0.1": false,
		"::": false, "::1": false, "::ffff:127.0.0.1": false, "::ffff:10.0.0.1": false, "::127.0.0.1": false, "fe80::1": false, "fe80::1%eth0": false,
		"fc00::1": false, "fd00:ec2::254": false, "ff02::1": false, "64:ff9b::7f00:1": false, "64:ff9b:1::a00:1": false, "2002:7f00:1::": false,
		"2001::1": false, "2001:db8::1": false, "100::1": false,
	} {
		if got := public(netip.MustParseAddr(text).Unmap()); got != want {
			t.Errorf("%s: public is %v", text, got)
		}
	}
	if public(netip.Addr{}) {
		t.Error("no address is public")
	}
}

func TestCheck(t *testing.T) {
	none, some := Allow{}, ParseAllow([]string{"10.0.0.0/8", "127.0.0.1", "Inner.Example."})
	for _, c := range []struct {
		url   string
		allow Allow
		want  error
	}{
		{"https://shop.example/done?x=1", none, nil},
		{"https://shop.example:8443/", none, nil},
		{"https://93.184.216.34/", none, nil},
		{"http://inner.example:81/", some, nil},
		{"http://10.1.2.3:22/", some, nil},
		{"http://[::ffff:10.1.2.3]/", some, nil},
		{"http://localhost:9000/", some, nil},
		{"http://shop.example/", some, nil}, // it may resolve to what is allowed: found when it is dialled
		{"http://shop.example/", none, ErrURL},
		{"http://localhost/", none, ErrURL},
		{"https://a.localhost./", none, ErrURL},
		{"https://127.0.0.1/", none, ErrAddress},
		{"https://[::1]/", some, ErrAddress},
		{"https://[::ffff:169.254.169.254]/", some, ErrAddress},
		{"https://[fe80::1%25eth0]/", some, ErrURL},
		{"http://93.184.216.34/", some, ErrAddress},
		{"https://93.184.216.34:25/", none, ErrAddress},
		{"https://user@shop.example/", none, ErrURL},
		{"https://:@shop.example/", none, ErrURL},
		{"https://shop.example/#x", none, ErrURL},
		{"https://shop.example/#", none, ErrURL},
		{"https://shop.example:0/", none, ErrURL},
		{"https://shop.example:99999/", none, ErrURL},
		{"https://shöp.example/", none, ErrURL},
		{"https://shop.example/\r\nX: y", none, ErrURL},
		{"https:shop.example", none, ErrURL},
		{"//shop.example/", none, ErrURL},
		{"ftp://shop.example/", none, ErrURL},
		{"gopher://127.0.0.1/", some, ErrURL},
		{"https:///path", none, ErrURL},
		{"", none, ErrURL},
		{"https://shop.example/" + strings.Repeat("x", maxURL), none, ErrURL},
	} {
		if err := Check(c.url, c.allow); !errors.Is(err, c.want) || (err == nil) != (c.want == nil) {
			t.Errorf("%.60q: %v, want %v", c.url, err, c.want)
		}
	}
}

func FuzzCheck(f *testing.F) {
	for _, seed := range []string{"https://a.example/", "https://[::ffff:127.0.0.1]:443/", "http://0x7f.1/", "https://2130706433/", "https://a@b/#c"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, raw string) {
		if Check(raw, Allow{}) != nil {
			return
		}
		u, err := parse(raw)
		if err != nil || u.url.Scheme != "https" || u.url.User != nil || Host(raw) == "" {
			t.Errorf("%q passes: %+v %v", raw, u, err)
		}
		if ip, err := netip.ParseAddr(u.host); err == nil && !public(ip.Unmap()) {
			t.Errorf("%q passes, and names %s", raw, ip)
		}
	})
}

// names is a resolver whose answers are the script's, one after the other; the last one stays.
func names(script ...string) *net.Resolver {
	var mu sync.Mutex
	next := func() net.IP {
		mu.Lock()
		defer mu.Unlock()
		ip := net.ParseIP(script[0]).To4()
		if len(script) > 1 {
			script = script[1:]
		}
		return ip
	}
	return &net.Resolver{PreferGo: true, Dial: func(context.Context, string, string) (net.Conn, error) {
		ours, theirs := net.Pipe()
		go answerNames(theirs, next)
		return ours, nil
	}}
}

// answerNames is a name server on a stream (RFC 1035 4.2.2) that knows A records only.
func answerNames(c net.Conn, next func() net.IP) {
	defer c.Close()
	for {
		var size uint16
		if binary.Read(c, binary.BigEndian, &size) != nil {
			return
		}
		q := make([]byte, size)
		if _, err := io.ReadFull(c, q); err != nil {
			return
		}
		end := 12 + bytes.IndexByte(q[12:], 0) + 5
		m := append(bytes.Clone(q[:2]), 0x81, 0x80, 0, 1, 0, 0, 0, 0, 0, 0)
		m = append(m, q[12:end]...)
		if q[end-3] == 1 { // A
			m[7] = 1
			m = append(append(m, 0xc0, 12, 0, 1, 0, 1, 0, 0, 0, 0, 0, 4), next()...)
		}
		if _, err := c.Write(append(binary.BigEndian.AppendUint16(nil, uint16(len(m))), m...)); err != nil {
			return
		}
	}
}

func delivery(url string, allow ...string) Delivery {
	return Delivery{URL: url, ID: "id", At: time.Unix(1e9, 0), Body: []byte("{}"), Key: []byte("key"), Allow: ParseAllow(allow)}
}

// receiver counts what arrives, and is reached by any name and address of this machine.
func receiver(t *testing.T, h http.HandlerFunc) (port string, got *atomic.Int64) {
	got = &atomic.Int64{}
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		got.Add(1)
		h(w, r)
	}))
	t.Cleanup(s.Close)
	_, port, err := net.SplitHostPort(s.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	return port, got
}

func noContent(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusNoContent) }

// A name that stands for another address when it is dialled than when it was looked at first is refused then.
func TestRebindingName(t *testing.T) {
	port, got := receiver(t, noContent)
	url := "https://rebound.example:" + port + "/done"
	if err := Check(url, Allow{}); err != nil {
		t.Fatal(err)
	}
	s := Sender{Resolver: names("127.0.0.1")}
	if r := s.Send(t.Context(), delivery(url)); !errors.Is(r.Err, ErrAddress) || r.Sent || got.Load() != 0 {
		t.Errorf("%+v, %d arrived", r, got.Load())
	}
	s = Sender{Resolver: names("127.0.0.1", "10.255.255.1")}
	plain := delivery("http://rebound.example:"+port+"/done", "127.0.0.1")
	if r := s.Send(t.Context(), plain); r.Status != http.StatusNoContent || r.Address != "127.0.0.1:"+port {
		t.Errorf("what is allowed: %+v", r)
	}
	if r := s.Send(t.Context(), plain); !errors.Is(r.Err, ErrAddress) || r.Sent {
		t.Errorf("then the name is a private host's: %+v", r)
	}
	s = Sender{Resolver: names("169.254.169.254")}
	if r := s.Send(t.Context(), delivery(url, "127.0.0.1")); !errors.Is(r.Err, ErrAddress) {
		t.Errorf("metadata: %+v", r)
	}
	s = Sender{Resolver: names("127.0.0.1")}
	if r := s.Send(t.Context(), delivery("http://inner.example:"+port, "inner.example")); r.Status != http.StatusNoContent {
		t.Errorf("a name that is allowed: %+v", r)
	}
}

// No redirect is followed, and no proxy of the environment comes between the check and the connection.
func TestNothingComesBetween(t *testing.T) {
	inner, reached := receiver(t, noContent)
	port, got := receiver(t, func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, "http://127.0.0.1:"+inner+"/", http.StatusTemporaryRedirect)
	})
	proxy, asked := receiver(t, noContent)
	t.Setenv("HTTP_PROXY", "http://127.0.0.1:"+proxy)
	s := Sender{Resolver: names("127.0.0.1")}
	r := s.Send(t.Context(), delivery("http://shop.example:"+port+"/", "127.0.0.1"))
	if r.Status != http.StatusTemporaryRedirect || got.Load() != 1 || reached.Load() != 0 || asked.Load() != 0 {
		t.Errorf("%+v; %d arrived, %d were led on, %d went by the proxy", r, got.Load(), reached.Load(), asked.Load())
	}
}

// What a hostile receiver answers is bounded, and what is said of a failure shows no secret of the address.
func TestBoundsAndErrors(t *testing.T) {
	var wrote atomic.Int64
	port, _ := receiver(t, func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/head":
			w.Header().Set("X-Long", strings.Repeat("x", 1<<20))
		case "/body":
			page := make([]byte, 1<<16)
			for range 1 << 10 {
				n, err := w.Write(page)
				if wrote.Add(int64(n)); err != nil {
					return
				}
			}
		case "/cut":
			panic(http.ErrAbortHandler)
		}
	})
	s, base := Sender{}, "http://127.0.0.1:"+port
	if r := s.Send(t.Context(), delivery(base+"/head?token=hidden", "127.0.0.1")); r.Err == nil || !r.Sent || strings.Contains(r.Err.Error(), "hidden") {
		t.Errorf("an endless head: %+v", r)
	}
	if r := s.Send(t.Context(), delivery(base+"/body", "127.0.0.1")); r.Status != 200 || wrote.Load() == 1<<26 {
		t.Errorf("an endless body: %+v, %d bytes written", r, wrote.Load())
	}
	if r := s.Send(t.Context(), delivery(base+"/cut", "127.0.0.1")); r.Err == nil || !r.Sent {
		t.Errorf("a cut: %+v", r)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	closed := l.Addr().String()
	l.Close()
	if r := s.Send(t.Context(), delivery("http://"+closed+"/?token=hidden", "127.0.0.1")); r.Err == nil || r.Sent || strings.Contains(r.Err.Error(), "hidden") {
		t.Errorf("nobody listens: %+v", r)
	}
	if r := s.Send(t.Context(), delivery("https://u:p@shop.example/")); !errors.Is(r.Err, ErrURL) {
		t.Errorf("a user in the address: %+v", r)
	}
	ended, stop := context.WithCancel(t.Context())
	stop()
	if r := s.Send(ended, delivery(base, "127.0.0.1")); !errors.Is(r.Err, context.Canceled) {
		t.Errorf("an end that was asked for: %+v", r)
	}
}
