package gateway_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/holdfast-ai/holdfast/breaker"
	"github.com/holdfast-ai/holdfast/internal/gateway"
	"github.com/holdfast-ai/holdfast/internal/sim"
	"github.com/holdfast-ai/holdfast/ledger"
)

// nested is the policy of the tests of retry, breaker and bulkhead.
const nested = `
env: test
providers:
  openai: {type: openai, base_url: "SIM/v1"}
  anthropic: {type: anthropic, base_url: "SIM"}
  gemini: {type: gemini, base_url: "SIM"}
workflows:
  chat: {match: {paths: ["/by-name-only"]}, bulkhead: {max_concurrent: 30}}
  report: {match: {paths: ["/by-name-only"]}, bulkhead: {max_concurrent: 3}}
  one: {match: {paths: ["/by-name-only"]}, bulkhead: {max_concurrent: 1}}
  line: {match: {paths: ["/by-name-only"]}, bulkhead: {max_concurrent: 1, wait: true}, lanes: {interactive_admission: {max_wait_ms: 20000}}}
  curt: {match: {paths: ["/by-name-only"]}, bulkhead: {max_concurrent: 1, wait: true}, lanes: {interactive_admission: {max_wait_ms: 50}}}
  fragile: {match: {paths: ["/by-name-only"]}, retry: {base: 1ms, max: 2ms}, breaker: {failure_threshold: 5, reset_timeout: 1h}}
  swift: {match: {paths: ["/by-name-only"]}, retry: {max_attempts: 1}, breaker: {failure_threshold: 5, reset_timeout: 300ms}}
  probed: {match: {paths: ["/by-name-only"]}, retry: {max_attempts: 1}, breaker: {failure_threshold: 5, reset_timeout: 3s}}
  act: {match: {paths: ["/by-name-only"]}, effect: external, retry: {base: 1ms, max: 2ms}}
  cancel: {match: {paths: ["/by-name-only"]}, on_disconnect: cancel, retry: {base: 1ms, max: 2ms}}
  slow: {match: {paths: ["/by-name-only"]}, retry: {base: 1h, max: 1h}, lanes: {interactive_admission: {max_wait_ms: 3600000}}, timeouts: {attempt: 3h, total: 3h, request: 4h}}
  default: {retry: {base: 1ms, max: 2ms}}
`

func nestRig(t *testing.T, options ...option) *rig {
	return newRig(t, append([]option{func(c *rigConfig) { c.yaml = nested }}, options...)...)
}

// always lets every call of an operation go the same way.
func (r *rig) always(op, step string) {
	r.t.Helper()
	var st sim.Step
	text := step
	if !strings.HasPrefix(step, "{") {
		text = `"` + step + `"`
	}
	if err := st.UnmarshalJSON([]byte(text)); err != nil {
		r.t.Fatal(err)
	}
	if err := r.sim.AddRules(sim.Rule{Match: sim.Match{Op: op}, Steps: []sim.Step{st}, Times: -1}); err != nil {
		r.t.Fatal(err)
	}
}

// BR-021: so many attempts as the policy says, counted by the far side, for every way to fail that a retry is for.
func TestBR021AttemptsAreCounted(t *testing.T) {
	for _, attempts := range []int{1, 2, 4} {
		yaml := strings.Replace(nested, "default: {retry: {", "default: {retry: {max_attempts: "+strconv.Itoa(attempts)+", ", 1)
		r := newRig(t, func(c *rigConfig) { c.yaml = yaml })
		for i, step := range []string{"500", "503", "429", "reply_lost", "cut_byte:40", "garbage", `{"status":200,"body":""}`} {
			for _, q := range []request{chat(fmt.Sprintf("plain-%d", i)), streamed(fmt.Sprintf("stream-%d", i))} {
				op := q.body[strings.Index(q.body, "op=")+3:]
				op = op[:strings.IndexByte(op, '"')]
				q.body = strings.Replace(q.body, "gpt-5", fmt.Sprintf("m-%s", op), 1) // a route of its own
				r.always(op, step)
				a := r.do(q)
				if a.status < 400 && a.err == nil && !strings.Contains(string(a.body), "error") {
					t.Errorf("%s %s: %d %s", op, step, a.status, a.body)
				}
				r.calls(op, int64(attempts))
				id := a.header.Get("Holdfast-Intent")
				if got := a.header.Get("Holdfast-Attempts"); got != strconv.Itoa(attempts) {
					t.Errorf("%s %s: Holdfast-Attempts %q", op, step, got)
				}
				if rec := r.settled(id); rec.Attempt != attempts || rec.Outcome != ledger.OutcomeFailed {
					t.Errorf("%s %s: %+v", op, step, rec.Status)
				}
			}
		}
	}
}

