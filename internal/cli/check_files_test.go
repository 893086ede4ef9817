package cli

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestCheckLooksForDatabases holds that check looks at the files that reconcilers read: one that is missing is doubtful, and
// Holdfast's own store under another name is no evidence.
func TestCheckLooksForDatabases(t *testing.T) {
	dir := t.TempDir()
	for _, name := range []string{"log.db", "far.db"} {
		if err := os.WriteFile(filepath.Join(dir, name), nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Link(filepath.Join(dir, "log.db"), filepath.Join(dir, "alias.db")); err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]string{
		"far.db":   "",
		"none.db":  `tools.t.routes[0].reconcile.dsn: warning: there is no file "`,
		"alias.db": "tools.t.routes[0].reconcile.dsn: is Holdfast's own store under another name",
		"log.db":   "tools.t.routes[0].reconcile.dsn: is Holdfast's own store, which knows nothing",
	} {
		file := filepath.Join(dir, "holdfast.yaml")
		config := `
store: "sqlite:DIR/log.db"
tools:
  t:
    base_url: http://127.0.0.1:1
    routes: [{match: "POST /x", key: "{a}", reconcile: {sql: "SELECT id FROM t WHERE k = $1", dsn: "sqlite:DIR/NAME", happened: "len(result) > 0"}}]
`
		if err := os.WriteFile(file, []byte(strings.NewReplacer("DIR", filepath.ToSlash(dir), "NAME", name).Replace(config)), 0o600); err != nil {
			t.Fatal(err)
		}
		var out, report bytes.Buffer
		err := checkFiles(&out, &report, []string{file}, false)
		if (err != nil) != (want != "" && !strings.Contains(want, "warning")) || !strings.Contains(report.String(), want) || want == "" && report.Len() > 0 {
			t.Errorf("%s: %v\n%s", name, err, report.String())
		}
		if want != "" && !strings.HasPrefix(report.String(), file+":6:") {
			t.Errorf("%s: no line is named in %s", name, report.String())
		}
	}
}
