package gateway_test

import (
	"context"
	"io"
	"net/http"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/holdfast-ai/holdfast/intent"
	"github.com/holdfast-ai/holdfast/internal/gateway"
	"github.com/holdfast-ai/holdfast/internal/policy"
	"github.com/holdfast-ai/holdfast/ledger"
)

const reloaded = `
env: test
providers:
  openai: {type: openai, base_url: "SIM/v1"}
workflows:
  narrow: {match: {paths: ["/by-name-only"]}, bulkhead: {max_concurrent: 1}, retry: {max_attempts: 1}}
  named: {match: {paths: ["/by-name-only"]}, bulkhead: {max_concurrent: 1, name: shared}, retry: {max_attempts: 1}}
  default: {retry: {max_attempts: 1}, breaker: {failure_threshold: 5}}
`

// reload puts the rig's configuration in force, changed.
func (r *rig) reload(yaml string, replace ...string) *policy.Config {
	r.t.Helper()
	yaml = strings.NewReplacer(append(replace, "SIM", r.sim.URL())...).Replace(yaml)
	cfg, faults := policy.Parse("test.yaml", []byte(yaml), os.LookupEnv)
	if cfg == nil {
		r.t.Fatal(faults)
	}
	if err := r.gw.Reload(cfg); err != nil {
		r.t.Fatal(err)
	}
	return cfg
}

// A call goes by the configuration that was in force when it came, although its body took longer than that lasted.
func TestReloadMovesNoCall(t *testing.T) {
	r := newRig(t, func(c *rigConfig) { c.yaml = reloaded })
	body, rest := io.Pipe()
	q := chat("slow")
	req, err := http.NewRequestWithContext(context.Background(), "POST", r.server.URL+q.path, body)
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/json")
	ended := make(chan *http.Response, 1)
	go func() {
		resp, err := r.client.Do(req)
		if err != nil {
			t.Error(err)
		}
		ended <- resp
	}()
	if _, err := io.WriteString(rest, q.body[:10]); err != nil {
		t.Fatal(err)
	}
	wait(t, func() bool { return r.gw.Holding().Memory > 0 })
	next := r.reload(reloaded, "max_attempts: 1", "max_attempts: 2")
	if _, err := io.WriteString(rest, q.body[10:]); err != nil {
		t.Fatal(err)
	}
	if err := rest.Close(); err != nil {
		t.Fatal(err)
	}
	resp := <-ended
	if resp == nil || resp.StatusCode != 200 {
		t.Fatal("no answer")
	}
	defer resp.Body.Close()
	if rec := r.settled(resp.Header.Get("Holdfast-Intent")); rec.PolicyRevision != r.policy.Revision || rec.MaxAttempts != 1 {
		t.Errorf("revision %s and %d attempts, began by %s", rec.PolicyRevision, rec.MaxAttempts, r.policy.Revision)
	}
	after := r.must(chat("after"), 200)
	if rec := r.settled(after.header.Get("Holdfast-Intent")); rec.PolicyRevision != next.Revision || rec.MaxAttempts != 2 {
		t.Errorf("revision %s and %d attempts, in force %s", rec.PolicyRevision, rec.MaxAttempts, next.Revision)
	}
}

// Slots that are in use count after a reload, under the size that it brings.
func TestReloadKeepsBulkheads(t *testing.T) {
	for _, workflow := range []string{"narrow", "named"} {
		t.Run(workflow, func(t *testing.T) {
			r := newRig(t, func(c *rigConfig) { c.yaml = reloaded })
			r.script("slot", `{"hold":"slot"}`, `{"hold":"slot"}`)
			ended := make(chan *answered, 2)
			begin := func(n int) {
				go func() { ended <- r.do(chat("slot").workflow(workflow).key(string(rune('a' + n)))) }()
				if err := r.sim.WaitHeld(t.Context(), "slot", n); err != nil {
					t.Fatal(err)
				}
			}
			begin(1)
			r.reload(reloaded, "5}", "6}")
			if a := r.do(chat("more").workflow(workflow)); a.code() != string(gateway.CodeBulkheadFull) {
				t.Fatalf("%d %s: the slot in use was forgotten", a.status, a.code())
			}
			r.reload(reloaded, "max_concurrent: 1", "max_concurrent: 2")
			begin(2)
			r.reload(reloaded)
			for _, b := range r.gw.Bulkheads() {
				if b.Workflow == workflow && (b.Max != 1 || b.Used != 2) {
					t.Errorf("%+v", b)
				}
			}
			r.sim.Release("slot")
			for range 2 {
				if a := <-ended; a.status != 200 {
					t.Errorf("%d %s", a.status, a.body)
				}
			}
		})
	}
}

// What is known of a route's health does not end with a configuration, and the new threshold counts from then on.
func TestReloadKeepsBreakers(t *testing.T) {
	r := newRig(t, func(c *rigConfig) { c.yaml = reloaded })
	r.script("ill", `{"status":500}`, `{"status":500}`, `{"status":500}`, `{"status":500}`, `{"status":500}`)
	for range 3 {
		r.must(chat("ill").with("Holdfast-Fresh", "1"), 500)
	}
	r.reload(reloaded, "failure_threshold: 5", "failure_threshold: 4")
	r.must(chat("ill").with("Holdfast-Fresh", "1"), 500)
	if a := r.do(chat("ill").with("Holdfast-Fresh", "1")); a.code() != string(gateway.CodeCircuitOpen) {
		t.Fatalf("%d %s", a.status, a.code())
	}
	r.reload(reloaded)
	if a := r.do(chat("well")); a.code() != string(gateway.CodeCircuitOpen) {
		t.Fatalf("%d %s: the breaker was forgotten", a.status, a.code())
	}
}

// A job that waits is not in progress: its next pass goes by the configuration that is in force then, and the log says so
// where that is not the one it was submitted under.
func TestReloadTakesWaitingJobsAlong(t *testing.T) {
	r := jobRig(t)
	r.always("late", `{"status":503,"headers":{"Retry-After":"3"}}`)
	id := r.submit(chat("late").workflow("few"))
	r.until(id, func(j *ledger.Record) bool { return j.Attempt == 1 && j.LeaseOwner == "" })
	next := r.reload(queued, "background_retry: {max_attempts: 2}", "background_retry: {max_attempts: 3}, owner_review: {enter_when: [max_attempts_exhausted]}")
	rec := r.until(id, func(j *ledger.Record) bool { return j.Attempt == 2 && j.LeaseOwner == "" })
	if rec.Lane != intent.LaneBackground || rec.PolicyRevision == next.Revision {
		t.Errorf("after the second attempt of three: %s, begun by %s", rec.Lane, rec.PolicyRevision)
	}
	history, err := r.store.History(t.Context(), id)
	if err != nil {
		t.Fatal(err)
	}
	var named []int
	for _, e := range history {
		if e.Kind == "attempt_end" && strings.Contains(string(e.Evidence), `"policy_revision":"`+next.Revision+`"`) {
			named = append(named, e.Attempt)
		}
	}
	if !slices.Equal(named, []int{2}) {
		t.Errorf("the policy that decided is on record for the attempts %v", named)
	}
	r.until(id, inLane(intent.LaneReview))
	r.calls("late", 3)
}
