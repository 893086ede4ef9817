package postgres_test

import (
	"context"
	"strings"
	"sync"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/holdfast-ai/holdfast/internal/pgtest"
	"github.com/holdfast-ai/holdfast/internal/shared"
	"github.com/holdfast-ai/holdfast/internal/shared/postgres"
	"github.com/holdfast-ai/holdfast/internal/shared/sharedtest"
)

func TestConformance(t *testing.T) {
	server := pgtest.Start(t)
	sharedtest.Run(t, sharedtest.Store{
		Open: func(t *testing.T, env string) shared.Driver {
			t.Helper()
			d, err := postgres.Open(t.Context(), postgres.Config{URL: server.DSN("postgres"), Env: env, MaxConns: 2})
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(d.Close)
			return d
		},
		Freeze: func(t *testing.T) func() { return lock(t, server) },
	})
}

// lock holds every table against everybody.
func lock(t *testing.T, server *pgtest.Server) (unlock func()) {
	t.Helper()
	ctx := context.Background()
	c, err := pgx.Connect(ctx, server.DSN("postgres"))
	if err == nil {
		_, err = c.Exec(ctx, "BEGIN; LOCK TABLE holdfast_shared.register, holdfast_shared.slots, holdfast_shared.sum IN ACCESS EXCLUSIVE MODE")
	}
	if err != nil {
		t.Fatal(err)
	}
	return func() {
		if err := c.Close(ctx); err != nil {
			t.Error(err)
		}
	}
}

// Replicas that start at once all find the schema.
func TestOpenAtOnce(t *testing.T) {
	server := pgtest.Start(t)
	var all sync.WaitGroup
	for range 6 {
		all.Go(func() {
			d, err := postgres.Open(t.Context(), postgres.Config{URL: server.DSN("postgres"), Env: "e"})
			if err != nil {
				t.Error(err)
				return
			}
			d.Close()
		})
	}
	all.Wait()
	if _, err := postgres.Open(t.Context(), postgres.Config{URL: server.DSN("postgres") + "&work_mem=1"}); err == nil || !strings.Contains(err.Error(), `"work_mem"`) {
		t.Errorf("an unknown parameter: %v", err)
	}
	server.Exec(t, "postgres", "CREATE USER poor PASSWORD 'p'", "DROP SCHEMA holdfast_shared CASCADE")
	if _, err := postgres.Open(t.Context(), postgres.Config{URL: server.As("poor", "p", "postgres")}); err == nil || !strings.Contains(err.Error(), "GRANT CREATE ON DATABASE") {
		t.Errorf("without the right to: %v", err)
	}
}
