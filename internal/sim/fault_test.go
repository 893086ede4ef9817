package sim

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"
)

// TestFaultsOnTheSocket sees each fault as a client without any HTTP library does.
func TestFaultsOnTheSocket(t *testing.T) {
	const lastChunk = "\r\n0\r\n\r\n"
	for _, c := range []struct {
		fault   string
		stream  bool
		end     string // of the connection
		events  int    // complete events seen; -1: not one byte
		closed  bool   // the HTTP body ended properly
		effects int64
		logged  string
	}{
		{"reset_before_body", false, "reset", -1, false, 0, "cut:reset"},
		{"reset_after_body", false, "reset", -1, false, 0, "cut:reset"},
		{"fin_after_body", false, "eof", -1, false, 0, "cut:fin"},
		{"reply_lost", false, "reset", -1, false, 1, "cut:reset"},
		{"reply_lost_fin", true, "eof", -1, false, 1, "cut:fin"},
		{"reset_after_head", true, "reset", 0, false, 1, "cut:reset"},
		{"cut:3", true, "eof", 3, false, 1, "cut:fin"},
		{"cut:0", true, "eof", 0, false, 1, "cut:fin"},
		{"cut:99", true, "eof", 8, false, 1, "cut:fin"}, // all events, no last chunk
		{"reset:2", true, "reset", 2, false, 1, "cut:reset"},
		{"clean:3", true, "", 3, true, 1, "cut:clean"},
		{"reset_after_answer", true, "reset", 8, true, 1, "cut:reset"},
		{`{"cut":{"at":"event","n":2,"how":"torn"}}`, true, "eof", 2, false, 1, "cut:torn"},
		{`{"cut":{"at":"end","how":"torn"}}`, true, "eof", 8, false, 1, "cut:torn"},
		{`{"cut":{"at":"arrival","how":"fin"}}`, true, "eof", -1, false, 0, "cut:fin"},
		{`{"cut":{"at":"end","how":"fin"}}`, true, "eof", 8, true, 1, "cut:fin"},
		{"garbage", false, "eof", 0, false, 1, "cut:raw"},
	} {
		t.Run(c.fault, func(t *testing.T) {
			s := start(t, Config{})
			script(t, s, Rule{Steps: []Step{parseStep(t, c.fault)}})
			got, end := exchangeRaw(t, s, rawChat("hello op=a", c.stream), c.end == "")
			if c.end != "" && end != c.end {
				t.Errorf("the connection ended in %q, want %q", end, c.end)
			}
			if n := bytes.Count(got, []byte("data: {")) + bytes.Count(got, []byte("data: [DONE]")); c.events >= 0 && n != c.events {
				// A torn event is announced but not whole.
				if !strings.Contains(c.fault, "torn") || n != c.events+1 {
					t.Errorf("%d events, want %d:\n%s", n, c.events, got)
				}
			}
			if c.events < 0 && len(got) > 0 {
				t.Errorf("got %q, want no byte", got)
			}
			if closed := bytes.HasSuffix(got, []byte(lastChunk)); c.stream && closed != c.closed {
				t.Errorf("body ended properly: %v, want %v", closed, c.closed)
			}
			wait(t, s, "", func(n Counts) bool { return n.Calls == 1 && n.InFlight == 0 })
			if n := s.Counts("").Effects; n != c.effects {
				t.Errorf("%d effects, want %d", n, c.effects)
			}
			if logged := s.Calls("")[0].End; logged != c.logged {
				t.Errorf("the log says %q, want %q", logged, c.logged)
			}
		})
	}
}

func parseStep(t *testing.T, text string) Step {
	t.Helper()
	var st Step
	if err := st.UnmarshalJSON(inlineStep(text)); err != nil {
		t.Fatal(err)
	}
	return st
}

// exchangeRaw reads to the end of the connection, or for a kept-alive one to the end of the answer.
func exchangeRaw(t *testing.T, s *Server, request string, keepAlive bool) ([]byte, string) {
	t.Helper()
	if keepAlive {
		request = strings.Replace(request, "Host: sim\r\n", "Host: sim\r\nConnection: close\r\n", 1)
	}
	return talk(t, s, request)
}

