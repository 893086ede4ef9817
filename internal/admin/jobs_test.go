package admin

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-ai/holdfast/intent"
	"github.com/holdfast-ai/holdfast/internal/gateway"
	"github.com/holdfast-ai/holdfast/internal/policy"
	"github.com/holdfast-ai/holdfast/internal/route"
	"github.com/holdfast-ai/holdfast/internal/sim"
	"github.com/holdfast-ai/holdfast/internal/upstream"
	"github.com/holdfast-ai/holdfast/ledger"
)

const jobsPolicy = `
env: test
providers: {openai: {type: openai, base_url: "SIM/v1", api_key: "sk-x"}}
workflows:
  few: {match: {paths: ["/by-name-only"]}, retry: {max_attempts: 1, base: 1ms, max: 2ms}, lanes: {background_retry: {max_attempts: 1}}}
  brief: {match: {paths: ["/by-name-only"]}, idempotency: {window: 1ms, ttl: 6ms}}
  act:
    match: {paths: ["/by-name-only"]}
    effect: external
    lanes: {dead_letter: {enter_when: [max_attempts_exhausted, not_idempotent]}}
  one: {match: {paths: ["/by-name-only"]}, bulkhead: {max_concurrent: 1}}
  told: {match: {paths: ["/by-name-only"]}, callbacks: {secret: "a secret of thirty bytes or so", allow: [127.0.0.1]}}
  default: {}
`

// working is an API with a gateway that does jobs, and a provider in front of it.
func working(t *testing.T) (*rig, *sim.Server, http.Handler) {
	r, far := newRig(t), sim.New(sim.Config{})
	if err := far.Start(); err != nil {
		t.Fatal(err)
	}
	cfg, faults := policy.Parse("test.yaml", []byte(strings.ReplaceAll(jobsPolicy, "SIM", far.URL())), os.LookupEnv)
	if cfg == nil {
		t.Fatalf("policy: %v", faults)
	}
	client := upstream.New(upstream.Config{})
	routes := route.New(route.Config{Cooldowns: r.api.Ledger})
	g, err := gateway.New(t.Context(), gateway.Config{Policy: cfg, Ledger: r.api.Ledger, Log: r.log, Upstream: client, Routes: routes})
	if err != nil {
		t.Fatal(err)
	}
	r.api.Routes = routes
	r.api.Policy, r.api.Gateway = func() *policy.Config { return cfg }, func() *gateway.Gateway { return g }
	ctx, stop := context.WithCancel(context.Background())
	done, called := make(chan error), make(chan error)
	go func() { done <- g.Jobs().Run(ctx) }()
	go func() { called <- g.Callbacks().Run(ctx) }()
	t.Cleanup(func() {
		stop()
		g.Drain(context.Background())
		if err := errors.Join(<-done, <-called); err != nil {
			t.Error(err)
		}
		client.CloseIdle()
		routes.Close()
		if err := far.Close(); err != nil {
			t.Error(err)
		}
	})
	return r, far, r.operators(policy.Auth{})
}

func (r *rig) job(h http.Handler, workflow, op string) string {
	r.t.Helper()
	w := send(h, "POST", "/holdfast/v1/jobs", fmt.Sprintf(`{"path":"/v1/chat/completions","workflow":%q,"idempotency_key":%q,
		"body":{"model":"m","messages":[{"role":"user","content":"op=%s"}]}}`, workflow, op, op))
	var v Intent
	if err := json.Unmarshal(w.Body.Bytes(), &v); err != nil || w.Code != 202 || v.ID == "" || w.Header().Get("Location") != "/holdfast/v1/jobs/"+v.ID {
		r.t.Fatalf("%d %s", w.Code, w.Body)
	}
	return v.ID
}

func (r *rig) until(id string, ok func(*ledger.Record) bool) *ledger.Record {
	r.t.Helper()
	for range 4000 {
		rec, err := r.api.Ledger.Get(r.t.Context(), id)
		if err != nil {
			r.t.Fatal(err)
		}
		if ok(rec) {
			return rec
		}
		<-time.After(2 * time.Millisecond)
	}
	r.t.Fatalf("%s does not come to where it should", id)
	return nil
}

func done(r *ledger.Record) bool   { return r.State == ledger.Settled }
func parked(r *ledger.Record) bool { return r.Lane == intent.LaneDead && r.State != ledger.Settled }

func (r *rig) steps(far *sim.Server, op, step string) {
	r.t.Helper()
	var st sim.Step
	if err := st.UnmarshalJSON([]byte(step)); err != nil {
		r.t.Fatal(err)
	}
	if err := far.AddRules(sim.Rule{Match: sim.Match{Op: op}, Steps: []sim.Step{st}}); err != nil {
		r.t.Fatal(err)
	}
}

const whole = `{"replay_owner":"ops-1","replay_reason":"provider fixed","idempotency_result":"RESULT","cost_reviewed":true,"route_override":"same"}`

func replayed(result string) string { return strings.ReplaceAll(whole, "RESULT", result) }

