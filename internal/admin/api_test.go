package admin

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/holdfast-ai/holdfast/intent"
	"github.com/holdfast-ai/holdfast/internal/gateway"
	"github.com/holdfast-ai/holdfast/internal/policy"
	"github.com/holdfast-ai/holdfast/ledger"
)

// unknown puts an operation of a tenant's on record whose outcome is not known.
func (r *rig) unknown(tenant, key string) string {
	r.t.Helper()
	o, err := r.log.Begin(intent.Begin{Claim: true, Attempt: &intent.Attempt{Route: "r"},
		Head: ledger.Intent{Tenant: tenant, Workflow: "pay", Effect: ledger.EffectExternal, Hold: true, Key: "idem:test:" + tenant + ":key:" + key, Explicit: true}})
	if err == nil {
		err = o.Lose(intent.Ending{Error: "timeout", Billed: true}, nil)
	}
	if err != nil {
		r.t.Fatal(err)
	}
	return o.ID()
}

func (r *rig) operators(auth policy.Auth) http.Handler {
	guard := gateway.NewGuard(auth)
	return r.api.Operators(func() *gateway.Guard { return guard }, func() gateway.Readiness { return gateway.Readiness{Ready: true} }, http.NotFoundHandler())
}

func send(h http.Handler, method, path, body string, header ...string) *httptest.ResponseRecorder {
	req := httptest.NewRequest(method, "http://localhost"+path, strings.NewReader(body))
	for i := 0; i+1 < len(header); i += 2 {
		if header[i] == "Host" {
			req.Host = header[i+1]
		}
		req.Header.Set(header[i], header[i+1])
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, req)
	return w
}

// A tenant sees its own operations, however it asks, and may change none.
func TestTenantsSeeTheirOwn(t *testing.T) {
	r := newRig(t)
	mine, theirs := r.unknown("one", "k"), r.unknown("two", "k")
	h := r.api.Tenants(func(*http.Request) string { return "one" })
	for path, want := range map[string]int{
		"/holdfast/v1/intents/" + mine: 200, "/holdfast/v1/intents/" + theirs: 404, "/holdfast/v1/intents?key=idem:test:two:key:k": 404,
		"/holdfast/v1/intents?key=idem:test:two:key:k&tenant=two": 404, "/holdfast/v1/intents?key=idem:test:one:key:k": 200,
		"/holdfast/v1/intents/none": 404, "/holdfast/v1/other": 404,
	} {
		w := send(h, "GET", path, "")
		if w.Code != want || w.Code == 404 && strings.Contains(w.Body.String(), theirs+`"`) {
			t.Errorf("%s: %d %s, want %d", path, w.Code, w.Body, want)
		}
	}
	for _, query := range []string{"", "?tenant=two", "?all=1", "?tenant=two&all=1&state=unknown", "?idempotency_key=idem:test:two:key:k", "?before=ffffffff"} {
		var list []Intent
		if err := json.Unmarshal(send(h, "GET", "/holdfast/v1/intents"+query, "").Body.Bytes(), &list); err != nil {
			t.Fatal(err)
		}
		for _, v := range list {
			if v.Tenant != "one" {
				t.Errorf("%s shows %s's", query, v.Tenant)
			}
		}
	}
	if w := send(h, "POST", "/holdfast/v1/intents/"+mine+"/resolve", `{"outcome":"success","by":"me","reason":"I say so"}`); w.Code != 404 {
		t.Errorf("a tenant resolved: %d", w.Code)
	}
}

// The admin port is for operators, from pages and names of its own; health checks are for everybody (semantics 44).
func TestOperatorsOnly(t *testing.T) {
	r := newRig(t)
	auth := policy.Auth{Hosts: []string{"ops.internal"}, Keys: []policy.AuthKey{
		{Key: policy.NewSecret("operator-key"), Tenant: "main", Role: policy.RoleOperator}, {Key: policy.NewSecret("client-key"), Tenant: "main", Role: policy.RoleClient}}}
	closed, open := r.operators(auth), r.operators(policy.Auth{})
	const list = "/holdfast/v1/intents"
	for i, c := range []struct {
		h      http.Handler
		path   string
		header []string
		want   int
	}{
		{open, list, nil, 200},
		{open, list, []string{"Host", "evil.example"}, 403},
		{open, list, []string{"Host", "127.0.0.1:8788"}, 200},
		{open, list, []string{"Origin", "http://evil.example"}, 403},
		{open, list, []string{"Origin", "null"}, 403},
		{open, list, []string{"Host", "localhost:8788", "Origin", "http://localhost:8788"}, 200},
		{open, list, []string{"Host", "localhost:8788", "Origin", "http://localhost:3000"}, 403},
		{closed, list, nil, 401},
		{closed, list, []string{"Authorization", "Bearer client-key"}, 401},
		{closed, list, []string{"Authorization", "Bearer operator-key"}, 200},
		{closed, list, []string{"X-Api-Key", "operator-key"}, 200},
		{closed, list, []string{"Authorization", "Bearer operator-key", "Host", "evil.example"}, 403},
		{closed, list, []string{"Authorization", "Bearer operator-key", "Host", "ops.internal"}, 200},
		{closed, "/metrics", nil, 401},
		{closed, "/healthz", []string{"Host", "evil.example"}, 200},
		{closed, "/readyz", []string{"Host", "evil.example", "Origin", "http://evil.example"}, 200},
		{closed, "/nothing", nil, 401},
	} {
		if w := send(c.h, "GET", c.path, "", c.header...); w.Code != c.want {
			t.Errorf("%d: %s %v: %d %s, want %d", i, c.path, c.header, w.Code, w.Body, c.want)
		}
	}
}

