package gateway_test

import (
	"fmt"
	"sync"
	"testing"

	"github.com/holdfast-ai/holdfast/internal/route"
	"github.com/holdfast-ai/holdfast/ledger"
)

const pressing = `
env: test
providers:
  openai: {type: openai, base_url: "SIM/v1", api_key: "sk-a"}
workflows:
  picky: {match: {paths: ["/by-name-only"]}, lanes: {interactive_admission: {shed_priority_below: normal}}}
  default: {retry: {base: 1ms, max: 2ms, max_attempts: 2}, breaker: {failure_threshold: 30}}
`

// A provider that has too much to do gets fewer jobs at a time, and calls that somebody waits for go on.
func TestBackpressure(t *testing.T) {
	r := newRig(t, func(c *rigConfig) { c.yaml = pressing })
	r.always("wave", `{"hold":"gate"}`)
	var ids []string
	for i := range 8 {
		ids = append(ids, r.submit(chat("wave", fmt.Sprintf(`,"seed":%d`, i))))
	}
	if err := r.sim.WaitHeld(t.Context(), "gate", 8); err != nil {
		t.Fatal(err)
	}
	r.script("signal", "429")
	r.must(chat("signal").workflow("default"), 200)
	if p := r.pressure(); p.Level != route.Reduced || p.Limit != 4 || p.Inside != 8 || p.Reason == "" {
		t.Errorf("%+v", p)
	}
	for i := range 12 {
		ids = append(ids, r.submit(chat("after", fmt.Sprintf(`,"seed":%d`, i))))
	}
	r.always("after", `{"hold":"second"}`)
	r.sim.Release("gate")
	if err := r.sim.WaitHeld(t.Context(), "second", 4); err != nil {
		t.Fatal(err)
	}
	var all sync.WaitGroup
	for i := range 20 { // beside them, more than the limit
		all.Go(func() { r.must(chat(fmt.Sprint("call-", i)), 200) })
	}
	all.Wait()
	wait(t, func() bool {
		r.sim.Release("second")
		open, err := r.store.Counts(t.Context())
		return err == nil && len(open) == 0
	})
	for _, id := range ids {
		if rec := r.until(id, settledJob); rec.Outcome != ledger.OutcomeSuccess || rec.Attempt != 1 {
			t.Errorf("%+v", rec.Status)
		}
	}
	if n := r.sim.Counts("after").MaxInFlight; n < 4 || n > 6 { // each round of successes raises the limit by one
		t.Errorf("%d jobs at once under a limit of 4", n)
	}
}

// Where even one job at a time is too much, calls of low priority are shed.
func TestShedUnderPressure(t *testing.T) {
	r := newRig(t, func(c *rigConfig) { c.yaml = pressing })
	low := chat("low").workflow("picky").priority("low")
	r.must(low, 200)
	for i := range 6 {
		op := fmt.Sprint("signal-", i)
		r.script(op, "429")
		r.must(chat(op), 200)
	}
	if p := r.pressure(); p.Level != route.Shedding || p.Limit != 1 {
		t.Errorf("%+v", p)
	}
	if a := r.must(chat("low2").workflow("picky").priority("low"), 503); a.code() != "shed" {
		t.Errorf("%s", a.body)
	}
	r.must(chat("normal").workflow("picky"), 200)
	r.calls("low2", 0)
}

func (r *rig) pressure() route.Pressure {
	r.t.Helper()
	known := r.routes.List()
	if len(known) != 1 {
		r.t.Fatalf("%d routes", len(known))
	}
	return known[0].Pressure
}
