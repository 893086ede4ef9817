package gateway_test

import (
	"bytes"
	"strings"
	"testing"

	"github.com/holdfast-ai/holdfast/ledger"
)

// proved has a provider that reads its clients' credentials from a header of its own.
const proved = `
env: test
providers:
  corp: {type: openai, base_url: "SIM/v1", auth_header: x-corp-token, headers: {X-Tier: corp}}
  nokey: {type: openai, base_url: "SIM/v1", headers: {X-Tier: nokey}}
  other: {type: openai, base_url: "SIM/v1", api_key: "sk-other", headers: {X-Tier: other}}
models: {big: {context_tokens: 200000}}
workflows:
  three:
    match: {paths: ["/by-name-only"]}
    retry: {max_attempts: 1}
    tiers: [{name: one, model: big}, {name: two, provider: nokey, model: big}, {name: three, provider: other, model: big}]
  cached:
    match: {paths: ["/by-name-only"]}
    cache: {first: true, template: [{name: tell, pattern: "hello {x}", ttl: 1h}]}
  default: {retry: {max_attempts: 1}}
`

const corpToken = "corp-client-secret-4711"

func provedRig(t *testing.T) *rig { return newRig(t, func(c *rigConfig) { c.yaml = proved }) }

func corp(op string) request { // the same for everybody, so that an earlier answer might do
	q := chat(op, `,"temperature":0`)
	q.path = "/corp" + q.path
	return q
}

// Whatever header a provider's auth_header names carries a credential: it goes to the provider that its path names, and to no other.
func TestAuthHeaderStaysHome(t *testing.T) {
	r := provedRig(t)
	r.atTier("cred", "corp", `{"status":503}`)
	a := r.must(corp("cred").workflow("three").with("X-Corp-Token", corpToken), 200)
	if a.header.Get("Holdfast-Source") != "three" || !strings.Contains(a.header.Get("Holdfast-Trail"), "two; skipped; rule=providers.nokey.api_key") {
		t.Errorf("%v", a.header)
	}
	for _, call := range r.sim.Calls("cred") {
		if got, at := call.Headers["X-Corp-Token"], call.Headers["X-Tier"]; (got != "") != (at == "corp") {
			t.Errorf("%s was sent X-Corp-Token: %q", at, got)
		}
	}
	direct := chat("direct").with("X-Corp-Token", corpToken)
	direct.path = "/other" + direct.path
	r.must(direct, 200)
	if got := r.sim.Calls("direct")[0].Headers["X-Corp-Token"]; got != "" {
		t.Errorf("a provider with a key of its own was sent %q", got)
	}
	r.atRest()
}

// It says whose a call is: nobody is given what another one asked for, beside whatever placeholder their SDKs send.
func TestAuthHeaderIsATenant(t *testing.T) {
	r := provedRig(t)
	tenants := map[string]bool{}
	for _, who := range []request{
		corp("who").with("X-Corp-Token", "alice-token-4711"), corp("who").with("X-Corp-Token", "bob-token-4711"),
		corp("who").with("X-Corp-Token", "alice-token-4711", "Authorization", "Bearer unused"),
		corp("who").with("X-Corp-Token", "bob-token-4711", "Authorization", "Bearer unused"), corp("who"),
	} {
		a := r.must(who.workflow("cached"), 200)
		if got := a.header.Get("Holdfast-Source"); strings.HasPrefix(got, "cache") {
			t.Errorf("%v was given another's answer", who.header)
		}
		tenants[r.settled(a.header.Get("Holdfast-Intent")).Tenant] = true
	}
	if len(tenants) != 5 || !tenants["anonymous"] {
		t.Errorf("tenants %v", tenants)
	}
	if a := r.must(corp("who").workflow("cached").with("X-Corp-Token", "bob-token-4711"), 200); a.header.Get("Holdfast-Source") != "cache:template" {
		t.Errorf("its own answer: %v", a.header)
	}
}

// No error shows it, and no row keeps it.
func TestAuthHeaderIsNotKept(t *testing.T) {
	r := provedRig(t)
	r.always("echo", `{"status":401,"body":"{\"error\":{\"message\":\"bad key `+corpToken+`\"}}"}`)
	if a := r.must(corp("echo").with("X-Corp-Token", corpToken), 401); bytes.Contains(a.body, []byte(corpToken)) {
		t.Errorf("%s", a.body)
	}
	if a := r.must(corp("job").with("X-Corp-Token", corpToken, "Prefer", "respond-async"), 400); !bytes.Contains(a.body, []byte("providers.corp.api_key")) {
		t.Errorf("%s", a.body)
	}
	job := chat("job").with("X-Corp-Token", corpToken, "Prefer", "respond-async")
	job.path = "/other" + job.path
	a := r.must(job, 202)
	id := a.header.Get("Holdfast-Intent")
	kept, err := r.store.Body(t.Context(), id, ledger.BodyHeader)
	if err != nil || bytes.Contains(kept.Data, []byte(corpToken)) {
		t.Errorf("%s %v", kept.Data, err)
	}
	r.until(id, settledJob)
	r.atRest()
}

// A key of auth.keys lets its client in by whichever of those headers, and beside a placeholder in another.
func TestAuthKeyInAnyHeader(t *testing.T) {
	r := newRig(t, func(c *rigConfig) {
		c.yaml = proved + "auth: {keys: [{key: \"our-own-key-of-the-shop-0815\", tenant: shop}]}\n"
	})
	for _, h := range [][]string{{"X-Corp-Token", "our-own-key-of-the-shop-0815"}, {"Authorization", "Bearer unused", "X-Corp-Token", "our-own-key-of-the-shop-0815"},
		{"Authorization", "Bearer our-own-key-of-the-shop-0815", "X-Corp-Token", corpToken}} {
		q := chat("keys").with(h...)
		q.path = "/other" + q.path
		if a := r.must(q, 200); r.settled(a.header.Get("Holdfast-Intent")).Tenant != "shop" {
			t.Errorf("%v", h)
		}
	}
	q := chat("keys").with("X-Corp-Token", corpToken)
	q.path = "/other" + q.path
	r.must(q, 401)
	for _, call := range r.sim.Calls("keys") {
		if call.Headers["X-Corp-Token"] != "" {
			t.Errorf("%v", call.Headers)
		}
	}
}
