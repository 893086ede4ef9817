package gateway_test

import (
	"bytes"
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/holdfast-ai/holdfast/intent"
	"github.com/holdfast-ai/holdfast/internal/gateway"
	"github.com/holdfast-ai/holdfast/ledger"
)

// lives has tiers whose calls outlive their clients, their process or their certainty.
const lives = `
env: test
providers:
  openai: {type: openai, base_url: "SIM/v1", api_key: "sk-a", headers: {X-Tier: pro}}
  spare: {type: openai, base_url: "SIM/v1", api_key: "sk-b", headers: {X-Tier: flash}}
models:
  big: {context_tokens: 200000, tools: true, images: false}
  wide: {context_tokens: 200000, tools: true, images: true}
  mute: {context_tokens: 200000}
  dear: {context_tokens: 200000, input_cost: 100000, output_cost: 0}
  cheap: {context_tokens: 200000, input_cost: 1000, output_cost: 0}
workflows:
  twice:
    match: {paths: ["/by-name-only"]}
    retry: {max_attempts: 2, base: 1ms, max: 1ms}
    error_hold: 1ms
    tiers: [{name: pro, provider: openai, model: big}, {name: flash, provider: spare, model: wide}]
  once:
    match: {paths: ["/by-name-only"]}
    retry: {max_attempts: 1}
    tiers: [{name: pro, provider: openai, model: big}, {name: flash, provider: spare, model: wide, timeouts: {idle: 300ms}}]
  spends:
    match: {paths: ["/by-name-only"]}
    retry: {max_attempts: 1}
    spend: {per_day: 100}
    tiers: [{name: pro, provider: openai, model: dear}, {name: flash, provider: spare, model: cheap}]
  asked:
    match: {paths: ["/by-name-only"]}
    lanes: {owner_review: {enter_when: [fallback_contract_unknown]}}
    tiers: [{name: pro, provider: openai, model: big}, {name: mute, provider: spare, model: mute}]
  approved:
    match: {paths: ["/by-name-only"]}
    approval: fallback
    retry: {max_attempts: 1}
    lanes: {background_retry: {max_attempts: 1}}
    tiers: [{name: pro, provider: openai, model: big}, {name: flash, provider: spare, model: wide}]
  default: {}
`

func livesRig(t *testing.T) *rig { return newRig(t, func(c *rigConfig) { c.yaml = lives }) }

func picture(op string) request {
	return request{path: "/v1/chat/completions",
		body: fmt.Sprintf(`{"model":"m","messages":[{"role":"user","content":[{"type":"text","text":"op=%s"},{"type":"image_url","image_url":{"url":"https://x.test/y.png"}}]}]}`, op)}
}

// Attempts are adopted tier by tier: a successor goes on where one has attempts left.
func TestAdoptedAttemptsOfTiers(t *testing.T) {
	r := livesRig(t)
	q := streamed("heir").workflow("twice")
	r.atTier("heir", "pro", `{"status":500}`)
	r.atTier("heir", "flash", "cut:3")
	if a := r.must(q, 200); a.header.Get("Holdfast-Source") != "flash" || a.header.Get("Holdfast-Attempts") != "3" || !bytes.Contains(a.body, []byte("upstream_incomplete")) {
		t.Fatalf("%v %s", a.header, a.body)
	}
	wait(t, func() bool { return r.gw.Holding().Executions == 0 })
	a := r.must(q.with("X-Stainless-Retry-Count", "1"), 200)
	if a.header.Get("Holdfast-Source") != "flash" || a.header.Get("Holdfast-Attempts") != "1" || !strings.Contains(a.header.Get("Holdfast-Trail"), "pro; skipped; rule=retry.max_attempts") {
		t.Errorf("%v", a.header)
	}
	wait(t, func() bool { return r.gw.Holding().Executions == 0 })
	calls := r.sim.Counts("heir").Calls
	if a := r.must(q.with("X-Stainless-Retry-Count", "2"), 200); a.header.Get("Holdfast-Source") != "flash" || r.sim.Counts("heir").Calls != calls+1 {
		t.Errorf("%v: %d calls more", a.header, r.sim.Counts("heir").Calls-calls) // whose last one was cut is asked again, as one tier is
	}
	r.atRest()
}

// A process that dies while the second tier is asked leaves a record by which the same request goes on.
func TestRestartOnTheSecondTier(t *testing.T) {
	r := livesRig(t)
	q := chat("dies").workflow("once").key("k")
	r.atTier("dies", "pro", `{"status":503}`)
	r.script("dies2", "ok")
	r.atTier("dies", "flash", `{"hold":"gate"}`)
	go r.do(q)
	r.held("gate")
	now, cancel := context.WithCancel(t.Context())
	cancel()
	r.gw.Drain(now)
	r.close()
	r.sim.Reset()
	r.start(rigConfig{})
	a := r.must(q, 200)
	rec := r.settled(a.header.Get("Holdfast-Intent"))
	if rec.Outcome != ledger.OutcomeSuccess {
		t.Errorf("%+v", rec.Status)
	}
	for _, e := range r.history(rec.ID) {
		if e.Kind == "attempt" && e.Tier == "" {
			t.Errorf("an attempt without its tier: %+v", e)
		}
	}
	r.atRest()
}

