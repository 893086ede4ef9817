package gateway_test

import (
	"slices"
	"sync"
	"testing"

	"github.com/holdfast-ai/holdfast/intent"
	"github.com/holdfast-ai/holdfast/ledger"
)

// stepsOf has three tiers of which only the one between may be waited for, and two that may.
const stepsOf = `
env: test
providers:
  openai: {type: openai, base_url: "SIM/v1", api_key: "sk-a", headers: {X-Tier: pro}}
  spare: {type: openai, base_url: "SIM/v1", api_key: "sk-b", headers: {X-Tier: flash}}
  third: {type: openai, base_url: "SIM/v1", api_key: "sk-c", headers: {X-Tier: last}}
workflows:
  three:
    match: {paths: ["/by-name-only"]}
    retry: {max_attempts: 1}
    tiers:
      - {name: pro, provider: openai, bulkhead: {max_concurrent: 1}}
      - {name: flash, provider: spare}
      - {name: last, provider: third, bulkhead: {max_concurrent: 1}}
    lanes: {interactive_admission: {max_wait_ms: 60000}}
    fallback: {contract: {id: any}}
  cools:
    match: {paths: ["/by-name-only"]}
    retry: {max_attempts: 2}
    tiers: [{name: pro, provider: openai}, {name: flash, provider: spare}, {name: last, provider: third}]
    lanes: {interactive_admission: {max_wait_ms: 60000}}
  default: {}
`

// stepsTold keeps what an observer is told of steps from tier to tier.
type stepsTold struct {
	cacheTold
	mu    sync.Mutex
	steps []string
}

func (s *stepsTold) Fallback(_, from, to, reason string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.steps = append(s.steps, from+" "+to+" "+reason)
}

// since are the steps behind the first n.
func (s *stepsTold) since(n int) []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.steps[n:])
}

// A call that waits for a tier between two full ones names what was before that tier, and counts as one step; one that every tier refuses
// counts as none.
func TestReasonOfATierThatWasWaitedFor(t *testing.T) {
	told := &stepsTold{}
	r := newRig(t, func(c *rigConfig) { c.yaml, c.observer = stepsOf, told })
	r.atTier("busy", "pro", `{"hold":"pro"}`)
	r.atTier("cools", "flash", `{"status":429,"headers":{"Retry-After":"30"}}`)
	r.atTier("busy3", "last", `{"hold":"last"}`)
	var all sync.WaitGroup
	all.Go(func() { r.must(chat("busy").workflow("three"), 200) })
	r.held("pro")
	r.must(chat("cools").workflow("three"), 200)
	if got := told.since(0); !slices.Equal(got, []string{"pro flash bulkhead_full", "flash last rate_limited"}) {
		t.Errorf("steps of a call that three tiers were asked for: %q", got)
	}
	all.Go(func() { r.must(chat("busy3").workflow("three"), 200) })
	r.held("last")
	before := len(told.since(0))
	if _, err := r.routes.Pause("spare/*", "maintenance"); err != nil {
		t.Fatal(err)
	}
	r.must(chat("none").workflow("three"), 429)
	if _, err := r.routes.Resume("spare/*"); err != nil {
		t.Fatal(err)
	}
	all.Go(func() {
		a := r.must(chat("waits").workflow("three"), 200)
		for name, want := range map[string]string{"Source": "flash", "Fallback": "next; tier=flash; rule=tiers", "Fallback-Reason": "pro: bulkhead_full",
			"Trail": "pro; bulkhead_full, last; bulkhead_full"} {
			if got := a.header.Get("Holdfast-" + name); got != want {
				t.Errorf("Holdfast-%s: %q, want %q", name, got, want)
			}
		}
	})
	wait(t, func() bool { return r.gw.Holding().Executions == 3 && r.rows() == 4 })
	if _, err := r.routes.Reset(t.Context(), "spare/*"); err != nil {
		t.Fatal(err)
	}
	wait(t, func() bool { return r.sim.Counts("waits").Calls == 1 })
	r.sim.Release("pro")
	r.sim.Release("last")
	all.Wait()
	if got := told.since(before); !slices.Equal(got, []string{"pro flash bulkhead_full"}) {
		t.Errorf("steps of one that waited, and of one that none had a place for: %q", got)
	}
	r.atRest()
}

// Behind a wait that its caller has time for a call waits where no other tier has a place: further tiers make no outage worse.
func TestWaitsWhereNoOtherTierHasAPlace(t *testing.T) {
	for _, q := range []request{chat("long"), streamed("long")} {
		told := &stepsTold{}
		r := newRig(t, func(c *rigConfig) { c.yaml, c.observer = stepsOf, told })
		r.must(chat("warm").workflow("cools"), 200)
		for _, route := range []string{"spare/*", "third/*"} {
			if _, err := r.routes.Pause(route, "maintenance"); err != nil {
				t.Fatal(err)
			}
		}
		r.script("long", `{"status":429,"headers":{"Retry-After":"30"}}`, "200")
		var all sync.WaitGroup
		all.Go(func() {
			a := r.must(q.workflow("cools"), 200)
			for name, want := range map[string]string{"Source": "pro", "Attempts": "2", "Fallback": "", "Fallback-Reason": "", "Trail": ""} {
				if got := a.header.Get("Holdfast-" + name); got != want {
					t.Errorf("Holdfast-%s: %q, want %q", name, got, want)
				}
			}
		})
		wait(t, func() bool {
			waiting, err := r.store.List(t.Context(), ledger.Filter{Limit: 9})
			return err == nil && slices.ContainsFunc(waiting, func(rec *ledger.Record) bool {
				return rec.Attempt == 1 && (rec.State == ledger.Settled && rec.Outcome != ledger.OutcomeSuccess || rec.Lane == intent.LaneAdmission || rec.Lane == intent.LaneStream)
			})
		})
		if _, err := r.routes.Reset(t.Context(), "openai/*"); err != nil {
			t.Fatal(err)
		}
		all.Wait()
		if got := told.since(0); len(got) != 0 {
			t.Errorf("steps of a call that stayed: %q", got)
		}
		r.calls("long", 2)
		r.atRest()
	}
}
