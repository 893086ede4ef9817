package gateway_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/holdfast-ai/holdfast/intent"
	"github.com/holdfast-ai/holdfast/ledger"
)

// moving has two providers of one format, of which tests take one away.
const moving = `
env: test
providers:
  openai: {type: openai, base_url: "SIM/v1", api_key: "sk-outside"}
  inhouse: {type: openai, base_url: "SIM/v1", api_key: "sk-inside"}
  claude: {type: anthropic, base_url: "SIM", api_key: "sk-claude"}
workflows:
  tiered: {match: {paths: ["/by-name-only"]}, tiers: [{name: only, provider: inhouse, model: gpt-5-mini}]}
  once: {match: {paths: ["/by-name-only"]}, retry: {max_attempts: 1}, lanes: {background_retry: {max_attempts: 1}}, breaker: {failure_threshold: 30}}
  media: {match: {paths: ["/by-name-only"]}, retry: {base: 1ms, max: 2ms}, lanes: {background_retry: {max_queue_age_ms: 3600000}}}
  default: {retry: {base: 1ms, max: 2ms}}
tools:
  shop: {base_url: "SIM/tools", routes: [{match: "POST /refunds", effect: external, key: "{order}"}]}
`

const inhouse = `  inhouse: {type: openai, base_url: "SIM/v1", api_key: "sk-inside"}
`

func movingRig(t *testing.T) *rig { return newRig(t, func(c *rigConfig) { c.yaml = moving }) }

// sharedLog is a log that is read while it is written.
type sharedLog struct {
	mu   sync.Mutex
	text strings.Builder
}

func (l *sharedLog) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(p)
}

func (l *sharedLog) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}

// pathsOf are where an operation was sent upstream.
func (r *rig) pathsOf(op string) (paths []string) {
	for _, c := range r.sim.Calls(op) {
		paths = append(paths, c.Path)
	}
	return paths
}

// lacks is what the gateway says that a job cannot be sent without.
func (r *rig) lacks(id string) string {
	r.t.Helper()
	events, err := r.store.History(r.t.Context(), id)
	if err != nil {
		r.t.Fatal(err)
	}
	return r.gw.Lacks(r.record(id), intent.LifeOf(events))
}

// A job whose provider, workflow or tool server the configuration has no more is sent to nobody else: it waits, says what for, and
// goes on once that is back.
func TestJobWaitsForWhatIsNotConfigured(t *testing.T) {
	t.Parallel()
	logs := &sharedLog{}
	r := newRig(t, func(c *rigConfig) { c.yaml, c.logs = moving, logs })
	if _, err := r.routes.Pause("*", "maintenance"); err != nil {
		t.Fatal(err)
	}
	path := func(q request, p string) request { q.path = p; return q }
	jobs := map[string]string{
		"provider": r.submit(path(chat("provider"), "/inhouse/v1/chat/completions")),
		"tier":     r.submit(chat("tier").workflow("tiered")),
		"workflow": r.submit(chat("workflow").workflow("media")),
		"tool":     r.submit(request{path: "/tools/shop/refunds", body: `{"order":"o-1","note":"op=tool"}`}),
	}
	gone := strings.Replace(moving, inhouse, "", 1)
	gone = strings.Replace(gone, `provider: inhouse`, `provider: openai`, 1)
	gone = strings.Replace(gone, "  media:", "  other-media:", 1)
	gone = strings.Replace(gone, "  shop:", "  store:", 1)
	r.reload(gone)
	if _, err := r.routes.Resume("*"); err != nil {
		t.Fatal(err)
	}
	r.until(r.submit(chat("free")), settledJob) // those before it had their turn
	for op, id := range jobs {
		if op == "tier" { // its workflow's calls go elsewhere now, and so does it
			r.until(id, settledJob)
			continue
		}
		if rec := r.record(id); rec.State != ledger.Created || rec.Lane != intent.LaneBackground || rec.Attempt != 0 {
			t.Errorf("%s: %+v", op, rec.Status)
		}
		r.calls(op, 0)
		if lacks := r.lacks(id); !strings.Contains(lacks, "is no longer configured") || !strings.Contains(logs.String(), lacks) {
			t.Errorf("%s: it lacks %q; the log: %s", op, lacks, logs)
		}
	}
	r.reload(moving)
	for op, id := range jobs {
		if rec := r.until(id, settledJob); rec.Outcome != ledger.OutcomeSuccess {
			t.Errorf("%s: %+v", op, rec.Status)
		}
		r.calls(op, 1)
		if lacks := r.lacks(id); lacks != "" {
			t.Errorf("%s lacks %q", op, lacks)
		}
	}
}

