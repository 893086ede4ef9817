package gateway_test

import (
	"net/http"
	"net/http/httptest"
	"os"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/holdfast-ai/holdfast/decision"
	"github.com/holdfast-ai/holdfast/internal/gateway"
	"github.com/holdfast-ai/holdfast/internal/policy"
	"github.com/holdfast-ai/holdfast/internal/provider"
	"github.com/holdfast-ai/holdfast/ledger"
	"github.com/holdfast-ai/holdfast/signal"
)

// TestToolDenied holds that a route can say of a status that it proves nothing, however the service dresses it up: what answers 503
// after the effect is held then, and not tried again.
func TestToolDenied(t *testing.T) {
	var calls atomic.Int64
	far := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		calls.Add(1)
		w.Header().Set("Retry-After", "1")
		status := map[string]int{"/late": 503, "/trusted": 503, "/limited": 429, "/gone": 404}[r.URL.Path]
		w.WriteHeader(status)
	}))
	defer far.Close()
	r := newRig(t, func(c *rigConfig) {
		c.yaml = strings.ReplaceAll(`
env: test
tools:
  shop:
    base_url: FAR
    routes:
      - {match: "POST /late", key: "{cart}", definite: [500, "!503"], timeout: 3s}
      - {match: "POST /limited", key: "{cart}", definite: "!429", timeout: 3s}
      - {match: "POST /gone", key: "{cart}", definite: ["!404"], timeout: 3s}
      - {match: "POST /trusted", key: "{cart}", timeout: 3s}
`, "FAR", far.URL)
	})
	for path, status := range map[string]int{"late": 503, "limited": 429, "gone": 404} {
		calls.Store(0)
		q := request{path: "/tools/shop/" + path, body: `{"cart":"c1"}`}
		first := r.must(q, status)
		again := r.must(q, 409)
		if first.code() != "outcome_unknown" || again.code() != "outcome_unknown" || calls.Load() != 1 {
			t.Errorf("%s: %q, %q, %d calls", path, first.code(), again.code(), calls.Load())
		}
		if rec := r.record(first.header.Get("Holdfast-Intent")); rec.State != ledger.Unknown {
			t.Errorf("%s: %s", path, rec.State)
		}
		events, err := r.store.History(t.Context(), first.header.Get("Holdfast-Intent"))
		if err != nil || !slices.ContainsFunc(events, func(e ledger.Event) bool { return strings.HasSuffix(e.Rule, "].definite") }) {
			t.Errorf("%s: no line of the history names the rule: %v, %v", path, events, err)
		}
	}
	calls.Store(0)
	if first := r.must(request{path: "/tools/shop/trusted", body: `{"cart":"c1"}`}, 503); first.code() != "" || calls.Load() < 2 {
		t.Errorf("without a word of the route: %q, %d calls", first.code(), calls.Load())
	}
}

// TestToolAmbiguous holds that words which can be read in two ways prove neither.
func TestToolAmbiguous(t *testing.T) {
	body := ""
	far := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/definite" {
			w.WriteHeader(http.StatusInternalServerError)
		}
		_, _ = w.Write([]byte(body))
	}))
	defer far.Close()
	r := newRig(t, func(c *rigConfig) {
		c.yaml = strings.ReplaceAll(`
env: test
tools:
  shop:
    base_url: FAR
    routes:
      - {match: "POST /words", key: "{cart}", succeeded: ['body.status == "done"'], failed: ['body.status == "refused"']}
      - {match: "POST /succeeded", key: "{cart}", succeeded: ['body.status == "done"']}
      - {match: "POST /failed", key: "{cart}", failed: ['body.status == "refused"']}
      - {match: "POST /definite", key: "{cart}", definite: ['body.status == "refused"']}
`, "FAR", far.URL)
	})
	for _, body = range []string{`{"status":"done","status":"refused"}`, `{"status":"refused","status":"done"}`, `{"status":"x","status":"refused"}`} {
		for _, path := range []string{"words", "succeeded", "failed", "definite"} {
			a := r.do(request{path: "/tools/shop/" + path, body: `{"cart":"` + strings.ReplaceAll(body, `"`, "'") + `"}`})
			if a.code() != "outcome_unknown" {
				t.Errorf("%s of %s: %d %q", path, body, a.status, a.code())
			}
		}
	}
}