// A failure before the boundary is made good without the client's notice: one answer, of the attempt that succeeded.
func TestRetryBeforeTheBoundary(t *testing.T) {
	r := nestRig(t)
	for i, step := range []string{"500", "529", "reply_lost", "cut:1", `{"error_event":1,"error":"server_error"}`, `{"status":200,"body":""}`} {
		for _, wire := range wires {
			op := fmt.Sprintf("again-%d-%s", i, wire)
			r.script(op, step, "ok")
			a := r.do(ask(wire, op).key(op))
			if a.err != nil || a.status != 200 || strings.Contains(string(a.body), `"error":{`) || a.header.Get("Holdfast-Attempts") != "2" {
				if a.header.Get("Holdfast-Attempts") == "1" && strings.HasPrefix(wire, "gemini") {
					continue // its first event has content: the boundary was passed
				}
				t.Errorf("%s %s: %d %v\n%s", wire, step, a.status, a.header, a.body)
				continue
			}
			r.calls(op, 2)
			rec := r.settled(a.header.Get("Holdfast-Intent"))
			if again := r.must(ask(wire, op).key(op), 200); string(again.body) != string(a.body) {
				t.Errorf("%s %s: the replay differs", wire, step)
			}
			events, err := r.store.History(t.Context(), rec.ID)
			if err != nil {
				t.Fatal(err)
			}
			if !decided(events) {
				t.Errorf("%s %s: no attempt's end says what was decided, by which rule", wire, step)
			}
		}
	}
}

func decided(events []ledger.Event) bool {
	for _, e := range events {
		if e.Kind == "attempt_end" && strings.Contains(string(e.Evidence), `"action":"retry"`) && strings.Contains(string(e.Evidence), `"rule":"retry.on"`) {
			return true
		}
	}
	return false
}

// Behind the boundary nothing is sent again (semantics 22), and neither is what an external call may have done.
func TestNeverAgain(t *testing.T) {
	r := nestRig(t)
	r.script("cut", "cut:4", "ok")
	r.do(streamed("cut"))
	r.calls("cut", 1)
	r.script("act", "500", "ok")
	a := r.must(chat("act").workflow("act").key("act"), 500)
	if rec := r.record(a.header.Get("Holdfast-Intent")); rec.State != ledger.Unknown {
		t.Errorf("%+v", rec.Status)
	}
	r.calls("act", 1)
	r.script("bad", "400", "ok")
	r.must(chat("bad"), 400)
	r.calls("bad", 1)
}

// A definite failure of an external call is tried again (semantics 3).
func TestExternalAgainAfterDefiniteFailure(t *testing.T) {
	r := nestRig(t)
	r.script("pay", `{"status":429,"headers":{"Retry-After":"1"}}`, "ok")
	a := r.must(chat("pay").workflow("act").key("pay"), 200)
	if a.header.Get("Holdfast-Attempts") != "2" {
		t.Errorf("%v", a.header)
	}
	r.calls("pay", 2)
}

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

// BR-031: clients that leave say nothing of the provider; nothing is begun for them.
func TestBR031CancelsDoNotCount(t *testing.T) {
	r := nestRig(t)
	var all sync.WaitGroup
	for i := range 20 {
		op := fmt.Sprintf("leave-%d", i)
		r.script(op, `{"first_ms":60000}`)
		all.Go(func() {
			ctx, leave := context.WithCancel(t.Context())
			defer leave()
			go func() { _ = r.sim.Wait(ctx, op, func(c sim.Counts) bool { return c.InFlight > 0 }); leave() }()
			q := streamed(op).workflow("cancel")
			q.ctx = ctx
			if resp, err := r.open(q); err == nil {
				_ = resp.Body.Close()
			}
		})
	}
	all.Wait()
	r.atRest()
	for i := range 20 {
		r.calls(fmt.Sprintf("leave-%d", i), 1)
	}
	for _, info := range r.routes.List() {
		if info.Breaker.State != breaker.Closed || info.Breaker.Failures != 0 {
			t.Errorf("%s: %+v", info.Route, info.Breaker)
		}
	}
	r.must(chat("normal").workflow("cancel"), 200)
}