// What is in the dead letter when its provider goes is sent by the route that a person chooses, with the path and model that go
// there.
func TestReplayOfAJobWhoseProviderIsGone(t *testing.T) {
	t.Parallel()
	r := movingRig(t)
	q := chat("moved").workflow("once")
	q.path = "/inhouse/v1/chat/completions"
	id := r.givenUp(q)
	r.reload(strings.Replace(strings.Replace(moving, inhouse, "", 1), `provider: inhouse`, `provider: openai`, 1))
	if err := r.gw.CheckOverride(&r.record(id).Intent, "claude/claude-haiku-4-5"); err == nil {
		t.Error("a provider of another format was taken for it")
	}
	if lacks := r.lacks(id); !strings.Contains(lacks, "inhouse is no longer configured") {
		t.Errorf("it lacks %q", lacks)
	}
	r.replay(id, "openai/gpt-5-nano")
	if rec := r.until(id, settledJob); rec.Outcome != ledger.OutcomeSuccess || rec.Attempt != 2 {
		t.Errorf("%+v", rec.Status)
	}
	calls := r.sim.Calls("moved")
	if len(calls) != 2 || calls[1].Path != "/v1/chat/completions" || calls[1].Model != "gpt-5-nano" {
		t.Errorf("sent as %+v", calls)
	}
}

// A person has a job sent by a provider of another API where calls are translated to it: no other way than a tier's.
func TestReplayByAnotherAPI(t *testing.T) {
	t.Parallel()
	r := movingRig(t)
	id := r.givenUp(chat("crosses").workflow("once"))
	r.replay(id, "claude/claude-haiku-4-5")
	if rec := r.until(id, settledJob); rec.Outcome != ledger.OutcomeSuccess || rec.Attempt != 2 {
		t.Errorf("%+v", rec.Status)
	}
	calls := r.sim.Calls("crosses")
	if len(calls) != 2 || calls[1].Path != "/v1/messages" || calls[1].Model != "claude-haiku-4-5" {
		t.Errorf("sent as %+v", calls)
	}
	body, err := r.store.Body(t.Context(), id, ledger.BodyAnswer)
	if err != nil || !strings.Contains(string(body.Data), `"chat.completion"`) {
		t.Errorf("its answer is %s, %v", body.Data, err)
	}
	q := request{path: "/v1/embeddings", body: `{"model":"text-embedding-3-small","input":"op=vector"}`}
	id = r.givenUp(q.workflow("once"))
	if err := r.gw.CheckOverride(&r.record(id).Intent, "claude/claude-haiku-4-5"); err == nil {
		t.Error("a call that cannot be told to it was taken for one")
	}
}

// givenUp has a job fail into the dead letter, and its next attempt succeed.
func (r *rig) givenUp(q request) string {
	r.t.Helper()
	r.script(q.op(), "500")
	id := r.submit(q)
	r.until(id, inLane(intent.LaneDead))
	return id
}

// replay has a parked job sent again by a route.
func (r *rig) replay(id, route string) {
	r.t.Helper()
	rec := r.record(id)
	if err := r.gw.CheckOverride(&rec.Intent, route); err != nil {
		r.t.Fatal(err)
	}
	said, err := json.Marshal(map[string]string{"route_override": route})
	if err != nil {
		r.t.Fatal(err)
	}
	if err := r.log.Load(rec).Revive(intent.Revival{By: "ops", Reason: "move off it", Evidence: said, NotExecuted: true}); err != nil {
		r.t.Fatal(err)
	}
	r.gw.Jobs().Look(r.t.Context(), id)
}

// A job goes to the path that it was submitted for, as a call of that path does, whatever its provider is called.
func TestJobKeepsItsPath(t *testing.T) {
	t.Parallel()
	r := movingRig(t)
	for i, path := range []string{"/deployments/gpt/chat/completions", "/openai/deployments/gpt/chat/completions", "/openai/openai/deployments/gpt/chat/completions",
		"/v1/chat/completions", "/inhouse/v1/chat/completions", "/openai/inhouse/v1/chat/completions", "/openai/v1/a%2Fb/chat%20c", "/inhouse/tools/x"} {
		call, job := fmt.Sprint("call", i), fmt.Sprint("job", i)
		q := chat(call).key(call)
		q.path = path
		r.do(q)
		q = chat(job).key(job)
		q.path = path
		r.until(r.submit(q), settledJob)
		if want, got := r.pathsOf(call), r.pathsOf(job); len(want) == 0 || !slices.Equal(want[:1], got[:min(1, len(got))]) {
			t.Errorf("%s: the call went to %q, the job to %q", path, want, got)
		}
	}
}