func TestResolve(t *testing.T) {
	r := newRig(t)
	h := r.operators(policy.Auth{})
	id := r.unknown("one", "k")
	path := "/holdfast/v1/intents/" + id + "/resolve"
	for _, body := range []string{"", "{}", "null", "[]", `{"outcome":"discarded","by":"a","reason":"b"}`, `{"outcome":"success","by":" ","reason":"b"}`,
		`{"outcome":"success","by":"a"}`, `{"outcome":"success","by":"a","reason":"b","extra":1}`, strings.Repeat("[", 100_000)} {
		if w := send(h, "POST", path, body); w.Code != 400 {
			t.Errorf("%.40q: %d", body, w.Code)
		}
	}
	good := `{"outcome":"success","by":"ada","reason":"the bank says so"}`
	if w := send(h, "POST", "/holdfast/v1/intents/none/resolve", good); w.Code != 404 {
		t.Errorf("none: %d", w.Code)
	}
	w := send(h, "POST", path, good)
	var v Intent
	if err := json.Unmarshal(w.Body.Bytes(), &v); err != nil || w.Code != 200 || v.State != "settled" || v.Outcome != "success" {
		t.Fatalf("%d %s", w.Code, w.Body)
	}
	said := fmt.Sprintf("%+v", v.History)
	if !strings.Contains(said, "ada") || !strings.Contains(said, "the bank says so") {
		t.Errorf("the history does not say who and why: %s", said)
	}
	if w := send(h, "POST", path, good); w.Code != 409 {
		t.Errorf("resolved twice: %d", w.Code)
	}
	if w := send(h, "GET", path, ""); w.Code == 200 {
		t.Errorf("resolved by a GET: %d", w.Code)
	}
}

// TestResolveWarns holds that a person who says "failed" while the far side may still act is told so, and "success" frees no key.
func TestResolveWarns(t *testing.T) {
	r := newRig(t)
	h := r.operators(policy.Auth{})
	for outcome, warns := range map[string]bool{"failed": true, "success": false} {
		id := r.unknown("one", "warn-"+outcome)
		w := send(h, "POST", "/holdfast/v1/intents/"+id+"/resolve", `{"outcome":"`+outcome+`","by":"ada","reason":"looked"}`)
		var v Intent
		if err := json.Unmarshal(w.Body.Bytes(), &v); err != nil || w.Code != 200 || v.Outcome != outcome {
			t.Fatalf("%d %s", w.Code, w.Body)
		}
		if strings.Contains(v.Warning, "the far side may still act on it") != warns {
			t.Errorf("%s: warning %q", outcome, v.Warning)
		}
		if strings.Contains(send(h, "GET", "/holdfast/v1/intents/"+id, "").Body.String(), `"warning"`) {
			t.Error("what was said once is no part of the operation")
		}
	}
}

func TestFiltersAreChecked(t *testing.T) {
	r := newRig(t)
	r.unknown("one", "a")
	r.settled("one", "b", ledger.OutcomeSuccess)
	h := r.operators(policy.Auth{})
	for query, want := range map[string]int{
		"": 1, "?all=1": 2, "?state=unknown": 1, "?state=unknown,settled": 2, "?outcome=success": 1, "?state=dispatched": 0, "?workflow=pay": 1,
		"?tenant=two": 0, "?older_than=1h": 0, "?newer_than=1h": 1, "?all=1&limit=1": 1,
		"?state=gone": -1, "?outcome=x": -1, "?older_than=yesterday": -1, "?limit=0": -1, "?limit=1001": -1, "?limit=x": -1, "?state=,": -1,
	} {
		w := send(h, "GET", "/holdfast/v1/intents"+query, "")
		if want < 0 {
			if w.Code != 400 {
				t.Errorf("%s: %d %s", query, w.Code, w.Body)
			}
			continue
		}
		var list []Intent
		if err := json.Unmarshal(w.Body.Bytes(), &list); err != nil || len(list) != want {
			t.Errorf("%s: %d of %d, %v", query, len(list), want, err)
		}
	}
}