// BR-033: a caller's tiny deadline is its own.
func TestBR033TinyDeadlinesDoNotCount(t *testing.T) {
	r := nestRig(t)
	r.always("tiny", `{"delay_ms":1000}`)
	for range 12 {
		if a := r.do(chat("tiny").workflow("fragile").with("Holdfast-Deadline-Ms", "50")); a.status != 504 {
			t.Errorf("%d %s", a.status, a.body)
		}
	}
	r.must(chat("normal").workflow("fragile"), 200)
}

// An outage: before the breaker opens at most threshold × max_attempts calls, after it none; the routes of other models
// go on.
func TestBreakerOpens(t *testing.T) {
	r := nestRig(t)
	r.always("down", "503")
	codes := map[string]int{}
	for range 30 {
		a := r.do(chat("down").workflow("fragile"))
		codes[a.code()]++
		if a.code() == "circuit_open" && (a.status != 503 || a.header.Get("Retry-After") == "" || a.header.Get("X-Should-Retry") != "false") {
			t.Errorf("%d %v", a.status, a.header)
		}
	}
	calls := r.sim.Counts("down").Calls
	if codes["circuit_open"] != 25 || calls > 15 || calls < 5 {
		t.Errorf("%d calls, answers %v", calls, codes)
	}
	other := chat("other").workflow("fragile")
	other.body = strings.Replace(other.body, "gpt-5", "gpt-5-mini", 1)
	r.must(other, 200)
}

// 30 calls to a provider that always answers 503: at most 45 upstream calls (semantics 35).
func TestRetryShare(t *testing.T) {
	yaml := strings.Replace(nested, "default: {", "default: {breaker: {failure_threshold: 1000}, ", 1)
	r := newRig(t, func(c *rigConfig) { c.yaml = yaml })
	r.always("out", "503")
	var all sync.WaitGroup
	for range 30 {
		all.Go(func() { r.do(chat("out")) })
	}
	all.Wait()
	if calls := r.sim.Counts("out").Calls; calls > 45 || calls < 40 {
		t.Errorf("%d upstream calls for 30", calls)
	}
}

// BR-035: one probe when half-open, whatever waits for it.
func TestBR035OneProbe(t *testing.T) {
	r := nestRig(t)
	r.script("probe", "503", "503", "503", "503", "503", `{"hold":"probe","hold_at":"request"}`)
	for range 5 {
		r.do(chat("probe").workflow("probed"))
	}
	if a := r.do(chat("probe").workflow("probed")); a.code() != "circuit_open" {
		t.Fatalf("%d %v", a.status, a.header)
	}
	wait(t, func() bool { // the reset time passes, and the first caller behind it is the probe
		go r.do(chat("probe").workflow("probed"))
		return r.sim.Counts("probe").InFlight == 1
	})
	before := r.sim.Counts("probe").Calls
	var open atomic.Int64
	var all sync.WaitGroup
	callers, turns := 100, 20 // within the probe's lease, on a slow machine too; the breaker's own test has 10,000
	if raceDetector {
		turns = 5
	}
	for range callers {
		all.Go(func() {
			for range turns {
				w := &discard{header: http.Header{}}
				q := chat("probe")
				req, _ := http.NewRequestWithContext(t.Context(), "POST", "http://localhost"+q.path, strings.NewReader(q.body))
				req.Header = http.Header{"Content-Type": {"application/json"}, "Holdfast-Workflow": {"probed"}}
				r.gw.ServeHTTP(w, req)
				if w.header.Get("Holdfast-Error") == "circuit_open" {
					open.Add(1)
				}
			}
		})
	}
	all.Wait()
	if calls := r.sim.Counts("probe").Calls - before; calls > 1 || open.Load() < int64(callers*turns-1) {
		t.Errorf("%d calls beside the probe, %d refused", calls, open.Load())
	}
	r.sim.Release("probe")
	wait(t, func() bool { return r.do(chat("probe").workflow("probed")).status == 200 })
	r.atRest()
}

type discard struct{ header http.Header }

func (d *discard) Header() http.Header       { return d.header }
func (*discard) Write(p []byte) (int, error) { return len(p), nil }
func (*discard) WriteHeader(int)             {}

