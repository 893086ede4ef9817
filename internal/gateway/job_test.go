package gateway_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-ai/holdfast/intent"
	"github.com/holdfast-ai/holdfast/internal/gateway"
	"github.com/holdfast-ai/holdfast/ledger"
)

// queued is the policy of the tests of jobs.
const queued = `
env: test
providers:
  openai: {type: openai, base_url: "SIM/v1", api_key: "sk-jobs"}
  other: {type: openai, base_url: "SIM/v1", api_key: "sk-other"}
  anthropic: {type: anthropic, base_url: "SIM", api_key: "sk-anthropic"}
workflows:
  few: {match: {paths: ["/by-name-only"]}, retry: {max_attempts: 1, base: 1ms, max: 2ms}, lanes: {background_retry: {max_attempts: 2}}}
  reviewed:
    match: {paths: ["/by-name-only"]}
    lanes: {owner_review: {enter_when: [quota_or_spend_exhausted, permission_denied]}}
  act: {match: {paths: ["/by-name-only"]}, effect: external, retry: {base: 1ms, max: 2ms}}
  keyed: {match: {paths: ["/by-name-only"]}, lanes: {background_retry: {require_idempotency_key: true}}}
  "off": {match: {paths: ["/by-name-only"]}, idempotency: {derive: "off"}}
  shared: {match: {paths: ["/by-name-only"]}, bulkhead: {max_concurrent: 10, interactive_reserve: 0.5, wait: true}}
  default: {retry: {base: 1ms, max: 2ms}}
`

func jobRig(t *testing.T) *rig {
	return newRig(t, func(c *rigConfig) { c.yaml = queued })
}

func (q request) async() request { return q.with("Prefer", "respond-async, wait=10") }

// submit has q done later and returns the job's id.
func (r *rig) submit(q request) string {
	r.t.Helper()
	a := r.must(q.async(), http.StatusAccepted)
	id := a.header.Get("Holdfast-Intent")
	if id == "" || a.header.Get("Location") != "/holdfast/v1/jobs/"+id || a.header.Get("Preference-Applied") != "respond-async" {
		r.t.Fatalf("202 with header %v", a.header)
	}
	var body struct{ ID, State, Lane string }
	if err := json.Unmarshal(a.body, &body); err != nil || body.ID != id || body.Lane == "" || body.State == "" {
		r.t.Fatalf("202 with body %s: %v", a.body, err)
	}
	return id
}

// until waits for a job to stand as told.
func (r *rig) until(id string, ok func(*ledger.Record) bool) *ledger.Record {
	r.t.Helper()
	var rec *ledger.Record
	for range 4000 {
		if rec = r.record(id); ok(rec) {
			return rec
		}
		<-time.After(2 * time.Millisecond)
	}
	r.t.Fatalf("the job does not come to where it should: %+v", rec.Status)
	return nil
}

func inLane(lane string) func(*ledger.Record) bool {
	return func(r *ledger.Record) bool { return r.Lane == lane && r.LeaseOwner == "" }
}

func settledJob(r *ledger.Record) bool { return r.State == ledger.Settled }

// A job is a call that nobody waits for: its answer is kept, under its key and under its id.
func TestJobRuns(t *testing.T) {
	r := jobRig(t)
	id := r.submit(chat("j1").key("job-1"))
	rec := r.until(id, settledJob)
	if rec.Outcome != ledger.OutcomeSuccess || rec.JobID != id || rec.Attempt != 1 || rec.Answer == nil {
		t.Errorf("%+v", rec)
	}
	if again := r.submit(chat("j1").key("job-1")); again != id {
		t.Errorf("the same key gave the job %s, not %s", again, id)
	}
	a := r.must(chat("j1").key("job-1"), 200)
	if a.header.Get("Idempotency-Replayed") != "true" || a.header.Get("Holdfast-Intent") != id {
		t.Errorf("a call with the job's key: %v", a.header)
	}
	if a := r.do(chat("other").key("job-1").async()); a.status != 422 {
		t.Errorf("another request with the job's key: %d %s", a.status, a.body)
	}
	r.calls("j1", 1)
	r.calls("other", 0)
}

