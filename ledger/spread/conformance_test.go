package spread

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"sync/atomic"
	"testing"

	"go.uber.org/goleak"

	"github.com/holdfast-ai/holdfast/internal/pgtest"
	"github.com/holdfast-ai/holdfast/ledger"
	"github.com/holdfast-ai/holdfast/ledger/ledgertest"
	"github.com/holdfast-ai/holdfast/ledger/postgres"
	"github.com/holdfast-ai/holdfast/ledger/sqlite"
)

// shared is the one server of this package's tests; nil where no Postgres is installed.
var shared *pgtest.Server

func TestMain(m *testing.M) { os.Exit(withServer(m)) }

func withServer(m *testing.M) int {
	var err error
	shared, err = pgtest.Serve("max_connections=300")
	if err != nil && (!errors.Is(err, pgtest.ErrNone) || os.Getenv(pgtest.Required) != "") {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	code := m.Run()
	if shared != nil {
		shared.Close()
	}
	if err := goleak.Find(); err != nil && code == 0 {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return code
}

// spreadOver makes one ledger of stores.
func spreadOver(t testing.TB, stores ...ledger.Ledger) *Ledger {
	t.Helper()
	l, err := New(context.Background(), stores, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := l.Close(); err != nil {
			t.Errorf("Close: %v", err)
		}
	})
	return l
}

// files opens n stores in files, those of a folder.
func files(t testing.TB, dir string, n int) (out []ledger.Ledger) {
	t.Helper()
	for i := range n {
		l, err := sqlite.Open(context.Background(), sqlite.Config{Path: filepath.Join(dir, fmt.Sprintf("%d.db", i))})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = l.Close() }) // also where New refused it
		out = append(out, l)
	}
	return out
}

var made atomic.Int64

// databases makes n databases and returns how to open all of them, again and again.
func databases(t testing.TB, n int) func() []ledger.Ledger {
	t.Helper()
	if shared == nil {
		t.Skip("there is no Postgres on this machine: this test asks a real server (apt-get install postgresql; ./test.sh does so)")
	}
	var names []string
	for range n {
		name := fmt.Sprintf("part%d", made.Add(1))
		shared.Exec(t, "postgres", "CREATE DATABASE "+name)
		t.Cleanup(func() { shared.Exec(t, "postgres", "DROP DATABASE IF EXISTS "+name+" WITH (FORCE)") })
		names = append(names, name)
	}
	return func() (out []ledger.Ledger) {
		for _, name := range names {
			l, err := postgres.Open(context.Background(), postgres.Config{URL: shared.DSN(name)})
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = l.Close() }) // also where New refused it
			out = append(out, l)
		}
		return out
	}
}

func TestConformance(t *testing.T) {
	ledgertest.Run(t, func(t *testing.T) ledger.Ledger { return spreadOver(t, files(t, t.TempDir(), 3)...) })
	ledgertest.RunReopen(t, func(t *testing.T) func() ledger.Ledger {
		dir, turn := t.TempDir(), 0
		return func() ledger.Ledger {
			stores := files(t, dir, 3)
			if turn++; turn%2 == 0 {
				slices.Reverse(stores)
			}
			return spreadOver(t, stores...)
		}
	})
}

func TestConformancePostgres(t *testing.T) {
	ledgertest.Run(t, func(t *testing.T) ledger.Ledger { return spreadOver(t, databases(t, 2)()...) })
}

func TestReplicas(t *testing.T) {
	ledgertest.RunReplicas(t, func(t *testing.T) (ledger.Ledger, ledger.Ledger) {
		open := databases(t, 2)
		a := spreadOver(t, open()...)
		stores := open()
		slices.Reverse(stores)
		return a, spreadOver(t, stores...)
	})
}
