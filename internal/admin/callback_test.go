package admin

import (
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/holdfast-ai/holdfast/intent"
	"github.com/holdfast-ai/holdfast/ledger"
)

// A job names its callbacks and what became of them; one in the dead letter is replayed as any job is, and nothing that is shown
// says what the address's query does.
func TestCallbacksAreShownAndReplayed(t *testing.T) {
	r, _, h := working(t)
	got := make(chan string, 10)
	receiver := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		got <- req.Header.Get("Webhook-Id")
		w.WriteHeader(http.StatusAccepted)
	}))
	defer receiver.Close()
	_, port, err := net.SplitHostPort(receiver.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	// The name is in no allow list; what it stands for is, which is found when it is dialled.
	job := r.told(h, "inner", "http://localhost:"+port+"/done?token=hidden")
	rec := r.until(job, done)
	v := r.shown(h, job)
	if len(v.Callbacks) != 1 || v.Callbacks[0].Type != "job.settled" || v.CallbackURL != "http://localhost:"+port+"/done?masked" {
		t.Fatalf("%+v", v)
	}
	if rec.Callback == v.CallbackURL {
		t.Error("the address itself is not kept")
	}
	first := r.until(<-got, done)
	if first.ID != v.Callbacks[0].ID || first.Outcome != ledger.OutcomeSuccess {
		t.Errorf("%+v", first)
	}
	nobody := httptest.NewServer(http.NotFoundHandler())
	nobody.Close()
	refused := r.told(h, "refused", nobody.URL+"/done?token=hidden")
	r.until(refused, done)
	id := r.shown(h, refused).Callbacks[0].ID
	if err := r.parkCallback(id); err != nil {
		t.Fatal(err)
	}
	if c := r.shown(h, refused).Callbacks[0]; c.Lane != intent.LaneDead {
		t.Errorf("%+v", c)
	}
	c := r.shown(h, id)
	if c.CallbackOf != refused || c.OnUnknown != "retry" || c.Effect != "external" {
		t.Errorf("%+v", c)
	}
	override := strings.ReplaceAll(replayed(NotKnown), `"same"`, `"openai"`)
	if w := send(h, "POST", "/holdfast/v1/jobs/"+id+"/replay", override); w.Code != 400 {
		t.Errorf("by another route: %d %s", w.Code, w.Body)
	}
	if w := send(h, "POST", "/holdfast/v1/jobs/"+id+"/replay", replayed(NotKnown)); w.Code != 200 {
		t.Errorf("%d %s", w.Code, w.Body)
	}
	if rec := r.until(id, func(rec *ledger.Record) bool { return rec.Attempt > 0 && rec.LeaseOwner == "" }); rec.ExpiresAt.Sub(rec.UpdatedAt) < intent.CallbackAge/2 {
		t.Errorf("replayed: %+v", rec.Status)
	}
	for _, path := range []string{"/holdfast/v1/jobs/" + job, "/holdfast/v1/jobs/" + id, "/holdfast/v1/intents?all=1", "/holdfast/v1/jobs?all=1"} {
		if w := send(h, "GET", path, ""); w.Code != 200 || strings.Contains(w.Body.String(), "hidden") || !strings.Contains(w.Body.String(), "?masked") {
			t.Errorf("%s: %d %s", path, w.Code, w.Body)
		}
	}
	if w := send(h, "POST", "/holdfast/v1/jobs", `{"path":"/v1/chat/completions","workflow":"default","callback_url":"https://shop.example/","body":{"model":"m"}}`); w.Code != 400 ||
		!strings.Contains(w.Body.String(), "callbacks.secret") {
		t.Errorf("without a secret: %d %s", w.Code, w.Body)
	}
}

// parkCallback puts a callback that was not called yet, or failed, into the dead letter.
func (r *rig) parkCallback(id string) error {
	rec := r.until(id, func(rec *ledger.Record) bool { return rec.Attempt > 0 && rec.LeaseOwner == "" })
	return r.log.Load(rec).Park(intent.Parking{Lane: intent.LaneDead, Reason: "test"})
}

func (r *rig) told(h http.Handler, op, url string) string {
	r.t.Helper()
	w := send(h, "POST", "/holdfast/v1/jobs", fmt.Sprintf(`{"path":"/v1/chat/completions","workflow":"told","idempotency_key":%q,"callback_url":%q,
		"body":{"model":"m","messages":[{"role":"user","content":"op=%s"}]}}`, op, url, op))
	var v Intent
	if err := json.Unmarshal(w.Body.Bytes(), &v); err != nil || w.Code != 202 {
		r.t.Fatalf("%d %s", w.Code, w.Body)
	}
	return v.ID
}

func (r *rig) shown(h http.Handler, id string) (v Intent) {
	r.t.Helper()
	w := send(h, "GET", "/holdfast/v1/jobs/"+id, "")
	if err := json.Unmarshal(w.Body.Bytes(), &v); err != nil || w.Code != 200 {
		r.t.Fatalf("%d %s", w.Code, w.Body)
	}
	return v
}
