package policy

import (
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

var update = flag.Bool("update", false, "rewrite golden files")

// noEnv is an environment without variables.
func noEnv(string) (string, bool) { return "", false }

// fullEnv is one where every variable is set.
func fullEnv(name string) (string, bool) {
	return "https://hooks.example.com/" + strings.ToLower(name), true
}

func lines(faults []Fault) string {
	var b strings.Builder
	for _, f := range faults {
		b.WriteString(filepath.ToSlash(f.String()) + "\n")
	}
	return b.String()
}

func files(t *testing.T, pattern string) []string {
	t.Helper()
	out, err := filepath.Glob(pattern)
	if err != nil || len(out) == 0 {
		t.Fatalf("no files for %s: %v", pattern, err)
	}
	return out
}

// TestBad holds every fault line of every broken file.
func TestBad(t *testing.T) {
	for _, file := range files(t, "testdata/bad/*.yaml") {
		t.Run(filepath.Base(file), func(t *testing.T) {
			c, faults := Load(file, noEnv)
			if c != nil || !Refused(faults) {
				t.Errorf("config %v, refused %v", c != nil, Refused(faults))
			}
			golden(t, strings.TrimSuffix(file, ".yaml")+".golden", lines(faults))
		})
	}
}

func golden(t *testing.T, file, got string) {
	t.Helper()
	if *update {
		if err := os.WriteFile(file, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), got); diff != "" {
		t.Errorf("%s (-want +got):\n%s", file, diff)
	}
}
