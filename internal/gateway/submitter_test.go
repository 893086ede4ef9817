package gateway_test

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"

	"github.com/holdfast-ai/holdfast/internal/gateway"
)

const tieredJobs = `
env: test
providers:
  openai: {type: openai, base_url: "SIM/v1"}
  owned: {type: openai, base_url: "SIM/v1", api_key: "sk-owned"}
workflows:
  tiered: {match: {paths: ["/by-name-only"]}, tiers: [{name: only, provider: owned}], retry: {base: 1ms, max: 2ms}}
  default: {}
`

// A job is its submitter's (semantics 44), also where its workflow's only tier is another provider's than its path means: with
// auth.keys, by the credential that would have been forwarded, and to an operator, who has none.
func TestJobOfATierKeepsItsSubmitter(t *testing.T) {
	for name, auth := range map[string]string{
		"open": "", "keys": `auth: {keys: [{key: "key-of-one-1", tenant: one}, {key: "key-of-two-2", tenant: two}]}`,
	} {
		t.Run(name, func(t *testing.T) {
			var r *rig
			r = newRig(t, func(c *rigConfig) {
				c.yaml = tieredJobs + auth
				c.api = http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
					var in gateway.JobRequest
					if err := json.NewDecoder(q.Body).Decode(&in); err != nil {
						t.Error(err)
					}
					rec, _, err := r.gw.SubmitJob(q, in)
					if err != nil {
						http.Error(w, err.Error(), http.StatusBadRequest)
						return
					}
					gateway.WriteJob(w, rec)
				})
			})
			submit := func(credential string) string {
				t.Helper()
				body, err := json.Marshal(gateway.JobRequest{Path: "/v1/chat/completions", Workflow: "tiered", IdempotencyKey: "k", Body: json.RawMessage(chat("j").body)})
				if err != nil {
					t.Fatal(err)
				}
				a := r.must(request{path: "/holdfast/v1/jobs", body: string(body)}.with("Authorization", "Bearer "+credential), http.StatusAccepted)
				id := a.header.Get("Holdfast-Intent")
				if rec := r.until(id, settledJob); rec.Tenant == "main" || !strings.Contains(rec.Key, rec.Tenant) {
					t.Errorf("%s is the job of tenant %s under %s", id, rec.Tenant, rec.Key)
				}
				return id
			}
			one, two := submit("key-of-one-1"), submit("key-of-two-2")
			if again := submit("key-of-one-1"); one == two || again != one {
				t.Errorf("one's job is %s, then %s; two's is %s", one, again, two)
			}
			op, _, err := r.post("tiered", "k", "operators", "")
			if err != nil {
				t.Fatal(err)
			}
			if rec := r.until(op.ID, settledJob); rec.Tenant != "main" {
				t.Errorf("an operator's job is %s's", rec.Tenant)
			}
			r.calls("j", 2)
		})
	}
}