// Without a key a job is told from another by what it asks: derive: always is the default of jobs.
func TestJobsOfOneMeaning(t *testing.T) {
	r := jobRig(t)
	if a, b := r.submit(chat("m")), r.submit(chat("m")); a != b {
		t.Errorf("two jobs of one meaning: %s, %s", a, b)
	}
	if a, b := r.submit(chat("o").workflow("off")), r.submit(chat("o").workflow("off")); a == b {
		t.Error("derive: off made one job of two")
	}
	if a := r.do(chat("k").workflow("keyed").async()); a.status != 400 || !strings.Contains(string(a.body), "require_idempotency_key") || !strings.Contains(string(a.body), "--key") {
		t.Errorf("%d %s", a.status, a.body)
	}
	if a := r.must(request{method: "GET", path: "/v1/models"}.async(), 200); a.header.Get("Preference-Applied") != "" {
		t.Error("a read became a job")
	}
}

// Who wants a new answer gets a job of its own, by a header of either name; a key, the caller's own or one that its policy stands for,
// names the operation all the same.
func TestFreshJobIsItsOwn(t *testing.T) {
	r := newRig(t, func(c *rigConfig) {
		c.yaml = queued + "  always: {match: {paths: [\"/by-name-only\"]}, idempotency: {derive: always}}\n"
	})
	first := r.submit(chat("m"))
	seen := map[string]bool{first: true}
	for range 2 {
		for _, q := range []request{chat("m").with("Holdfast-Fresh", "1"), chat("m").with("Cache-Control", "no-cache")} {
			id := r.submit(q)
			if seen[id] {
				t.Errorf("%v found an earlier job", q)
			}
			seen[id] = true
			r.until(id, settledJob)
		}
	}
	if again := r.submit(chat("m")); again != first {
		t.Error("without the header it is another job")
	}
	for _, q := range []request{chat("k").key("k"), chat("a").workflow("always")} {
		if a, b := r.submit(q), r.submit(q.with("Holdfast-Fresh", "1")); a != b {
			t.Errorf("%v: %s, then %s", q, a, b)
		}
	}
	r.calls("m", 5)
}

// BR-024: a wait that is longer than the caller's budget ends the call at once, with the provider's own time; nobody comes
// to that route before it is over, neither a call nor a job, nor after a restart.
func TestBR024LongWaitEndsTheCall(t *testing.T) {
	r := jobRig(t)
	r.script("long", `{"status":429,"headers":{"Retry-After":"90"}}`)
	began := time.Now()
	a := r.must(chat("long").with("Holdfast-Deadline-Ms", "20000"), http.StatusTooManyRequests)
	if wait, err := strconv.Atoi(a.header.Get("Retry-After")); err != nil || wait < 89 || time.Since(began) > 10*time.Second {
		t.Errorf("Retry-After %q after %v", a.header.Get("Retry-After"), time.Since(began))
	}
	r.calls("long", 1)
	for range 2 {
		b := r.must(chat("next"), http.StatusTooManyRequests)
		if wait, err := strconv.Atoi(b.header.Get("Retry-After")); err != nil || wait < 30 || wait > 90 || b.code() != "rate_limited" {
			t.Errorf("%s, Retry-After %q", b.code(), b.header.Get("Retry-After"))
		}
		id := r.submit(chat("job"))
		rec := r.until(id, func(j *ledger.Record) bool { return j.LeaseOwner == "" })
		if rec.State != ledger.Created || rec.Attempt != 0 || rec.Lane != intent.LaneBackground {
			t.Errorf("the job: %+v", rec.Status)
		}
		r.close()
		r.start(rigConfig{})
	}
	r.calls("next", 0)
	r.calls("job", 0)
	r.calls("long", 1)
}

// A provider that says when is obeyed by the job, and by its siblings: none of 30 comes before, and they do not come in one
// instant. A restart in between changes nothing (design.md §4).
func TestBR024JobWaitsAsToldAndSiblingsToo(t *testing.T) {
	for _, restarted := range []bool{false, true} {
		t.Run(fmt.Sprintf("restarted %v", restarted), func(t *testing.T) { siblingsWait(t, restarted) })
	}
}

