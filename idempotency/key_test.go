package idempotency_test

import (
	"errors"
	"regexp"
	"strings"
	"testing"

	"github.com/holdfast-ai/holdfast/idempotency"
)

func TestValidateKey(t *testing.T) {
	for _, ok := range []string{"a", "!~", strings.Repeat("k", 255), `"8e03978e-40d5-43dd-bc93-6894a57f9324"`} {
		if err := idempotency.ValidateKey(ok); err != nil {
			t.Errorf("%q: %v", ok, err)
		}
	}
	for _, bad := range []string{"", strings.Repeat("k", 256), "a b", " a", "a\n", "a\x7f", "é", "a\x00"} {
		err := idempotency.ValidateKey(bad)
		if !errors.Is(err, idempotency.ErrInvalidKey) || bad != "" && strings.Contains(err.Error(), bad) {
			t.Errorf("%q: %v", bad, err)
		}
	}
}

func TestCallerKey(t *testing.T) {
	for _, tc := range []struct {
		values []string
		key    string
		ok     bool
		valid  bool
	}{
		{nil, "", false, true}, {[]string{"k"}, "k", true, true}, {[]string{""}, "", true, false}, {[]string{"a", "a"}, "", true, false},
	} {
		key, ok, err := idempotency.CallerKey(map[string][]string{"Idempotency-Key": tc.values})
		if key != tc.key || ok != tc.ok || (err == nil) != tc.valid {
			t.Errorf("%q: %q, %v, %v", tc.values, key, ok, err)
		}
	}
}

func TestKeyForms(t *testing.T) {
	k := keyer(t, idempotency.Config{})
	r := post("/x", `{}`)
	derived, err := k.DerivedKey(r, k.Fingerprint(r))
	if err != nil || !regexp.MustCompile(`^idem:test:main:default:[0-9a-f]{32}$`).MatchString(derived) {
		t.Errorf("%s, %v", derived, err)
	}
	explicit := idempotency.ExplicitKey("test", "main", "k-1")
	if !regexp.MustCompile(`^idem:test:main:key:[0-9a-f]{32}$`).MatchString(explicit) {
		t.Error(explicit)
	}
	keys := map[string]bool{explicit: true}
	for _, other := range []string{idempotency.ExplicitKey("prod", "main", "k-1"), idempotency.ExplicitKey("test", "m", "k-1"), idempotency.ExplicitKey("test", "main", "K-1"),
		idempotency.ExplicitKey("test:main", "", "k-1"), idempotency.ExplicitKey("test", ":main", "k-1"), idempotency.ExplicitKey("test%3Amain", "", "k-1")} {
		if keys[other] {
			t.Errorf("%s is shared", other)
		}
		keys[other] = true
	}
}

func TestOutboundKeyIsOpaque(t *testing.T) {
	a := idempotency.OutboundKey([]byte("secret"), "idem:prod:acme:billing:00")
	if !regexp.MustCompile(`^[0-9a-f]{8}-[0-9a-f]{4}-8[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$`).MatchString(a) {
		t.Error(a)
	}
	if a != idempotency.OutboundKey([]byte("secret"), "idem:prod:acme:billing:00") {
		t.Error("it changes")
	}
	if a == idempotency.OutboundKey([]byte("other"), "idem:prod:acme:billing:00") || a == idempotency.OutboundKey([]byte("secret"), "idem:prod:acme:billing:01") {
		t.Error("it is shared")
	}
}
