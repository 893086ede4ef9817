// Package cli is the holdfast command: the only place that knows every part of the program.
package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"os/signal"
	"regexp"
	"runtime"
	"strconv"
	"strings"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/holdfast-ai/holdfast"
	"github.com/holdfast-ai/holdfast/internal/policy"
)

// Main runs the command line and returns the exit status: 0, 1 on a failure or finding, 2 on wrong usage and where a check
// that tells findings by its status could not be made, 3 where the end of a job was not seen, 130 where it was interrupted.
func Main(args []string) int {
	root := rootCommand()
	root.SetArgs(args)
	started := false
	onStart(root, func() { started = true })
	err := root.ExecuteContext(context.Background())
	if err == nil {
		return 0
	}
	fmt.Fprintln(os.Stderr, "holdfast: "+err.Error())
	var usage *usageError
	var cut *signalled
	switch {
	case errors.As(err, &cut):
		return 128 + int(cut.sig)
	case !started || errors.As(err, &usage) || errors.Is(err, errNoCheck):
		return 2
	case errors.Is(err, errNoEnd):
		return 3
	}
	return 1
}

// onStart has f called before any command's work begins: an error before that is one of usage.
func onStart(cmd *cobra.Command, f func()) {
	if run := cmd.RunE; run != nil {
		cmd.RunE = func(cmd *cobra.Command, args []string) error {
			f()
			return run(cmd, args)
		}
	}
	for _, sub := range cmd.Commands() {
		onStart(sub, f)
	}
}

// errNoCheck marks a check that could not be made, where a status of 1 would say that it has found something.
var errNoCheck = errors.New("no check was made")

// usageError is a command line that cannot be understood.
type usageError struct{ err error }

func (e *usageError) Error() string { return e.err.Error() }
func (e *usageError) Unwrap() error { return e.err }

func usagef(format string, args ...any) error { return &usageError{fmt.Errorf(format, args...)} }

// oneArg asks for one argument by its name in the help.
func oneArg(what string) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		if len(args) != 1 {
			return usagef("%s takes one %s; see %s --help", cmd.CommandPath(), what, cmd.CommandPath())
		}
		return nil
	}
}

// checkAddress refuses what nobody could listen on.
func checkAddress(flag, addr string) error {
	_, port, err := net.SplitHostPort(addr)
	if err == nil {
		_, err = strconv.ParseUint(port, 10, 16)
	}
	if err != nil {
		return usagef("--%s is HOST:PORT, e.g. 127.0.0.1:9797, not %q", flag, addr)
	}
	return nil
}

// group makes cmd one that only holds others: a name that it does not hold is wrong usage, where cobra would show
// the help and exit with 0.
func group(cmd *cobra.Command, subs ...*cobra.Command) *cobra.Command {
	cmd.SuggestionsMinimumDistance = 2
	cmd.AddCommand(subs...)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if len(args) == 0 {
			return cmd.Help()
		}
		hint := ""
		if near := cmd.SuggestionsFor(args[0]); len(near) > 0 {
			hint = "; did you mean " + near[0] + "?"
		}
		return usagef("there is no command %q in %s%s; see %s --help", args[0], cmd.CommandPath(), hint, cmd.CommandPath())
	}
	return cmd
}

// flagWords are names that other programs give to what a flag here is for.
var flagWords = map[string]string{"port": "listen", "host": "listen", "addr": "listen", "address": "listen", "bind": "listen",
	"file": "config", "conf": "config", "db": "store", "database": "store", "url": "admin"}

// flagLine is a line of the help that describes a flag.
var flagLine = regexp.MustCompile(`(?m)^ +(?:-\w, )?--([a-z-]+)`)

// flagMeant is a suggestion for a flag that cmd does not have; "" where there is none.
func flagMeant(cmd *cobra.Command, err error) string {
	word, ok := strings.CutPrefix(err.Error(), "unknown flag: --")
	if !ok {
		return ""
	}
	meant := flagWords[word]
	if cmd.Flags().Lookup(meant) == nil {
		var known []string
		for _, f := range flagLine.FindAllStringSubmatch(cmd.Flags().FlagUsages(), -1) {
			known = append(known, strings.ReplaceAll(f[1], "-", "_"))
		}
		meant = strings.ReplaceAll(policy.Nearest(word, known), "_", "-")
	}
	if meant == "" {
		return ""
	}
	return "; did you mean --" + meant + "?"
}

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
		return &usageError{fmt.Errorf("%w%s; see %s --help", err, flagMeant(cmd, err), cmd.CommandPath())}
	})
	root.Args = cobra.ArbitraryArgs // group answers for names that are none
	return group(root, serveCommand(), checkCommand(), simCommand(),
		keyCommand(), explainCommand(), replayCommand(), intentsCommand(), jobsCommand(), reviewCommand(), deadletterCommand(), traceCommand(), routesCommand(), replicasCommand(), cacheCommand(), storeCommand(), mcpCommand(), benchCommand(), evalCommand(), demoCommand())
}

