package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"runtime/pprof"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/holdfast-ai/holdfast/internal/bench"
	"github.com/holdfast-ai/holdfast/ledger"
	"github.com/holdfast-ai/holdfast/ledger/sqlite"
)

// benchCommand is `holdfast bench`.
func benchCommand() *cobra.Command {
	var c bench.Config
	var asJSON, quick bool
	cmd := &cobra.Command{
		Use:   "bench",
		Short: "Measure the gateway and its log beside a plain reverse proxy and a raw disk, in one run",
		Long: `Measure what Holdfast adds: the gateway beside a direct call and a plain reverse proxy, the log beside raw synced
appends, in short alternating turns of one run. Everything runs on this machine: simulator, proxy and gateway are
processes of their own on free ports, the store is in a temporary folder. docs/bench.md says how to read it.

Parts: ` + strings.Join(bench.Names(), ", ") + `. All of them take about four minutes.`,
		Example: `  holdfast bench
  holdfast bench --quick
  holdfast bench --only generation,streams --duration 10s --json > bench.json
  holdfast bench --dir /var/lib/holdfast      # measure the disk that will be used`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if quick {
				quicken(cmd, &c)
			}
			if err := checkBench(c); err != nil {
				return err
			}
			return runBench(cmd, c, asJSON)
		},
	}
	f := cmd.Flags()
	f.DurationVar(&c.Duration, "duration", 3*time.Second, "how long each contender is measured for each figure")
	f.IntVar(&c.Connections, "connections", 64, "clients at full load")
	f.IntVar(&c.Rate, "rate", 1000, "requests per second where the rate is fixed")
	f.IntVar(&c.IdleStreams, "idle-streams", 10_000, "open streams that wait")
	f.IntVar(&c.History, "history", 100_000, "settled intents in the full store; the target speaks of 1000000")
	f.StringSliceVar(&c.Only, "only", nil, "measure only these parts")
	f.BoolVar(&quick, "quick", false, "a short run with less of everything: shows that it works, its figures jump")
	f.BoolVar(&asJSON, "json", false, "print JSON")
	f.BoolVar(&c.Unpinned, "unpinned", false, "let the gateway share its core with simulator and load")
	f.StringVar(&c.Dir, "dir", "", "folder for stores, on the disk to measure (default: the system's temporary folder)")
	f.StringVar(&c.ProfileGateway, "cpuprofile-gateway", "", "file for a CPU profile of the gateway (go tool pprof)")
	cmd.AddCommand(reverseProxyCommand(), benchQueueCommand(), benchPostgresCommand())
	return cmd
}

// quicken lessens what the command line does not set.
func quicken(cmd *cobra.Command, c *bench.Config) {
	f := cmd.Flags()
	if !f.Changed("duration") {
		c.Duration = 600 * time.Millisecond
	}
	if !f.Changed("idle-streams") {
		c.IdleStreams = 500
	}
	if !f.Changed("history") {
		c.History = 5000
	}
}

func checkBench(c bench.Config) error {
	for _, n := range []struct {
		flag  string
		value int
	}{{"connections", c.Connections}, {"rate", c.Rate}, {"idle-streams", c.IdleStreams}, {"history", c.History}} {
		if n.value < 1 {
			return usagef("--%s is at least 1, not %d", n.flag, n.value)
		}
	}
	for _, name := range c.Only {
		if !slices.Contains(bench.Names(), name) {
			return usagef("--only names parts of %s, not %q", strings.Join(bench.Names(), ", "), name)
		}
	}
	if c.Duration <= 0 {
		return usagef("--duration is longer than %s, for instance 3s", c.Duration)
	}
	return nil
}

func runBench(cmd *cobra.Command, c bench.Config, asJSON bool) (err error) {
	if c.Exe, err = os.Executable(); err != nil {
		return err
	}
	c.OpenLedger = func(path string) (ledger.Ledger, error) { return sqlite.Open(cmd.Context(), sqlite.Config{Path: path}) }
	if terminal(cmd.ErrOrStderr()) {
		c.Progress = cmd.ErrOrStderr()
	}
	ctx, stop := signal.NotifyContext(cmd.Context(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	report, err := bench.Run(ctx, c)
	if err != nil {
		return err
	}
	if !asJSON {
		return report.WriteText(cmd.OutOrStdout())
	}
	out := json.NewEncoder(cmd.OutOrStdout())
	out.SetIndent("", "  ")
	return out.Encode(report)
}

// reverseProxyCommand is the reference process of bench.
func reverseProxyCommand() *cobra.Command {
	var listen, upstream string
	cmd := &cobra.Command{
		Use: "reverse-proxy", Short: "Serve the plain reverse proxy that bench compares with", Hidden: true, Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			ctx, stop := signal.NotifyContext(cmd.Context(), os.Interrupt, syscall.SIGTERM)
			defer stop()
			return bench.ServeReverseProxy(ctx, listen, upstream, cmd.OutOrStdout())
		},
	}
	cmd.Flags().StringVar(&listen, "listen", "127.0.0.1:0", "address")
	cmd.Flags().StringVar(&upstream, "upstream", "", "base URL of the far side")
	return cmd
}

// profiled runs f and, unless path is empty, writes a CPU profile of this process to it meanwhile.
func profiled(ctx context.Context, path string, f func(context.Context) error) (err error) {
	if path == "" {
		return f(ctx)
	}
	file, err := os.Create(path)
	if err != nil {
		return fmt.Errorf("--pprof: %w", err)
	}
	defer func() { err = errors.Join(err, file.Close()) }()
	if err := pprof.StartCPUProfile(file); err != nil {
		return fmt.Errorf("--pprof: %w", err)
	}
	defer pprof.StopCPUProfile()
	return f(ctx)
}