// TestCutAtByte: the body has exactly that many bytes, plain and streamed.
func TestCutAtByte(t *testing.T) {
	for _, stream := range []bool{false, true} {
		for _, n := range []int{0, 1, 57, 400} {
			s := start(t, Config{})
			script(t, s, Rule{Steps: []Step{Named(fmt.Sprintf("cut_byte:%d", n))}})
			resp, body, err := try(s, "POST", chatPath, chatBody("hello", stream))
			if resp == nil {
				t.Fatal(err)
			}
			if err != io.ErrUnexpectedEOF || len(body) != n {
				t.Errorf("stream %v, cut at %d: %d bytes and %v", stream, n, len(body), err)
			}
			if got := s.Calls("")[0].BytesOut; got != int64(n) {
				t.Errorf("logged %d bytes, want %d", got, n)
			}
		}
	}
}

// TestCutPlain: a cut after events falls in the middle of an answer that has none.
func TestCutPlain(t *testing.T) {
	s := start(t, Config{})
	for fault, want := range map[string]error{"cut:3": io.ErrUnexpectedEOF, "reset:0": syscall.ECONNRESET, "clean:1": nil} {
		script(t, s, Rule{Steps: []Step{Named(fault)}})
		_, body, err := try(s, "POST", chatPath, chatBody("hello", false))
		if !errors.Is(err, want) || len(body) < 100 || json.Valid(body) {
			t.Errorf("%s: %d bytes and %v, want %v", fault, len(body), err, want)
		}
	}
}

// TestCleanPlain: a JSON body that ends properly for HTTP and too early for JSON.
func TestCleanPlain(t *testing.T) {
	s := start(t, Config{})
	script(t, s, Rule{Steps: []Step{{Cut: &Cut{At: AtByte, N: 40, How: Clean}}}})
	resp, body := send(t, s, "POST", chatPath, chatBody("hello", false))
	if len(body) != 40 || resp.ContentLength >= 0 {
		t.Errorf("%d bytes with length %d, want 40 with none announced", len(body), resp.ContentLength)
	}
}

// TestResetBeforeBodyIsRead: the far side reads as much of the body as it was told, and no more.
func TestResetBeforeBodyIsRead(t *testing.T) {
	s := start(t, Config{})
	script(t, s, Rule{Match: Match{Path: "/tools/**"}, Steps: []Step{{Cut: &Cut{At: AtArrival, N: 1000, How: Reset}}}})
	_, end := talk(t, s, rawPost("/tools/x", strings.Repeat("x", 2000), "Sim-Op", "big"))
	if end != "reset" {
		t.Errorf("ended in %q", end)
	}
	wait(t, s, "big", func(n Counts) bool { return n.Cut == 1 })
	if c := s.Calls("big")[0]; c.BodySize != 1000 || c.Effects != 0 || c.Status != 0 {
		t.Errorf("logged %+v", c)
	}
}

// TestStall: silence until the caller leaves, at each point, and the log says when that was.
func TestStall(t *testing.T) {
	for point, effects := range map[Point]int64{AtArrival: 0, AtRequest: 0, AtEffect: 1, AtHead: 1, AtEvent: 1, AtByte: 1, AtEnd: 1} {
		t.Run(string(point), func(t *testing.T) {
			s := start(t, Config{})
			script(t, s, Rule{Steps: []Step{{Cut: &Cut{At: point, N: 2, How: Stall}}}})
			conn, err := net.Dial("tcp", s.Addr())
			if err != nil {
				t.Fatal(err)
			}
			if _, err := io.WriteString(conn, rawChat("hello", true)); err != nil {
				t.Fatal(err)
			}
			wait(t, s, "", func(n Counts) bool { return n.Calls == 1 && n.Effects == effects })
			if point == AtHead || point == AtEvent || point == AtByte || point == AtEnd {
				if _, err := conn.Read(make([]byte, 1)); err != nil { // the head came
					t.Error(err)
				}
			}
			conn.Close()
			if point == AtArrival {
				wait(t, s, "", func(n Counts) bool { return n.Cut == 1 })
				return
			}
			wait(t, s, "", func(n Counts) bool { return n.PeerClosed == 1 && n.InFlight == 0 })
			if c := s.Calls("")[0]; c.End != endPeer {
				t.Errorf("logged %+v", c)
			}
		})
	}
}

