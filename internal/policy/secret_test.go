package policy

import (
	"bytes"
	"encoding/json"
	"fmt"
	"log/slog"
	"strings"
	"testing"

	"github.com/goccy/go-yaml"
)

// TestSecretsNeverPrint tries every way a value usually reaches a log (semantics 45).
func TestSecretsNeverPrint(t *testing.T) {
	const key, password = "sk-very-secret-1234567", "hunter22"
	c := parse(t, `
store: "postgres://user:`+password+`@db/holdfast"
providers: {openai: {api_key: `+key+`, headers: {X-Key: `+key+`}}}
auth: {keys: [`+key+`]}
workflows: {a: {callbacks: {secret: `+key+`}}}
`)
	var out bytes.Buffer
	for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q", "%x", "%X", "%d", "%t", "%p"} {
		fmt.Fprintf(&out, verb, c.Providers)
		fmt.Fprintf(&out, verb, c.Providers[0].APIKey)
		fmt.Fprintf(&out, verb, c.Store)
		fmt.Fprintf(&out, verb, c.Store[0])
		fmt.Fprintf(&out, verb, c.Auth)
		fmt.Fprintf(&out, verb, *c)
	}
	for _, encode := range []func(any) ([]byte, error){json.Marshal, yaml.Marshal} {
		b, err := encode(c)
		if err != nil {
			t.Fatal(err)
		}
		out.Write(b)
	}
	slog.New(slog.NewTextHandler(&out, nil)).Info("x", "key", c.Auth.Keys[0].Key, "store", c.Store[0], "auth", c.Auth)
	slog.New(slog.NewJSONHandler(&out, nil)).Info("x", "key", c.Auth.Keys[0].Key, "store", c.Store[0], "auth", c.Auth)
	out.Write(c.Print())
	for _, secret := range []string{key, password, fmt.Sprintf("%x", key), fmt.Sprintf("%X", password)} {
		if strings.Contains(out.String(), secret) {
			t.Errorf("%q was printed", secret)
		}
	}
	if c.Providers[0].APIKey.Reveal() != key || !strings.Contains(c.Store[0].Reveal(), password) {
		t.Error("Reveal does not reveal")
	}
}

// TestFaultsNameNoSecret: a fault about a value that came from the environment must not show it.
func TestFaultsNameNoSecret(t *testing.T) {
	const secret = "s3cr3t value with spaces"
	_, faults := Parse("holdfast.yaml", []byte(`
env: ${V}
listen: ${V}
store: ${V}
limits: {workers: "${V}", commit_wait: "${V}", body_memory: "${V}"}
workflows: {a: {mode: "${V}", match: {paths: ["${V}"]}, retry: {on: ["${V}"], share: "${V}"}, succeeded: "${V}", bulkhead: {wait: "${V}"}}}
`), func(string) (string, bool) { return secret, true })
	if report := lines(faults); strings.Contains(report, "s3cr3t") || len(faults) < 10 {
		t.Errorf("%s", report)
	}
}

func TestSecretReferencesStay(t *testing.T) {
	c, _ := Parse("holdfast.yaml", []byte(`
providers:
  openai: {api_key: "${KEY}", headers: {A: "Bearer ${KEY}", B: "literal-${KEY}", C: "$${not}"}}
store: "postgres://u:${PW}@db/x"
`), fullEnv)
	printed := string(c.Print())
	for _, want := range []string{`api_key: "${KEY}"`, `A: "Bearer ${KEY}"`, `B: "[redacted]"`, `C: "[redacted]"`, `"postgres://u:${PW}@db/x"`} {
		if !strings.Contains(printed, want) {
			t.Errorf("no %s in\n%s", want, printed)
		}
	}
	if got := c.Providers[0].Headers[2].Value.Reveal(); got != "${not}" {
		t.Errorf("$${not} means %q", got)
	}
}