// Whom a person sends by another route does not wait for the route that it was on, neither at once nor behind a restart; it waits
// for the one that it takes.
func TestReplayByAnotherRouteWaitsForThatRoute(t *testing.T) {
	t.Parallel()
	r := movingRig(t)
	moves, later := r.givenUp(chat("moves").workflow("once")), r.givenUp(chat("later").workflow("once"))
	cools := func(path string, seconds int) {
		op := "cools" + strconv.Itoa(seconds)
		r.script(op, fmt.Sprintf(`{"status":429,"headers":{"Retry-After":"%d"}}`, seconds))
		q := chat(op).with("Holdfast-Deadline-Ms", "1000")
		q.path = path
		r.must(q, 429)
	}
	cools("/v1/chat/completions", 3600)
	stays := r.submit(chat("stays").workflow("once"))
	r.replay(moves, "inhouse")
	if rec := r.until(moves, settledJob); rec.Outcome != ledger.OutcomeSuccess {
		t.Errorf("%+v", rec.Status)
	}
	cools("/inhouse/v1/chat/completions", 3)
	r.replay(later, "inhouse")
	r.close()
	r.start(rigConfig{})
	r.calls("later", 1)
	r.until(later, settledJob)
	if rec := r.record(stays); rec.Attempt != 0 || rec.State != ledger.Created {
		t.Errorf("what was replayed by nobody: %+v", rec.Status)
	}
	r.calls("stays", 0)
}

// What aged behind a bar a moment ago, and is sent by another route at once, does not wait behind that bar any more.
func TestReplayOfWhatHasJustAged(t *testing.T) {
	t.Parallel()
	r := newRig(t, func(c *rigConfig) {
		c.yaml = strings.Replace(moving, "max_queue_age_ms: 3600000", "max_queue_age_ms: 1000", 1)
	})
	if _, err := r.routes.Pause("openai/*", "maintenance"); err != nil {
		t.Fatal(err)
	}
	id := r.submit(chat("aged").workflow("media"))
	r.until(id, inLane(intent.LaneDead))
	r.replay(id, "inhouse")
	if rec := r.until(id, settledJob); rec.Tier != "inhouse" || rec.Attempt != 1 {
		t.Errorf("%+v", rec.Status)
	}
}

// A route that a person chose is not taken once the policy forbids that; the job waits, and goes nowhere else.
func TestReplayThatThePolicyForbidsByNow(t *testing.T) {
	t.Parallel()
	r := movingRig(t)
	id := r.givenUp(chat("forbidden").workflow("once"))
	if _, err := r.routes.Pause("*", "maintenance"); err != nil {
		t.Fatal(err)
	}
	r.replay(id, "inhouse")
	r.reload(moving, "breaker: {", "fallback: {allowed_before_first_token: false}, breaker: {")
	if _, err := r.routes.Resume("*"); err != nil {
		t.Fatal(err)
	}
	r.until(r.submit(chat("free")), settledJob) // the other had its turn
	if lacks := r.lacks(id); !strings.Contains(lacks, "no other route answer") {
		t.Errorf("it lacks %q", lacks)
	}
	r.calls("forbidden", 1)
	r.reload(moving)
	if rec := r.until(id, settledJob); rec.Tier != "inhouse" {
		t.Errorf("sent by %s", rec.Tier)
	}
	r.calls("forbidden", 2)
}

// An approval that the policy has come to ask for is asked for what waits already, once: a person's word is kept over every pass.
func TestApprovalIsAskedOfWaitingJobs(t *testing.T) {
	t.Parallel()
	r := movingRig(t)
	if _, err := r.routes.Pause("*", "maintenance"); err != nil {
		t.Fatal(err)
	}
	refund := request{path: "/tools/shop/refunds", body: `{"order":"o-1","note":"op=refund"}`}
	jobs := map[string]string{"chat": r.submit(chat("chat").workflow("media").key("c")), "refund": r.submit(refund)}
	r.reload(moving, "retry: {base: 1ms, max: 2ms}, lanes", "approval: dispatch, retry: {base: 1ms, max: 2ms}, lanes", "effect: external", "effect: external, approval: dispatch")
	if _, err := r.routes.Resume("*"); err != nil {
		t.Fatal(err)
	}
	for op, id := range jobs {
		rec := r.until(id, inLane(intent.LaneReview))
		if rec.State != ledger.Created || rec.Attempt != 0 || !rec.ExpiresAt.IsZero() {
			t.Errorf("%s: %+v", op, rec.Status)
		}
		r.calls(op, 0)
	}
	if a := r.must(chat("chat").workflow("media").key("c"), 403); a.code() != "owner_review_required" || a.header.Get("Holdfast-Intent") != jobs["chat"] {
		t.Errorf("a call with its key: %s", a.body)
	}
	r.script("chat", "500", "500", "500", "500")
	for op, id := range jobs {
		if err := r.log.Load(r.record(id)).Revive(intent.Revival{By: "owner", Reason: "fine", Rule: "review approve"}); err != nil {
			t.Fatal(err)
		}
		r.gw.Jobs().Look(t.Context(), id)
		if rec := r.until(id, settledJob); rec.Outcome != ledger.OutcomeSuccess {
			t.Errorf("%s: %+v", op, rec.Status)
		}
	}
	r.calls("refund", 1)
	r.calls("chat", 5)
}