// A replay is neither swallowed by its own key nor past what is known: each item of the dead letter by what it is.
func TestBR075Replay(t *testing.T) {
	r, far, h := working(t)
	r.steps(far, "failed", `{"status":429,"headers":{"Retry-After":"1"}}`)
	r.steps(far, "unknown", `"reset_after_body"`)
	failed, settled, unknown := r.job(h, "few", "failed"), r.job(h, "default", "settled"), r.job(h, "act", "unknown")
	r.until(settled, done)
	r.until(failed, parked)
	if rec := r.until(unknown, parked); rec.State != ledger.Unknown {
		t.Errorf("%+v", rec.Status)
	}
	refusesWithoutFields(t, h, failed)
	unsent := r.neverSent(h, far)
	post := func(id, body string, want int) string {
		t.Helper()
		w := send(h, "POST", "/holdfast/v1/jobs/"+id+"/replay", body)
		if w.Code != want {
			t.Errorf("%d %s, want %d", w.Code, w.Body, want)
		}
		return w.Header().Get("Idempotency-Replayed")
	}
	for id, does := range map[string]string{failed: Sends, settled: Answered} {
		if w := send(h, "POST", "/holdfast/v1/jobs/"+id+"/replay?dry_run=true", replayed(NotExecuted)); w.Code != 200 || !strings.Contains(w.Body.String(), `"does":"`+does+`"`) {
			t.Errorf("a dry run: %d %s, want %s", w.Code, w.Body, does)
		}
	}
	if rec := r.until(failed, parked); rec.Attempt != 1 {
		t.Errorf("a dry run moved it: %+v", rec.Status)
	}
	post(failed, replayed(NotExecuted), 200)
	if rec := r.until(failed, done); rec.Outcome != ledger.OutcomeSuccess || rec.Attempt != 2 {
		t.Errorf("%+v", rec.Status)
	}
	if post(failed, replayed(NotExecuted), 200) != "true" || far.Counts("failed").Calls != 2 {
		t.Error("a second replay is not the first one's result")
	}
	if again := r.job(h, "few", "failed"); again != failed {
		t.Errorf("its key answers with %s, not with the new generation", again)
	}
	r.keepsEvidence(failed, "generation", "note")
	if post(settled, replayed(NotExecuted), 200) != "true" || far.Counts("settled").Calls != 1 {
		t.Error("what was settled was sent again")
	}
	post(unsent, replayed(NotExecuted), 200)
	if rec := r.until(unsent, done); rec.Outcome != ledger.OutcomeSuccess || rec.Attempt != 1 {
		t.Errorf("%+v", rec.Status)
	}
	if post(unsent, replayed(NotExecuted), 200) != "true" || far.Counts("unsent").Calls != 1 {
		t.Error("what was never sent was sent twice")
	}
	post(unknown, replayed(NotKnown), 409)
	post(unknown, replayed(Executed), 200)
	if rec := r.until(unknown, done); rec.Outcome != ledger.OutcomeSuccess || far.Counts("unknown").Calls != 1 {
		t.Errorf("%+v", rec.Status)
	}
	r.keepsEvidence(unknown, "transition")
}

// neverSent is a job that came into the dead letter before anything of it was sent.
func (r *rig) neverSent(h http.Handler, far *sim.Server) string {
	r.t.Helper()
	r.steps(far, "holder", `{"hold":"gate"}`)
	holder := r.job(h, "one", "holder")
	if err := far.WaitHeld(r.t.Context(), "gate", 1); err != nil {
		r.t.Fatal(err)
	}
	w := send(h, "POST", "/holdfast/v1/jobs", `{"path":"/v1/chat/completions","workflow":"one","idempotency_key":"unsent","max_queue_age_ms":1,
		"body":{"model":"m","messages":[{"role":"user","content":"op=unsent"}]}}`)
	id := w.Header().Get("Holdfast-Intent")
	rec := r.until(id, func(rec *ledger.Record) bool {
		if _, err := r.log.Expire(r.t.Context()); err != nil {
			r.t.Fatal(err)
		}
		return parked(rec)
	})
	if rec.Attempt != 0 || rec.State != ledger.Created {
		r.t.Errorf("%+v", rec.Status)
	}
	far.Release("gate")
	r.until(holder, done)
	return id
}

// refusesWithoutFields leaves out each of the five fields, in every way in which that can be done, and all of them.
func refusesWithoutFields(t *testing.T, h http.Handler, id string) {
	t.Helper()
	fields := []string{"replay_owner", "replay_reason", "idempotency_result", "cost_reviewed", "route_override"}
	refused := func(body, query string, missing ...string) {
		t.Helper()
		w := send(h, "POST", "/holdfast/v1/jobs/"+id+"/replay"+query, body)
		if w.Code != 400 || !strings.Contains(w.Body.String(), "missing: "+strings.Join(missing, ", ")+" (") {
			t.Errorf("%s: %d %s, want %v to be named", body, w.Code, w.Body, missing)
		}
	}
	for _, field := range fields {
		for _, value := range []string{"", `null`, `""`, `false`} {
			var in map[string]json.RawMessage
			if err := json.Unmarshal([]byte(replayed(NotExecuted)), &in); err != nil {
				t.Fatal(err)
			}
			if in[field] = json.RawMessage(value); value == "" {
				delete(in, field)
			} else if (value == `false`) != (field == "cost_reviewed") && value != `null` {
				continue // of another type
			}
			body, err := json.Marshal(in)
			if err != nil {
				t.Fatal(err)
			}
			refused(string(body), "", field)
			refused(string(body), "?dry_run=true", field)
		}
	}
	refused(strings.NewReplacer("ops-1", " ", "provider fixed", `\t`).Replace(replayed(NotExecuted)), "", fields[:2]...)
	refused(`{}`, "", fields...)
}

