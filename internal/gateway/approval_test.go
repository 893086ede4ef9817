package gateway_test

import (
	"net/http"
	"testing"

	"github.com/holdfast-ai/holdfast/intent"
	"github.com/holdfast-ai/holdfast/ledger"
)

const approving = `
env: test
providers:
  openai: {type: openai, base_url: "SIM/v1", api_key: "sk-a"}
workflows:
  media: {match: {paths: ["/v1/images/*"]}, approval: dispatch, on_unknown: hold, spend: {per_request: 5, per_day: 100}}
  chats: {match: {paths: ["/by-name-only"]}, approval: dispatch}
  default: {retry: {base: 1ms, max: 2ms}}
tools:
  shop: {base_url: "SIM/tools", routes: [{match: "POST /refunds", effect: external, approval: dispatch, key: "{order}"}]}
`

// Nothing is sent before an owner has approved it; then it is sent once, and the same request gets its answer.
func TestApproval(t *testing.T) {
	r := newRig(t, func(c *rigConfig) { c.yaml = approving })
	image := request{path: "/v1/images/generations", body: `{"model":"gpt-image-1","prompt":"op=image a boat"}`}
	if a := r.must(image, 400); a.code() != "invalid_request" {
		t.Errorf("without a key: %s", a.body)
	}
	for op, q := range map[string]request{"image": image.key("img-1"), "chat": chat("chat").workflow("chats"),
		"refund": {path: "/tools/shop/refunds", body: `{"order":"o-1","note":"op=refund"}`}} {
		a := r.must(q, 403)
		id := a.header.Get("Holdfast-Intent")
		rec := r.record(id)
		if a.code() != "owner_review_required" || rec.Lane != intent.LaneReview || rec.State != ledger.Created || rec.Attempt != 0 || rec.JobID != id {
			t.Errorf("%s: %s %+v", op, a.body, rec.Status)
		}
		if again := r.must(q, 403); again.header.Get("Holdfast-Intent") != id {
			t.Errorf("%s: asked again it is %s, not %s", op, again.header.Get("Holdfast-Intent"), id)
		}
		if later := r.must(q.async(), http.StatusAccepted); later.header.Get("Holdfast-Intent") != id {
			t.Errorf("%s: as a job it is %s, not %s", op, later.header.Get("Holdfast-Intent"), id)
		}
		r.calls(op, 0)
		if err := r.log.Load(rec).Revive(intent.Revival{By: "owner", Reason: "fine", Rule: "review approve", NotExecuted: true}); err != nil {
			t.Fatal(err)
		}
		r.gw.Jobs().Look(t.Context(), id)
		r.until(id, settledJob)
		if b := r.must(q, 200); b.header.Get("Idempotency-Replayed") != "true" || b.header.Get("Holdfast-Intent") != id {
			t.Errorf("%s: %v", op, b.header)
		}
		r.calls(op, 1)
	}
	r.must(chat("free"), 200)
}