func siblingsWait(t *testing.T, restarted bool) {
	t.Parallel()
	r := jobRig(t)
	r.script("first", `{"status":429,"headers":{"Retry-After":"5"}}`)
	first := r.submit(chat("first"))
	rec := r.until(first, func(r *ledger.Record) bool { return r.Attempt == 1 && r.LeaseOwner == "" })
	told := r.sim.Calls("first")[0].Start
	if rec.Lane != intent.LaneBackground || rec.State != ledger.Created || rec.ReadyAt.Sub(rec.UpdatedAt) < 4900*time.Millisecond ||
		rec.RetryAfter != 5*time.Second {
		t.Errorf("the job waits as %+v", rec.Status)
	}
	all := []string{first}
	for i := range 30 {
		all = append(all, r.submit(chat(fmt.Sprintf("sibling-%d", i))))
	}
	if restarted {
		r.close()
		r.start(rigConfig{})
	}
	for _, id := range all {
		if rec := r.until(id, settledJob); rec.Outcome != ledger.OutcomeSuccess || rec.Crashes != 0 {
			t.Errorf("%s: %+v", id, rec.Status)
		}
	}
	var times []time.Time
	for i := range 30 {
		calls := r.sim.Calls(fmt.Sprintf("sibling-%d", i))
		if len(calls) != 1 {
			t.Fatalf("sibling %d was sent %d times", i, len(calls))
		}
		times = append(times, calls[0].Start)
	}
	r.calls("first", 2)
	times = append(times, r.sim.Calls("first")[1].Start)
	slices.SortFunc(times, time.Time.Compare)
	if early := times[0].Sub(told); early < 5*time.Second {
		t.Errorf("one came %s after the provider asked for 5s", early)
	}
	if spread := times[len(times)-1].Sub(times[0]); spread < 50*time.Millisecond {
		t.Errorf("31 came within %s of each other", spread)
	}
}

// BR-030: the same status with another meaning. A burst is waited out; a plan that is used up is not, however it is said, and
// sets no cool-down: the client has the provider's own error, and a job waits for its owner.
func TestBR030SameStatusOtherMeaning(t *testing.T) {
	r := jobRig(t)
	claude := func(op string) request {
		return request{path: "/v1/messages", body: fmt.Sprintf(`{"model":"claude-haiku-4-5","max_tokens":9,"messages":[{"role":"user","content":"op=%s"}]}`, op)}.
			with("Anthropic-Version", "2023-06-01")
	}
	const usedUp = `{"status":429,"error":"usage_limit_reached","message":"usage limit reached, resets in 16 days","headers":{"Retry-After":"1382400"}}`
	const noCredit = `{"status":400,"error":"invalid_request_error","message":"Your credit balance is too low to access the Anthropic API."}`
	for _, c := range []struct {
		run    string
		ask    func(op string) request
		step   string
		status int
		words  string
		owner  bool
	}{
		{"A", func(op string) request { return chat(op) }, `{"status":429,"error":"rate_limit_exceeded","headers":{"Retry-After":"2"}}`, 200, "", false},
		{"B", func(op string) request { return chat(op) }, `{"status":429,"error":"insufficient_quota"}`, 429, "insufficient_quota", true},
		{"C", func(op string) request { return chat(op) }, usedUp, 429, "resets in 16 days", true},
		{"D", claude, noCredit, 400, "credit balance is too low", true},
		{"an ordinary 400", claude, `{"status":400,"error":"invalid_request_error","message":"max_tokens: Input should be greater than 0"}`, 400, "max_tokens", false},
	} {
		began := time.Now()
		op, job := "call-"+c.run[:1]+c.run[len(c.run)-1:], "job-"+c.run[:1]+c.run[len(c.run)-1:]
		r.script(op, c.step)
		a := r.must(c.ask(op), c.status)
		if took := time.Since(began); c.run == "A" && (a.header.Get("Holdfast-Attempts") != "2" || took < 2*time.Second) {
			t.Errorf("A: %s attempts in %v", a.header.Get("Holdfast-Attempts"), took)
		}
		if !strings.Contains(string(a.body), c.words) || c.status != 200 && a.header.Get("Holdfast-Error") != "" {
			t.Errorf("%s: the client has no word of its provider's: %s %v", c.run, a.body, a.header)
		}
		r.script(job, c.step)
		id := r.submit(c.ask(job).workflow("reviewed"))
		if !c.owner {
			rec := r.until(id, settledJob)
			if want := map[bool]ledger.Outcome{true: ledger.OutcomeSuccess, false: ledger.OutcomeFailed}[c.status == 200]; rec.Outcome != want {
				t.Errorf("%s: the job: %+v", c.run, rec.Status)
			}
			continue
		}
		if rec := r.until(id, inLane(intent.LaneReview)); rec.Attempt != 1 || rec.State != ledger.Created {
			t.Errorf("%s: the job: %+v", c.run, rec.Status)
		}
		r.calls(op, 1)
		r.calls(job, 1)
		if rows, err := r.store.Cooldowns(t.Context()); c.run != "A" && (err != nil || anyLater(rows, time.Now().Add(time.Minute))) {
			t.Errorf("%s: a plan that is used up cools a route down: %v, %v", c.run, rows, err)
		}
	}
}

