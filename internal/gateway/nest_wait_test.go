package gateway_test

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/holdfast-ai/holdfast/internal/sim"
	"github.com/holdfast-ai/holdfast/ledger"
)

// A 429 with Retry-After: 3 once, then 200: the client gets 200 after that time, plain and streaming, with two calls.
func TestRetryAfterIsWaitedFor(t *testing.T) {
	t.Parallel()
	r := nestRig(t)
	var all sync.WaitGroup
	for _, q := range []request{chat("wait-plain"), streamed("wait-stream")} {
		op := q.op()
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
		for _, r := range waiting {
			if lane := map[bool]string{false: "interactive_admission", true: "stream_recovery"}[r.Stream]; r.ReadyAt.IsZero() || r.Lane != lane {
				return false
			}
		}
		return len(waiting) == 2
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
