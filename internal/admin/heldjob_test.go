package admin

import (
	"encoding/json"
	"net/http/httptest"
	"os"
	"strings"
	"testing"

	"github.com/holdfast-ai/holdfast/intent"
	"github.com/holdfast-ai/holdfast/internal/policy"
	"github.com/holdfast-ai/holdfast/ledger"
)

// A job's key that is a call's is answered with that call's answer, and no job is made.
func TestJobWithACallsKey(t *testing.T) {
	r, _, h := working(t)
	const body = `{"model":"m","messages":[{"role":"user","content":"op=called"}]}`
	q := httptest.NewRequest("POST", "http://localhost/v1/chat/completions", strings.NewReader(body))
	q.Header.Set("Content-Type", "application/json")
	q.Header.Set("Idempotency-Key", "called")
	w := httptest.NewRecorder()
	r.api.Gateway().ServeHTTP(w, q)
	id := w.Header().Get("Holdfast-Intent")
	if w.Code != 200 || id == "" {
		t.Fatalf("%d %s", w.Code, w.Body)
	}
	again := send(h, "POST", "/holdfast/v1/jobs", `{"path":"/v1/chat/completions","idempotency_key":"called","body":`+body+`}`)
	if again.Code != 200 || again.Body.String() != w.Body.String() || again.Header().Get("Idempotency-Replayed") != "true" ||
		again.Header().Get("Holdfast-Intent") != id || again.Header().Get("Holdfast-Source") != "replay" {
		t.Errorf("%d %v %s", again.Code, again.Header(), again.Body)
	}
	if list, err := r.api.Ledger.List(t.Context(), ledger.Filter{Jobs: true}); err != nil || len(list) != 0 {
		t.Errorf("%d jobs, %v", len(list), err)
	}
}

// Who looks at a job sees what it cannot be sent without.
func TestJobShowsWhatIsMissing(t *testing.T) {
	r, far, h := working(t)
	r.steps(far, "stuck", "500")
	id := r.job(h, "few", "stuck")
	r.until(id, func(j *ledger.Record) bool { return j.Lane == intent.LaneDead })
	missing := func() string {
		t.Helper()
		var v Intent
		if err := json.Unmarshal(send(h, "GET", "/holdfast/v1/jobs/"+id, "").Body.Bytes(), &v); err != nil {
			t.Fatal(err)
		}
		return v.Missing
	}
	if m := missing(); m != "" {
		t.Errorf("missing: %q", m)
	}
	yaml := strings.NewReplacer("SIM", far.URL(), "{openai: {", "{renamed: {").Replace(jobsPolicy)
	cfg, faults := policy.Parse("test.yaml", []byte(yaml), os.LookupEnv)
	if cfg == nil {
		t.Fatal(faults)
	}
	if err := r.api.Gateway().Reload(cfg); err != nil {
		t.Fatal(err)
	}
	if m := missing(); !strings.Contains(m, "provider openai is no longer configured") {
		t.Errorf("missing: %q", m)
	}
}

// A listing of what only a person moves says why it waits there; others, and what is settled, say nothing of it.
func TestParkedListingSaysWhy(t *testing.T) {
	r, far, h := working(t)
	r.steps(far, "stuck", "500")
	id := r.job(h, "few", "stuck")
	r.until(id, func(j *ledger.Record) bool { return j.Lane == intent.LaneDead })
	for path, says := range map[string]bool{"intents?lane=dead_letter": true, "jobs?lane=dead_letter": true, "intents": false, "intents?state=unknown,intent_created": false} {
		var page []Intent
		if err := json.Unmarshal(send(h, "GET", "/holdfast/v1/"+path, "").Body.Bytes(), &page); err != nil || len(page) != 1 {
			t.Fatalf("%s: %d, %v", path, len(page), err)
		}
		if got := page[0].LaneReason; strings.HasPrefix(got, "max_attempts_exhausted: ") != says || !says && got != "" {
			t.Errorf("%s: %q", path, got)
		}
	}
}
