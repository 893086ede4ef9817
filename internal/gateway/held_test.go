package gateway_test

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-ai/holdfast/idempotency"
	"github.com/holdfast-ai/holdfast/intent"
	"github.com/holdfast-ai/holdfast/internal/gateway"
	"github.com/holdfast-ai/holdfast/ledger"
)

// A key that a call holds answers at every door as it answers a call: with what that one has come to, and nothing is sent.
func TestEveryDoorAnswersAHeldKeyAlike(t *testing.T) {
	t.Parallel()
	r := newRig(t, func(c *rigConfig) { c.yaml = queued })
	r.script("refused", `{"status":400,"error":"invalid_request_error","message":"no such thing"}`)
	r.always("lost", "reset_after_body")
	for _, c := range []struct {
		q      request
		status int
		code   string
	}{
		{chat("done").key("done"), 200, ""},
		{chat("refused").key("refused"), 400, ""},
		{chat("lost").key("lost").workflow("act"), 409, "outcome_unknown"},
		{streamed("flow").key("flow"), 200, ""},
	} {
		op := c.q.op()
		first := r.do(c.q)
		id := first.header.Get("Holdfast-Intent")
		sent := int64(r.sim.Counts(op).Calls)
		plain := r.must(c.q, c.status)
		r.reload(queued, "retry: {base: 1ms, max: 2ms}}", "approval: dispatch, retry: {base: 1ms, max: 2ms}}")
		approving := r.do(c.q)
		r.reload(queued)
		for door, a := range map[string]*answered{"async": r.do(c.q.async()), "jobs": r.submitBy(c.q), "approval": approving} {
			if a.status != c.status || string(a.body) != string(plain.body) && c.code == "" {
				t.Errorf("%s, %s: %d %s, and a plain call %d %s", op, door, a.status, a.body, plain.status, plain.body)
			}
			if door == "jobs" && c.code != "" {
				continue // which writes its errors itself
			}
			for _, name := range []string{"Idempotency-Replayed", "Holdfast-Intent", "Holdfast-Error", "Holdfast-Safe-To-Retry", "X-Should-Retry"} {
				if got, want := a.header.Get(name), plain.header.Get(name); got != want {
					t.Errorf("%s, %s: %s is %q, and of a plain call %q", op, door, name, got, want)
				}
			}
			if got := a.header.Get("Holdfast-Intent"); got != id || a.code() != c.code {
				t.Errorf("%s, %s: %s of %s, not of %s", op, door, a.code(), got, id)
			}
		}
		r.calls(op, sent)
	}
}

// submitBy asks with q at the door of the jobs API.
func (r *rig) submitBy(q request) *answered {
	w := httptest.NewRecorder()
	_, _, err := r.gw.SubmitJob(httptest.NewRequest("POST", "/holdfast/v1/jobs", nil), gateway.JobRequest{Path: q.path, Body: []byte(q.body),
		Workflow: q.header["Holdfast-Workflow"], IdempotencyKey: q.header["Idempotency-Key"]})
	var kept *gateway.AnsweredError
	var refused *gateway.Error
	switch {
	case errors.As(err, &kept):
		kept.Answer(w)
	case errors.As(err, &refused):
		w.Header().Set("Holdfast-Error", string(refused.Code))
		w.Header().Set("Holdfast-Intent", refused.Intent)
		w.WriteHeader(refused.Status())
	default:
		w.WriteHeader(http.StatusAccepted)
	}
	return &answered{status: w.Code, header: w.Header(), body: w.Body.Bytes()}
}

// What an owner has to approve is never sent as a call of its own, although the call that holds its key is there to be gone on with.
func TestApprovalTakesOverNothing(t *testing.T) {
	t.Parallel()
	r := newRig(t, func(c *rigConfig) { c.yaml = queued })
	q := chat("waiting").key("w")
	id := r.waitingCall(q)
	if a := r.do(q.async()); a.status != 200 || a.header.Get("Holdfast-Intent") != id {
		t.Errorf("async goes on with it: %d %s", a.status, a.body)
	}
	r.calls("waiting", 2) // one of them the probe's
	q = chat("asked").key("x")
	id = r.waitingCall(q)
	r.reload(strings.Replace(queued, "default: {", "default: {approval: dispatch, ", 1))
	for _, ask := range []request{q, q.async()} {
		if a := r.must(ask, 409); a.code() != "request_in_flight" || a.header.Get("Holdfast-Intent") != id {
			t.Errorf("%s", a.body)
		}
	}
	if rec := r.record(id); rec.State != ledger.Created {
		t.Errorf("%+v", rec.Status)
	}
	r.calls("asked", 1)
}

// waitingCall leaves the intent of a call behind, of which nothing was sent before its process ended.
func (r *rig) waitingCall(q request) string {
	r.t.Helper()
	head := r.until(r.submit(q.key("probe-"+q.op())), settledJob).Intent
	head.Key, head.ID, head.JobID = idempotency.ExplicitKey("test", "main", q.header["Idempotency-Key"]), "", ""
	op, err := r.log.Begin(intent.Begin{Head: head, Claim: true, ExpiresAt: r.store.Now().Add(time.Hour)})
	if err != nil {
		r.t.Fatal(err)
	}
	r.close()
	r.start(rigConfig{})
	if rec := r.record(op.ID()); rec.LeaseOwner != "" || rec.State != ledger.Created || rec.JobID != "" {
		r.t.Fatalf("%+v", rec)
	}
	return op.ID()
}
