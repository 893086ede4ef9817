package cli

import (
	"bytes"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// runCheck runs the command as its root does and returns what it wrote.
func runCheck(t *testing.T, args ...string) (out, report string, err error) {
	t.Helper()
	var o, e bytes.Buffer
	cmd := checkCommand()
	cmd.SilenceErrors = true
	cmd.SetOut(&o)
	cmd.SetErr(&e)
	cmd.SetArgs(args)
	err = cmd.Execute()
	return o.String(), e.String(), err
}

func TestCheckExamples(t *testing.T) {
	files, err := filepath.Glob("../../examples/config/*.yaml")
	if err != nil || len(files) < 3 {
		t.Fatalf("%v, %v", files, err)
	}
	out, _, err := runCheck(t, files...)
	if err != nil || strings.Count(out, ": ok, revision ") != len(files) || !strings.Contains(out, "total 25s < request 30s") {
		t.Errorf("%v\n%s", err, out)
	}
}

func TestCheckGoesOnAfterAFault(t *testing.T) {
	dir := t.TempDir()
	bad, good := filepath.Join(dir, "bad.yaml"), filepath.Join(dir, "good.yaml")
	write(t, bad, "env: test\nlimits:\n  workrs: 3\n")
	write(t, good, "env: test\n")
	out, report, err := runCheck(t, bad, filepath.Join(dir, "absent.yaml"), good)
	if !errors.Is(err, errRefused) || !strings.Contains(out, "good.yaml: ok") {
		t.Errorf("%v\n%s", err, out)
	}
	for _, want := range []string{bad + ":3:3: limits.workrs: unknown field; did you mean workers?\n", "absent.yaml:1:1: cannot be read"} {
		if !strings.Contains(report, want) {
			t.Errorf("no %q in\n%s", want, report)
		}
	}
}

func TestCheckPrintIsAConfiguration(t *testing.T) {
	t.Chdir(t.TempDir())
	write(t, "holdfast.yaml", "workflows: {chat: {timeouts: {total: 25s}}}\n")
	out, report, err := runCheck(t, "--print")
	if err != nil || report != "" {
		t.Fatalf("%v\n%s", err, report)
	}
	write(t, "effective.yaml", out)
	again, _, err := runCheck(t, "--print", "effective.yaml")
	if err != nil || again != out {
		t.Errorf("%v\n%s\nthen\n%s", err, out, again)
	}
}

func TestCheckSchema(t *testing.T) {
	out, _, err := runCheck(t, "--schema")
	var schema map[string]any
	if err != nil || json.Unmarshal([]byte(out), &schema) != nil || schema["$schema"] == nil {
		t.Errorf("%v\n%.200s", err, out)
	}
}

func write(t *testing.T, file, text string) {
	t.Helper()
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}
