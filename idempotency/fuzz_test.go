package idempotency_test

import (
	"bytes"
	"crypto/sha256"
	"testing"

	"github.com/holdfast-ai/holdfast/idempotency"
)

// FuzzCanonical feeds hostile requests: nothing crashes, the fingerprint is the hash of what is shown, the form's lines cannot be
// forged from within a value, and a body in canonical form is its own.
func FuzzCanonical(f *testing.F) {
	k := keyer(f, idempotency.Config{Ignore: []string{"ts", "a.b"}, SchemaVersion: "1"})
	business := keyer(f, idempotency.Config{Key: "{a.b}:{model}"})
	f.Fuzz(func(t *testing.T, path, query, mediaType, coding, header string, body []byte) {
		r := &idempotency.Request{
			Env: "test", Tenant: "main", Workflow: "default", Method: "POST", Path: path, Query: query, Owner: header, Body: body,
			Header: map[string][]string{"Content-Type": {mediaType}, "Content-Encoding": {coding}, "Anthropic-Beta": {header}},
		}
		form, _ := k.Explain(nil, r)
		if sha256.Sum256(form) != k.Fingerprint(r) {
			t.Fatalf("%q is not what was hashed", form)
		}
		business.DerivedKey(r, k.Fingerprint(r))
		head, _, _ := bytes.Cut(form, []byte("\nbody "))
		for _, line := range bytes.Split(head, []byte("\n"))[1:] {
			if line[len(line)-1] != '"' {
				t.Fatalf("a line was forged: %q", form)
			}
		}
		_, doc, ok := bytes.Cut(form, []byte("\nbody json\n"))
		if !ok {
			return
		}
		again := *r
		again.Header = map[string][]string{"Content-Type": {mediaType}, "Anthropic-Beta": {header}}
		again.Body = doc
		if k.Fingerprint(&again) != k.Fingerprint(r) {
			t.Fatalf("%q\nis not its own form:\n%q", form, k.Canonical(nil, &again))
		}
	})
}

// FuzzTemplate looks for panics, and for templates that are accepted and mean nothing.
func FuzzTemplate(f *testing.F) {
	f.Fuzz(func(t *testing.T, text string, body []byte) {
		tpl, err := idempotency.ParseTemplate(text)
		if err != nil {
			return
		}
		if len(tpl.Fields()) == 0 || tpl.String() != text {
			t.Fatalf("%q: %v", text, tpl.Fields())
		}
		k := keyer(t, idempotency.Config{Key: text})
		r := &idempotency.Request{Path: "/x", Body: body}
		if key, err := k.DerivedKey(r, [32]byte{}); (key == "") != (err != nil) {
			t.Fatalf("%q, %v", key, err)
		}
	})
}
