package mcp

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/tidwall/gjson"

	"github.com/holdfast-ai/holdfast/ledger"
)

func TestBR082ModelRepeatsItsCall(t *testing.T) {
	r := newRig(t, "stdio")
	c := r.stdio()
	first := c.call("keyed", `{"n":"A","phone":"1"}`)
	r.says(first, "result.content.0.text", "done A", "_meta.replayed", nil)
	again := c.call("keyed", `{"phone":"1","n":"A"}`)
	r.says(again, "result.content.0.text", "done A", "_meta.replayed", true, "_meta.intent", gjson.Get(first, "result._meta.holdfast/intent").String())
	r.mentions(again, "nothing was executed now", "repeat_reason")
	r.happened(1)
	r.says(c.call("keyed", `{"n":"A","phone":"2"}`), "_meta.code", "idempotency_key_reused", "result.isError", true)
	r.says(c.call("keyed", `{"n":"A","phone":"1","client_ts":"now"}`), "_meta.replayed", true) // made anew for each try
	r.happened(1)
	r.says(c.call("keyed", `{"n":"A","phone":"1","repeat_reason":"the user wants two"}`), "_meta.replayed", nil, "result.content.0.text", "done A")
	r.happened(2)
	r.says(c.call("keyed", `{"n":"A","phone":"1","repeat_reason":"the user wants two"}`), "_meta.replayed", true)
	r.happened(2)
	r.clock.pass(25 * time.Hour)
	r.says(c.call("keyed", `{"n":"A","phone":"1"}`), "_meta.replayed", nil)
	r.happened(3)
	other := r.stdio() // a business key is the same in every session
	r.says(other.call("keyed", `{"n":"A","phone":"1"}`), "_meta.replayed", true)
	r.happened(3)
	if r.counts.dups["settled"] != 4 {
		t.Errorf("%v duplicates", r.counts.dups)
	}
}

// Without a template the window is the session, at most 10 min, and another write ends it (semantics 41).
func TestWindowEndsWithAnotherWrite(t *testing.T) {
	r := newRig(t, "stdio")
	c := r.stdio()
	a, b := `{"n":"A"}`, `{"n":"B"}`
	c.call("write", a)
	r.says(c.call("write", a), "_meta.replayed", true)
	c.call("read", b) // no write
	r.says(c.call("write", a), "_meta.replayed", true)
	r.happened(1)
	c.call("write", b)
	r.says(c.call("write", a), "_meta.replayed", nil)
	r.happened(3)
	r.says(c.call("write", a), "_meta.replayed", true)
	c.call("fails", `{"n":"x","fault":"plain_error"}`) // did nothing
	r.says(c.call("write", a), "_meta.replayed", true)
	r.clock.pass(11 * time.Minute)
	r.says(c.call("write", a), "_meta.replayed", nil)
	r.happened(4)
	r.says(r.stdio().call("write", a), "_meta.replayed", nil)
	r.happened(5)
}

// Effect without a policy is readOnlyHint's alone: absent and false are writes, and idempotentHint is no licence.
func TestBR084HintsLicenseNothing(t *testing.T) {
	r := newRig(t, "stdio")
	c := r.stdio()
	for _, tool := range []string{"write", "absent", "idem"} {
		r.says(c.call(tool, `{"n":1,"fault":"die_after"}`), "_meta.unknown", true, "result.isError", true)
		r.says(c.call(tool, `{"n":1,"fault":"die_after"}`), "_meta.unknown", true)
	}
	r.happened(3)
	c.call("read", `{}`)
	if n := len(r.intents()); n != 3 {
		t.Errorf("%d intents, want 3: a read is none", n)
	}
	list := c.ask("tools/list", `{}`)
	for _, x := range gjson.Get(list, "result.tools").Array() {
		has := x.Get("inputSchema.properties.repeat_reason.description").Exists()
		want := map[string]bool{"write": true, "absent": true, "idem": true}[x.Get("name").String()]
		if has != want {
			t.Errorf("%s offers repeat_reason: %v", x.Get("name"), has)
		}
	}
}

