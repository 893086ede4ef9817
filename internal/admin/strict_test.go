package admin

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-ai/holdfast/intent"
	"github.com/holdfast-ai/holdfast/internal/policy"
	"github.com/holdfast-ai/holdfast/ledger"
)

// advised holds an error to interface.md §2: each says whether asking again helps, and is safe.
func advised(t *testing.T, w *httptest.ResponseRecorder, what string) {
	t.Helper()
	var f Failure
	if err := json.Unmarshal(w.Body.Bytes(), &f); err != nil || f.Error.Code == "" || f.Error.Code != w.Header().Get("Holdfast-Error") {
		t.Errorf("%s: %d %v %s", what, w.Code, w.Header(), w.Body)
	}
	safe, again := w.Header().Get("Holdfast-Safe-To-Retry"), w.Header().Get("X-Should-Retry")
	if safe != "yes" && safe != "no" && safe != "after-reconcile" || again != "true" && again != "false" {
		t.Errorf("%s: %d says of a retry %q, %q", what, w.Code, safe, again)
	}
	if again == "true" && (w.Code == 400 || w.Code == 422 || safe != "yes" || w.Header().Get("Retry-After") == "") {
		t.Errorf("%s: %d %v", what, w.Code, w.Header())
	}
}

// dead puts a job of a workflow into the dead letter, of which nothing was sent.
func (r *rig) dead(workflow, provider, key string) string {
	r.t.Helper()
	op, err := r.log.Begin(intent.Begin{Job: true, Claim: true, Lane: intent.LaneDead, Head: ledger.Intent{Tenant: "main", Workflow: workflow, Key: "idem:test:main:key:" + key,
		Explicit: true, Effect: ledger.EffectGeneration, Method: "POST", Path: "/v1/chat/completions", Endpoint: "chat.completions", Provider: provider, RequestedModel: "m"}})
	if err != nil {
		r.t.Fatal(err)
	}
	return op.ID()
}

// A call that writes says in words that are known what it is for, or it does nothing: one of them may have been to keep it from it.
func TestWritesAreStrict(t *testing.T) {
	r, _, h := working(t)
	id := r.dead("few", "openai", "stays")
	path := "/holdfast/v1/jobs/" + id
	const word = `{"by":"ada","reason":"done with"}`
	for _, c := range [][3]string{
		{"POST", "/replay?dry_run=on", replayed(NotExecuted)}, {"POST", "/replay?dry_run=yes", replayed(NotExecuted)},
		{"POST", "/replay?dry_run=", replayed(NotExecuted)}, {"POST", "/replay?dry_run", replayed(NotExecuted)},
		{"POST", "/replay?dry_run=TRUE", replayed(NotExecuted)}, {"POST", "/replay?dry-run=true", replayed(NotExecuted)},
		{"POST", "/replay?DRY_RUN=true", replayed(NotExecuted)}, {"POST", "/replay?dryrun=1", replayed(NotExecuted)},
		{"POST", "/replay?dry_run=false&dry_run=true", replayed(NotExecuted)}, {"POST", "/replay?dry_run=true;x=1", replayed(NotExecuted)},
		{"POST", "/replay?dry_run=true%zz", replayed(NotExecuted)}, {"POST", "/replay", replayed(NotExecuted) + `{"dry_run":true}`},
		{"POST", "/replay", replayed("bogus")}, {"POST", "/approve?dry_run=2", word}, {"POST", "/approve", `{"by":"a","reason":"b","idempotency_result":"bogus"}`},
		{"POST", "/discard?dry_run=true", word}, {"POST", "/reject?dry_run=true", word}, {"DELETE", "?dry_run=true", ""},
	} {
		w := send(h, c[0], path+c[1], c[2])
		if w.Code != 400 {
			t.Errorf("%s %s %s: %d %s", c[0], c[1], c[2], w.Code, w.Body)
		}
		advised(t, w, c[1])
	}
	for _, at := range []string{"/holdfast/v1/jobs?dry_run=true", "/holdfast/v1/intents/" + id + "/resolve?dry_run=true", "/holdfast/v1/explain?x=1"} {
		if w := send(h, "POST", at, `{}`); w.Code != 400 || !strings.Contains(w.Body.String(), "there is no parameter") {
			t.Errorf("%s: %d %s", at, w.Code, w.Body)
		}
	}
	if rec := r.until(id, func(*ledger.Record) bool { return true }); !parked(rec) || rec.Version != 1 {
		t.Fatalf("it was moved: %+v", rec.Status)
	}
	for _, yes := range []string{"?dry_run=true", "?dry_run=1&access_token=x"} {
		if w := send(h, "POST", path+"/replay"+yes, replayed(NotExecuted)); w.Code != 200 || !strings.Contains(w.Body.String(), `"dry_run":true`) {
			t.Errorf("%s: %d %s", yes, w.Code, w.Body)
		}
	}
}

