package gateway_test

import (
	"slices"
	"testing"

	"github.com/holdfast-ai/holdfast/internal/gateway"
)

const bulkheads = `
env: test
providers:
  openai: {type: openai, base_url: "SIM/v1"}
  anthropic: {type: anthropic, base_url: "SIM"}
workflows:
  free: {match: {paths: ["/by-name-only"]}}
  own: {match: {paths: ["/by-name-only"]}, bulkhead: {max_concurrent: 9, wait: false}, lanes: {interactive_admission: {max_wait_ms: 20000}},
        tiers: [{provider: openai, bulkhead: {max_concurrent: 1, wait: true}}]}
  default: {bulkhead: {max_concurrent: 4, name: shared}}
  other: {match: {paths: ["/by-name-only"]}, bulkhead: {max_concurrent: 4, name: shared}, tiers: [{name: only}]}
`

// A tier's bulkhead is its own in all that it says, and what is shown of all of them is what they hold.
func TestBulkheads(t *testing.T) {
	r := newRig(t, func(c *rigConfig) { c.yaml = bulkheads })
	shows := func(own, shared gateway.Bulkhead) bool {
		want := []gateway.Bulkhead{
			{Workflow: "default", Tier: "anthropic", Provider: "anthropic", Name: "shared", Max: 4, Used: shared.Used},
			{Workflow: "default", Tier: "openai", Provider: "openai", Name: "shared", Max: 4, Used: shared.Used},
			{Workflow: "other", Tier: "only", Name: "shared", Max: 4, Used: shared.Used},
			{Workflow: "own", Tier: "tier1", Provider: "openai", Max: 1, Used: own.Used, Waiting: own.Waiting},
		}
		return slices.Equal(r.gw.Bulkheads(), want)
	}
	if !shows(gateway.Bulkhead{}, gateway.Bulkhead{}) {
		t.Fatalf("at rest: %+v", r.gw.Bulkheads())
	}
	r.script("slot", `{"hold":"slot"}`, `{"hold":"slot"}`)
	ended := make(chan *answered)
	for _, workflow := range []string{"own", "own", "default"} {
		go func() { ended <- r.do(chat("slot", `,"user":"`+workflow+`"`).workflow(workflow)) }()
	}
	wait(t, func() bool { return shows(gateway.Bulkhead{Used: 1, Waiting: 1}, gateway.Bulkhead{Used: 1}) })
	if err := r.sim.WaitHeld(t.Context(), "slot", 2); err != nil {
		t.Fatal(err)
	}
	r.sim.Release("slot")
	for range 3 {
		if a := <-ended; a.status != 200 {
			t.Errorf("%d %s", a.status, a.body)
		}
	}
	wait(t, func() bool { return shows(gateway.Bulkhead{}, gateway.Bulkhead{}) })
}
