package cli

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-ai/holdfast/internal/pgtest"
	"github.com/holdfast-ai/holdfast/ledger"
	"github.com/holdfast-ai/holdfast/ledger/postgres"
)

// TestStoreInPostgres: every command that reads or keeps a store does so where it is a database, and says nothing of its password.
func TestStoreInPostgres(t *testing.T) {
	server := pgtest.Start(t)
	url := server.DSN("postgres")
	run := func(args ...string) string {
		t.Helper()
		var out, report bytes.Buffer
		cmd := rootCommand()
		cmd.SetOut(&out)
		cmd.SetErr(&report)
		cmd.SetArgs(append(args, "--store", url))
		if err := cmd.ExecuteContext(t.Context()); err != nil {
			t.Fatalf("%v: %v\n%s", args, err, report.String())
		}
		if all := out.String() + report.String(); strings.Contains(all, server.Password()) {
			t.Errorf("%v tells the password: %s", args, all)
		}
		return out.String()
	}
	want := func(text string, args ...string) {
		t.Helper()
		if out := run(args...); !strings.Contains(out, text) {
			t.Errorf("%v: %s; want %q", args, out, text)
		}
	}
	want("version 1, was 0", "store", "migrate")
	want("nothing to do", "store", "migrate")
	id := "01a22faf-dbef-7000-8a38-3fbc3e107d2a"
	l, err := postgres.Open(t.Context(), postgres.Config{URL: url})
	if err != nil {
		t.Fatal(err)
	}
	now := l.Now()
	err = ledger.Commit(t.Context(), l, &ledger.Write{
		Insert: &ledger.Intent{ID: id, Tenant: "main", Workflow: "chat", Effect: ledger.EffectExternal, Method: "POST", Path: "/v1/pay", CreatedAt: now},
		Status: ledger.Status{Version: 1, State: ledger.Created, Outcome: ledger.OutcomePending, UpdatedAt: now, ExpiresAt: now.Add(time.Hour)},
		Events: []ledger.Event{{At: now, Kind: "transition", To: ledger.Created, Actor: "gateway"}},
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	want("every invariant holds", "store", "verify")
	want(`"id":"`+id, "store", "export")
	want(id[:8], "intents", "list", "--all")
	want("intent_created", "intents", "show", id)
	want("/v1/pay", "trace", id)
	want(", was ", "store", "compact")
}

// TestStoreInSeveralDatabases: what keeps a store takes each database in turn; what reads one does not take the first for all.
func TestStoreInSeveralDatabases(t *testing.T) {
	server := pgtest.Start(t)
	server.Exec(t, "postgres", "CREATE DATABASE one", "CREATE DATABASE two")
	file := filepath.Join(t.TempDir(), "holdfast.yaml")
	text := fmt.Sprintf("store: [%q, %q]\n", server.DSN("one"), server.DSN("two"))
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	for command, want := range map[string]string{"migrate": "version ", "verify": "every invariant holds", "export": "", "compact": ", was "} {
		out, err := asked(t, "store", "migrate", "--config", file)
		if err != nil {
			t.Fatal(err)
		}
		if command != "migrate" {
			out, err = asked(t, "store", command, "--config", file)
		}
		if err != nil || want != "" && (strings.Count(out, want) != 2 || !strings.Contains(out, "/one") || !strings.Contains(out, "/two")) {
			t.Errorf("store %s: %s, %v", command, out, err)
		}
	}
	if _, err := asked(t, "replay-policy", file, "--config", file); err == nil || !strings.Contains(err.Error(), "over 2 databases") {
		t.Errorf("replay-policy: %v", err)
	}
}

// asked runs a command line.
func asked(t *testing.T, args ...string) (string, error) {
	var out bytes.Buffer
	cmd := rootCommand()
	cmd.SetOut(&out)
	cmd.SetErr(&out)
	cmd.SetArgs(args)
	err := cmd.ExecuteContext(t.Context())
	return out.String(), err
}
