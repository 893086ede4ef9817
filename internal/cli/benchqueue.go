package cli

import (
	"encoding/json"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/holdfast-ai/holdfast/internal/bench"
	"github.com/holdfast-ai/holdfast/ledger"
	"github.com/holdfast-ai/holdfast/ledger/sqlite"
)

// benchQueueCommand is `holdfast bench queue`.
func benchQueueCommand() *cobra.Command {
	var c bench.QueueConfig
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "queue",
		Short: "Measure jobs submitted and worked per second, and calls made beside them, over an embedded store and the simulator",
		Example: `  holdfast bench queue
  holdfast bench queue --jobs 1000 --connections 16 --json
  holdfast bench queue --dir /var/lib/holdfast      # measure the disk that will be used`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) (err error) {
			if c.Jobs < 1 || c.Connections < 1 || c.Interactive < 0 {
				return usagef("--jobs and --connections are at least 1, --interactive is not negative")
			}
			if c.Reference != "" {
				if c.Reference, err = filepath.Abs(c.Reference); err != nil {
					return err
				}
			}
			if c.Exe, err = os.Executable(); err != nil {
				return err
			}
			c.OpenLedger = func(path string) (ledger.Ledger, error) { return sqlite.Open(cmd.Context(), sqlite.Config{Path: path}) }
			ctx, stop := signal.NotifyContext(cmd.Context(), os.Interrupt, syscall.SIGTERM)
			defer stop()
			report, err := bench.Queue(ctx, c)
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
	f.IntVar(&c.Jobs, "jobs", 10_000, "how many jobs")
	f.IntVar(&c.Connections, "connections", 64, "clients that submit at a time")
	f.StringVar(&c.Reference, "reference", "", "program that measures another queue in the same run (test/river builds one for River on SQLite)")
	f.IntVar(&c.Interactive, "interactive", 1000, "calls made beside the waiting jobs, and before that without any; 0: none")
	f.StringVar(&c.Dir, "dir", "", "folder for the store, on the disk to measure (default: the system's temporary folder)")
	f.BoolVar(&asJSON, "json", false, "print JSON")
	return cmd
}