// A call of whose only possible tier nobody knows that it keeps the contract waits for its owner, as a job; the same request gets its answer.
func TestUnknownTierAsksItsOwner(t *testing.T) {
	r := livesRig(t)
	for name, q := range map[string]request{"a": picture("a").workflow("asked").key("k-1"), "b": picture("b").workflow("asked"), "c": picture("c").workflow("approved").key("k-3")} {
		a := r.must(q, 403)
		id := a.header.Get("Holdfast-Intent")
		rec := r.record(id)
		if a.code() != "owner_review_required" || rec.Lane != intent.LaneReview || rec.Attempt != 0 {
			t.Errorf("%s: %s %+v", name, a.body, rec.Status)
		}
		if again := r.must(q, 403); again.header.Get("Holdfast-Intent") != id {
			t.Errorf("%s: asked again it is %s, not %s", name, again.header.Get("Holdfast-Intent"), id)
		}
		r.calls(name, 0)
		if err := r.log.Load(r.record(id)).Revive(intent.Revival{By: "owner", Reason: "fine", Rule: "review approve", NotExecuted: true}); err != nil {
			t.Fatal(err)
		}
		r.gw.Jobs().Look(t.Context(), id)
		if rec := r.until(id, settledJob); rec.Outcome != ledger.OutcomeSuccess || rec.Tier == "pro" {
			t.Errorf("%s: %+v", name, rec.Status)
		}
		if b := r.must(q, 200); b.header.Get("Holdfast-Intent") != id || b.header.Get("Idempotency-Replayed") != "true" {
			t.Errorf("%s: %v", name, b.header)
		}
		r.calls(name, 1)
	}
	r.atRest()
}

// A job whose first tier has failed waits for its owner where another tier answers by that one's word only; then it does.
func TestApprovalOfAnotherTier(t *testing.T) {
	r := livesRig(t)
	r.atTier("j", "pro", `{"status":503}`)
	rec := r.until(r.submit(chat("j").workflow("approved")), inLane(intent.LaneReview))
	if err := r.log.Load(rec).Revive(intent.Revival{By: "owner", Reason: "fine", Rule: "review approve", NotExecuted: true}); err != nil {
		t.Fatal(err)
	}
	r.gw.Jobs().Look(t.Context(), rec.ID)
	if rec := r.until(rec.ID, settledJob); rec.Outcome != ledger.OutcomeSuccess || rec.Tier != "flash" {
		t.Errorf("%+v", rec.Status)
	}
	r.atRest()
}

// A tier's own time-outs bound its streams.
func TestTierIdle(t *testing.T) {
	r := livesRig(t)
	r.atTier("idle", "pro", `{"status":503}`)
	r.atTier("idle", "flash", `{"hold":"gate","hold_at":"event","hold_n":3}`)
	a := r.must(streamed("idle").workflow("once"), 200)
	if !bytes.Contains(a.body, []byte("timeouts.idle")) {
		t.Errorf("%s", a.body)
	}
	r.sim.Release("gate")
	r.atRest()
}

// Whoever comes back to an answer that another tier is giving finds it, and holds nothing of the tier before.
func TestFollowerOnTheSecondTier(t *testing.T) {
	r := livesRig(t)
	r.atTier("f", "pro", `{"status":503}`)
	r.atTier("f", "flash", `{"chunks":6,"hold":"gate","hold_at":"event","hold_n":4}`)
	conn, _ := r.rawUntil(streamed("f").workflow("once").key("f-1"), func(b []byte) bool { return bytes.Count(b, []byte("\n\n")) >= 2 })
	reset(conn)
	wait(t, func() bool { return r.gw.Holding().Drains == 1 })
	back := make(chan *answered, 1)
	go func() { back <- r.must(streamed("f").workflow("once").key("f-1"), 200) }()
	wait(t, func() bool { return r.gw.Holding().Drains == 0 })
	r.sim.Release("gate")
	if a := <-back; a.header.Get("Holdfast-Trail") != "pro; overloaded; status=503" || a.err != nil {
		t.Errorf("%v %v", a.header, a.err)
	}
	r.atRest()
	r.calls("f", 2)
}

// What was reserved for a tier that failed is given back; what counts is the price of the tier that answered.
func TestTierSpend(t *testing.T) {
	r := livesRig(t)
	r.atTier("money", "pro", `{"status":503}`)
	a := r.must(chat("money").workflow("spends"), 200)
	r.atRest()
	if a.header.Get("Holdfast-Source") != "flash" {
		t.Errorf("%v", a.header)
	}
	rec := r.settled(a.header.Get("Holdfast-Intent"))
	if got, want := r.gw.SpentToday("spends", ""), float64(rec.UsageIn)*1000/1e6; rec.UsageIn == 0 || got != want {
		t.Errorf("spent %v, want %v", got, want)
	}
}

