package gateway_test

import (
	"bytes"
	"context"
	"strings"
	"testing"

	"github.com/holdfast-ai/holdfast/internal/gateway"
	"github.com/holdfast-ai/holdfast/ledger"
)

// repeats has q asked n times more. Each answer is the first one's, byte for byte, and the far side has been called so often
// in all.
func (r *rig) repeats(op string, q request, first *answered, n int, calls int64) {
	r.t.Helper()
	for range n {
		a := r.do(q)
		if a.err != nil || a.status != first.status || !bytes.Equal(a.body, first.body) {
			r.t.Errorf("%d %s %v, want once more %d %s", a.status, a.body, a.err, first.status, first.body)
		}
	}
	r.calls(op, calls)
}

// A failure whose outcome is unknown is adopted by whoever repeats it, with its attempts: where none is left its error is
// the answer, and nothing is sent (semantics 20, 37).
func TestAdoptedAttemptsCount(t *testing.T) {
	for name, form := range map[string]func(string) request{"plain": func(op string) request { return chat(op) }, "stream": streamed} {
		t.Run(name, func(t *testing.T) {
			r := nestRig(t)
			q := form("broken")
			r.always("broken", "500")
			first := r.must(q, 500)
			r.calls("broken", 3)
			r.repeats("broken", q, first, 3, 3)
			r.repeats("broken", q.counted(1), first, 1, 3)
			r.must(q.with("Holdfast-Fresh", "1"), 500) // a new operation, by its own word
			r.calls("broken", 6)
		})
	}
}

// A definite failure is adopted by a request that says that it is its retry; one that does not is a new operation.
func TestRetryOfAFailureInheritsItsAttempts(t *testing.T) {
	r := nestRig(t)
	r.always("down", "503")
	first := r.must(chat("down"), 503)
	r.calls("down", 3)
	r.repeats("down", chat("down").counted(1), first, 1, 3)
	r.repeats("down", chat("down").counted(2), first, 1, 3)
	r.must(chat("down"), 503)
	r.calls("down", 6)
}

// What attempts an operation has left are its successor's.
func TestSuccessorHasTheAttemptsThatAreLeft(t *testing.T) {
	r := nestRig(t)
	q := streamed("cut")
	r.script("cut", "cut:4")
	r.always("cut", "500")
	if a := r.do(q); a.status != 200 || !strings.Contains(string(a.body), "error") {
		t.Fatalf("%d %s %v", a.status, a.body, a.err)
	}
	r.calls("cut", 1) // nothing follows what a client has seen a part of
	last := r.must(q, 500)
	r.calls("cut", 3)
	r.repeats("cut", q, last, 2, 3)
}

// The error is given again for error_hold, however often it is asked for: then the provider may be well again.
func TestInheritedErrorEnds(t *testing.T) {
	r := nestRig(t, func(c *rigConfig) {
		c.yaml = strings.Replace(c.yaml, "default: {retry: {", "default: {error_hold: 3s, delivery_grace: 10ms, retry: {", 1)
	})
	r.always("broken", "500")
	first := r.must(chat("broken"), 500)
	r.repeats("broken", chat("broken"), first, 1, 3)
	wait(t, func() bool { return gateway.Sightings(r.gw) == 0 })
	r.must(chat("broken"), 500)
	r.calls("broken", 6)
}

// So it does where its client had left: what nobody heard is said for as long, and no longer.
func TestErrorOfWhoLeftEnds(t *testing.T) {
	r := nestRig(t, func(c *rigConfig) {
		c.yaml = strings.Replace(c.yaml, "default: {retry: {", "default: {error_hold: 10ms, delivery_grace: 10ms, retry: {max_attempts: 1, ", 1)
	})
	r.script("left", `{"fault":"reply_lost","hold":"gate"}`)
	ctx, leave := context.WithCancel(t.Context())
	q := chat("left")
	q.ctx = ctx
	go r.do(q)
	r.held("gate")
	leave()
	wait(t, func() bool { return gateway.Lost(r.gw) == 1 })
	r.sim.Release("gate")
	wait(t, func() bool { return r.gw.Holding().Executions == 0 })
	r.sim.Reset()
	first, err := r.store.List(t.Context(), ledger.Filter{Workflow: "default"})
	if err != nil || len(first) != 1 {
		t.Fatalf("%v %v", first, err)
	}
	r.script("meanwhile", `{"delay_ms":50}`) // which takes longer than the hold
	r.must(chat("meanwhile"), 200)
	wait(t, func() bool { return r.do(chat("left")).status == 200 })
	r.calls("left", 1)
	for _, e := range r.history(first[0].ID) {
		if e.Rule == "semantics 37" { // and not 21: its error was given behind the hold
			t.Errorf("%+v", e)
		}
	}
}

// What only one caller met says nothing to another: it has the attempts that are left, and one at least.
func TestImpatienceIsNotInherited(t *testing.T) {
	r := nestRig(t)
	r.script("slow", "hang")
	if a := r.must(chat("slow").with("Holdfast-Deadline-Ms", "1500"), 504); a.code() != "deadline_exceeded" {
		t.Fatalf("%s", a.body)
	}
	r.must(chat("slow"), 200)
	r.calls("slow", 2)
}
