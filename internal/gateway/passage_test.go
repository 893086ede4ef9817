package gateway_test

import (
	"context"
	"testing"

	"github.com/holdfast-ai/holdfast/internal/gateway"
	"github.com/holdfast-ai/holdfast/ledger"
)

// A shutdown that can wait no longer ends what is passed on, and puts it on record.
func TestDrainEndsPassedCalls(t *testing.T) {
	r := newRig(t)
	r.script("stuck", `{"hold":"stuck"}`)
	answer := make(chan *answered)
	go func() { answer <- r.do(request{path: "/v1/files", body: "op=stuck"}.workflow("external")) }()
	if err := r.sim.WaitHeld(t.Context(), "stuck", 1); err != nil {
		t.Fatal(err)
	}
	over, cancel := context.WithCancel(t.Context())
	cancel()
	r.gw.Drain(over)
	a := <-answer
	if a.status != 502 || a.header.Get("Holdfast-Safe-To-Retry") != "after-reconcile" {
		t.Errorf("%d %v", a.status, a.header)
	}
	rec := r.record(a.header.Get("Holdfast-Intent"))
	if rec.State != ledger.Unknown || rec.LastError != "interrupted" || rec.BilledMaybe != 1 {
		t.Errorf("%+v", rec.Status)
	}
	r.sim.Release("stuck")
}

// A passed call ends by the time-outs of its workflow: before its answer's head by the budget, behind it by idle.
func TestPassedCallsEnd(t *testing.T) {
	r := newRig(t)
	r.script("mute", "hang", "hang", "hang")
	a := r.must(request{path: "/v1/files", body: "op=mute"}.workflow("quick"), 504)
	if a.code() != string(gateway.CodeDeadline) {
		t.Errorf("%v", a.header)
	}
	if rec := r.settled(a.header.Get("Holdfast-Intent")); rec.Outcome != ledger.OutcomeFailed || rec.LastError != "timeout" {
		t.Errorf("%+v", rec.Status)
	}
	r.must(request{path: "/v1/files", body: "op=mute"}.with("Holdfast-Deadline-Ms", "200"), 504)
	r.must(request{method: "GET", path: "/v1/files/f?op=mute"}.workflow("quick"), 504)
	r.script("still", "hang_after_head")
	if a := r.do(request{path: "/v1/files", body: "op=still"}.workflow("quick")); a.err == nil {
		t.Errorf("a cut answer ended well: %d %s", a.status, a.body)
	}
	r.atRest()
}

// A client hears what may be done about a passed call's failure: an effect may have happened, or nothing was sent.
func TestPassedCallsSaySafety(t *testing.T) {
	r := newRig(t)
	for fault, want := range map[string]string{"reply_lost": "after-reconcile", "error_after_effect": "after-reconcile", "400": "yes"} {
		r.script("s-"+fault, fault)
		a := r.do(request{path: "/v1/files", body: "op=s-" + fault}.workflow("external"))
		if got := a.header.Get("Holdfast-Safe-To-Retry"); got != want || a.header.Get("X-Should-Retry") != "false" || a.header.Get("Holdfast-Intent") == "" {
			t.Errorf("%s: %q: %d %v", fault, got, a.status, a.header)
		}
	}
}