// keepsEvidence expects the end of the first attempt in a replayed job's history, and each word of the person who replayed it.
func (r *rig) keepsEvidence(id string, words ...string) {
	r.t.Helper()
	events, err := r.api.Ledger.History(r.t.Context(), id)
	if err != nil {
		r.t.Fatal(err)
	}
	ended, said := false, 0
	for _, e := range events {
		ended = ended || e.Kind == "attempt_end" && e.Attempt == 1 && e.End != ledger.AttemptSuccess && len(e.Evidence) > 0
		if e.Actor == "ops-1" && said < len(words) && e.Kind == words[said] && strings.Contains(string(e.Evidence), "provider fixed") {
			said++
		}
	}
	if !ended || said != len(words) {
		r.t.Errorf("of the first attempt %v, of the replays %v of %v in %+v", ended, said, words, events)
	}
}

// Jobs are their tenant's own, on the data port.
func TestJobsAreTheirTenants(t *testing.T) {
	r, _, h := working(t)
	id := r.job(h, "default", "mine")
	r.until(id, done)
	other := r.api.Tenants(func(*http.Request) string { return "two" })
	for _, path := range []string{"", "/result", "/events"} {
		if w := send(other, "GET", "/holdfast/v1/jobs/"+id+path, ""); w.Code != 404 {
			t.Errorf("%s: %d", path, w.Code)
		}
		if w := send(h, "GET", "/holdfast/v1/jobs/"+id+path, ""); w.Code != 200 || w.Body.Len() == 0 {
			t.Errorf("%s: %d %s", path, w.Code, w.Body)
		}
	}
	if w := send(other, "POST", "/holdfast/v1/jobs/"+id+"/replay", replayed(NotExecuted)); w.Code != 404 {
		t.Errorf("a tenant replays: %d", w.Code)
	}
	if w := send(h, "DELETE", "/holdfast/v1/jobs/"+id, ""); w.Code != 409 {
		t.Errorf("what is settled was cancelled: %d", w.Code)
	}
	for _, body := range []string{``, `{}`, `{"path":"/v1/x","nonsense":1}`, `[]`, `{"path":"/v1/chat/completions"} {}`} {
		if w := send(h, "POST", "/holdfast/v1/jobs", body); w.Code != 400 {
			t.Errorf("%q: %d", body, w.Code)
		}
	}
}

// The call of a tool that waits for its owner takes the same words as a job, but is no job: approved, it waits for its client;
// rejected, its key says so. What neither is, nor waits, is not found.
func TestToolCallAwaitsItsOwner(t *testing.T) {
	r, _, h := working(t)
	begin := func(key, lane string) string {
		t.Helper()
		op, err := r.log.Begin(intent.Begin{Head: ledger.Intent{Tenant: "main", Workflow: "shop", Key: "idem:" + key, Effect: ledger.EffectExternal, Hold: true,
			Method: "tools/call", Path: "/mcp/shop", Endpoint: "refund", Provider: "mcp"}, Claim: true, Lane: lane})
		if err != nil {
			t.Fatal(err)
		}
		return op.ID()
	}
	yes, no, other := begin("yes", intent.LaneReview), begin("no", intent.LaneReview), begin("other", "")
	const word = `{"by":"ada","reason":"fine"}`
	for _, c := range []struct {
		id, verb string
		want     int
	}{{yes, "approve", 200}, {yes, "approve", 404}, {no, "discard", 409}, {no, "reject", 200}, {no, "reject", 409}, {other, "approve", 404}, {other, "reject", 404}} {
		if w := send(h, "POST", "/holdfast/v1/jobs/"+c.id+"/"+c.verb, word); w.Code != c.want {
			t.Errorf("%s: %d %s, want %d", c.verb, w.Code, w.Body, c.want)
		}
	}
	rec := r.until(yes, func(*ledger.Record) bool { return true })
	if rec.State != ledger.Created || rec.Lane != intent.LaneAdmission || rec.Attempt != 0 || rec.LeaseOwner != "" || rec.ExpiresAt.IsZero() {
		t.Errorf("approved: %+v", rec.Status)
	}
	rec = r.until(no, done)
	if held, err := r.api.Ledger.Holder(t.Context(), rec.Key); rec.Outcome != ledger.OutcomeDiscarded || err != nil || held.ID != no {
		t.Errorf("rejected: %+v, its key is held by %v, %v", rec.Status, held, err)
	}
}