// A 429 with Retry-After: 3 once, then 200: the client gets 200 after that time, plain and streaming, with two calls.
func TestRetryAfterIsWaitedFor(t *testing.T) {
	t.Parallel()
	r := nestRig(t)
	var all sync.WaitGroup
	for _, q := range []request{chat("wait-plain"), streamed("wait-stream")} {
		op := q.body[strings.Index(q.body, "op=")+3:]
		op = op[:strings.IndexByte(op, '"')]
		q.body = strings.Replace(q.body, "gpt-5", op, 1)
		r.script(op, `{"status":429,"headers":{"Retry-After":"3"}}`, "ok")
		all.Go(func() {
			began := time.Now()
			a := r.must(q.key(op), 200)
			if took := time.Since(began); took < 3*time.Second || a.header.Get("Holdfast-Attempts") != "2" {
				t.Errorf("%s: after %v, %v", op, took, a.header)
			}
			r.calls(op, 2)
			calls := r.sim.Calls(op)
			if gap := calls[1].Start.Sub(calls[0].Start); gap < 3*time.Second {
				t.Errorf("%s: the second call came %v after the first", op, gap)
			}
		})
	}
	wait(t, func() bool { // slots and permits are free while they wait, and the log says until when
		waiting, _ := r.store.List(t.Context(), ledger.Filter{States: []ledger.State{ledger.Created}})
		return len(waiting) == 2 && !waiting[0].ReadyAt.IsZero() && waiting[0].Lane == "interactive_admission"
	})
	all.Wait()
	r.atRest()
}

// With Retry-After: 3600 the client is told at once; nobody calls the route meanwhile, and a restart does not forget it.
func TestCooldownSurvivesRestart(t *testing.T) {
	r := nestRig(t)
	r.script("cool", `{"status":429,"headers":{"Retry-After":"3600"}}`)
	a := r.must(chat("cool").key("k1"), 429)
	if a.code() != "" || a.header.Get("Retry-After") != "3600" || a.header.Get("X-Should-Retry") != "false" {
		t.Errorf("%v", a.header)
	}
	for restarted := range 2 {
		b := r.must(chat("sibling").key(fmt.Sprint("s", restarted)), 429)
		left, _ := strconv.Atoi(b.header.Get("Retry-After"))
		if b.code() != "rate_limited" || left < 3500 || left > 3600 || b.header.Get("X-Should-Retry") != "false" {
			t.Errorf("%v", b.header)
		}
		r.calls("sibling", 0)
		if restarted == 0 {
			r.close()
			r.start(rigConfig{})
		}
	}
	r.calls("cool", 1)
	other := chat("other")
	other.body = strings.Replace(other.body, "gpt-5", "gpt-5-mini", 1)
	r.must(other, 200)
}

// BR-028: of two cool-downs the later end counts, in either order.
func TestBR028LongerCooldownWins(t *testing.T) {
	for _, order := range [][2]string{{"1", "30"}, {"30", "1"}} {
		yaml := strings.Replace(nested, "default: {retry: {", "default: {retry: {max_attempts: 1, ", 1)
		r := newRig(t, func(c *rigConfig) { c.yaml = yaml })
		r.script("both", `{"hold":"a","status":429,"headers":{"Retry-After":"`+order[0]+`"}}`, `{"hold":"b","status":429,"headers":{"Retry-After":"`+order[1]+`"}}`)
		var all sync.WaitGroup
		for i := range 2 {
			all.Go(func() { r.do(chat("both").key(fmt.Sprint(i))) })
			if err := r.sim.Wait(t.Context(), "both", func(c sim.Counts) bool { return c.Calls == int64(i+1) }); err != nil {
				t.Fatal(err)
			}
		}
		r.sim.Release("a")
		wait(t, func() bool { return len(r.routes.List()) == 1 && r.routes.List()[0].Cooling })
		r.sim.Release("b")
		all.Wait()
		a := r.must(chat("late").with("Holdfast-Deadline-Ms", "500"), 429)
		if left, _ := strconv.Atoi(a.header.Get("Retry-After")); left < 25 || left > 30 {
			t.Errorf("%v: %d s left", order, left)
		}
	}
}

// BR-026: no value of Retry-After makes a wait negative, zero by overflow, or endless.
func TestBR026HostileRetryAfter(t *testing.T) {
	for _, c := range []struct {
		value  string
		status int
	}{
		{"9999999999", 429}, {"99999999999999999999", 429}, {"-43", 200}, {"NaN", 200}, {"1e400", 200}, {"abc", 200},
		{"Wed, 31 Feb 2027 99:99:99 GMT", 200}, {"", 200}, {"  1 ", 200},
	} {
		r := nestRig(t)
		r.script("hostile", `{"status":429,"headers":{"Retry-After":"`+c.value+`"}}`, "ok")
		if a := r.do(chat("hostile")); a.status != c.status {
			t.Errorf("%q: %d %s", c.value, a.status, a.body)
		}
		for _, info := range r.routes.List() {
			if ahead := info.Until.Sub(r.store.Now()); ahead > 24*time.Hour {
				t.Errorf("%q: the route cools for %v", c.value, ahead)
			}
		}
	}
}

