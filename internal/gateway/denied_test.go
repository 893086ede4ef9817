package gateway_test

import (
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/holdfast-ai/holdfast/ledger"
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