// What is lost on the way is unknown, and never sent again.
func TestUnknownIsHeld(t *testing.T) {
	r := newRig(t, "stdio")
	c := r.stdio()
	for n, x := range []struct{ tool, args string }{
		{"quick", `{"n":1,"fault":"lost_before"}`}, {"quick", `{"n":2,"fault":"lost_after"}`}, {"write", `{"n":3,"fault":"die_before"}`},
		{"write", `{"n":4,"fault":"die_after"}`}, {"write", `{"n":5,"fault":"internal"}`}, {"write", `{"n":6,"fault":"timeout_text"}`},
		{"write", `{"n":7,"fault":"huge"}`}, {"write", `{"n":8,"fault":"bad_output"}`}, {"write", `{"n":9,"fault":"bad_result"}`},
	} {
		first := c.call(x.tool, x.args)
		r.says(first, "_meta.unknown", true, "_meta.code", "outcome_unknown", "_meta.safe_to_retry", "after-reconcile", "result.isError", true)
		r.mentions(first, "OUTCOME UNKNOWN", "Do not repeat")
		id := gjson.Get(first, "result._meta.holdfast/intent").String()
		again := c.call(x.tool, x.args)
		r.says(again, "_meta.unknown", true, "_meta.intent", id)
		reasoned := c.call(x.tool, x.args[:len(x.args)-1]+`,"repeat_reason":"it timed out"}`)
		r.says(reasoned, "_meta.unknown", true)
		if rec, err := r.ledger.Get(t.Context(), id); err != nil || rec.State != ledger.Unknown {
			t.Errorf("%d: %v %v", n, rec, err)
		}
		r.says(r.stdio().call(x.tool, x.args), "_meta.unknown", true, "_meta.intent", id) // a client that comes back
	}
	r.happened(7)
}

