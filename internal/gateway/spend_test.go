package gateway_test

import (
	"fmt"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/holdfast-ai/holdfast/intent"
	"github.com/holdfast-ai/holdfast/ledger"
)

// spending is the policy of the tests of cost: a token of an answer costs a dollar.
const spending = `
env: test
providers:
  openai: {type: openai, base_url: "SIM/v1", api_key: "sk-spend"}
models: {gpt-5: {input_cost: 0, output_cost: 1000000}}
workflows:
  once: {match: {paths: ["/by-name-only"]}, spend: {per_request: 15}, retry: {base: 1ms, max: 2ms}}
  day: {match: {paths: ["/by-name-only"]}, spend: {per_day: 100}, retry: {max_attempts: 1}, idempotency: {derive: "off"}}
  held: {match: {paths: ["/by-name-only"]}, spend: {per_day: 100}, on_unknown: hold, retry: {max_attempts: 1}, idempotency: {derive: "off"}}
  twice: {match: {paths: ["/by-name-only"]}, spend: {per_day: 100}, retry: {base: 1ms, max: 2ms}}
  parked: {match: {paths: ["/by-name-only"]}, spend: {per_day: 100}, on_unknown: hold, lanes: {owner_review: {enter_when: [not_idempotent]}}}
  reviewed: {match: {paths: ["/by-name-only"]}, spend: {per_request: 15}, lanes: {owner_review: {enter_when: [quota_or_spend_exhausted]}}}
  default: {retry: {base: 1ms, max: 2ms}}
`

func spendRig(t *testing.T) *rig { return newRig(t, func(c *rigConfig) { c.yaml = spending }) }

// priced is a call that is estimated at so many dollars.
func priced(op string, dollars int) request {
	return chat(op, fmt.Sprintf(`,"max_tokens":%d`, dollars))
}

func (q request) owner(o string) request { return q.with("Holdfast-Owner", o) }

// A call that may cost more than spend.per_request is not begun, and a retry that would is not made; nothing is
// written of a refused call. What costs nobody knows is refused, for no limit on it can be kept.
func TestSpendPerRequest(t *testing.T) {
	r := spendRig(t)
	refused := func(q request) {
		t.Helper()
		a := r.must(q.workflow("once"), 429)
		if a.code() != "spend_exceeded" || a.header.Get("X-Should-Retry") != "false" || a.header.Get("Holdfast-Safe-To-Retry") != "no" ||
			a.header.Get("Retry-After") != "" || a.header.Get("Holdfast-Intent") != "" {
			t.Errorf("%s %v", a.body, a.header)
		}
	}
	refused(priced("dear", 16))
	refused(chat("unbounded"))                      // an answer of any length
	refused(chat("many", `,"max_tokens":10,"n":2`)) // two of them
	unknown := priced("unpriced", 1)
	unknown.body = strings.Replace(unknown.body, "gpt-5", "mine", 1)
	refused(unknown)
	r.calls("dear", 0)
	r.calls("unpriced", 0)
	r.must(priced("fits", 15).workflow("once"), 200)
	r.script("billed", "reply_lost", "ok")
	a := r.do(priced("billed", 10).workflow("once"))
	if a.status < 500 {
		t.Errorf("%d %s", a.status, a.body)
	}
	r.calls("billed", 1)
	r.script("failed", `{"status":503,"headers":{"Retry-After":"0"}}`, "ok") // for certain: it has cost nothing
	r.must(priced("failed", 10).workflow("once"), 200)
	if rec := r.settled(r.must(priced("noted", 10).workflow("once"), 200).header.Get("Holdfast-Intent")); rec.EstimatedCost != 10 {
		t.Errorf("estimated_cost %v", rec.EstimatedCost)
	}
	r.atRest()
}

