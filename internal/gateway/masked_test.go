package gateway_test

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httptrace"
	"net/textproto"
	"strings"
	"sync"
	"testing"

	"github.com/holdfast-ai/holdfast/ledger"
)

// The header of shop that is named like a credential is a word that expressions look for; the others are in answers for what they say.
const maskedConfig = `
env: test
workflows:
  default: {retry: {max_attempts: 1}}
tools:
  shop:
    base_url: FAR
    headers: {X-Shop-Token: "done-4711-abcdef", X-Deploy: "${HOLDFAST_TEST_DEPLOY}", X-Auth-Type: "completed", X-Session-Span: "86400000"}
    routes:
      - {match: "POST /succeeded", key: "{cart}", succeeded: 'body.state == "done-4711-abcdef"', failed: 'body.state != "done-4711-abcdef"'}
      - {match: "POST /header", key: "{cart}", succeeded: 'headers["x-state"] == "done-4711-abcdef"', failed: 'body.state == ""'}
      - {match: "POST /failed", key: "{cart}", failed: 'body.state == "done-4711-abcdef"'}
      - {match: "POST /definite", key: "{cart}", definite: 'body.state == "done-4711-abcdef"'}
      - {match: "POST /found", key: "{cart}", reconcile: {get: "/read?ref={key}", happened: 'any(body.items, .state == "done-4711-abcdef")', every: 50ms, quiet: 150ms}}
      - {match: "POST /late", key: "{cart}", timeout: 200ms, succeeded: 'body.state == "done-4711-abcdef"'}
      - {match: "POST /plain", key: "{cart}", succeeded: 'body.type == "completed" && body.env == "production" && body.span == 86400000'}
`

// TestMaskingChangesNoVerdict holds that what an answer means is read from what the far side said, and that what is shown and replayed
// is without secrets all the same: a secret that is hidden from an expression would make an effect one that did not happen.
func TestMaskingChangesNoVerdict(t *testing.T) {
	t.Setenv("HOLDFAST_TEST_DEPLOY", "production")
	late := make(chan struct{})
	var mu sync.Mutex
	effects := map[string]int{}
	far := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		state := r.Header.Get("X-Shop-Token")
		w.Header().Set("Content-Type", "application/json")
		w.Header().Set("X-State", state)
		if r.URL.Path != "/read" {
			mu.Lock()
			effects[r.URL.Path]++
			mu.Unlock()
		}
		switch r.URL.Path {
		case "/definite", "/found":
			w.WriteHeader(http.StatusInternalServerError)
		case "/late":
			<-late
		}
		fmt.Fprintf(w, `{"state":%q,"items":[{"state":%q}],"env":%q,"type":%q,"span":%s}`, state, state, r.Header.Get("X-Deploy"),
			r.Header.Get("X-Auth-Type"), r.Header.Get("X-Session-Span"))
	}))
	defer far.Close()
	r := newRig(t, func(c *rigConfig) { c.yaml = strings.ReplaceAll(maskedConfig, "FAR", far.URL) })
	r.patrol()
	for _, x := range []struct {
		path    string
		status  int
		outcome ledger.Outcome
		again   int // effects, once it was asked for twice: a failure that is known to be one may be tried again
	}{
		{"succeeded", 200, ledger.OutcomeSuccess, 1}, {"header", 200, ledger.OutcomeSuccess, 1}, {"plain", 200, ledger.OutcomeSuccess, 1},
		{"failed", 502, ledger.OutcomeFailed, 2}, {"definite", 500, ledger.OutcomeFailed, 6},
		{"found", 500, ledger.OutcomeSuccess, 1}, {"late", 409, ledger.OutcomeSuccess, 1},
	} {
		q := request{path: "/tools/shop/" + x.path, body: `{"cart":"c"}`}
		first := r.do(q)
		if x.path == "late" {
			close(late)
		}
		if first.status != x.status {
			t.Fatalf("%s: %d %s", x.path, first.status, first.body)
		}
		if rec := r.settled(first.header.Get("Holdfast-Intent")); rec.Outcome != x.outcome {
			t.Errorf("%s: %v: %+v", x.path, rec.Outcome, rec)
		}
		again := r.do(q)
		mu.Lock()
		if n := effects["/"+x.path]; n != x.again {
			t.Errorf("%s: %d effects", x.path, n)
		}
		mu.Unlock()
		for _, a := range []*answered{first, again} {
			if all := fmt.Sprint(a.header) + string(a.body); strings.Contains(all, "done-4711-abcdef") {
				t.Errorf("%s shows a secret: %s", x.path, all)
			}
			if a.status == 200 && (!json.Valid(a.body) || !bytes.Contains(a.body, []byte(`"env":"production","type":"completed","span":86400000`))) {
				t.Errorf("%s: what is no secret is hidden: %s", x.path, a.body)
			}
		}
		if x.status == 200 && !bytes.Equal(first.body, again.body) {
			t.Errorf("%s: a replay is not what the first one had: %s, %s", x.path, first.body, again.body)
		}
	}
}

