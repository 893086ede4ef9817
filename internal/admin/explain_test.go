package admin

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"

	"github.com/holdfast-ai/holdfast/decision"
	"github.com/holdfast-ai/holdfast/internal/explain"
	"github.com/holdfast-ai/holdfast/internal/policy"
)

// The admin port explains by the running policy; tenants are told nothing of it.
func TestExplain(t *testing.T) {
	r := newRig(t)
	cfg := policy.Default(func(string) (string, bool) { return "", false })
	r.api.Policy = func() *policy.Config { return cfg }
	const path = "/holdfast/v1/explain"
	question := `{"http_status":429,"headers":{"retry-after":"3600"},"body":"{}","workflow":"default"}`
	w := send(r.operators(policy.Auth{}), "POST", path, question)
	var x explain.Explanation
	if err := json.Unmarshal(w.Body.Bytes(), &x); err != nil || w.Code != 200 {
		t.Fatalf("%d %s", w.Code, w.Body)
	}
	if x.PolicyRevision != cfg.Revision || x.CoolDownMS != 3_600_000 || len(x.Decisions) != 1 ||
		x.Decisions[0].Action != decision.Fail || x.Decisions[0].Condition != decision.RetryAfterExceedsDeadline {
		t.Errorf("%s", w.Body)
	}
	for body, want := range map[string]int{"": 400, "[]": 400, `{"http_statsu":429}`: 400, `{"http_status":42}`: 400,
		`{"http_status":429,"workflow":"nobody"}`: 400, strings.Repeat("[", 100_000): 400, `{"body":"` + strings.Repeat("x", maxQuestion) + `"}`: 413} {
		if w := send(r.operators(policy.Auth{}), "POST", path, body); w.Code != want || !strings.Contains(w.Body.String(), `"message":`) {
			t.Errorf("%.40q: %d %.200s, want %d", body, w.Code, w.Body, want)
		}
	}
	closed := r.operators(policy.Auth{Keys: []policy.AuthKey{{Key: policy.NewSecret("client-key"), Tenant: "main", Role: policy.RoleClient}}})
	if w := send(closed, "POST", path, question, "Authorization", "Bearer client-key"); w.Code != 401 {
		t.Errorf("a client asks the admin port: %d", w.Code)
	}
	if w := send(r.api.Tenants(func(*http.Request) string { return "main" }), "POST", path, question); w.Code != 404 {
		t.Errorf("a tenant asks: %d", w.Code)
	}
	if w := send(r.operators(policy.Auth{}), "GET", path, ""); w.Code == 200 {
		t.Errorf("by GET: %d", w.Code)
	}
}
