package gateway_test

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-ai/holdfast/intent"
	"github.com/holdfast-ai/holdfast/internal/gateway"
	"github.com/holdfast-ai/holdfast/ledger"
)

const callbackSecret = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"

// calling is the policy of the tests of callbacks.
const calling = `
env: test
providers: {openai: {type: openai, base_url: "SIM/v1", api_key: "sk-jobs"}}
workflows:
  told: {match: {paths: ["/by-name-only"]}, callbacks: {secret: "` + callbackSecret + `", allow: [127.0.0.1]}, retry: {base: 1ms, max: 2ms}}
  strict: {match: {paths: ["/by-name-only"]}, callbacks: {secret: "` + callbackSecret + `"}}
  acts: {match: {paths: ["/by-name-only"]}, effect: external, callbacks: {secret: "` + callbackSecret + `", allow: [127.0.0.1]}, retry: {base: 1ms, max: 2ms}}
  default: {}
tools: {shop: {base_url: "SIM/shop"}}
`

// told is a callback as its receiver has it.
type told struct {
	header http.Header
	body   []byte
	intent.CallbackBody
}

// receiver takes callbacks and answers them, each as the script says; the last line stays.
func receiver(t *testing.T, script ...http.HandlerFunc) (url string, got chan told) {
	got = make(chan told, 100)
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		c := told{header: r.Header, body: body}
		if err != nil || r.Method != http.MethodPost || json.Unmarshal(body, &c.CallbackBody) != nil {
			t.Errorf("%s %s: %s %v", r.Method, r.URL, body, err)
		}
		answer := func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusNoContent) }
		if len(script) > 0 {
			answer = script[0]
			script = script[min(1, len(script)-1):]
		}
		got <- c
		answer(w, r)
	}))
	t.Cleanup(s.Close)
	return s.URL + "/done?token=hidden", got
}

// post submits a job by our own API's words.
func (r *rig) post(workflow, key, op, callback string) (*ledger.Record, bool, error) {
	return r.gw.SubmitJob(httptest.NewRequestWithContext(r.t.Context(), http.MethodPost, "/holdfast/v1/jobs", nil), gateway.JobRequest{
		Path: "/v1/chat/completions", Workflow: workflow, IdempotencyKey: key, CallbackURL: callback,
		Body: json.RawMessage(`{"model":"m","messages":[{"role":"user","content":"op=` + op + `"}]}`)})
}

func (r *rig) called(workflow, op, callback string) string {
	r.t.Helper()
	rec, _, err := r.post(workflow, op, op, callback)
	if err != nil {
		r.t.Fatal(err)
	}
	return rec.ID
}

// verify is a receiver's own check of a signature, after the specification and not after our code.
func (c *told) verify(t *testing.T) {
	t.Helper()
	key, err := base64.StdEncoding.DecodeString(strings.TrimPrefix(callbackSecret, "whsec_"))
	if err != nil {
		t.Fatal(err)
	}
	h := c.header
	mac := hmac.New(sha256.New, key)
	fmt.Fprintf(mac, "%s.%s.%s", h.Get("webhook-id"), h.Get("webhook-timestamp"), c.body)
	if want := "v1," + base64.StdEncoding.EncodeToString(mac.Sum(nil)); h.Get("webhook-signature") != want {
		t.Errorf("signature %q of %v, want %s", h.Get("webhook-signature"), h, want)
	}
}

// The end of a job is told once, signed, with where its answer is and without the answer.
func TestCallbackTellsTheEnd(t *testing.T) {
	r := newRig(t, func(c *rigConfig) { c.yaml = calling })
	url, got := receiver(t)
	job := r.called("told", "c1", url)
	c := <-got
	c.verify(t)
	if c.Type != "job.settled" || c.Data.ID != job || c.Data.Outcome != "success" || c.Data.Result != "/holdfast/v1/jobs/"+job+"/result" ||
		c.header.Get("webhook-id") != c.Data.Callback || c.Data.IdempotencyKey != r.record(job).Key || strings.Contains(string(c.body), "choices") {
		t.Errorf("%s with %v", c.body, c.header)
	}
	rec := r.until(c.Data.Callback, settledJob)
	if rec.Outcome != ledger.OutcomeSuccess || rec.Attempt != 1 || intent.CallbackOf(&rec.Intent) != job || rec.Effect != ledger.EffectExternal {
		t.Errorf("%+v", rec)
	}
	if again, known, err := r.post("told", "c1", "c1", url); err != nil || !known || again.ID != job {
		t.Errorf("the same submission: %v %v %v", again, known, err)
	}
	if n := len(got); n != 0 {
		t.Errorf("told %d times more", n)
	}
	r.calls("c1", 1)
}

