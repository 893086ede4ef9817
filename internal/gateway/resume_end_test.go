package gateway_test

import (
	"bytes"
	"fmt"
	"strings"
	"testing"

	"github.com/holdfast-ai/holdfast/internal/gateway"
)

// Behind the last event there is nothing to resume: while the answer runs nobody knows that, then its end says so; and
// the answer is still there for who asks for all of it.
func TestResumeBehindTheLastEvent(t *testing.T) {
	r := newRig(t)
	for _, key := range []string{"", "k"} {
		op := "behind" + key
		q := streamed(op)
		if key != "" {
			q = q.key(key)
		}
		conn, got := r.rawUntil(q, func(b []byte) bool { return bytes.HasSuffix(b, []byte("\r\n0\r\n\r\n")) })
		body := bodyOf(t, got)
		reset(conn)
		if key == "" {
			wait(t, func() bool { return gateway.Lost(r.gw) == 1 })
		}
		last := len(ends("openai-chat", body))
		for range 2 {
			if a := r.must(q.with("Last-Event-ID", fmt.Sprint(last+1)), 409); a.code() != string(gateway.CodeStreamLost) {
				t.Errorf("%v", a.header)
			}
		}
		if a := r.must(q.with("Last-Event-ID", fmt.Sprint(last-1)), 200); !bytes.HasSuffix(body, a.body) || len(a.body) == 0 {
			t.Errorf("the last event is %q", a.body)
		}
		r.calls(op, 1)
	}
}

// A resume that finds nothing takes nothing: who then asks for all of the answer adopts it.
func TestResumeThatFindsNothingGivesBack(t *testing.T) {
	r := newRig(t)
	conn, got := r.rawUntil(streamed("back"), func(b []byte) bool { return bytes.HasSuffix(b, []byte("\r\n0\r\n\r\n")) })
	reset(conn)
	wait(t, func() bool { return gateway.Lost(r.gw) == 1 })
	r.must(streamed("back").with("Last-Event-ID", "99"), 409)
	wait(t, func() bool { return gateway.Lost(r.gw) == 1 })
	if a := r.must(streamed("back"), 200); !bytes.Equal(a.body, bodyOf(t, got)) {
		t.Errorf("%q", a.body)
	}
	r.calls("back", 1)
}

// Between the end of an answer and its record's landing a resume reads the running recording, and learns of a place
// behind its end from it.
func TestResumeBeforeTheRecordLands(t *testing.T) {
	for _, key := range []string{"", "k"} {
		t.Run("key="+key, func(t *testing.T) {
			r, f := newFaultyRig(t)
			r.script("landing", `{"chunks":4,"hold":"landing","hold_at":"event","hold_n":3}`)
			q := streamed("landing")
			if key != "" {
				q = q.key(key)
			}
			hold := make(chan struct{})
			first := make(chan *answered)
			go func() { first <- r.do(q) }()
			if err := r.sim.WaitHeld(t.Context(), "landing", 1); err != nil {
				t.Fatal(err)
			}
			f.set(func(f *faulty) { f.hold = hold })
			r.sim.Release("landing")
			whole := <-first
			n := len(ends("openai-chat", whole.body))
			if _, _, executions := r.gw.Held(); key != "" && executions == 0 {
				t.Fatal("the record has landed already: the test tries nothing")
			}
			a := r.must(q.with("Last-Event-ID", "2"), 200)
			if want := whole.body[ends("openai-chat", whole.body)[1]:]; !bytes.Equal(a.body, want) {
				t.Errorf("%q\nwant %q", a.body, want)
			}
			if a := r.must(q.with("Last-Event-ID", fmt.Sprint(n+1)), 409); a.code() != string(gateway.CodeStreamLost) {
				t.Errorf("%d %v", a.status, a.header)
			}
			f.set(func(f *faulty) { f.hold = nil })
			close(hold)
			r.calls("landing", 1)
		})
	}
}

// An answer that is taken for delivered is not forgotten by a resume: its client may be the one that asks, and of two
// equal executions nothing says which it saw (semantics 26).
func TestResumeBesideADeliveredTwin(t *testing.T) {
	r := newRig(t, func(c *rigConfig) {
		c.yaml = strings.Replace(c.yaml, "  default: {retry", "  default: {delivery_grace: 1ms, retry", 1)
	})
	complete := func(b []byte) bool { return bytes.HasSuffix(b, []byte("\r\n0\r\n\r\n")) }
	r.must(streamed("twin"), 200)
	wait(t, func() bool { return gateway.Sightings(r.gw) == 0 })
	conn, _ := r.rawUntil(streamed("twin"), func(b []byte) bool { return bytes.Contains(b, []byte("answe")) })
	reset(conn)
	wait(t, func() bool { return gateway.Lost(r.gw) == 1 })
	if a := r.must(streamed("twin").with("Last-Event-ID", "2"), 409); a.code() != string(gateway.CodeStreamLost) {
		t.Errorf("%v", a.header)
	}
	conn, got := r.rawUntil(streamed("only"), complete)
	reset(conn)
	wait(t, func() bool { return gateway.Lost(r.gw) == 2 })
	if a := r.must(streamed("only").with("Last-Event-ID", "2"), 200); !bytes.HasSuffix(bodyOf(t, got), a.body) {
		t.Errorf("%q", a.body)
	}
	r.calls("twin", 2)
	r.calls("only", 1)
}
