package postgres

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sync/atomic"
	"testing"

	"github.com/holdfast-ai/holdfast/internal/pgtest"
)

// shared is the one server of this package's tests; each test has a database of its own on it. It is nil where no Postgres is installed.
var shared *pgtest.Server

func TestMain(m *testing.M) { os.Exit(withServer(m)) }

func withServer(m *testing.M) int {
	var err error
	shared, err = pgtest.Serve("max_connections=300")
	switch {
	case err == nil:
		defer shared.Close()
	case !errors.Is(err, pgtest.ErrNone) || os.Getenv(pgtest.Required) != "":
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return m.Run()
}

var databases atomic.Int64

// emptyStore is the address of a database without anything in it.
func emptyStore(t testing.TB) string {
	t.Helper()
	if shared == nil {
		t.Skip("there is no Postgres on this machine: this test asks a real server (apt-get install postgresql; ./test.sh does so)")
	}
	name := fmt.Sprintf("test%d", databases.Add(1))
	shared.Exec(t, "postgres", "CREATE DATABASE "+name)
	t.Cleanup(func() { shared.Exec(t, "postgres", "DROP DATABASE IF EXISTS "+name+" WITH (FORCE)") })
	return shared.DSN(name)
}

// open opens a store; whoever calls it closes it.
func open(t testing.TB, cfg Config) *Ledger {
	t.Helper()
	l, err := Open(context.Background(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	return l
}