// TestCloseEndsStalls: no call outlives the simulator.
func TestCloseEndsStalls(t *testing.T) {
	s := start(t, Config{})
	script(t, s, Rule{Steps: []Step{Named("hang")}, Times: -1})
	done := make(chan error)
	go func() {
		_, _, err := try(s, "POST", chatPath, chatBody("hello", false))
		done <- err
	}()
	wait(t, s, "", func(n Counts) bool { return n.InFlight == 1 })
	if err := s.Close(); err != nil {
		t.Error(err)
	}
	if err := <-done; err == nil {
		t.Error("the stalled call was answered")
	}
}

// TestGoesOnWithoutCaller: the effect takes place although its caller left before it.
func TestGoesOnWithoutCaller(t *testing.T) {
	s := start(t, Config{})
	script(t, s, Rule{Steps: []Step{{Hold: "work", HoldAt: AtRequest}}})
	ctx, cancel := context.WithCancel(t.Context())
	req, err := http.NewRequestWithContext(ctx, "POST", s.URL()+"/charges?op=gone", strings.NewReader(`{}`))
	if err != nil {
		t.Fatal(err)
	}
	left := make(chan struct{})
	go func() {
		defer close(left)
		if resp, err := client().Do(req); err == nil {
			resp.Body.Close()
			t.Error("the call was answered")
		}
	}()
	if err := s.WaitHeld(t.Context(), "work", 1); err != nil {
		t.Fatal(err)
	}
	cancel()
	<-left
	if n := s.Counts("gone").Effects; n != 0 {
		t.Fatalf("%d effects while held", n)
	}
	s.Release("work")
	wait(t, s, "gone", func(n Counts) bool { return n.Effects == 1 && n.InFlight == 0 })
}

// TestDuplicateDelivery: one call, two effects; with a key and a far side that honours it, one.
func TestDuplicateDelivery(t *testing.T) {
	for _, dedup := range []time.Duration{0, time.Hour} {
		s := start(t, Config{Dedup: dedup})
		script(t, s, Rule{Steps: []Step{Named("duplicate")}})
		send(t, s, "POST", "/charges?op=d", `{}`, "Idempotency-Key", "k")
		want := int64(2)
		if dedup > 0 {
			want = 1
		}
		if n := s.Counts("d"); n.Effects != want || n.Calls != 1 || n.Suppressed != 2-want {
			t.Errorf("dedup %v: %+v, want %d effects", dedup, n, want)
		}
	}
}

// TestErrorAfterEffect is the 500 that is not a failure.
func TestErrorAfterEffect(t *testing.T) {
	s := start(t, Config{})
	script(t, s, Rule{Steps: []Step{Named("error_after_effect"), Named("500")}})
	for i, effects := range []int64{1, 1} {
		if resp, _ := send(t, s, "POST", "/charges?op=e", `{}`); resp.StatusCode != 500 {
			t.Errorf("call %d: %s", i, resp.Status)
		}
		if n := s.Counts("e").Effects; n != effects {
			t.Errorf("after call %d: %d effects, want %d", i, n, effects)
		}
	}
}

// TestRepeatEvent: one event arrives twice.
func TestRepeatEvent(t *testing.T) {
	s := start(t, Config{})
	script(t, s, Rule{Steps: []Step{{RepeatEvent: 2}}})
	_, body := send(t, s, "POST", chatPath, chatBody("hello", true))
	events := splitEvents(body, "sse")
	if len(events) != 9 || !bytes.Equal(events[1], events[2]) || bytes.Equal(events[0], events[1]) {
		t.Errorf("events:\n%s", body)
	}
}

