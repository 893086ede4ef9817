package holdfast

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/holdfast-ai/holdfast/internal/pgtest"
	"github.com/holdfast-ai/holdfast/ledger"
	"github.com/holdfast-ai/holdfast/ledger/postgres"
	"github.com/holdfast-ai/holdfast/ledger/spread"
)

// onDatabases is an engine without ports whose operations are spread over databases of a server.
func onDatabases(t *testing.T, server *pgtest.Server, names ...string) (*Engine, error) {
	t.Helper()
	var list []string
	for _, name := range names {
		list = append(list, fmt.Sprintf("%q", server.DSN(name)))
	}
	file := filepath.Join(t.TempDir(), "holdfast.yaml")
	text := "store: [" + strings.Join(list, ", ") + "]\nworkflows: {refund: {effect: external, retry: {max_attempts: 1}}}\n"
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	e, err := New(Config{File: file, Embedded: true, Getenv: func(string) (string, bool) { return "", false }})
	if err != nil {
		t.Fatal(err)
	}
	if err := e.Start(t.Context()); err != nil {
		return nil, err
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
		defer cancel()
		if err := e.Stop(ctx); err != nil {
			t.Error(err)
		}
	})
	return e, nil
}

// TestSpreadOverDatabases: replicas that list the same databases in any order are one gateway; one that lists others is refused; while a database is
// away its own keys are refused, every other one is served, and it needs no restart to come back.
func TestSpreadOverDatabases(t *testing.T) {
	server := pgtest.Start(t)
	server.Exec(t, "postgres", "CREATE DATABASE a", "CREATE DATABASE b", "CREATE DATABASE c")
	one, err := onDatabases(t, server, "a", "b")
	if err != nil {
		t.Fatal(err)
	}
	two, err := onDatabases(t, server, "b", "a")
	if err != nil {
		t.Fatal(err)
	}
	var set *spread.SetError
	for _, names := range [][]string{{"a"}, {"a", "b", "c"}, {"b", "c"}} {
		if _, err := onDatabases(t, server, names...); !errors.As(err, &set) {
			t.Errorf("with %v: %v, want a *spread.SetError", names, err)
		}
	}
	var calls atomic.Int64
	do := func(e *Engine, key string, info *Info) error {
		_, err := Do(t.Context(), e, Operation{Key: key, Workflow: "refund", Info: info}, func(context.Context) (string, error) {
			calls.Add(1)
			return "done", nil
		})
		return err
	}
	const keys = 20
	ids := map[string]string{}
	for i := range keys {
		key := fmt.Sprintf("order-%d", i)
		var first, second Info
		if err := errors.Join(do(one, key, &first), do(two, key, &second)); err != nil || !second.Replayed || second.Intent != first.Intent {
			t.Fatalf("%s: %+v, then %+v, %v", key, first, second, err)
		}
		ids[key] = first.Intent
	}
	if calls.Load() != keys {
		t.Errorf("%d calls of %d keys", calls.Load(), keys)
	}
	inB := held(t, server, "b")
	if n := len(inB); n == 0 || n == keys {
		t.Fatalf("database b holds %d of %d operations", n, keys)
	}
	cut := func(allow bool) {
		server.Exec(t, "postgres", fmt.Sprintf("ALTER DATABASE b ALLOW_CONNECTIONS %t", allow),
			"SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = 'b'")
	}
	cut(false)
	for key, id := range ids {
		err := do(two, key, nil)
		var refused *Error
		switch {
		case !inB[id] && err != nil:
			t.Errorf("%s, kept in a: %v", key, err)
		case inB[id] && (!errors.As(err, &refused) || refused.Code != ErrStoreUnavailable):
			t.Errorf("%s, kept in b, which is away: %v", key, err)
		}
	}
	cut(true)
	for key, id := range ids {
		for inB[id] { // as a client does that is told to try again
			var refused *Error
			if err := do(two, key, nil); err == nil {
				break
			} else if !errors.As(err, &refused) || refused.Code != ErrStoreUnavailable {
				t.Fatalf("%s, kept in b, which is back: %v", key, err)
			}
		}
	}
	if calls.Load() != keys {
		t.Errorf("%d calls of %d keys", calls.Load(), keys)
	}
}

// held are the ids of the operations in a database.
func held(t *testing.T, server *pgtest.Server, database string) map[string]bool {
	t.Helper()
	l, err := postgres.OpenReadOnly(t.Context(), server.DSN(database))
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	records, err := l.List(t.Context(), ledger.Filter{Limit: 1000})
	if err != nil {
		t.Fatal(err)
	}
	out := map[string]bool{}
	for _, r := range records {
		out[r.ID] = true
	}
	return out
}