func serveCommand() *cobra.Command {
	var c holdfast.Config
	var level, format, ready, profile string
	cmd := &cobra.Command{
		Use:   "serve",
		Short: "Run the gateway: data plane, admin API and metrics",
		Long: `Run the gateway. Without a config it starts with an embedded store in ./holdfast.db and all three providers; a key
in the environment (OPENAI_API_KEY, ANTHROPIC_API_KEY, GEMINI_API_KEY) replaces the client's own.

SIGTERM or SIGINT drains: running calls finish, at most limits.drain_wait; a second one ends at once and records
what was in flight as interrupted.

A configuration that changes is put in force without dropping a request, as soon as its files change and on SIGHUP; one
that check refuses, or that changes what takes a restart, is logged, and the running one kept.`,
		Example: `  holdfast serve
  holdfast serve --config holdfast.yaml
  holdfast serve --upstream openai=http://127.0.0.1:9797/v1     # against holdfast sim
  holdfast serve --listen 127.0.0.1:0 --admin 127.0.0.1:0 --ready-file ports.json`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) > 0 {
				return usagef("serve takes no FILE by itself; write --config %s", args[0])
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, _ []string) error {
			logger, err := newLogger(level, format)
			if err != nil {
				return &usageError{err}
			}
			c.Logger, c.Stderr, c.Watch = logger, os.Stderr, true
			if _, err := os.Stat(configHere); err == nil && c.File == "" {
				logger.Warn(configHere + " here is not read; write --config " + configHere)
			}
			return profiled(cmd.Context(), profile, func(ctx context.Context) error { return serve(ctx, c, ready) })
		},
	}
	f := cmd.Flags()
	f.StringVar(&c.File, "config", "", "holdfast.yaml; without it the defaults")
	f.StringVar(&c.Listen, "listen", "", "address of the data plane, e.g. 127.0.0.1:8787")
	f.StringVar(&c.Admin, "admin", "", "address of the admin API, e.g. 127.0.0.1:8788")
	f.StringVar(&c.Store, "store", "", "the log, sqlite:FILE, FILE or postgres://USER@HOST/DB")
	f.StringVar(&c.Env, "env", "", "environment that the store is stamped with")
	f.StringArrayVar(&c.Upstreams, "upstream", nil, "NAME=BASE_URL of a provider; may be repeated")
	f.StringVar(&ready, "ready-file", "", "file that gets {\"listen\":ADDRESS,\"admin\":ADDRESS,\"pid\":N} once both listeners accept; removed on the way out")
	f.StringVar(&level, "log-level", "info", "debug, info, warn or error")
	f.StringVar(&format, "log-format", "text", "text or json")
	f.StringVar(&profile, "pprof", "", "file for a CPU profile (holdfast bench --cpuprofile-gateway)")
	_ = f.MarkHidden("pprof") // fails for flags that do not exist
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

func serve(ctx context.Context, c holdfast.Config, ready string) (err error) {
	if os.Getenv("GOMAXPROCS") == "" && runtime.GOMAXPROCS(0) < 2 {
		runtime.GOMAXPROCS(2) // on one core a blocking sync would hold up everything else
	}
	engine, err := holdfast.New(c)
	var refused *holdfast.ConfigError
	switch {
	case errors.As(err, &refused) && refused.Flags:
		return &usageError{err}
	case err != nil:
		return err
	}
	signals := make(chan os.Signal, 2)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
	defer signal.Stop(signals)
	hangups := make(chan os.Signal, 1)
	signal.Notify(hangups, syscall.SIGHUP)
	defer signal.Stop(hangups)
	if ready != "" {
		// One that a crash left behind would name the wrong ports.
		if err := os.Remove(ready); err != nil && !errors.Is(err, os.ErrNotExist) {
			return fmt.Errorf("--ready-file: %w", err)
		}
	}
	if err := engine.Start(ctx); err != nil {
		return err
	}
	if ready != "" {
		if err := writeReady(ready, engine); err != nil {
			return errors.Join(err, engine.Stop(ctx))
		}
		defer func() { err = errors.Join(err, os.Remove(ready)) }()
		c.Logger.Info("ready", "file", ready)
	}
	reloadOn(ctx, hangups, engine, signals)
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

// reloadOn reads the configuration again on each hangup, and returns on the first of signals.
func reloadOn(ctx context.Context, hangups <-chan os.Signal, e *holdfast.Engine, signals <-chan os.Signal) {
	for {
		select {
		case <-signals:
			return
		case <-hangups:
			_ = e.Reload(ctx) // the log has why it was refused
		}
	}
}

// writeReady tells scripts and supervisors where the engine listens; whoever sees the file sees the whole of it.
func writeReady(path string, e *holdfast.Engine) error {
	b, err := json.Marshal(map[string]any{"listen": e.Addr(), "admin": e.AdminAddr(), "pid": os.Getpid()})
	if err != nil {
		return err
	}
	err = replaceFile(path, func(w io.Writer) error {
		_, err := w.Write(append(b, '\n'))
		return err
	})
	if err != nil {
		return fmt.Errorf("--ready-file: %w", err)
	}
	return nil
}
