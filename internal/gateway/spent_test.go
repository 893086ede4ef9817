package gateway_test

import (
	"context"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"

	"github.com/holdfast-ai/holdfast/internal/gateway"
	"github.com/holdfast-ai/holdfast/ledger"
)

// Who asks again after a failure that releases its key is not given that failure once more, however long its record takes:
// 409 until it has landed, then an execution of its own (semantics 14).
func TestFailureOnItsWayToTheRecord(t *testing.T) {
	for _, q := range []request{chat("late").key("k"), streamed("late").key("k"), chat("late").key("k").workflow("strict"), chat("late").workflow("pipeline")} {
		r, f := newFaultyRig(t)
		r.script("late", `{"hold":"provider","status":503}`, "200")
		first := make(chan *answered)
		go func() { first <- r.do(q) }()
		if err := r.sim.WaitHeld(t.Context(), "provider", 1); err != nil {
			t.Fatal(err)
		}
		open := f.shut(t)
		r.sim.Release("provider")
		a := <-first
		if a.status != 503 {
			t.Fatalf("%d %s", a.status, a.body)
		}
		again := r.must(q, http.StatusConflict)
		if again.code() != string(gateway.CodeInFlight) || again.header.Get("X-Should-Retry") != "true" {
			t.Errorf("%v", again.header)
		}
		r.calls("late", 1)
		open()
		r.settled(a.header.Get("Holdfast-Intent"))
		r.must(q, 200)
		r.calls("late", 2)
	}
}

// A stream's own error is heard before its record is written, and even before the stream's end.
func TestHeardErrorIsNotJoined(t *testing.T) {
	for _, wire := range wires {
		r, f := newFaultyRig(t)
		r.script(wire, `{"hold":"provider","error_event":4,"error":"server_error"}`, "200")
		q := ask(wire, wire).key("k")
		first := make(chan string)
		heard := make(chan struct{})
		go func() {
			resp, err := r.open(q)
			if err != nil {
				first <- err.Error()
				return
			}
			defer resp.Body.Close()
			first <- resp.Header.Get("Holdfast-Intent")
			var seen strings.Builder
			p := make([]byte, 4096)
			for told := false; err == nil; {
				var n int
				n, err = resp.Body.Read(p)
				seen.Write(p[:n])
				if !told && strings.Contains(seen.String(), `"error"`) {
					told = true
					close(heard)
				}
			}
			if err != io.EOF {
				t.Logf("%s: %v", wire, err) // where the format has no error of its own, the connection breaks
			}
			first <- seen.String()
		}()
		if err := r.sim.WaitHeld(t.Context(), "provider", 1); err != nil {
			t.Fatal(err)
		}
		open := f.shut(t)
		r.sim.Release("provider")
		id := <-first
		<-heard
		if again := r.do(q); again.status != http.StatusConflict || again.code() != string(gateway.CodeInFlight) {
			t.Errorf("%s: given again: %d %s", wire, again.status, again.body)
		}
		open()
		<-first
		r.settled(id)
		again := r.do(q)
		for n := 0; n < 1000 && again.code() == string(gateway.CodeInFlight); n++ { // its record stands before its execution is gone
			again = r.do(q)
		}
		if again.status != http.StatusOK {
			t.Errorf("%s: once more: %d %s", wire, again.status, again.body)
		}
		r.calls(wire, 2)
	}
}

// shut holds up every write from now on, until the test opens the door or ends.
func (f *faulty) shut(t *testing.T) (open func()) {
	door := make(chan struct{})
	f.set(func(f *faulty) { f.hold = door })
	open = sync.OnceFunc(func() {
		f.set(func(f *faulty) { f.hold = nil })
		close(door)
	})
	t.Cleanup(open)
	return open
}

// What went on behind an attempt that may have reached its provider, and was not admitted in time, has failed and lets go
// of its key: it neither keeps the key for ever nor says that nothing was sent.
func TestTakenOverAndNotAdmitted(t *testing.T) {
	const yaml = `
env: test
providers: {openai: {type: openai, base_url: "SIM/v1"}}
workflows:
  default: {retry: {max_attempts: 3, base: 1h, max: 1h}, bulkhead: {max_concurrent: 1, wait: true}, lanes: {interactive_admission: {max_wait_ms: 50}}}
`
	r := newRig(t, func(c *rigConfig) { c.yaml = yaml })
	r.script("cut", "hang", "200")
	q := chat("cut").key("k")
	first := make(chan *answered)
	go func() { first <- r.do(q) }()
	wait(t, func() bool { return r.sim.Counts("cut").InFlight == 1 })
	now, stop := context.WithCancel(t.Context())
	stop()
	r.gw.Drain(now)
	<-first
	r.close()
	r.start(rigConfig{})
	r.script("other", `{"hold":"slot"}`)
	other := make(chan *answered)
	go func() { other <- r.do(chat("other")) }()
	if err := r.sim.WaitHeld(t.Context(), "slot", 1); err != nil {
		t.Fatal(err)
	}
	a := r.do(q)
	if a.status != 503 && a.status != 429 || a.code() != string(gateway.CodeAdmission) {
		t.Errorf("%d %v %s", a.status, a.header, a.body)
	}
	rec := r.settled(a.header.Get("Holdfast-Intent"))
	if rec.Outcome != ledger.OutcomeFailed || rec.BilledMaybe != 1 || rec.Attempt != 1 {
		t.Errorf("%+v", rec.Status)
	}
	r.sim.Release("slot")
	<-other
	r.must(q, 200)
	r.calls("cut", 2)
}