func anyLater(rows map[string]time.Time, than time.Time) bool {
	for _, until := range rows {
		if until.After(than) {
			return true
		}
	}
	return false
}

// What a person has to put right waits for a person (BR-030); what is merely over the limit does not.
func TestBR030QuotaWaitsForItsOwner(t *testing.T) {
	r := jobRig(t)
	quota := `{"status":429,"body":"{\"error\":{\"message\":\"You exceeded your current quota\",\"type\":\"insufficient_quota\",\"code\":\"insufficient_quota\"}}"}`
	r.always("quota", quota)
	id := r.submit(chat("quota").workflow("reviewed").key("q"))
	rec := r.until(id, inLane(intent.LaneReview))
	if rec.State != ledger.Created || rec.Outcome != ledger.OutcomePending {
		t.Errorf("%+v", rec.Status)
	}
	r.calls("quota", 1)
	if a := r.do(chat("quota").workflow("reviewed").key("q")); a.status != 403 || a.code() != "owner_review_required" || a.header.Get("Holdfast-Intent") != id {
		t.Errorf("a call with its key: %d %s", a.status, a.code())
	}
	if a := r.must(chat("quota").workflow("reviewed").key("q").async(), 202); a.header.Get("Holdfast-Intent") != id {
		t.Errorf("a submission with its key: %v", a.header)
	}
}

// Attempts are the lane's over the whole life, and retry's within one pass; behind them is the dead letter.
func TestJobIsGivenUp(t *testing.T) {
	r := jobRig(t)
	r.always("dead", "500")
	id := r.submit(chat("dead").workflow("few"))
	rec := r.until(id, inLane(intent.LaneDead))
	r.calls("dead", int64(rec.Attempt))
	if rec.Attempt != 2 || rec.State != ledger.Unknown && rec.State != ledger.Created {
		t.Errorf("%+v", rec.Status)
	}
	// Moved, not copied: the same intent runs again, with attempts of its own.
	r.sim.Reset()
	op := r.log.Load(rec)
	if err := op.Revive(intent.Revival{By: "ops", Reason: "fixed", NotExecuted: true}); err != nil {
		t.Fatal(err)
	}
	r.gw.Jobs().Look(t.Context(), id)
	rec = r.until(id, settledJob)
	if rec.Outcome != ledger.OutcomeSuccess || rec.Attempt != 3 {
		t.Errorf("the new generation: %+v", rec.Status)
	}
	if a := r.must(chat("dead").workflow("few").async(), 202); a.header.Get("Holdfast-Intent") != id {
		t.Error("its key does not answer with the new generation")
	}
}

// Nothing automatic sends again what may have had its effect.
func TestJobWithUnknownEffectIsHeld(t *testing.T) {
	r := jobRig(t)
	r.always("act", "reset_after_body")
	id := r.submit(chat("act").workflow("act").key("a"))
	rec := r.until(id, func(r *ledger.Record) bool { return r.State == ledger.Unknown })
	if rec.Attempt != 1 {
		t.Errorf("%+v", rec.Status)
	}
	r.calls("act", 1)
	if err := r.log.Load(rec).Revive(intent.Revival{By: "ops", Reason: "x", NotExecuted: true}); err == nil {
		t.Error("what is not parked was revived")
	}
}

// A stream that was cut behind its first content is no success, and its policy sends it to the dead letter.
func TestJobOfStream(t *testing.T) {
	r := jobRig(t)
	if rec := r.until(r.submit(streamed("whole")), settledJob); rec.Outcome != ledger.OutcomeSuccess || rec.Answer == nil || rec.Answer.Events == 0 {
		t.Errorf("%+v", rec)
	}
}

