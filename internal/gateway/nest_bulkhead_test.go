package gateway_test

import (
	"context"
	"fmt"
	"io"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/holdfast-ai/holdfast/ledger"
)

// 100 at once on 30 slots: 70 are refused at once, and a workflow with slots of its own is untouched (semantics 33).
func TestBulkhead(t *testing.T) {
	r := nestRig(t)
	r.always("chat", `{"hold":"gate"}`)
	var refused, answered atomic.Int64
	var all sync.WaitGroup
	for range 100 {
		all.Go(func() {
			switch a := r.do(chat("chat").workflow("chat")); {
			case a.status == 200:
				answered.Add(1)
			case a.code() == "bulkhead_full" && a.status == 429 && a.header.Get("X-Should-Retry") == "true" && a.header.Get("Retry-After") != "":
				refused.Add(1)
			default:
				t.Errorf("%d %v %s %v", a.status, a.header, a.body, a.err)
			}
		})
	}
	wait(t, func() bool { return refused.Load() == 70 })
	for range 3 {
		r.must(chat("report").workflow("report"), 200)
	}
	if err := r.sim.WaitHeld(t.Context(), "gate", 30); err != nil {
		t.Fatal(err)
	}
	r.sim.Release("gate")
	all.Wait()
	if answered.Load() != 30 || r.sim.Counts("chat").MaxInFlight != 30 {
		t.Errorf("%d answered, %d at once", answered.Load(), r.sim.Counts("chat").MaxInFlight)
	}
	if all, err := r.store.List(t.Context(), ledger.Filter{Workflow: "chat", Limit: 1000}); err != nil || len(all) != 30 {
		t.Errorf("%d rows, %v: a refusal before the claim writes none (semantics 32)", len(all), err)
	}
	r.atRest()
}

// With wait, calls stand in line for a slot; what is not started in the lane's time is told so, and its key is free.
func TestBulkheadLine(t *testing.T) {
	r := nestRig(t)
	r.always("line", `{"hold":"first"}`)
	var all sync.WaitGroup
	for i := range 3 {
		all.Go(func() { r.must(chat("line").workflow("line").key(fmt.Sprint("line", i)), 200) })
	}
	wait(t, func() bool {
		waiting, _ := r.store.List(t.Context(), ledger.Filter{States: []ledger.State{ledger.Created}})
		return len(waiting) == 2 && waiting[0].Lane == "interactive_admission"
	})
	for range 3 {
		if err := r.sim.WaitHeld(t.Context(), "first", 1); err != nil {
			t.Fatal(err)
		}
		r.sim.Release("first")
	}
	all.Wait()
	if n := r.sim.Counts("line").MaxInFlight; n != 1 {
		t.Errorf("%d at once", n)
	}
	r.script("curt", `{"hold":"second"}`)
	all.Go(func() { r.must(chat("curt").workflow("curt"), 200) })
	if err := r.sim.WaitHeld(t.Context(), "second", 1); err != nil {
		t.Fatal(err)
	}
	a := r.must(chat("curt").workflow("curt").key("late"), 503)
	if a.code() != "admission_timeout" || r.settled(a.header.Get("Holdfast-Intent")).Outcome != ledger.OutcomeDiscarded {
		t.Errorf("%v", a.header)
	}
	r.sim.Release("second")
	all.Wait()
	r.must(chat("curt").workflow("curt").key("late"), 200)
	r.atRest()
}

// BR-039: each way to end a call gives its slot back.
func TestBR039SlotsComeBack(t *testing.T) {
	r := nestRig(t)
	q := func(op string) request { return streamed(op).workflow("one") }
	for i, spoil := range []func(op string){
		func(op string) { // the client resets in mid-stream
			r.script(op, `{"chunks":100,"event_ms":5}`)
			ctx, leave := context.WithCancel(t.Context())
			resp, err := r.open(request{path: q(op).path, body: q(op).body, header: map[string]string{"Holdfast-Workflow": "one", "Cache-Control": "no-cache"}, ctx: ctx})
			if err != nil {
				t.Fatal(err)
			}
			_, _ = io.ReadFull(resp.Body, make([]byte, 64))
			leave()
			_ = resp.Body.Close()
		},
		func(op string) { r.script(op, "500", "500", "500"); r.do(q(op)) },
		func(op string) { r.do(request{path: q(op).path, body: `{"model":`}.workflow("one")) },
		func(op string) { r.script(op, "404"); r.do(q(op)) },
		func(op string) { r.script(op, "reply_lost", "reply_lost", "reply_lost"); r.do(q(op)) },
		func(op string) { r.script(op, "cut:3"); r.do(q(op)) },
	} {
		for n := range 5 {
			op := fmt.Sprintf("leak-%d-%d", i, n)
			spoil(op)
			wait(t, func() bool { return r.gw.Holding().Slots == 0 })
			r.must(chat("normal").workflow("one"), 200)
		}
	}
	r.atRest()
}

// A read is no intent, and goes through the nest all the same (semantics 1).
func TestReadsAreNested(t *testing.T) {
	r := nestRig(t)
	count := request{path: "/v1/messages/count_tokens", body: `{"model":"claude-haiku-4-5","messages":[{"role":"user","content":"op=count"}]}`}.with("Anthropic-Version", "2023-06-01")
	r.script("count", "503", "reply_lost", "ok")
	r.must(count.workflow("fragile"), 200) // whoever calls a route first says when its breaker opens
	r.calls("count", 3)
	r.always("count", "503")
	codes := map[string]int{}
	for range 12 {
		a := r.do(count.workflow("fragile"))
		codes[a.code()]++
		if a.status != 503 {
			t.Errorf("%d %s", a.status, a.body)
		}
	}
	if codes["circuit_open"] != 7 {
		t.Errorf("%v", codes)
	}
	if rows, err := r.store.List(t.Context(), ledger.Filter{}); err != nil || len(rows) > 0 {
		t.Errorf("%d rows, %v", len(rows), err)
	}
	r.atRest()
}

// A call that is passed on unbuffered has a slot and a permit too, and one attempt.
func TestPassedCallsAreNested(t *testing.T) {
	r := nestRig(t)
	q := request{path: "/v1/files", body: "op=file"}
	if _, err := r.routes.Trip("openai/*", "test"); err != nil {
		t.Fatal(err)
	}
	if a := r.must(q, 503); a.code() != "circuit_open" {
		t.Errorf("%v", a.header)
	}
	r.calls("file", 0)
	r.atRest()
}