// BR-001: the call outlives its time-out, and its late answer ends what was unknown.
func TestBR001LateAnswerIsEvidence(t *testing.T) {
	r := newRig(t, "stdio")
	c := r.stdio()
	answer := filepath.Join(t.TempDir(), "answer")
	args := `{"n":1,"hold":"` + answer + `"}`
	first := c.call("quick", args)
	r.says(first, "_meta.unknown", true)
	id := gjson.Get(first, "result._meta.holdfast/intent").String()
	r.says(c.call("quick", args), "_meta.unknown", true, "_meta.intent", id)
	if err := os.WriteFile(answer, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	r.until("the late answer", func() bool {
		rec, err := r.ledger.Get(t.Context(), id)
		return err == nil && rec.State == ledger.Settled
	})
	r.says(c.call("quick", args), "_meta.replayed", true, "_meta.intent", id, "result.content.0.text", "done 1")
	r.says(r.stdio().call("quick", args), "_meta.replayed", true, "_meta.intent", id)
	r.happened(1)
	if b, err := r.ledger.Body(t.Context(), id, ledger.BodyLate); err != nil || len(b.Data) == 0 {
		t.Errorf("the late answer is no evidence: %v", err)
	}
}

// semantics 4: isError is a failure only where failed says so.
func TestIsErrorIsNoFailure(t *testing.T) {
	r := newRig(t, "stdio")
	c := r.stdio()
	args := `{"n":1,"fault":"plain_error"}`
	r.says(c.call("write", args), "result.isError", true, "_meta.unknown", nil)
	r.says(c.call("write", args), "result.isError", true, "_meta.replayed", true)
	r.says(c.call("fails", args), "result.isError", true)
	r.says(c.call("fails", args), "_meta.replayed", nil)
	r.says(c.call("fails", `{"n":2}`), "result.content.0.text", "done 2")
	r.says(c.call("both", `{"n":"good"}`), "result.content.0.text", "done good")
	r.says(c.call("both", `{"n":"bad"}`), "result.content.0.text", "done bad")
	r.says(c.call("both", `{"n":"neither"}`), "_meta.unknown", true)
	r.says(c.call("write", `{"n":1,"fault":"refused"}`), "error.code", -32602)
	r.says(c.call("write", `{"n":1,"fault":"refused"}`), "error.code", -32602)
	states := map[ledger.Outcome]int{}
	for _, rec := range r.intents() {
		states[rec.Outcome]++
	}
	if states[ledger.OutcomeFailed] != 5 || states[ledger.OutcomeUnknown] != 1 || states[ledger.OutcomeSuccess] != 3 {
		t.Errorf("%v", states)
	}
}

func TestBodiesAreKept(t *testing.T) {
	r := newRig(t, "stdio")
	c := r.stdio()
	got := c.call("write", `{ "n": 1, "repeat_reason": "for fun" }`)
	id := gjson.Get(got, "result._meta.holdfast/intent").String()
	asked, err := r.ledger.Body(t.Context(), id, ledger.BodyRequest)
	if err != nil {
		t.Fatal(err)
	}
	sent, err := r.ledger.Body(t.Context(), id, ledger.BodySent)
	if err != nil {
		t.Fatal(err)
	}
	r.mentions(string(asked.Data), "for fun")
	if gjson.GetBytes(sent.Data, "params.arguments.repeat_reason").Exists() || gjson.GetBytes(sent.Data, "params.arguments.n").Raw != "1" {
		t.Errorf("sent: %s", sent.Data)
	}
	r.happened(1)
	own := c.call("owns", `{"repeat_reason":"mine"}`)
	r.says(own, "_meta.replayed", nil)
	b, err := r.ledger.Body(t.Context(), gjson.Get(own, "result._meta.holdfast/intent").String(), ledger.BodySent)
	if err != nil || gjson.GetBytes(b.Data, "params.arguments.repeat_reason").String() != "mine" {
		t.Errorf("a tool's own argument was stripped: %v", err)
	}
}

func TestObserveChangesNothing(t *testing.T) {
	r := newRig(t, "stdio")
	c := r.stdio()
	r.says(c.call("watched", `{"n":1}`), "result._meta", nil)
	r.says(c.call("watched", `{"n":1}`), "result._meta", nil, "result.content.1", nil)
	r.happened(2)
	if r.counts.dups["observed"] != 1 {
		t.Errorf("%v", r.counts.dups)
	}
	r.until("the record", func() bool {
		all := r.intents()
		return len(all) == 2 && all[0].State == ledger.Settled && all[1].State == ledger.Settled
	})
}

// Concurrent calls that are the same are one, and everybody gets its answer.
func TestConcurrentCallsAreOne(t *testing.T) {
	r := newRig(t, "stdio")
	c := r.stdio()
	c.ask("tools/list", `{}`)
	var all []<-chan string
	for range 10 {
		all = append(all, c.begin("tools/call", params("write", `{"n":1,"before":200}`)))
	}
	replays := 0
	for _, ch := range all {
		got := r.wait(ch)
		r.says(got, "result.content.0.text", "done 1")
		if gjson.Get(got, "result._meta.holdfast/replayed").Bool() {
			replays++
		}
	}
	r.happened(1)
	if replays != 9 {
		t.Errorf("%d replays", replays)
	}
}

// A cancel is forwarded and changes no state (semantics 40).
func TestCancelChangesNoState(t *testing.T) {
	r := newRig(t, "stdio")
	c := r.stdio()
	c.ask("tools/list", `{}`)
	c.begin("tools/call", params("write", `{"n":1,"before":200}`))
	r.until("the dispatch", func() bool { all := r.intents(); return len(all) == 1 && all[0].State == ledger.Dispatched })
	c.send(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":3}}`)
	r.until("its settlement", func() bool { return r.intents()[0].Outcome == ledger.OutcomeSuccess })
	r.happened(1)
	r.says(c.call("write", `{"n":1,"before":200}`), "_meta.replayed", true)
	r.happened(1)
}

func TestGenerationMayBeRepeated(t *testing.T) {
	r := newRig(t, "stdio")
	c := r.stdio()
	r.says(c.call("costs", `{"n":1,"fault":"lost_after"}`), "_meta.safe_to_retry", "yes", "result.isError", true)
	r.says(c.call("costs", `{"n":1,"fault":"lost_after"}`), "_meta.safe_to_retry", "yes")
	r.happened(2)
}

// A server's question before it acts is no effect, and the client's next round goes on with the same intent.
func TestContinuationIsNoDuplicate(t *testing.T) {
	r := newRig(t, "stdio")
	c := r.stdio()
	got := c.call("write", `{"n":1,"fault":"input"}`)
	r.says(got, "result.resultType", "input_required")
	id := gjson.Get(got, "result._meta.holdfast/intent").String()
	r.happened(0)
	next := c.ask("tools/call", `{"name":"write","arguments":{"n":1,"fault":"input"},"inputResponses":{},"requestState":"s"}`)
	r.says(next, "result.content.0.text", "done 1", "_meta.intent", id, "_meta.replayed", nil)
	r.happened(1)
	r.says(c.call("write", `{"n":1,"fault":"input"}`), "_meta.replayed", true)
	r.happened(1)
}

func TestTaskIsDispatchedUntilItEnds(t *testing.T) {
	r := newRig(t, "http")
	c := r.stdio()
	ask := `{"name":"write","arguments":{"n":1},"task":{"ttl":60000}}`
	got := c.ask("tools/call", ask)
	id, task := gjson.Get(got, "result._meta.holdfast/intent").String(), gjson.Get(got, "result.task.taskId").String()
	r.says(c.ask("tools/call", ask), "result.task.taskId", task, "_meta.replayed", true)
	c.ask("tasks/get", `{"taskId":"`+task+`"}`)
	if rec, err := r.ledger.Get(t.Context(), id); err != nil || rec.State != ledger.Dispatched {
		t.Fatalf("%+v %v", rec, err)
	}
	r.far.fake.mu.Lock()
	r.far.tasks[task] = "completed"
	r.far.fake.mu.Unlock()
	c.ask("tasks/get", `{"taskId":"`+task+`"}`)
	r.until("the task's end", func() bool { return r.intents()[0].Outcome == ledger.OutcomeSuccess })
	r.says(c.ask("tools/call", ask), "result.task.taskId", task, "_meta.replayed", true)
	r.happened(1)
	r.counts.mu.Lock()
	defer r.counts.mu.Unlock()
	if got := r.counts.attempts["success "]; got != 1 || len(r.counts.attempts) != 1 {
		t.Errorf("attempts: %v", r.counts.attempts)
	}
}

// What a person has settled stays settled for a client that comes back to another process.
func TestResolvedIsRemembered(t *testing.T) {
	r := newRig(t, "stdio")
	args := map[ledger.Outcome]string{ledger.OutcomeSuccess: `{"n":1,"fault":"lost_after"}`, ledger.OutcomeFailed: `{"n":2,"fault":"lost_before"}`}
	c := r.stdio()
	for out, a := range args {
		got := c.call("quick", a)
		r.says(got, "_meta.unknown", true)
		rec, err := r.ledger.Get(t.Context(), gjson.Get(got, "result._meta.holdfast/intent").String())
		if err != nil {
			t.Fatal(err)
		}
		if err := r.log.Load(rec).Resolve(out, "ada", "looked", nil, r.ledger.Now().Add(time.Hour)); err != nil {
			t.Fatal(err)
		}
	}
	for range 2 {
		r.says(r.stdio().call("quick", args[ledger.OutcomeSuccess]), "_meta.code", "answer_gone", "_meta.safe_to_retry", "no", "_meta.unknown", nil)
		r.happened(1)
		r.end()
		r.start()
	}
	again := r.stdio().call("quick", args[ledger.OutcomeFailed]) // free again
	r.says(again, "_meta.unknown", true)
	if n := len(r.intents()); n != 3 {
		t.Errorf("%d intents", n)
	}
}