// A day's limit holds over calls at once, for each owner by itself, and over a restart; an answer costs what it used.
func TestSpendPerDay(t *testing.T) {
	r := spendRig(t)
	r.always("busy", `{"hold":"gate"}`)
	var all sync.WaitGroup
	var answered, refused atomic.Int64
	for range 30 {
		all.Go(func() {
			switch a := r.do(priced("busy", 10).workflow("day").owner("alice")); {
			case a.status == 200:
				answered.Add(1)
			case a.code() == "spend_exceeded" && a.header.Get("Retry-After") != "":
				refused.Add(1)
			default:
				t.Errorf("%d %s", a.status, a.body)
			}
		})
	}
	wait(t, func() bool { return refused.Load() == 20 })
	r.must(priced("bob", 100).workflow("day").owner("bob"), 200)
	if err := r.sim.WaitHeld(t.Context(), "gate", 10); err != nil { // what comes behind the release is held for ever
		t.Fatal(err)
	}
	r.sim.Release("gate")
	all.Wait()
	if answered.Load() != 10 || r.sim.Counts("busy").Calls != 10 {
		t.Errorf("%d answered, %d calls", answered.Load(), r.sim.Counts("busy").Calls)
	}
	wait(t, func() bool {
		open, err := r.store.Counts(t.Context())
		return err == nil && len(open) == 0
	})
	rows, err := r.store.List(t.Context(), ledger.Filter{Workflow: "day", Limit: 100})
	if err != nil {
		t.Fatal(err)
	}
	spent := 0
	for _, rec := range rows {
		if rec.OwnerKey == "alice" {
			spent += int(rec.UsageOut)
		}
	}
	if spent <= 0 || spent >= 100 {
		t.Fatalf("alice's ten answers have %d tokens; the test shows nothing", spent)
	}
	left := 100 - spent
	for range 2 {
		a := r.must(priced("more", left+1).workflow("day").owner("alice"), 429)
		if n, err := strconv.Atoi(a.header.Get("Retry-After")); err != nil || n <= 0 || n > 24*3600 {
			t.Errorf("Retry-After %q, want midnight", a.header.Get("Retry-After"))
		}
		r.close()
		r.start(rigConfig{})
	}
	r.calls("more", 0)
	r.script("kept", `{"hold":"last"}`)
	all.Go(func() { r.must(priced("kept", left).workflow("day").owner("alice"), 200) })
	if err := r.sim.WaitHeld(t.Context(), "last", 1); err != nil {
		t.Fatal(err)
	}
	r.must(priced("none", 1).workflow("day").owner("alice"), 429)
	r.sim.Release("last")
	all.Wait()
}

// What may have been spent counts until somebody has found out that it was not (semantics 39).
func TestUnknownCountsAsSpent(t *testing.T) {
	r := spendRig(t)
	r.script("lost", "reply_lost")
	a := r.do(priced("lost", 60).workflow("held").key("lost"))
	rec := r.record(a.header.Get("Holdfast-Intent"))
	if rec.State != ledger.Unknown {
		t.Fatalf("%d %s: %+v", a.status, a.body, rec.Status)
	}
	r.must(priced("next", 60).workflow("held"), 429)
	r.script("refused", "400")
	r.must(priced("refused", 40).workflow("held"), 400) // for certain: its money is free again
	r.must(priced("other", 40).workflow("held"), 200)
	r.gw.Reconciled(&rec.Intent, true)
	r.must(priced("next", 60).workflow("held"), 429)
	r.gw.Reconciled(&rec.Intent, false)
	r.must(priced("next", 60).workflow("held"), 200)
	r.calls("next", 1)
}

// What costs more than was estimated is counted and reported (semantics 39).
func TestOverrunIsReported(t *testing.T) {
	r := spendRig(t)
	a := r.must(priced("long", 1).workflow("day"), 200)
	rec := r.settled(a.header.Get("Holdfast-Intent"))
	r.must(priced("next", 2).workflow("day"), 200) // notes ride with the next commit
	events, err := r.store.History(t.Context(), rec.ID)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range events {
		if e.Rule == "semantics 39" {
			if want := fmt.Sprintf(`{"cost_usd":%d,"estimated_usd":1}`, rec.UsageOut); string(e.Evidence) != want {
				t.Errorf("%s, want %s", e.Evidence, want)
			}
			return
		}
	}
	t.Errorf("%d tokens of one, and nothing is on record: %+v", rec.UsageOut, events)
}

// A job that its workflow cannot pay waits for a person where the policy says so, else where only a person can help, and
// for the next day where that helps.
func TestJobsAreBoundedInCost(t *testing.T) {
	r := spendRig(t)
	id := r.submit(priced("dear", 16).workflow("reviewed"))
	rec := r.until(id, inLane(intent.LaneReview))
	if rec.Attempt != 0 || rec.EstimatedCost != 16 {
		t.Errorf("%+v, estimated at %v", rec.Status, rec.EstimatedCost)
	}
	r.calls("dear", 0)
	if err := r.log.Load(rec).Revive(intent.Revival{By: "owner", Reason: "it is worth it", Rule: "review approve", NotExecuted: true}); err != nil {
		t.Fatal(err)
	}
	r.gw.Jobs().Look(t.Context(), id)
	r.until(id, settledJob)
	r.calls("dear", 1)
	r.until(r.submit(priced("dear2", 16).workflow("once")), inLane(intent.LaneDead))
	r.must(priced("first", 100).workflow("day").with("Holdfast-Owner", "o"), 200)
	day := r.submit(priced("late", 99).workflow("day").owner("o"))
	rec = r.until(day, func(j *ledger.Record) bool { return !j.ReadyAt.IsZero() && j.ReadyAt.Sub(j.UpdatedAt) > time.Minute })
	if rec.Lane != intent.LaneBackground || rec.Attempt != 0 || rec.ReadyAt.UTC().Before(rec.CreatedAt.UTC().Truncate(24*time.Hour).Add(24*time.Hour)) {
		t.Errorf("%+v", rec.Status)
	}
	for _, op := range []string{"dear2", "late"} {
		r.calls(op, 0)
	}
}