// What becomes unknown is told as that, and what comes of it by evidence or a person as another end.
func TestCallbackTellsTheUnknown(t *testing.T) {
	r := newRig(t, func(c *rigConfig) { c.yaml = calling })
	url, got := receiver(t)
	r.script("c2", "reset_after_body")
	job := r.called("acts", "c2", url)
	first := <-got
	first.verify(t)
	if first.Type != "job.dead_letter" && first.Type != "job.unknown" || first.Data.State != "unknown" {
		t.Errorf("%s", first.body)
	}
	if err := r.log.Load(r.record(job)).Resolve(ledger.OutcomeSuccess, "ops", "it is there", nil, time.Time{}); err != nil {
		t.Fatal(err)
	}
	second := <-got
	if second.Type != "job.settled" || second.Data.Outcome != "success" || second.header.Get("webhook-id") == first.header.Get("webhook-id") {
		t.Errorf("%s", second.body)
	}
}

func TestCallbackRefusedAtSubmission(t *testing.T) {
	r := newRig(t, func(c *rigConfig) { c.yaml = calling })
	url, _ := receiver(t)
	for _, c := range []struct{ workflow, url, says string }{
		{"default", "https://shop.example/", "workflows.default.callbacks.secret"},
		{"strict", "https://127.0.0.1:9000/", "callbacks.allow"},
		{"strict", "http://shop.example/", "https"},
		{"told", "https://169.254.169.254/latest/meta-data", "no public address"},
		{"told", "https://user:hidden@shop.example/", "password"},
		{"told", "nonsense", "absolute"},
	} {
		_, _, err := r.post(c.workflow, "refused", "refused", c.url)
		if err == nil || !strings.Contains(err.Error(), c.says) || strings.Contains(err.Error(), "hidden") {
			t.Errorf("%s in %s: %v", c.url, c.workflow, err)
		}
	}
	_, _, err := r.gw.SubmitJob(httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/holdfast/v1/jobs", nil),
		gateway.JobRequest{Path: "/tools/shop/orders", IdempotencyKey: "k", CallbackURL: url, Body: json.RawMessage(`{}`)})
	if err == nil || !strings.Contains(err.Error(), "tool") {
		t.Errorf("a tool's job: %v", err)
	}
	id := r.called("told", "mine", url)
	for _, other := range []string{url + "&x=1"} {
		if _, _, err := r.post("told", "mine", "mine", other); err == nil || !strings.Contains(err.Error(), "callback_url") {
			t.Errorf("the job again with another receiver: %v", err)
		}
	}
	if again, known, err := r.post("told", "mine", "mine", ""); err != nil || !known || again.ID != id {
		t.Errorf("the job again without one: %v %v", known, err)
	}
	all, err := r.store.List(t.Context(), ledger.Filter{Jobs: true})
	if err != nil {
		t.Fatal(err)
	}
	for _, rec := range all {
		if rec.ID != id && intent.CallbackOf(&rec.Intent) != id {
			t.Errorf("a refused job is there: %+v", rec.Intent)
		}
	}
}

// A restart between the end and the callback loses nothing and tells nothing twice.
func TestCallbackSurvivesRestart(t *testing.T) {
	r := newRig(t, func(c *rigConfig) { c.yaml = calling })
	hangs := make(chan struct{})
	url, got := receiver(t, func(http.ResponseWriter, *http.Request) { <-hangs }, func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(200) })
	r.called("told", "c3", url)
	first := <-got
	over, stop := context.WithCancel(t.Context())
	stop()
	r.stopJobs()
	r.gw.Drain(over)
	if rec := r.record(first.Data.Callback); rec.State != ledger.Dispatched || rec.LeaseOwner != "" || rec.Crashes != 0 || rec.BilledMaybe != 1 {
		t.Errorf("interrupted: %+v", rec.Status)
	}
	close(hangs)
	r.close()
	r.start(rigConfig{})
	second := <-got
	second.verify(t)
	if second.header.Get("webhook-id") != first.header.Get("webhook-id") || string(second.body) != string(first.body) {
		t.Errorf("%v %s\nthen %v %s", first.header, first.body, second.header, second.body)
	}
	if rec := r.until(first.Data.Callback, settledJob); rec.Outcome != ledger.OutcomeSuccess || rec.Attempt != 2 {
		t.Errorf("%+v", rec.Status)
	}
}
