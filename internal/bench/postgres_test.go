package bench_test

import (
	"context"
	"errors"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-ai/holdfast/internal/bench"
	"github.com/holdfast-ai/holdfast/internal/pgtest"
	"github.com/holdfast-ai/holdfast/ledger"
	"github.com/holdfast-ai/holdfast/ledger/postgres"
)

// Every part on Postgres measures something, and leaves nothing in the database.
func TestPostgres(t *testing.T) {
	pg := pgtest.Start(t)
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	t.Setenv(otherQueue, "1")
	report, err := bench.Postgres(t.Context(), bench.PostgresConfig{Databases: []string{pg.DSN("postgres")}, Rival: exe, Duration: 60 * time.Millisecond, Jobs: 50,
		OpenLedger: func(databases ...string) (ledger.Ledger, error) {
			if len(databases) != 1 {
				return nil, errors.ErrUnsupported
			}
			return postgres.Open(context.Background(), postgres.Config{URL: databases[0]})
		}})
	if err != nil {
		t.Fatal(err)
	}
	var text strings.Builder
	if err := report.WriteText(&text); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"p50, one caller", "claims/s, 16 callers", "claims/s, 64 callers", "claims/s, 256 callers", "whole intents/s, 256 callers",
		"… that wait for the settling, 256 callers", "submitted/s, 64 clients", "worked/s", "whole intents/s, 3 engines"} {
		if !strings.Contains(text.String(), want) {
			t.Errorf("%q is not reported:\n%s", want, &text)
		}
	}
	for _, f := range report.Figures {
		if f.Holdfast <= 0 {
			t.Errorf("%s: %v", f.Name, f.Holdfast)
		}
	}
	pg.Exec(t, "postgres", `DO $$ BEGIN IF EXISTS (SELECT FROM pg_namespace WHERE nspname LIKE 'holdfast%') THEN RAISE 'a schema is left'; END IF; END $$`)
}
