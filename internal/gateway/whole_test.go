package gateway_test

import (
	"bytes"
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/holdfast-ai/holdfast/internal/gateway"
	"github.com/holdfast-ai/holdfast/ledger"
)

// behindTheEnd are faults behind the last event of a stream, whose body then does not end.
var behindTheEnd = map[string]string{"fin": "cut:99", "reset": "reset:99", "torn": `{"cut":{"at":"end","how":"torn"}}`,
	"stall": `{"cut":{"at":"event","n":99,"how":"stall"}}`}

// A stream that came to its API's own end is whole, whatever becomes of the connection behind it: its client hears of no
// error, and its key gives the answer again.
func TestBreakBehindTheEnd(t *testing.T) {
	for _, wire := range wires {
		for how, fault := range behindTheEnd {
			t.Run(wire+" "+how, func(t *testing.T) {
				t.Parallel()
				r := newRig(t)
				for _, workflow := range []string{"quick", "strict", "external"} {
					r.endsWhole(wire, workflow, fault, wire != "gemini-sse")
				}
			})
		}
	}
}

// endsWhole asks for a stream with a fault behind its end, twice under one key.
func (r *rig) endsWhole(wire, workflow, fault string, whole bool) {
	r.t.Helper()
	if !whole && workflow != "quick" {
		return // as every cut stream
	}
	op := "whole-" + wire + "-" + workflow
	r.script(op, fault)
	q := ask(wire, op).workflow(workflow).key(op)
	a := r.do(q)
	if a.err != nil || a.status != 200 {
		r.t.Fatalf("%s: %d %v %s", op, a.status, a.err, a.body)
	}
	failed := strings.Contains(string(a.body), `"error":{`)
	rec := r.settled(a.header.Get("Holdfast-Intent"))
	if !whole { // usage may follow Gemini's finishReason: only the end of the body says that none does
		if !failed || rec.Outcome != ledger.OutcomeFailed {
			r.t.Errorf("%s: %s, %q", op, rec.Outcome, tail(a.body))
		}
		return
	}
	if failed || !lastEvent(wire)(a.body) || rec.Outcome != ledger.OutcomeSuccess || rec.Visibility != ledger.VisComplete {
		r.t.Errorf("%s: %s, %q", op, rec.Outcome, tail(a.body))
	}
	kept, err := r.store.Body(context.Background(), rec.ID, ledger.BodyAnswer)
	if err != nil || !bytes.Equal(kept.Data, a.body) {
		r.t.Errorf("%s: kept is %v %q", op, err, tail(kept.Data))
	}
	if b := r.must(q, 200); b.header.Get("Idempotency-Replayed") != "true" || !bytes.Equal(b.body, a.body) {
		r.t.Errorf("%s: %v %q", op, b.header, tail(b.body))
	}
	r.calls(op, 1)
}

// Ten providers' ends that never come trip no breaker.
func TestBreakBehindTheEndIsHealthy(t *testing.T) {
	r := newRig(t)
	for i := range 15 {
		op := fmt.Sprintf("healthy-%d", i)
		r.script(op, "cut:99")
		if a := r.must(streamed(op).key(op), 200); strings.Contains(string(a.body), string(gateway.CodeIncomplete)) {
			t.Fatalf("%d: %q", i, tail(a.body))
		}
	}
}
