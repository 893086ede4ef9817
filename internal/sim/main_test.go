package sim

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"strings"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// fixed is the time of golden files.
func fixed() time.Time { return time.Date(2026, 11, 29, 20, 0, 0, 0, time.UTC) }

func start(t *testing.T, cfg Config) *Server {
	t.Helper()
	if cfg.Now == nil {
		cfg.Now = fixed
	}
	s := New(cfg)
	if err := s.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

// client keeps no idle connections: they would look like leaks.
func client() *http.Client { return &http.Client{Transport: &http.Transport{DisableKeepAlives: true}} }

func send(t *testing.T, s *Server, method, path, body string, header ...string) (*http.Response, []byte) {
	t.Helper()
	resp, got, err := try(s, method, path, body, header...)
	if err != nil {
		t.Fatalf("%s %s: %v", method, path, err)
	}
	return resp, got
}

func try(s *Server, method, path, body string, header ...string) (*http.Response, []byte, error) {
	req, err := http.NewRequest(method, s.URL()+path, strings.NewReader(body))
	if err != nil {
		return nil, nil, err
	}
	req.Header.Set("Content-Type", "application/json")
	for i := 0; i+1 < len(header); i += 2 {
		req.Header.Set(header[i], header[i+1])
	}
	resp, err := client().Do(req)
	if err != nil {
		return nil, nil, err
	}
	defer resp.Body.Close()
	got, err := io.ReadAll(resp.Body)
	return resp, got, err
}

const chatPath = "/v1/chat/completions"

func chatBody(text string, stream bool) string {
	return string(doc{"model", "gpt-5", "stream", stream, "messages", list{doc{"role", "user", "content", text}}}.bytes())
}

// talk sends raw bytes on a connection of its own and reads until it ends: "eof" or "reset".
func talk(t *testing.T, s *Server, request string) (got []byte, end string) {
	t.Helper()
	conn, err := net.Dial("tcp", s.Addr())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if _, err := io.WriteString(conn, request); err != nil {
		t.Fatal(err)
	}
	var b bytes.Buffer
	_, err = io.Copy(&b, conn)
	switch {
	case err == nil:
		return b.Bytes(), "eof"
	case errors.Is(err, syscall.ECONNRESET):
		return b.Bytes(), "reset"
	}
	return b.Bytes(), err.Error()
}

func rawChat(text string, stream bool) string { return rawPost(chatPath, chatBody(text, stream)) }

func rawPost(path, body string, header ...string) string {
	var b strings.Builder
	b.WriteString("POST " + path + " HTTP/1.1\r\nHost: sim\r\nContent-Type: application/json\r\nContent-Length: ")
	b.WriteString(string(appendJSON(nil, len(body))) + "\r\n")
	for i := 0; i+1 < len(header); i += 2 {
		b.WriteString(header[i] + ": " + header[i+1] + "\r\n")
	}
	return b.String() + "\r\n" + body
}

// wait blocks until ok holds. The time-out only ends a test that hangs.
func wait(t *testing.T, s *Server, op string, ok func(Counts) bool) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	if err := s.Wait(ctx, op, ok); err != nil {
		t.Fatalf("waiting for op %q: %v; counts %+v", op, err, s.Counts(op))
	}
}

func script(t *testing.T, s *Server, rules ...Rule) {
	t.Helper()
	if err := s.SetScript(Script{Rules: rules}); err != nil {
		t.Fatal(err)
	}
}
