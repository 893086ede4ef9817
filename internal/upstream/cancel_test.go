package upstream

import (
	"context"
	"errors"
	"io"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// TestTimeoutAtEachPhase runs in fake time over pipes: a call with 5 s left meets a provider that goes silent.
func TestTimeoutAtEachPhase(t *testing.T) {
	silent := func(p *peer) { _, _ = io.Copy(io.Discard, p.in) }
	cases := []struct {
		name, body string
		talk       func(*peer)
		phase      string
		sent       Sent
	}{
		{"nothing is read", "{}", func(p *peer) { <-p.far.done }, PhaseWrite, None},
		{"half is read", strings.Repeat("x", 8<<10), func(p *peer) { _, _ = p.in.ReadByte(); <-p.far.done }, PhaseWrite, Partial},
		{"half of a large body is read", strings.Repeat("x", aside), func(p *peer) { _, _ = p.in.ReadByte(); <-p.far.done }, PhaseWrite, Partial},
		{"no head", "{}", silent, PhaseHead, All},
		{"half a head", "{}", func(p *peer) { p.request(); p.say("HTTP/1.1 200"); silent(p) }, PhaseHead, All},
		{"only informational", "{}", func(p *peer) { p.request(); p.say("HTTP/1.1 100 Continue\r\n\r\n"); silent(p) }, PhaseHead, All},
		{"half a sized body", "{}", func(p *peer) { p.request(); p.say(sizedAnswer[:len(sizedAnswer)-1]); silent(p) }, PhaseBody, All},
		{"half a chunk", "{}", func(p *peer) { p.request(); p.say(chunkedAnswer[:strings.Index(chunkedAnswer, "llo")]); silent(p) }, PhaseBody, All},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				client, f := piped(t, Config{}, c.talk)
				ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
				defer cancel()
				begin := time.Now()
				_, _, err := call(ctx, client, post(f, c.body))
				fault := wantFault(t, err, c.phase, c.sent)
				if !fault.Timeout || !errors.Is(err, context.DeadlineExceeded) || time.Since(begin) != 5*time.Second {
					t.Errorf("got %v after %v", err, time.Since(begin))
				}
				close(f.done)
				synctest.Wait()
			})
		})
	}
}

func TestCancelWithCause(t *testing.T) {
	reason := errors.New("the client left")
	ctx, cancel := context.WithCancelCause(t.Context())
	gone := make(chan struct{})
	f := listen(t, func(p *peer) {
		p.request()
		p.say(sizedAnswer[:len(sizedAnswer)-2])
		p.request() // returns when the connection ends
		close(gone)
	})
	resp, err := newClient(t, Config{}).Do(ctx, post(f, ""))
	if err != nil {
		t.Fatal(err)
	}
	cancel(reason)
	<-gone // although nobody reads
	_, err = io.ReadAll(resp.Body)
	if fault := wantFault(t, err, PhaseBody, All); fault.Timeout || !errors.Is(err, reason) {
		t.Errorf("got %v", err)
	}
}

func TestCancelledBeforeTheCall(t *testing.T) {
	f := listen(t, always(sizedAnswer))
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := newClient(t, Config{}).Do(ctx, post(f, ""))
	if wantFault(t, err, PhaseDial, None); !errors.Is(err, context.Canceled) || f.conns.Load() != 0 {
		t.Errorf("got %v", err)
	}
}

// TestCancelAfterTheEnd must not reach the connection, which then belongs to another call.
func TestCancelAfterTheEnd(t *testing.T) {
	f := listen(t, always(sizedAnswer))
	client := newClient(t, Config{})
	for range 100 {
		ctx, cancel := context.WithCancel(t.Context())
		if _, body, err := call(ctx, client, post(f, "")); err != nil || body != "hello" {
			t.Fatalf("got %q, %v", body, err)
		}
		cancel()
	}
	if f.conns.Load() != 1 {
		t.Errorf("%d connections", f.conns.Load())
	}
}

func TestClose(t *testing.T) {
	const chunk = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n4\r\ndata\r\n"
	cases := []struct {
		name, answer string
		read         int
		conns        int64
	}{
		{"before the body", sizedAnswer, 0, 2},
		{"in the body", sizedAnswer, 3, 2},
		{"after its last byte", sizedAnswer, 5, 1},
		{"after the last data, with the end buffered", chunk + "0\r\n\r\n", 4, 1},
		{"after the last data, with the end still to come", chunk, 4, 2},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			f := listen(t, always(c.answer))
			client := newClient(t, Config{})
			for range 2 {
				resp, err := client.Do(t.Context(), post(f, ""))
				if err != nil {
					t.Fatal(err)
				}
				if _, err := io.ReadFull(resp.Body, make([]byte, c.read)); err != nil {
					t.Fatal(err)
				}
				for range 2 {
					if err := resp.Body.Close(); err != nil {
						t.Fatal(err)
					}
				}
				if n, err := resp.Body.Read(make([]byte, 1)); n != 0 || err == nil {
					t.Errorf("read %d, %v after Close", n, err)
				}
			}
			if f.conns.Load() != c.conns {
				t.Errorf("%d connections, want %d", f.conns.Load(), c.conns)
			}
		})
	}
}

func TestCloseEndsAWaitingRead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		client, f := piped(t, Config{}, func(p *peer) {
			p.request()
			p.say(sizedAnswer[:len(sizedAnswer)-1])
			p.request()
		})
		resp, err := client.Do(t.Context(), post(f, ""))
		if err != nil {
			t.Fatal(err)
		}
		ended := make(chan error, 1)
		go func() {
			_, err := io.ReadAll(resp.Body)
			ended <- err
		}()
		synctest.Wait()
		_ = resp.Body.Close()
		wantFault(t, <-ended, PhaseBody, All)
	})
}
