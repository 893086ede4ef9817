package cli

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"os/signal"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/holdfast-ai/holdfast/internal/demo"
)

// errNotAsPromised is what `holdfast demo` ends with when a figure is wrong; the report has said which.
var errNotAsPromised = errors.New("demo: not as promised")

// demoCommand is `holdfast demo`.
func demoCommand() *cobra.Command {
	var once, asJSON bool
	cmd := &cobra.Command{
		Use:   "demo",
		Short: "See what happens to requests when replies are lost, streams are cut and processes die",
		Long: `Start a simulated provider and a gateway as processes of their own, and let one client suffer a lost reply, a stream
that ends too early, twenty duplicates at once, a key used twice, and a kill -9 in the middle of a charge. For each
operation it prints how many calls reached the provider and how many effects it had, beside the same client without
Holdfast. No key and no network is needed; everything is in a temporary folder that is removed at the end.

It ends by itself when the last scene has been played. --once, which scripts may give, asks for just that.

Exit status 1 if any figure is not as promised.`,
		Example: "  holdfast demo\n  holdfast demo --json",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			// Whatever ends us must find the processes ended too: a closed terminal or pipe as much as Ctrl-C.
			ctx, stop := signal.NotifyContext(cmd.Context(), os.Interrupt, syscall.SIGTERM, syscall.SIGHUP, syscall.SIGPIPE)
			defer stop()
			return runDemo(ctx, cmd, asJSON)
		},
	}
	cmd.Flags().BoolVar(&once, "once", false, "end when the last scene has been played; in this version demo always does")
	cmd.Flags().BoolVar(&asJSON, "json", false, "print the figures only, as JSON")
	return cmd
}

func runDemo(ctx context.Context, cmd *cobra.Command, asJSON bool) error {
	exe, err := os.Executable()
	if err != nil {
		return err
	}
	c := demo.Config{Exe: exe, Out: cmd.OutOrStdout()}
	if asJSON {
		c.Out = nil
	}
	report, err := demo.Run(ctx, c)
	if err != nil {
		return err
	}
	if asJSON {
		enc := json.NewEncoder(cmd.OutOrStdout())
		enc.SetIndent("", "  ")
		if err := enc.Encode(report); err != nil {
			return err
		}
	}
	if !report.AsPromise {
		return errNotAsPromised
	}
	return nil
}
