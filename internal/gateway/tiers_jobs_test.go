package gateway_test

import (
	"context"
	"strings"
	"testing"

	"github.com/holdfast-ai/holdfast/intent"
	"github.com/holdfast-ai/holdfast/ledger"
)

// waiting has jobs of two tiers whose time is short, or whose attempts are few.
const waiting = `
env: test
providers:
  openai: {type: openai, base_url: "SIM/v1", api_key: "sk-a", headers: {X-Tier: pro}}
  spare: {type: openai, base_url: "SIM/v1", api_key: "sk-b", headers: {X-Tier: flash}}
models: {big: {context_tokens: 200000}, wide: {context_tokens: 200000}}
workflows:
  short:
    match: {paths: ["/by-name-only"]}
    lanes: {background_retry: {max_queue_age_ms: 2000}, dead_letter: {enter_when: [max_queue_age_exceeded]}}
    tiers: [{name: pro, provider: openai, model: big}, {name: flash, provider: spare, model: wide}]
  stays:
    match: {paths: ["/by-name-only"]}
    lanes: {background_retry: {max_queue_age_ms: 2000}, dead_letter: {enter_when: [max_queue_age_exceeded]}}
    fallback: {allowed_before_first_token: false}
    tiers: [{name: pro, provider: openai, model: big}, {name: flash, provider: spare, model: wide}]
  minute:
    match: {paths: ["/by-name-only"]}
    retry: {max_attempts: 1}
    lanes: {background_retry: {max_queue_age_ms: 60000}}
    tiers: [{name: pro, provider: openai, model: big}, {name: flash, provider: spare, model: wide}]
  two:
    match: {paths: ["/by-name-only"]}
    retry: {max_attempts: 2, base: 1ms, max: 1ms}
    lanes: {background_retry: {max_attempts: 2}, dead_letter: {enter_when: [max_attempts_exhausted]}}
    tiers: [{name: pro, provider: openai, model: big}, {name: flash, provider: spare, model: wide}]
  default: {}
`

func waitingRig(t *testing.T) *rig { return newRig(t, func(c *rigConfig) { c.yaml = waiting }) }

// A job waits for its first tier as long as it can; where it would age it goes on at another one, if its policy has such.
func TestJobLeavesABarredTier(t *testing.T) {
	r := waitingRig(t)
	r.patrol()
	if _, err := r.routes.Pause("openai/*", "maintenance"); err != nil {
		t.Fatal(err)
	}
	goes, stays := r.submit(chat("goes").workflow("short")), r.submit(chat("stays").workflow("stays"))
	if rec := r.until(goes, settledJob); rec.Outcome != ledger.OutcomeSuccess || r.attemptsBy(goes) != "flash" {
		t.Errorf("%+v", rec.Status)
	}
	r.until(stays, inLane(intent.LaneDead))
	r.calls("stays", 0)
	r.atRest()
}

// A job whose provider says to stay away for longer than it has goes on at another tier at once.
func TestJobThatWouldAge(t *testing.T) {
	r := waitingRig(t)
	r.atTier("long", "pro", `{"status":429,"headers":{"Retry-After":"600"}}`)
	id := r.submit(chat("long").workflow("minute"))
	if rec := r.until(id, settledJob); rec.Outcome != ledger.OutcomeSuccess || r.attemptsBy(id) != "pro flash" {
		t.Errorf("%+v", rec.Status)
	}
	r.atRest()
}

// A job whose attempts were used up when its process died goes on at a tier that has had none; then it ends.
func TestJobWithItsAttemptsMade(t *testing.T) {
	for _, step := range []string{"", `{"status":503}`} {
		r := waitingRig(t)
		r.script("spent", `{"status":500}`, `{"hold":"gate"}`)
		id := r.submit(chat("spent").workflow("two"))
		r.held("gate")
		now, cancel := context.WithCancel(t.Context())
		cancel()
		r.stopJobs()
		r.gw.Drain(now)
		r.close()
		r.sim.Reset()
		if step != "" {
			r.always("spent", step)
		}
		r.start(rigConfig{})
		rec := r.until(id, func(rec *ledger.Record) bool { return settledJob(rec) || inLane(intent.LaneDead)(rec) })
		if by := r.attemptsBy(id); by != "pro pro flash" || (step == "") != (rec.Outcome == ledger.OutcomeSuccess) {
			t.Errorf("by %s: %+v", by, rec.Status)
		}
		for _, e := range r.history(id) {
			if strings.Contains(e.Reason, "no other tier may answer") {
				t.Errorf("%+v", e)
			}
		}
		r.atRest()
	}
}

// A job goes to the next tier where it would otherwise end.
func TestTierOfAJob(t *testing.T) {
	r := tiersRig(t, "")
	r.atTier("job", "pro", `{"status":503}`)
	rec := r.until(r.submit(chat("job").workflow("jobs")), settledJob)
	if rec.Outcome != ledger.OutcomeSuccess || rec.Tier != "flash" || rec.Attempt != 2 {
		t.Errorf("%+v", rec.Status)
	}
	r.atTier("dead", "pro", `{"status":503}`)
	r.atTier("dead", "flash", `{"status":503}`)
	if rec := r.until(r.submit(chat("dead").workflow("jobs")), inLane(intent.LaneDead)); rec.Attempt != 2 || rec.Tier != "flash" {
		t.Errorf("%+v", rec.Status)
	}
	r.atRest()
}

// A job whose last resort is a tier without a free slot waits for one: it would end otherwise.
func TestJobWaitsForAnotherTier(t *testing.T) {
	r := tiersRig(t, "")
	r.atTier("full", "pro", `{"status":503}`)
	r.atTier("full", "flash", `{"hold":"gate"}`)
	r.atTier("last", "pro", `{"status":503}`)
	first := r.submit(chat("full").workflow("jobs"))
	r.held("gate")
	second := r.submit(chat("last").workflow("jobs"))
	wait(t, func() bool { return r.sim.Counts("last").Calls == 1 && r.record(second).State == ledger.Created })
	r.sim.Release("gate")
	for _, id := range []string{first, second} {
		if rec := r.until(id, settledJob); rec.Outcome != ledger.OutcomeSuccess || rec.Tier != "flash" || rec.Attempt != 2 {
			t.Errorf("%+v", rec.Status)
		}
	}
	r.atRest()
}