// What a listing is asked for is one of the words that there are.
func TestListingsAreStrict(t *testing.T) {
	r, _, h := working(t)
	r.dead("few", "openai", "one")
	for query, want := range map[string]int{
		"?lane=dead_letter": 1, "?lane=background_retry": 0, "?lane=bogus": -1, "?lane=dead_letter,owner_review": -1, "?all=false": 1, "?all=0&jobs=1": 1, "?jobs=true": 1,
		"?all=yes": -1, "?all": -1, "?jobs=no": -1, "?lanes=dead_letter": -1, "?state=settled&state=unknown": -1, "?outcome=pending": 1,
	} {
		for _, path := range []string{"/holdfast/v1/jobs", "/holdfast/v1/intents"} {
			w := send(h, "GET", path+query, "")
			if want < 0 {
				if w.Code != 400 {
					t.Errorf("%s%s: %d %s", path, query, w.Code, w.Body)
				}
				advised(t, w, query)
				continue
			}
			var list []Intent
			if err := json.Unmarshal(w.Body.Bytes(), &list); err != nil || len(list) != want {
				t.Errorf("%s%s: %d of %d: %s", path, query, len(list), want, w.Body)
			}
		}
	}
	if w := send(h, "GET", "/holdfast/v1/jobs?lane=bogus", ""); !strings.Contains(w.Body.String(), "background_retry, owner_review, dead_letter") {
		t.Errorf("the lanes are not named: %s", w.Body)
	}
	if w := send(h, "GET", "/holdfast/v1/intents?key=", ""); w.Code != 400 {
		t.Errorf("an empty key: %d %s", w.Code, w.Body)
	}
}

// Every error says what asking again would bring (interface.md §2).
func TestErrorsSayWhetherToAskAgain(t *testing.T) {
	r, far, h := working(t)
	r.steps(far, "lost", `"reset_after_body"`)
	r.steps(far, "held", `{"hold":"gate"}`)
	r.steps(far, "bad", `{"status":400}`)
	gone, lost, bad := r.dead("few", "openai", "gone"), r.job(h, "act", "lost"), r.job(h, "default", "bad")
	r.until(lost, parked)
	r.until(bad, done)
	held := r.job(h, "default", "held")
	defer far.Release("gate")
	if err := far.WaitHeld(t.Context(), "gate", 1); err != nil {
		t.Fatal(err)
	}
	const job = `{"path":"/v1/chat/completions","workflow":"default","idempotency_key":"held","body":{"model":"m","messages":[{"role":"user","content":"op=other"}]}}`
	closed := r.operators(policy.Auth{Keys: []policy.AuthKey{{Key: policy.NewSecret("k"), Tenant: "main", Role: policy.RoleOperator}}})
	for _, c := range []struct {
		h                  http.Handler
		method, path, body string
		status             int
		code, safe, again  string
	}{
		{h, "GET", "/jobs/none", "", 404, "not_found", "no", "false"},
		{h, "GET", "/jobs/" + lost + "/result", "", 409, "outcome_unknown", "after-reconcile", "false"},
		{h, "GET", "/jobs/" + gone + "/result", "", 403, "owner_review_required", "no", "false"},
		{h, "GET", "/jobs/" + held + "/result", "", 409, "request_in_flight", "yes", "true"},
		{h, "DELETE", "/jobs/" + held, "", 409, "request_in_flight", "yes", "true"},
		{h, "DELETE", "/jobs/" + lost, "", 409, "outcome_unknown", "after-reconcile", "false"},
		{h, "DELETE", "/jobs/" + bad, "", 409, "conflict", "no", "false"},
		{h, "POST", "/jobs", `{}`, 400, "invalid_request", "no", "false"},
		{h, "POST", "/jobs", job, 422, "idempotency_key_reused", "no", "false"},
		{h, "POST", "/jobs/" + held + "/approve", `{"by":"a","reason":"b"}`, 409, "conflict", "no", "false"},
		{h, "POST", "/intents/" + bad + "/resolve", `{"outcome":"success","by":"a","reason":"b"}`, 409, "conflict", "no", "false"},
		{h, "POST", "/nothing", "", 404, "not_found", "no", "false"},
		{closed, "GET", "/jobs", "", 401, "unauthorized", "no", "false"},
	} {
		w := send(c.h, c.method, "/holdfast/v1"+c.path, c.body)
		if got := w.Header(); w.Code != c.status || got.Get("Holdfast-Error") != c.code || got.Get("Holdfast-Safe-To-Retry") != c.safe || got.Get("X-Should-Retry") != c.again {
			t.Errorf("%s %s: %d %v %s", c.method, c.path, w.Code, got, w.Body)
		}
		advised(t, w, c.path)
	}
	w := send(h, "GET", "/holdfast/v1/jobs/"+bad+"/result", "")
	if w.Code != 400 || w.Header().Get("X-Should-Retry") != "false" || w.Header().Get("Holdfast-Safe-To-Retry") != "yes" {
		t.Errorf("the provider's own error: %d %v", w.Code, w.Header())
	}
	far.Release("gate")
	r.until(held, done)
}