// TestTimes: each pause is where it was asked for, and no other.
func TestTimes(t *testing.T) {
	for _, c := range []struct {
		step Step
		want time.Duration
	}{
		{Step{}, 0},
		{Step{WorkMS: 100, DelayMS: 20}, 120 * time.Millisecond},
		{Step{FirstMS: 300}, 300 * time.Millisecond},
		{Step{EventMS: 10}, 70 * time.Millisecond}, // 8 events
		{Step{EventMS: 10, Chunks: 10}, 120 * time.Millisecond},
		{Step{Body: new(string), TrickleBytes: 3, TrickleMS: 5}, 0},
		{Step{Body: ptr("1234567890"), TrickleBytes: 3, TrickleMS: 5}, 15 * time.Millisecond},
		{Step{Cut: &Cut{At: AtEvent, N: 3, How: Stall, StallMS: 900}}, 900 * time.Millisecond},
	} {
		synctest.Test(t, func(t *testing.T) {
			s := New(Config{Script: Script{Default: c.step}})
			begin := time.Now()
			serveRecorded(s, httptest.NewRequest("POST", chatPath, strings.NewReader(chatBody("hello", true))))
			if got := time.Since(begin); got != c.want {
				t.Errorf("%+v took %v, want %v", c.step, got, c.want)
			}
			if err := s.Close(); err != nil {
				t.Error(err)
			}
		})
	}
}

func ptr[T any](v T) *T { return &v }

// serveRecorded serves without a socket; a cut shows as net/http's own panic.
func serveRecorded(s *Server, r *http.Request) (w *httptest.ResponseRecorder, aborted bool) {
	w = httptest.NewRecorder()
	defer func() {
		if p := recover(); p != nil {
			if p != http.ErrAbortHandler {
				panic(p)
			}
			aborted = true
		}
	}()
	s.ServeHTTP(w, r)
	return w, false
}

// TestHandler: without a socket a cut is http.ErrAbortHandler.
func TestHandler(t *testing.T) {
	s := New(Config{Script: Script{Rules: []Rule{{Steps: []Step{Named("reset:2"), Named("ok")}}}}})
	defer s.Close()
	for _, want := range []bool{true, false} {
		w, aborted := serveRecorded(s, httptest.NewRequest("POST", chatPath, strings.NewReader(chatBody("hello", true))))
		if aborted != want || strings.Contains(w.Body.String(), "[DONE]") == want {
			t.Errorf("aborted %v, want %v:\n%s", aborted, want, w.Body)
		}
	}
	if n := s.Counts(""); n.Cut != 1 || n.InFlight != 0 {
		t.Errorf("counts %+v", n)
	}
}

// TestHTTP2 without TLS: proper answers, and a cut is RST_STREAM, which leaves the other streams alone.
func TestHTTP2(t *testing.T) {
	s := start(t, Config{})
	script(t, s, Rule{Steps: []Step{Named("reset:2"), Named("reply_lost"), Named("ok")}})
	tr := &http.Transport{Protocols: new(http.Protocols)}
	tr.Protocols.SetUnencryptedHTTP2(true)
	defer tr.CloseIdleConnections()
	for call, want := range []bool{false, false, true} {
		resp, err := (&http.Client{Transport: tr}).Post(s.URL()+chatPath, "application/json", strings.NewReader(chatBody("hello", true)))
		var body []byte
		if err == nil {
			body, err = io.ReadAll(resp.Body)
			resp.Body.Close()
		}
		if (err == nil) != want || want && (resp.ProtoMajor != 2 || !bytes.HasSuffix(body, []byte("[DONE]\n\n"))) {
			t.Errorf("call %d: %v\n%s", call, err, body)
		}
		if !want && !strings.Contains(err.Error(), "INTERNAL_ERROR") {
			t.Errorf("call %d ended in %v", call, err)
		}
	}
}
