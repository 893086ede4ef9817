package admin

import (
	"encoding/json"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"path/filepath"
	"strings"
	"testing"

	"github.com/holdfast-ai/holdfast/idempotency"
	"github.com/holdfast-ai/holdfast/intent"
	"github.com/holdfast-ai/holdfast/internal/policy"
	"github.com/holdfast-ai/holdfast/ledger"
	"github.com/holdfast-ai/holdfast/ledger/sqlite"
)

const env = "test"

// rig is an API over a store of its own.
type rig struct {
	t   *testing.T
	log *intent.Log
	api *API
}

func newRig(t *testing.T) *rig {
	l, err := sqlite.Open(t.Context(), sqlite.Config{Path: filepath.Join(t.TempDir(), "test.db"), Env: env})
	if err != nil {
		t.Fatal(err)
	}
	g := intent.New(intent.Config{Ledger: l, Exclusive: true})
	t.Cleanup(func() {
		g.Close()
		if err := l.Close(); err != nil {
			t.Error(err)
		}
	})
	cfg := &policy.Config{Env: env}
	return &rig{t, g, New(Config{Ledger: l, Log: g, Policy: func() *policy.Config { return cfg }, Logger: slog.New(slog.DiscardHandler)})}
}

// settled puts an operation of a tenant's on record that failed for certain, which releases its key, or succeeded.
func (r *rig) settled(tenant, key string, outcome ledger.Outcome) string {
	r.t.Helper()
	full := key
	if !strings.HasPrefix(key, "idem:") {
		full = idempotency.ExplicitKey(env, tenant, key)
	}
	o, err := r.log.Begin(intent.Begin{Claim: true, Attempt: &intent.Attempt{Route: "r"},
		Head: ledger.Intent{Tenant: tenant, Workflow: "default", Effect: ledger.EffectGeneration, Key: full, Explicit: full != key}})
	if err != nil {
		r.t.Fatal(err)
	}
	s := intent.Settlement{Ending: intent.Ending{End: ledger.AttemptFailed}, Outcome: outcome}
	if outcome == ledger.OutcomeSuccess {
		s.Ending.End, s.KeepUntil = ledger.AttemptSuccess, r.api.Ledger.Now().Add(1e12)
	}
	if err := o.Settle(s, false, nil); err != nil {
		r.t.Fatal(err)
	}
	return o.ID()
}

// get asks as tenant, "" being an operator, and returns the status and the id, or what the error says.
func (r *rig) get(tenant string, q url.Values) (int, string) {
	r.t.Helper()
	w := httptest.NewRecorder()
	req := httptest.NewRequest(http.MethodGet, "/holdfast/v1/intents?"+q.Encode(), nil)
	r.api.Tenants(func(*http.Request) string { return tenant }).ServeHTTP(w, req)
	if w.Code != http.StatusOK {
		var f Failure
		if err := json.Unmarshal(w.Body.Bytes(), &f); err != nil {
			r.t.Fatal(err)
		}
		return w.Code, f.Error.Message
	}
	var v Intent
	if err := json.Unmarshal(w.Body.Bytes(), &v); err != nil {
		r.t.Fatalf("%v in %s", err, w.Body)
	}
	if len(v.History) == 0 {
		r.t.Errorf("%s comes without its history", v.ID)
	}
	return w.Code, v.ID
}

func TestByKey(t *testing.T) {
	r := newRig(t)
	r.settled("main", "k", ledger.OutcomeFailed) // which released it
	kept := r.settled("main", "k", ledger.OutcomeSuccess)
	hashed := r.settled("c-0123", "order-1", ledger.OutcomeSuccess)
	a := r.settled("a", "both", ledger.OutcomeSuccess)
	only := r.settled("a", "gone", ledger.OutcomeFailed)
	r.settled("b", "both", ledger.OutcomeSuccess)
	for name, c := range map[string]struct {
		as, tenant, key string
		status          int
		want            string
	}{
		"the newest of a key":               {"", "", "k", 200, kept},
		"a tenant that nobody knows":        {"", "", "order-1", 200, hashed},
		"the full key":                      {"", "", idempotency.ExplicitKey(env, "c-0123", "order-1"), 200, hashed},
		"two tenants":                       {"", "", "both", 409, "several tenants use this key; name one of "},
		"two tenants, one named":            {"", "a", "both", 200, a},
		"a key that was released":           {"", "", "gone", 200, only},
		"a tenant asks":                     {"a", "", "both", 200, a},
		"a tenant cannot name another":      {"a", "b", "both", 200, a},
		"a tenant asks by another's key":    {"a", "", idempotency.ExplicitKey(env, "b", "both"), 404, "no operation has this key"},
		"a key that nobody used":            {"", "", "none", 404, "no operation has this key"},
		"a tenant asks for another's alone": {"a", "", "order-1", 404, "no operation has this key"},
	} {
		q := url.Values{"key": {c.key}}
		if c.tenant != "" {
			q.Set("tenant", c.tenant)
		}
		if status, got := r.get(c.as, q); status != c.status || !strings.HasPrefix(got, c.want) || status == 409 && !strings.HasSuffix(got, " with --tenant (over HTTP: ?tenant=)") {
			t.Errorf("%s: %d %s, want %d %s", name, status, got, c.status, c.want)
		}
	}
}

// A listing by idempotency_key has every operation that had the key, the newest first.
func TestListByKey(t *testing.T) {
	r := newRig(t)
	first := r.settled("main", "k", ledger.OutcomeFailed)
	second := r.settled("main", "k", ledger.OutcomeSuccess)
	r.settled("main", "other", ledger.OutcomeSuccess)
	w := httptest.NewRecorder()
	q := url.Values{"idempotency_key": {idempotency.ExplicitKey(env, "main", "k")}, "all": {"1"}}
	r.api.Tenants(func(*http.Request) string { return "" }).ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/holdfast/v1/intents?"+q.Encode(), nil))
	var list []Intent
	if err := json.Unmarshal(w.Body.Bytes(), &list); err != nil {
		t.Fatal(err)
	}
	if len(list) != 2 || list[0].ID != second || list[1].ID != first || list[0].KeyOrigin != "caller" || len(list[0].Fingerprint) != 64 {
		t.Errorf("%s", w.Body)
	}
}