// An empty key is one that was forgotten (interface.md §2), and a priority is one of three.
func TestSubmissionIsStrict(t *testing.T) {
	_, _, h := working(t)
	for more, code := range map[string]string{`"idempotency_key":""`: "invalid_idempotency_key", `"idempotency_key":"a\nb"`: "invalid_idempotency_key", `"priority":"urgent"`: "invalid_request"} {
		w := send(h, "POST", "/holdfast/v1/jobs", `{"path":"/v1/chat/completions","body":{"model":"m"},`+more+`}`)
		if w.Code != 400 || w.Header().Get("Holdfast-Error") != code {
			t.Errorf("%s: %d %s", more, w.Code, w.Body)
		}
		advised(t, w, more)
	}
	if w := send(h, "POST", "/holdfast/v1/jobs", `{"path":"/v1/chat/completions","body":{"model":"m"},"idempotency_key":null,"priority":""}`); w.Code != 202 {
		t.Errorf("left out: %d %s", w.Code, w.Body)
	}
}

// Nobody is told that a job was sent again which is not: it was ended for good, or the configuration has no place for it.
func TestReplayThatSendsNothingSaysSo(t *testing.T) {
	r, _, h := working(t)
	rejected, gone, away := r.dead("few", "openai", "rejected"), r.dead("removed", "openai", "gone"), r.dead("few", "renamed", "away")
	if w := send(h, "POST", "/holdfast/v1/jobs/"+rejected+"/discard", `{"by":"ada","reason":"no longer wanted"}`); w.Code != 200 {
		t.Fatalf("%d %s", w.Code, w.Body)
	}
	for _, c := range []struct{ id, call, body, says string }{
		{rejected, "/approve", `{"by":"ada","reason":"changed my mind"}`, "nothing is sent"},
		{rejected, "/replay", replayed(NotExecuted), "nothing is sent"},
		{rejected, "/replay?dry_run=true", replayed(NotExecuted), "nothing is sent"},
		{gone, "/replay", replayed(NotExecuted), "its workflow removed is no longer configured"},
		{gone, "/replay?dry_run=true", replayed(NotExecuted), "its workflow removed is no longer configured"},
		{gone, "/replay", strings.ReplaceAll(replayed(NotExecuted), `"same"`, `"openai"`), "its workflow removed is no longer configured"},
		{away, "/replay", replayed(NotExecuted), "provider"},
	} {
		if w := send(h, "POST", "/holdfast/v1/jobs/"+c.id+c.call, c.body); w.Code != 409 || !strings.Contains(w.Body.String(), c.says) {
			t.Errorf("%s: %d %s", c.call, w.Code, w.Body)
		}
	}
	if rec := r.until(gone, parked); rec.Version != 1 {
		t.Errorf("it was moved: %+v", rec.Status)
	}
	w := send(h, "GET", "/holdfast/v1/jobs/"+rejected+"/result", "")
	if w.Code != 404 || w.Header().Get("Holdfast-Error") != "not_found" || w.Header().Get("Holdfast-Intent") != rejected || w.Header().Get("Holdfast-Recorded") != "no" {
		t.Errorf("the result of a job that was given up: %d %v", w.Code, w.Header())
	}
	advised(t, w, "result")
	if w := send(h, "POST", "/holdfast/v1/jobs/"+away+"/replay", strings.ReplaceAll(replayed(NotExecuted), `"same"`, `"openai"`)); w.Code != 200 {
		t.Errorf("by another route: %d %s", w.Code, w.Body)
	}
}

// A job out of a file keeps its key for a day, whoever settles it and however short the workflow's ttl is.
func TestUploadKeepsItsKey(t *testing.T) {
	r, far, h := working(t)
	r.steps(far, "parked", `"reset_after_body"`)
	submit := func(workflow, op string) string {
		t.Helper()
		w := send(h, "POST", "/holdfast/v1/jobs", `{"path":"/v1/chat/completions","workflow":"`+workflow+`","idempotency_key":"`+op+`","upload":true,
			"body":{"model":"m","messages":[{"role":"user","content":"op=`+op+`"}]}}`)
		if w.Code != 202 {
			t.Fatalf("%d %s", w.Code, w.Body)
		}
		return w.Header().Get("Holdfast-Intent")
	}
	worker, person := submit("brief", "worked"), submit("act", "parked")
	r.until(worker, done)
	r.until(person, parked)
	if w := send(h, "POST", "/holdfast/v1/jobs/"+person+"/replay", replayed(Executed)); w.Code != 200 {
		t.Fatalf("%d %s", w.Code, w.Body)
	}
	plain := r.job(h, "brief", "plain")
	r.until(plain, done)
	for again := plain; again == plain; again = r.job(h, "brief", "plain") { // until the workflow's ttl is over
		r.until(plain, done)
	}
	for id, day := range map[string]bool{worker: true, person: true, plain: false} {
		rec := r.until(id, done)
		if kept := rec.ClaimUntil.Sub(rec.SettledAt); (kept > intent.UploadKept-time.Minute) != day {
			t.Errorf("%s keeps its key for %s", rec.Key, kept)
		}
	}
	if submit("brief", "worked") != worker || far.Counts("worked").Calls != 1 {
		t.Error("the same line is another job")
	}
}
