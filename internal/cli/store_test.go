package cli

import (
	"bytes"
	"os"
	"strings"
	"testing"

	"github.com/spf13/cobra"

	"github.com/holdfast-ai/holdfast/ledger/sqlite"
)

func TestVerifyReports(t *testing.T) {
	found := []sqlite.Violation{{Rule: "state", Intent: "i-1", Detail: "is open in state 9"}, {Rule: "claim", Intent: "k", Detail: "is claimed by \x1bno intent"}}
	for _, c := range []struct {
		found []sqlite.Violation
		json  bool
		want  string
		err   string
	}{
		{nil, false, "x.db: every invariant holds\n", ""},
		{nil, true, "[]\n", ""},
		{found, false, "state: i-1: is open in state 9\nclaim: k: is claimed by ?no intent\n", "2 rows of x.db break an invariant"},
		{found[:1], true, `[{"rule":"state","intent":"i-1","detail":"is open in state 9"}]` + "\n", "1 row of x.db breaks an invariant"},
	} {
		var out bytes.Buffer
		err := reportViolations(&out, "x.db", c.found, c.json)
		if out.String() != c.want || (err == nil) != (c.err == "") || err != nil && !strings.Contains(err.Error(), c.err) {
			t.Errorf("%s%v", out.String(), err)
		}
	}
}

func TestStorePath(t *testing.T) {
	for dsn, want := range map[string]string{
		"a.db": "a.db", "sqlite:a.db": "a.db", "SQLite:/x/a.db": "/x/a.db", "sqlite:///x/a.db": "/x/a.db", "./b:c.db": "./b:c.db",
		"": "", "sqlite:": "", "postgres://u@h/db": "", "redis://h": "",
	} {
		got, err := storePath(dsn)
		if got != want || (err == nil) != (want != "") {
			t.Errorf("%q: %q, %v", dsn, got, err)
		}
	}
}

// docs/cli.md has every command and every flag of the operator's commands.
func TestEveryCommandIsInTheManual(t *testing.T) {
	b, err := os.ReadFile("../../docs/cli.md")
	if err != nil {
		t.Fatal(err)
	}
	manual, n := string(b), 0
	var walk func(*cobra.Command)
	walk = func(cmd *cobra.Command) {
		if cmd.Hidden || cmd.Name() == "help" {
			return
		}
		n++
		if !strings.Contains(manual, "`"+cmd.CommandPath()) {
			t.Errorf("docs/cli.md does not have `%s`", cmd.CommandPath())
		}
		for _, sub := range cmd.Commands() {
			walk(sub)
		}
	}
	for _, cmd := range rootCommand().Commands() {
		walk(cmd)
	}
	if n < 10 {
		t.Errorf("only %d commands", n)
	}
}