// BR-051: a client that leaves while its call waits to be sent again causes no further call.
func TestBR051LeavesInARetryWait(t *testing.T) {
	r := nestRig(t)
	for i, q := range []request{chat("gone-0").workflow("slow"), streamed("gone-1").workflow("slow")} {
		op := fmt.Sprint("gone-", i)
		r.always(op, "503")
		ctx, leave := context.WithCancel(t.Context())
		q.ctx = ctx
		go func() {
			wait(t, func() bool {
				waiting, _ := r.store.List(ctx, ledger.Filter{States: []ledger.State{ledger.Created}, Workflow: "slow"})
				return len(waiting) == 1
			})
			leave()
		}()
		if resp, err := r.open(q); err == nil {
			_ = resp.Body.Close()
		}
		r.atRest()
		r.calls(op, 1)
		all, err := r.store.List(t.Context(), ledger.Filter{Workflow: "slow", Limit: 1})
		if err != nil || len(all) != 1 || all[0].State != ledger.Settled {
			t.Fatalf("%v %v", all, err)
		}
		events, _ := r.store.History(t.Context(), all[0].ID)
		if last := events[len(events)-1]; !strings.Contains(fmt.Sprint(events), "client_cancelled") {
			t.Errorf("%+v", last)
		}
	}
}

// A crash in a wait changes nothing: what waited goes on with a request that has its key, and the attempt that ended is
// not billed twice.
func TestRestartInARetryWait(t *testing.T) {
	r := nestRig(t)
	r.script("crash", "503", "ok")
	ctx, leave := context.WithCancel(t.Context())
	defer leave()
	q := chat("crash").workflow("slow").key("crash")
	q.ctx = ctx
	go func() { _ = r.do(q) }()
	wait(t, func() bool {
		waiting, _ := r.store.List(ctx, ledger.Filter{States: []ledger.State{ledger.Created}, Workflow: "slow"})
		return len(waiting) == 1 && waiting[0].Attempt == 1
	})
	r.close()
	r.start(rigConfig{})
	r.must(chat("crash").workflow("slow").key("crash"), 200)
	r.calls("crash", 2)
}

// An operator's pause, and a fault in a route, reach the calls.
func TestHandOperations(t *testing.T) {
	r := nestRig(t)
	r.must(chat("hand"), 200)
	if _, err := r.routes.Pause("openai/*", "maintenance"); err != nil {
		t.Fatal(err)
	}
	if a := r.must(chat("hand"), 503); a.code() != "circuit_open" || !strings.Contains(string(a.body), "maintenance") {
		t.Errorf("%v %s", a.header, a.body)
	}
	if _, err := r.routes.Resume("openai/*"); err != nil {
		t.Fatal(err)
	}
	r.must(chat("hand"), 200)
	r.calls("hand", 2)
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

// A defect of ours in the one probe of a half-open breaker gives its slots back: the next caller finds out instead.
func TestPanicGivesTheProbeBack(t *testing.T) {
	r := nestRig(t)
	broken, err := gateway.New(t.Context(), gateway.Config{Policy: r.policy, Ledger: r.store, Log: r.log, Upstream: panicky{}, Routes: r.routes})
	if err != nil {
		t.Fatal(err)
	}
	ask := func(h http.Handler, q request) string {
		w := &discard{header: http.Header{}}
		req, _ := http.NewRequestWithContext(t.Context(), "POST", "http://localhost"+q.path, strings.NewReader(q.body))
		req.Header = http.Header{"Content-Type": {"application/json"}, "Holdfast-Workflow": {"swift"}}
		h.ServeHTTP(w, req)
		return w.header.Get("Holdfast-Error")
	}
	r.script("down", "503", "503", "503", "503", "503")
	for range 5 {
		r.do(chat("down").workflow("swift"))
	}
	wait(t, func() bool { return ask(broken, chat("panics")) == "all_tiers_failed" }) // the probe
	if code := ask(r.gw, chat("after")); code != "" {
		t.Errorf("the next caller is told %q", code)
	}
	wait(t, func() bool { return broken.Holding() == (gateway.Holding{}) }) // its record lands behind the answer
}
