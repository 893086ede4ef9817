package policy

import (
	"errors"
	"os"
	"testing"
)

// FuzzParse: no text panics, hangs or floods the report; what is refused has a line and a remedy, and what is accepted
// prints as something that is accepted again and means the same.
func FuzzParse(f *testing.F) {
	for _, text := range []string{
		"", "a", "- a", "env: a\nenv: b", "a: &a {b: *a}", "a: &a [*a]", "x: &x {a: 1}\ny: {<<: *x}", "? a\n: b", "!!map {a: b}", "%YAML 1.2\n---\nenv: a",
		"env: \"\\u0000\"", "env: |\n  a\n", "env: >-\n  a\n", "env: 'a", "env: [a", "{env: a}", "env: ${A}", "env: $${A}", "env: ${", "listen: ${file:/x}",
		"workflow: a\nlanes: {}", "workflows: {a: {match: {models: [\"*?*\"]}}}", "models: {\"a.b[0]\": {}}", "a:\n\t- b", "--- a\n--- b", "env: .nan", "limits: {workers: 0o17}",
		"workflows: {a: {succeeded: \"((((((((((status))))))))))\"}}", "workflows: {a: {idempotency: {key: \"{{}}{a}\"}}}", "\ufeffenv: a", "env: a #c\r\nlisten: b\r\n", "~: ~", "workflows:\n  a:\n  b:",
		"tools: {t: {base_url: \"http://h\", routes: [{match: \"GET /\", definite: [500, \"true\"]}]}}", "store: [\"sqlite:\"]", "store: \"postgres://u:p@h/d?password=x\"",
	} {
		f.Add([]byte(text))
	}
	for _, file := range []string{"testdata/good/whole.yaml", "testdata/good/forms.yaml", "testdata/good/policy.yaml", "testdata/bad/types.yaml", "testdata/bad/external.yaml"} {
		text, err := os.ReadFile(file)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(text)
	}
	l := &loader{
		env:      fullEnv,
		readFile: func(string) ([]byte, error) { return nil, errors.New("no files here") },
		glob:     func(string) ([]string, error) { return nil, nil },
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		c, faults := l.load("fuzz.yaml", text)
		if len(faults) > maxFaults || (c == nil) != Refused(faults) {
			t.Fatalf("%d faults, config %v", len(faults), c != nil)
		}
		for _, fault := range faults {
			if fault.Line < 1 || fault.Col < 1 || fault.What == "" {
				t.Fatalf("%+v", fault)
			}
		}
		if c == nil {
			return
		}
		again, faults := l.load("fuzz.yaml", c.Print())
		if again == nil {
			t.Fatalf("%s\n%s", lines(faults), c.Print())
		}
		if again.Revision != c.Revision {
			t.Fatalf("prints\n%s\nthen\n%s", c.Print(), again.Print())
		}
	})
}