// TestToolProof holds that a failure which frees the key is shown by an answer that can be read: a page, half an answer or one of another
// shape proves nothing, however leniently it is asked.
func TestToolProof(t *testing.T) {
	cfg, faults := policy.Parse("test.yaml", []byte(`
env: test
tools:
  shop:
    base_url: http://127.0.0.1:1
    routes:
      - {match: "POST /definite", key: "{cart}", definite: ['(body?.charged ?? false) == false']}
      - {match: "POST /missing", key: "{cart}", definite: ['body.charged != true']}
      - {match: "POST /listed", key: "{cart}", definite: [500, 'body.charged == false']}
      - {match: "POST /succeeded", key: "{cart}", succeeded: ['(body?.status ?? "") == "done"']}
      - {match: "POST /strict", key: "{cart}", succeeded: ['body.status == "done"']}
      - {match: "POST /failed", key: "{cart}", failed: ['body.status != "done"']}
      - {match: "POST /created", key: "{cart}", succeeded: ["status == 201"]}
`), os.LookupEnv)
	if policy.Unservable(faults) {
		t.Fatal(faults)
	}
	shop := &cfg.Tools[0]
	const unknown, failed, good = decision.Unknown, decision.Failed, decision.Success
	for _, c := range []struct {
		path   string
		status int
		body   string
		want   decision.End
	}{
		{"definite", 500, `{"charged":false}`, failed},
		{"definite", 500, `{}`, failed},
		{"definite", 500, `{"charged":true}`, unknown},
		{"definite", 500, `<html>no`, unknown},
		{"definite", 500, `{"error":`, unknown},
		{"definite", 500, ``, unknown},
		{"missing", 500, `{"charged":false}`, failed},
		{"missing", 500, `{"error":"x"}`, unknown},
		{"missing", 500, `<html>no`, unknown},
		{"listed", 500, `<html>no`, failed}, // the status alone was said to prove it
		{"listed", 502, `<html>no`, unknown},
		{"listed", 502, `{"charged":false}`, failed},
		{"succeeded", 200, `{"status":"done"}`, good},
		{"succeeded", 200, `{"id":123456789012345678901,"status":"done"}`, good},
		{"succeeded", 200, `{"id":123456789012345678901,"status":"done","status":"x"}`, unknown},
		{"succeeded", 200, `{"status":"refused"}`, failed},
		{"succeeded", 200, `<html>please log in`, unknown},
		{"succeeded", 200, `{"status":"do`, unknown},
		{"succeeded", 200, ``, unknown},
		{"succeeded", 204, ``, unknown},
		{"strict", 200, `{"status":"refused"}`, failed},
		{"strict", 200, `{"state":"refused"}`, unknown},
		{"strict", 200, `{"status":["done"]}`, unknown},
		{"failed", 200, `{"status":"done"}`, good},
		{"failed", 200, `{"status":"refused"}`, failed},
		{"failed", 200, `{"state":"done"}`, unknown},
		{"failed", 200, `<html>`, unknown},
		{"failed", 200, ``, unknown},
		{"failed", 204, ``, good},
		{"created", 201, `<html>`, good},
		{"created", 200, `<html>`, failed},
	} {
		route := shop.Find("POST", "/"+c.path)
		call := cfg.Call(shop, route, "POST")
		j := gateway.Judge(call.Workflow("shop", shop.Path(route)), &provider.Call{Wire: provider.Tool}, true,
			signal.Answer{Status: c.status, Header: http.Header{"Content-Type": {"application/json"}}, Body: []byte(c.body)})
		if j.End != c.want || j.Reason == "" {
			t.Errorf("%s, %d %s: %s, %q; want %s", c.path, c.status, c.body, j.End, j.Reason, c.want)
		}
	}
}
