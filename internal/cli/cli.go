// Package cli is the holdfast command: the only place that knows every part of the program.
package cli

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/signal"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/holdfast-ai/holdfast"
)

// Main runs the command line and returns the exit status: 0, 1 on a failure or finding, 2 on wrong usage.
func Main(args []string) int {
	root := rootCommand()
	root.SetArgs(args)
	err := root.ExecuteContext(context.Background())
	if err == nil {
		return 0
	}
	fmt.Fprintln(os.Stderr, "holdfast: "+err.Error())
	var usage *usageError
	if errors.As(err, &usage) {
		return 2
	}
	return 1
}

// usageError is a command line that cannot be understood.
type usageError struct{ err error }

func (e *usageError) Error() string { return e.err.Error() }
func (e *usageError) Unwrap() error { return e.err }

func rootCommand() *cobra.Command {
	root := &cobra.Command{
		Use:   "holdfast",
		Short: "Makes AI calls and agent actions happen once, and keeps the product alive while providers fail",
		Long: `Holdfast sits between a program and the services that answer it slowly, expensively and not always. One
intention, one effect — and when that cannot be known, it says so and stops.`,
		Example:       "  holdfast demo\n  holdfast serve --config holdfast.yaml",
		SilenceErrors: true,
		SilenceUsage:  true,
		Version:       version(),
	}
	root.CompletionOptions.HiddenDefaultCmd = true
	root.SetFlagErrorFunc(func(cmd *cobra.Command, err error) error {
		return &usageError{fmt.Errorf("%w; see %s --help", err, cmd.CommandPath())}
	})
	root.AddCommand(serveCommand(), checkCommand(), simCommand())
	return root
}

func serveCommand() *cobra.Command {
	var c holdfast.Config
	var level, format string
	cmd := &cobra.Command{
		Use:   "serve",
		Short: "Run the gateway: data plane, admin API and metrics",
		Long: `Run the gateway. Without a config it starts with an embedded store in ./holdfast.db and all three providers; a key
in the environment (OPENAI_API_KEY, ANTHROPIC_API_KEY, GEMINI_API_KEY) replaces the client's own.

SIGTERM or SIGINT drains: running calls finish, at most limits.drain_wait; a second one ends at once and records
what was in flight as interrupted.`,
		Example: `  holdfast serve
  holdfast serve --config holdfast.yaml
  holdfast serve --upstream openai=http://127.0.0.1:9797/v1     # against holdfast sim`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			logger, err := newLogger(level, format)
			if err != nil {
				return &usageError{err}
			}
			c.Logger = logger
			return serve(cmd.Context(), c)
		},
	}
	f := cmd.Flags()
	f.StringVar(&c.File, "config", "", "holdfast.yaml; without it the defaults")
	f.StringVar(&c.Listen, "listen", "", "address of the data plane, e.g. 127.0.0.1:8787")
	f.StringVar(&c.Admin, "admin", "", "address of the admin API, e.g. 127.0.0.1:8788")
	f.StringVar(&c.Store, "store", "", "the log, e.g. sqlite:holdfast.db")
	f.StringVar(&c.Env, "env", "", "environment that the store is stamped with")
	f.StringArrayVar(&c.Upstreams, "upstream", nil, "NAME=BASE_URL of a provider; may be repeated")
	f.StringVar(&level, "log-level", "info", "debug, info, warn or error")
	f.StringVar(&format, "log-format", "text", "text or json")
	return cmd
}

func newLogger(level, format string) (*slog.Logger, error) {
	var l slog.Level
	if err := l.UnmarshalText([]byte(level)); err != nil {
		return nil, fmt.Errorf("--log-level is debug, info, warn or error, not %q", level)
	}
	o := &slog.HandlerOptions{Level: l}
	switch format {
	case "text":
		return slog.New(slog.NewTextHandler(os.Stderr, o)), nil
	case "json":
		return slog.New(slog.NewJSONHandler(os.Stderr, o)), nil
	}
	return nil, fmt.Errorf("--log-format is text or json, not %q", format)
}

func serve(ctx context.Context, c holdfast.Config) error {
	engine, err := holdfast.New(c)
	if err != nil {
		return err
	}
	signals := make(chan os.Signal, 2)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
	defer signal.Stop(signals)
	if err := engine.Start(ctx); err != nil {
		return err
	}
	<-signals
	drain, cancel := context.WithTimeout(ctx, engine.DrainWait())
	defer cancel()
	go func() {
		select {
		case <-signals:
			c.Logger.Warn("told to stop a second time: what is in flight is recorded as interrupted")
			cancel()
		case <-drain.Done():
		}
	}()
	return engine.Stop(drain)
}
