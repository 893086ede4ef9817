package sim

import (
	"bufio"
	"bytes"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestBenchSpeaksTheSameWire: a prepared answer is the scripted server's first one.
func TestBenchSpeaksTheSameWire(t *testing.T) {
	bench := start(t, Config{Bench: &Bench{Writes: 3}})
	for path, forms := range map[string][]string{
		"/v1/chat/completions":                             {"", `,"stream":true`, `,"stream":true,"stream_options":{"include_usage":true}`},
		"/v1/responses":                                    {"", `,"stream":true`},
		"/v1/messages":                                     {"", `,"stream":true`},
		"/v1/embeddings":                                   {""},
		"/v1beta/models/sim:generateContent":               {""},
		"/v1beta/models/sim:streamGenerateContent":         {""},
		"/v1beta/models/sim:streamGenerateContent?alt=sse": {""},
	} {
		for _, form := range forms {
			body := `{"model":"sim","messages":[{"role":"user","content":"bench"}],"max_tokens":64,"input":"bench","contents":[{"parts":[{"text":"bench"}]}]` + form + `}`
			want, wantBody := send(t, start(t, Config{}), "POST", path, body)
			got, gotBody := send(t, bench, "POST", path, body)
			if diff := cmp.Diff(string(wantBody), string(gotBody)); diff != "" {
				t.Errorf("%s%s: %s", path, form, diff)
			}
			if want.Header.Get("Content-Type") != got.Header.Get("Content-Type") {
				t.Errorf("%s: content type %s", path, got.Header.Get("Content-Type"))
			}
		}
	}
}

// TestBenchKeepsConnections: many requests on one connection, with bodies of either framing, all counted.
func TestBenchKeepsConnections(t *testing.T) {
	s := start(t, Config{Bench: &Bench{Size: 10_000, Chunks: 7}})
	tr := &http.Transport{}
	defer tr.CloseIdleConnections()
	c := &http.Client{Transport: tr}
	for i := range 10 {
		body := io.Reader(strings.NewReader(chatBody("x", i%2 == 0)))
		if i%3 == 0 {
			body = io.MultiReader(body) // no length is known: chunked
		}
		resp, err := c.Post(s.URL()+chatPath, "application/json", body)
		if err != nil {
			t.Fatal(err)
		}
		got, err := io.ReadAll(resp.Body)
		resp.Body.Close()
		if err != nil || len(got) < 10_000 {
			t.Fatalf("call %d: %d bytes, %v", i, len(got), err)
		}
	}
	if _, b := send(t, s, "GET", ControlPrefix+"stats", ""); string(b) != `{"total":{"calls":10}}` {
		t.Errorf("%s", b)
	}
}

// TestBenchRefusesGarbage by closing the connection, and goes on with others.
func TestBenchRefusesGarbage(t *testing.T) {
	s := start(t, Config{Bench: &Bench{}})
	for _, bad := range []string{"\r\n\r\n", "nonsense\r\n\r\n", "POST / HTTP/1.1\r\nContent-Length: -1\r\n\r\n",
		"POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n", "POST /" + strings.Repeat("x", 64<<10)} {
		if got, _ := talk(t, s, bad); len(got) > 0 {
			t.Errorf("%.40q was answered: %q", bad, got)
		}
	}
	if resp, _ := send(t, s, "POST", chatPath, chatBody("x", false)); resp.StatusCode != 200 {
		t.Error(resp.Status)
	}
}

// BenchmarkServe drives a server over 16 connections. The client costs more than the bench server does.
func BenchmarkServe(b *testing.B) {
	for name, cfg := range map[string]Config{"scripted": {}, "bench": {Bench: &Bench{Chunks: 32}}} {
		for form, stream := range map[string]bool{"plain": false, "stream": true} {
			b.Run(name+"/"+form, func(b *testing.B) {
				if name == "scripted" {
					cfg.Script.Default.Chunks = 32
				}
				s := New(cfg)
				if err := s.Start(); err != nil {
					b.Fatal(err)
				}
				defer s.Close()
				request := []byte(rawChat("hello", stream))
				var all sync.WaitGroup
				b.ReportAllocs()
				b.ResetTimer()
				for range 16 {
					all.Go(func() { drive(b, s.Addr(), request, b.N/16+1) })
				}
				all.Wait()
			})
		}
	}
}

// drive sends n requests on one connection.
func drive(b *testing.B, addr string, request []byte, n int) {
	conn, err := net.Dial("tcp", addr)
	if err != nil {
		b.Error(err)
		return
	}
	defer conn.Close()
	in := bufio.NewReaderSize(conn, 64<<10)
	for range n {
		if _, err := conn.Write(request); err != nil {
			b.Error(err)
			return
		}
		if err := skipAnswer(in); err != nil {
			b.Error(err)
			return
		}
	}
}

func skipAnswer(in *bufio.Reader) error {
	length := 0
	for {
		line, err := in.ReadSlice('\n')
		if err != nil {
			return err
		}
		if n, ok := bytes.CutPrefix(line, []byte("Content-Length: ")); ok {
			for _, c := range bytes.TrimSpace(n) {
				length = length*10 + int(c-'0')
			}
		}
		if len(line) == 2 {
			break
		}
	}
	if length > 0 {
		_, err := in.Discard(length)
		return err
	}
	for {
		line, err := in.ReadSlice('\n')
		if err != nil {
			return err
		}
		if string(line) == "0\r\n" {
			_, err := in.Discard(2)
			return err
		}
	}
}
