package idempotency_test

import (
	"bytes"
	"encoding/hex"
	"encoding/json"
	"os"
	"testing"

	"github.com/holdfast-ai/holdfast/idempotency"
)

// vector is one request with what every implementation must make of it. The request is written by hand, the rest by -update.
type vector struct {
	Name          string              `json:"name"`
	Method        string              `json:"method,omitempty"`
	Path          string              `json:"path"`
	Query         string              `json:"query,omitempty"`
	Headers       map[string][]string `json:"headers,omitempty"`
	Owner         string              `json:"owner,omitempty"`
	Body          string              `json:"body,omitempty"`
	BodyHex       string              `json:"body_hex,omitempty"` // where it is not text
	Ignore        []string            `json:"ignore,omitempty"`
	SchemaVersion string              `json:"schema_version,omitempty"`
	Template      string              `json:"template,omitempty"`

	Canonical   string `json:"canonical"`
	Fingerprint string `json:"fingerprint"`
	Business    string `json:"business,omitempty"` // the form under the template
	Key         string `json:"key"`                // env production, tenant main, workflow chat
}

func (v *vector) fill(t *testing.T) {
	body := []byte(v.Body)
	if v.BodyHex != "" {
		var err error
		if body, err = hex.DecodeString(v.BodyHex); err != nil {
			t.Fatal(v.Name, err)
		}
	}
	k := keyer(t, idempotency.Config{Ignore: v.Ignore, SchemaVersion: v.SchemaVersion, Key: v.Template})
	r := &idempotency.Request{
		Env: "production", Tenant: "main", Workflow: "chat",
		Owner: v.Owner, Method: v.Method, Path: v.Path, Query: v.Query, Header: v.Headers, Body: body,
	}
	fp := k.Fingerprint(r)
	key, err := k.DerivedKey(r, fp)
	if err != nil {
		t.Fatal(v.Name, err)
	}
	v.Canonical, v.Fingerprint, v.Key = string(k.Canonical(nil, r)), hex.EncodeToString(fp[:]), key
	if v.Template != "" {
		business, err := k.Business(nil, r)
		if err != nil {
			t.Fatal(v.Name, err)
		}
		v.Business = string(business)
	}
}

// TestVectors holds the golden vectors for other languages.
func TestVectors(t *testing.T) {
	const file = "testdata/vectors.json"
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var vectors []vector
	if err := json.Unmarshal(data, &vectors); err != nil {
		t.Fatal(err)
	}
	if len(vectors) < 20 {
		t.Fatalf("only %d vectors", len(vectors))
	}
	golden := make([]vector, len(vectors))
	copy(golden, vectors)
	for i := range vectors {
		v := &vectors[i]
		v.fill(t)
		if g := golden[i]; !*update && (v.Canonical != g.Canonical || v.Fingerprint != g.Fingerprint || v.Key != g.Key || v.Business != g.Business) {
			t.Errorf("%s: got\n%s\n%s\n%s\n%s\nwant\n%s\n%s\n%s\n%s", v.Name, v.Canonical, v.Business, v.Fingerprint, v.Key, g.Canonical, g.Business, g.Fingerprint, g.Key)
		}
	}
	if !*update {
		return
	}
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", "  ")
	if err := enc.Encode(vectors); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, b.Bytes(), 0o644); err != nil {
		t.Fatal(err)
	}
}