// crashed is a call whose process dies while a tier has it, and whose provider is well afterwards.
func (r *rig) crashed(q request) {
	r.t.Helper()
	ctx, leave := context.WithCancel(r.t.Context())
	defer leave()
	q.ctx = ctx
	go r.do(q)
	r.held("gate")
	if q.header["Idempotency-Key"] == "" { // before the shutdown: what that tells a client that is still there has arrived
		leave()
		wait(r.t, func() bool { return gateway.Lost(r.gw) == 1 })
	}
	now, cancel := context.WithCancel(r.t.Context())
	cancel()
	r.gw.Drain(now)
	r.close()
	r.sim.Reset()
	r.start(rigConfig{})
}

// attemptsBy are the tiers of an operation's attempts, in order.
func (r *rig) attemptsBy(id string) string {
	r.t.Helper()
	var by []string
	for _, e := range r.history(id) {
		if e.Kind == "attempt" {
			by = append(by, e.Tier)
		}
	}
	return strings.Join(by, " ")
}

// Attempts that are used up break no contract: who asks again, with a key or without, after a process died while a tier was asked, is
// answered by that tier, or by the next one where that has attempts left.
func TestRestartWithAllAttemptsMade(t *testing.T) {
	for name, q := range map[string]request{"keyed": chat("cr").key("k"), "plain": chat("cr"), "stream": streamed("cr")} {
		for _, c := range []struct{ workflow, at, want string }{{"once", "flash", "pro flash flash"}, {"twice", "flash", "pro pro flash flash"},
			{"once", "pro", "pro flash"}, {"twice", "pro", "pro pro"}} {
			r := livesRig(t)
			if q = q.workflow(c.workflow); c.at == "flash" {
				r.atTier("cr", "pro", `{"status":503}`)
			}
			r.always("cr", `{"hold":"gate"}`)
			r.crashed(q)
			a := r.do(q)
			tiers := strings.Fields(c.want)
			if a.status != 200 || a.header.Get("Holdfast-Source") != tiers[len(tiers)-1] {
				t.Errorf("%s %v: %d %v %s", name, c, a.status, a.header, a.body)
				continue
			}
			rec := r.settled(a.header.Get("Holdfast-Intent"))
			got := r.attemptsBy(rec.ID)
			if rec.ParentID != "" && rec.ParentID != rec.ID { // a stream has a successor
				got = r.attemptsBy(rec.ParentID) + " " + got
			}
			if got != c.want {
				t.Errorf("%s %v: attempts by %s", name, c, got)
			}
			r.atRest()
		}
	}
}

// What goes on fails for good when the tier at which it goes on has had its attempts: no other is asked more often than the policy says.
func TestRestartCountsTheAttemptsOfTiers(t *testing.T) {
	for name, q := range map[string]request{"keyed": chat("cr").key("k"), "plain": chat("cr")} {
		r := livesRig(t)
		q := q.workflow("once")
		r.atTier("cr", "pro", `{"status":503}`)
		r.atTier("cr", "flash", `{"hold":"gate"}`)
		r.crashed(q)
		r.always("cr", `{"status":503}`)
		a := r.do(q)
		if a.status < 500 || r.sim.Counts("cr").Calls != 1 {
			t.Errorf("%s: %d %v, %d calls", name, a.status, a.header, r.sim.Counts("cr").Calls)
		}
		r.atRest()
	}
}

// The attempts of the operations in whose place one stands count over any number of processes.
func TestAncestorsCount(t *testing.T) {
	r := livesRig(t)
	q := streamed("old").workflow("twice")
	r.atTier("old", "pro", `{"status":500}`)
	r.atTier("old", "flash", "cut:3")
	r.must(q, 200) // pro pro flash
	wait(t, func() bool { return r.gw.Holding().Executions == 0 })
	r.sim.Reset()
	r.atTier("old", "flash", `{"hold":"gate"}`)
	r.crashed(q.with("X-Stainless-Retry-Count", "1")) // flash
	r.atTier("old", "pro", `{"status":500}`)
	r.atTier("old", "flash", `{"status":500}`)
	if a := r.do(q.with("X-Stainless-Retry-Count", "2")); a.status < 500 || r.sim.Counts("old").Calls != 1 {
		t.Errorf("%d %v: %d calls more", a.status, a.header, r.sim.Counts("old").Calls)
	}
	r.atRest()
}

// A caller that left says nothing to the next: it is answered, by the tier where the operation was.
func TestAdoptedFromWhoLeft(t *testing.T) {
	r := livesRig(t)
	q := chat("left").workflow("once")
	r.atTier("left", "pro", `{"status":503}`)
	r.script("left", `{"hold":"gate"}`)
	r.atTier("left", "flash", `{"hold":"gate"}`)
	if a := r.do(q.with("Holdfast-Deadline-Ms", "900")); a.code() != "deadline_exceeded" {
		t.Fatalf("%d %v", a.status, a.header)
	}
	r.sim.Release("gate")
	r.sim.Reset()
	if a := r.must(q, 200); a.header.Get("Holdfast-Source") != "flash" || a.header.Get("Holdfast-Attempts") != "1" {
		t.Errorf("%v", a.header)
	}
	r.atRest()
}