const codedConfig = `
env: test
providers:
  openai: {type: openai, base_url: "FAR/v1", api_key: "sk-model-secret-4711-abcdef"}
  open: {type: openai, base_url: "FAR/v1"}
workflows:
  default: {mode: observe}
tools:
  shop: {base_url: FAR, headers: {X-Shop-Token: "shop-secret/4711-abcdef"}, routes: [{match: "POST /*", key: "{cart}", mode: observe}]}
`

// TestSecretsComeBackInNoCoding holds semantics 45 where a client asks for a compressed answer: it would be searched in vain.
func TestSecretsComeBackInNoCoding(t *testing.T) {
	far := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var to io.Writer = w
		w.Header().Set("X-Early", r.Header.Get("Authorization")+r.Header.Get("X-Shop-Token"))
		w.WriteHeader(http.StatusEarlyHints)
		w.Header().Del("X-Early")
		w.Header().Set("Trailer", "X-Last")
		if strings.Contains(r.Header.Get("Accept-Encoding"), "gzip") {
			w.Header().Set("Content-Encoding", "gzip")
			z := gzip.NewWriter(w)
			defer z.Close()
			to = z
		}
		if strings.Contains(r.URL.RawQuery, "refuse") {
			w.WriteHeader(http.StatusUnauthorized)
		}
		said := r.Header.Get("Authorization") + r.Header.Get("X-Shop-Token")
		fmt.Fprintf(to, `{"error":{"message":"you sent %s"}}`, said)
		w.Header().Set("X-Last", said)
	}))
	defer far.Close()
	r := newRig(t, func(c *rigConfig) { c.yaml = strings.ReplaceAll(codedConfig, "FAR", far.URL) })
	said := func(a *answered) string {
		text := a.body
		if a.header.Get("Content-Encoding") == "gzip" {
			z, err := gzip.NewReader(bytes.NewReader(a.body))
			if err != nil {
				t.Fatal(err)
			}
			if text, err = io.ReadAll(z); err != nil {
				t.Fatal(err)
			}
		}
		return fmt.Sprint(a.header, a.trailer) + string(text)
	}
	for _, q := range []request{
		chat("seen"), {path: "/v1/chat/completions?refuse", body: chat("refused").body}, {path: "/v1/unknown", body: "{}"}, {path: "/v1/unknown?refuse", body: "{}"},
		{method: "GET", path: "/v1/unknown"}, {method: "GET", path: "/v1/models"}, {method: "GET", path: "/v1/models?refuse"},
		{path: "/tools/shop/a", body: `{"cart":"1"}`}, {path: "/tools/shop/a?refuse", body: `{"cart":"1"}`}, {method: "GET", path: "/tools/shop/a"},
	} {
		early := ""
		q.ctx = httptrace.WithClientTrace(t.Context(), &httptrace.ClientTrace{Got1xxResponse: func(_ int, h textproto.MIMEHeader) error {
			early += fmt.Sprint(h)
			return nil
		}})
		for _, coding := range []string{"gzip", "br, gzip;q=0.5", "identity"} {
			got := early + said(r.do(q.with("Accept-Encoding", coding)))
			if !strings.Contains(got, "you sent ") || strings.Contains(got, "4711-abcdef") {
				t.Errorf("%s %s, %s: %s", q.method, q.path, coding, got)
			}
		}
	}
	a := r.do(request{method: "GET", path: "/open/v1/unknown", header: map[string]string{"Accept-Encoding": "gzip"}})
	if a.header.Get("Content-Encoding") != "gzip" {
		t.Error("an answer that is not searched comes as its client wants it")
	}
}
