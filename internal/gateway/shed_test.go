package gateway_test

import (
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/holdfast-ai/holdfast/ledger"
)

const shedding = `
env: test
limits: {workers: 40}
providers:
  openai: {type: openai, base_url: "SIM/v1", api_key: "sk-a"}
workflows:
  ten: {match: {paths: ["/by-name-only"]}, bulkhead: {max_concurrent: 10, wait: true},
        lanes: {interactive_admission: {max_wait_ms: 20000, shed_priority_below: normal}}}
  cool: {match: {paths: ["/by-name-only"]}, lanes: {interactive_admission: {max_wait_ms: 20000, shed_priority_below: normal}}}
  default: {retry: {base: 1ms, max: 2ms}}
`

func (q request) priority(p string) request { return q.with("Holdfast-Priority", p) }

// Where not all can be served, calls below shed_priority_below are turned away first: they leave the last slots to the
// others, and do not wait (design.md §4). Nothing is written of them, and what is at or above it waits as ever.
func TestShedByPriority(t *testing.T) {
	r := newRig(t, func(c *rigConfig) { c.yaml = shedding })
	r.always("busy", `{"hold":"gate"}`)
	var all sync.WaitGroup
	begin := func(n int, op, priority string) {
		for i := range n {
			all.Go(func() { r.must(chat(op).workflow("ten").priority(priority).key(fmt.Sprint(op, priority, i)), 200) })
		}
	}
	begin(9, "busy", "low")
	if err := r.sim.WaitHeld(t.Context(), "gate", 9); err != nil {
		t.Fatal(err)
	}
	shed := func(workflow, priority string) {
		t.Helper()
		a := r.must(chat("shed").workflow(workflow).priority(priority), 503)
		if a.code() != "shed" || a.header.Get("X-Should-Retry") != "true" || a.header.Get("Retry-After") == "" || a.header.Get("Holdfast-Intent") != "" {
			t.Errorf("%s: %v", priority, a.header)
		}
	}
	shed("ten", "low") // the tenth slot is for the others
	begin(1, "busy", "normal")
	if err := r.sim.WaitHeld(t.Context(), "gate", 10); err != nil {
		t.Fatal(err)
	}
	begin(2, "last", "high")
	wait(t, func() bool {
		waiting, _ := r.store.List(t.Context(), ledger.Filter{States: []ledger.State{ledger.Created}})
		return len(waiting) == 2
	})
	shed("ten", "low")
	r.sim.Release("gate")
	all.Wait()
	r.calls("shed", 0)
	r.must(chat("after").workflow("ten").priority("low"), 200)
	r.atRest()
}

// A route that cools down is no place to wait for a call that is shed first; whoever asks is told how long it lasts.
func TestShedBehindCooldown(t *testing.T) {
	r := newRig(t, func(c *rigConfig) { c.yaml = shedding })
	r.script("first", `{"status":429,"headers":{"Retry-After":"3"}}`)
	began := time.Now()
	var all sync.WaitGroup
	all.Go(func() { r.must(chat("first").workflow("cool"), 200) })
	wait(t, func() bool { rows, err := r.store.Cooldowns(t.Context()); return err == nil && len(rows) == 1 })
	a := r.must(chat("low").workflow("cool").priority("low"), 503)
	if a.code() != "shed" || a.header.Get("Retry-After") != "3" {
		t.Errorf("%v", a.header)
	}
	r.must(chat("normal").workflow("cool"), 200)
	if time.Since(began) < 3*time.Second {
		t.Error("somebody came before the provider's time")
	}
	all.Wait()
	r.calls("low", 0)
}