// Batch work never takes the slots that are kept for people who wait: however many jobs wait, and although those at work
// never end, as many calls as have slots of their own go out at once. None waits to be admitted, and all succeed.
func TestInteractiveCapacityIsReserved(t *testing.T) {
	r := jobRig(t)
	const kept, rounds = 5, 10 // of the ten slots of "shared"
	r.always("batch", `{"hold":"batch","hold_at":"request"}`)
	r.always("person", `{"hold":"person","hold_at":"request"}`)
	var ids []string
	for i := range 200 {
		ids = append(ids, r.submit(chat("batch", fmt.Sprintf(`,"seed":%d`, i)).workflow("shared")))
	}
	if err := r.sim.WaitHeld(t.Context(), "batch", 10-kept); err != nil {
		t.Fatal(err)
	}
	var calls []string
	for round := range rounds {
		answers := make(chan *answered)
		for i := range kept {
			go func() {
				answers <- r.do(chat("person", fmt.Sprintf(`,"seed":%d`, i)).workflow("shared").key(fmt.Sprint(round, "-", i)))
			}()
		}
		if err := r.sim.WaitHeld(t.Context(), "person", kept); err != nil { // all of them at once
			t.Fatal(err)
		}
		r.sim.Release("person")
		for range kept {
			a := <-answers
			if a.status != 200 {
				t.Errorf("a call beside %d jobs: %d %s", len(ids), a.status, a.body)
			}
			calls = append(calls, a.header.Get("Holdfast-Intent"))
		}
	}
	for _, id := range calls {
		events, err := r.store.History(t.Context(), id)
		if err != nil {
			t.Fatal(err)
		}
		if len(events) < 2 || events[1].To != ledger.Dispatched || !events[1].At.Equal(events[0].At) {
			t.Errorf("a call waited for a slot while some were kept for it: %+v", events)
		}
	}
	if n := r.sim.Counts("batch").MaxInFlight; n != 10-kept {
		t.Errorf("%d jobs at a time, want %d", n, 10-kept)
	}
	if n := len(ids) - int(r.sim.Counts("batch").Calls); n != len(ids)-(10-kept) {
		t.Errorf("%d jobs waited beside the calls", n)
	}
	wait(t, func() bool {
		r.sim.Release("batch")
		open, err := r.store.Counts(t.Context())
		return err == nil && len(open) == 0
	})
}

// The jobs API says what is wrong with a submission.
func TestSubmissionsThatAreRefused(t *testing.T) {
	r := jobRig(t)
	for name, in := range map[string]gateway.JobRequest{
		"no path":  {Body: []byte(`{}`)},
		"no body":  {Path: "/v1/chat/completions"},
		"our own":  {Path: "/holdfast/v1/jobs", Body: []byte(`{}`)},
		"a host":   {Path: "//evil/v1", Body: []byte(`{}`)},
		"dots":     {Path: "/v1/../x", Body: []byte(`{}`)},
		"workflow": {Path: "/v1/chat/completions", Body: []byte(`{"model":"m"}`), Workflow: "nowhere"},
		"priority": {Path: "/v1/chat/completions", Body: []byte(`{"model":"m"}`), Priority: "urgent"},
		"key":      {Path: "/v1/chat/completions", Body: []byte(`{"model":"m"}`), IdempotencyKey: "a\nb"},
		"negative": {Path: "/v1/chat/completions", Body: []byte(`{"model":"m"}`), MaxQueueAgeMS: -1},
		"deep":     {Path: "/v1/chat/completions", Body: []byte(strings.Repeat("[", 500) + strings.Repeat("]", 500))},
	} {
		q := httptest.NewRequest("POST", "/holdfast/v1/jobs", nil)
		if _, _, err := r.gw.SubmitJob(q, in); err == nil {
			t.Errorf("%s: taken on", name)
		}
	}
}

// A restart changes nothing for what waits: a job that was never sent is sent once.
func TestJobSurvivesRestart(t *testing.T) {
	r := jobRig(t)
	r.script("first", `{"status":429,"headers":{"Retry-After":"2"}}`)
	first := r.submit(chat("first"))
	r.until(first, func(r *ledger.Record) bool { return r.Attempt == 1 && r.LeaseOwner == "" })
	second := r.submit(chat("second"))
	r.close()
	r.start(rigConfig{})
	for _, id := range []string{first, second} {
		if rec := r.until(id, settledJob); rec.Outcome != ledger.OutcomeSuccess || rec.Crashes != 0 {
			t.Errorf("%+v", rec.Status)
		}
	}
	r.calls("first", 2)
	r.calls("second", 1)
}
