package holdfast

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"os"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// serve lets h answer r in this process.
func serve(r *http.Request, h http.HandlerFunc) (*http.Response, error) {
	x := newExchange(r)
	go x.serve(h, r.WithContext(x.ctx), slog.New(slog.DiscardHandler))
	return x.response(r)
}

func TestExchange(t *testing.T) {
	for name, c := range map[string]struct {
		method string
		h      http.HandlerFunc
		status int
		body   string
		length int64
		err    error // of reading the body
	}{
		"nothing written": {"GET", func(http.ResponseWriter, *http.Request) {}, 200, "", -1, nil},
		"status only":     {"GET", func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(204) }, 204, "", 0, nil},
		"interim answers": {"GET", func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(103)
			w.WriteHeader(201)
			w.WriteHeader(500)
		}, 201, "", -1, nil},
		"head": {"HEAD", func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Length", "5")
			_, _ = io.WriteString(w, "hello")
		}, 200, "", 5, nil},
		"a length": {"GET", func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Length", "5")
			_, _ = io.WriteString(w, "he")
			_, _ = io.WriteString(w, "")
			_, _ = io.WriteString(w, "llo")
			if _, err := io.WriteString(w, "!"); !errors.Is(err, http.ErrContentLength) {
				t.Errorf("more than was promised: %v", err)
			}
		}, 200, "hello", 5, nil},
		"less than promised": {"GET", func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Length", "5")
			_, _ = io.WriteString(w, "he")
		}, 200, "he", 5, io.ErrUnexpectedEOF},
		"broken off": {"GET", func(w http.ResponseWriter, _ *http.Request) {
			_, _ = io.WriteString(w, "he")
			panic(http.ErrAbortHandler)
		}, 200, "he", -1, io.ErrUnexpectedEOF},
	} {
		t.Run(name, func(t *testing.T) {
			r, _ := http.NewRequestWithContext(t.Context(), c.method, "http://x/", nil)
			resp, err := serve(r, c.h)
			if err != nil {
				t.Fatal(err)
			}
			defer resp.Body.Close()
			b, err := io.ReadAll(resp.Body)
			if resp.StatusCode != c.status || string(b) != c.body || resp.ContentLength != c.length || !errors.Is(err, c.err) {
				t.Errorf("%d %q %d %v", resp.StatusCode, b, resp.ContentLength, err)
			}
		})
	}
	r, _ := http.NewRequestWithContext(t.Context(), "GET", "http://x/", nil)
	if _, err := serve(r, func(http.ResponseWriter, *http.Request) { panic("a defect") }); !errors.Is(err, io.ErrUnexpectedEOF) {
		t.Errorf("a panic before the head: %v", err)
	}
}

func TestExchangeTrailers(t *testing.T) {
	r, _ := http.NewRequestWithContext(t.Context(), "GET", "http://x/", nil)
	resp, err := serve(r, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Trailer", "Sent, Unsent")
		_, _ = io.WriteString(w, "body")
		w.Header().Set("Sent", "yes")
		w.Header().Set("Undeclared", "late")
	})
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if _, announced := resp.Trailer["Unsent"]; !announced || resp.Header.Get("Trailer") != "" {
		t.Errorf("before the body: %v %v", resp.Trailer, resp.Header)
	}
	if _, err := io.ReadAll(resp.Body); err != nil {
		t.Fatal(err)
	}
	if len(resp.Trailer) != 1 || resp.Trailer.Get("Sent") != "yes" || resp.Header.Get("Undeclared") != "" {
		t.Errorf("after it: %v %v", resp.Trailer, resp.Header)
	}
}

// TestExchangeNeverRead: a client that takes nothing costs the handler its deadline, not its life.
func TestExchangeNeverRead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		wrote := make(chan error, 1)
		r, _ := http.NewRequestWithContext(t.Context(), "GET", "http://x/", nil)
		resp, err := serve(r, func(w http.ResponseWriter, _ *http.Request) {
			_ = http.NewResponseController(w).SetWriteDeadline(time.Now().Add(time.Minute))
			_, err := io.WriteString(w, strings.Repeat("x", 10))
			wrote <- err
			panic(http.ErrAbortHandler)
		})
		if err != nil {
			t.Fatal(err)
		}
		if err := <-wrote; !errors.Is(err, os.ErrDeadlineExceeded) {
			t.Errorf("the write ended with %v", err)
		}
		if _, err := resp.Body.Read(make([]byte, 1)); !errors.Is(err, io.ErrUnexpectedEOF) {
			t.Errorf("the client reads %v", err)
		}
		_ = resp.Body.Close()
	})
}

// TestExchangeLeaving: the handler's context ends with the client, and not when the client has had everything.
func TestExchangeLeaving(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		left := make(chan bool, 1)
		handler := func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Length", "4")
			_, err := io.WriteString(w, "body")
			select {
			case <-r.Context().Done():
				left <- true
			case <-time.After(time.Second):
				left <- err != nil
			}
		}
		for _, read := range []int{0, 2, 4} {
			r, _ := http.NewRequestWithContext(context.Background(), "GET", "http://x/", nil)
			resp, err := serve(r, handler)
			if err != nil {
				t.Fatal(err)
			}
			if _, err := io.ReadFull(resp.Body, make([]byte, read)); err != nil {
				t.Fatal(err)
			}
			_ = resp.Body.Close()
			_ = resp.Body.Close()
			if got, want := <-left, read < 4; got != want {
				t.Errorf("%d of 4 bytes read, then closed: left %t", read, got)
			}
			synctest.Wait()
		}
	})
}
