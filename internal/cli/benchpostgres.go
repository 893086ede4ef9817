package cli

import (
	"encoding/json"
	"errors"
	"os/signal"
	"path/filepath"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/holdfast-ai/holdfast/internal/bench"
	"github.com/holdfast-ai/holdfast/ledger"
	"github.com/holdfast-ai/holdfast/ledger/postgres"
)

// benchPostgresCommand is `holdfast bench postgres`.
func benchPostgresCommand() *cobra.Command {
	var c bench.PostgresConfig
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "postgres",
		Short: "Measure the log on Postgres: claims, whole intents, jobs, several engines; beside raw batched inserts, River and Redis",
		Long: `Measure the log on a Postgres of yours, in schemas that the run makes and drops. What stands beside it is measured in the same
run, in turns. docs/bench.md says how to read it.`,
		Example: `  holdfast bench postgres --postgres postgres://me@localhost/test
  holdfast bench postgres --postgres postgres://me@db1/test --postgres postgres://me@db2/test --redis redis://localhost:6379
  holdfast bench postgres --postgres postgres://me@localhost/test --rival test/river/river --json`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) (err error) {
			if len(c.Databases) == 0 {
				return usagef("--postgres says which database to measure (postgres://user@host/database); nothing that is there is touched")
			}
			if c.Jobs < 1 {
				return usagef("--jobs is at least 1, not %d", c.Jobs)
			}
			if c.Rival != "" {
				if c.Rival, err = filepath.Abs(c.Rival); err != nil {
					return err
				}
			}
			ctx, stop := signal.NotifyContext(cmd.Context(), syscall.SIGINT, syscall.SIGTERM)
			defer stop()
			c.Progress = cmd.ErrOrStderr()
			c.OpenLedger = func(databases ...string) (ledger.Ledger, error) {
				if len(databases) != 1 {
					return nil, errors.New("one store over several databases is not there yet")
				}
				l, err := postgres.Open(ctx, postgres.Config{URL: databases[0]})
				if err != nil {
					return nil, err
				}
				return l, nil
			}
			report, err := bench.Postgres(ctx, c)
			if err != nil {
				return err
			}
			if !asJSON {
				return report.WriteText(cmd.OutOrStdout())
			}
			out := json.NewEncoder(cmd.OutOrStdout())
			out.SetIndent("", "  ")
			return out.Encode(report)
		},
	}
	f := cmd.Flags()
	f.StringArrayVar(&c.Databases, "postgres", nil, "database to measure; a second one is measured together with the first")
	f.StringVar(&c.Redis, "redis", "", "a Redis to compare claims with")
	f.StringVar(&c.Rival, "rival", "", "program that works jobs on the same Postgres (test/river builds one for River)")
	f.DurationVar(&c.Duration, "duration", 3*time.Second, "how long each contender is measured for each figure")
	f.IntVar(&c.Jobs, "jobs", 10_000, "how many jobs")
	f.BoolVar(&asJSON, "json", false, "print JSON")
	return cmd
}
