package cli

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/signal"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/holdfast-ai/holdfast"
	"github.com/holdfast-ai/holdfast/internal/mcp"
	"github.com/holdfast-ai/holdfast/ledger"
)

// mcpCommand is `holdfast mcp`.
func mcpCommand() *cobra.Command {
	return group(&cobra.Command{
		Use:   "mcp",
		Short: "Guard the write tools of MCP servers, and examine them",
		Example: `  holdfast mcp proxy --store notes.db -- npx -y @modelcontextprotocol/server-memory     # in place of the server's own command
  holdfast mcp proxy --server orders --config holdfast.yaml                             # a server of mcp.servers, with its policy
  holdfast intents list --state unknown --store notes.db                                # what a person has to settle`,
	}, mcpProxyCommand(), mcpAuditCommand())
}

// proxyFlags are those of `holdfast mcp proxy`.
type proxyFlags struct {
	server, config, store, env, level string
}

func mcpProxyCommand() *cobra.Command {
	var f proxyFlags
	cmd := &cobra.Command{
		Use:   "proxy (--server NAME | -- COMMAND ARG…)",
		Short: "A stdio MCP server that passes everything on to another one, and executes each write once",
		Long: `Speak MCP over standard input and output, and pass everything on to a server: one of mcp.servers in the
configuration, be it a command or a URL, or a command given after --. Calls of write tools are put on record before they
are sent: one that is repeated gets the stored answer, and one whose outcome is not known is not sent again.

The log is that of the configuration, else ./holdfast.db. Where a gateway or another proxy holds it, this one works through that
process, over a socket beside the file, and takes the log over when that process has ended. --store names another file; a
client that starts servers in a folder of its own choosing needs one of --config and --store.`,
		Example: `  holdfast mcp proxy --server orders --config holdfast.yaml
  holdfast mcp proxy --store ~/.local/share/holdfast.db -- npx -y @modelcontextprotocol/server-memory`,
		Args: cobra.ArbitraryArgs,
		RunE: func(cmd *cobra.Command, args []string) error {
			if (f.server == "") == (len(args) == 0) {
				return usagef("mcp proxy takes either --server NAME or a command after --")
			}
			logger, err := newLogger(f.level, "text")
			if err != nil {
				return &usageError{err}
			}
			if len(args) > 0 {
				if err := mcp.CanRun(args[0]); err != nil {
					return err
				}
			}
			return runProxy(cmd.Context(), f, args, logger, cmd.InOrStdin(), cmd.OutOrStdout())
		},
	}
	fl := cmd.Flags()
	fl.StringVar(&f.server, "server", "", "name of a server in mcp.servers")
	fl.StringVar(&f.config, "config", "", "holdfast.yaml; without it that in the current folder, else the defaults")
	fl.StringVar(&f.store, "store", "", "the log, sqlite:FILE or FILE")
	fl.StringVar(&f.env, "env", "", "environment that the store is stamped with")
	fl.StringVar(&f.level, "log-level", "warn", "debug, info, warn or error; the log goes to standard error")
	return cmd
}

// leaveWait is how long calls on their way are waited for when the client ends us; it kills soon after.
const leaveWait = 1500 * time.Millisecond

func runProxy(ctx context.Context, f proxyFlags, command []string, logger *slog.Logger, in io.Reader, out io.Writer) error {
	ctx, stop := signal.NotifyContext(ctx, os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
	defer stop()
	c := holdfast.Config{File: f.config, Env: f.env, Embedded: true, Passing: true, Logger: logger, Stderr: os.Stderr}
	if c.File == "" {
		if _, err := os.Stat(configHere); err == nil {
			c.File = configHere
		}
	}
	path, err := (&storeFlags{config: c.File, store: f.store}).path()
	if err != nil {
		return err
	}
	if f.store != "" {
		c.Store = "sqlite:" + path
	}
	name := f.server
	if name == "" {
		name = adHocName(command)
	}
	engine, err := startEngine(ctx, c)
	for began := time.Now(); errors.Is(err, ledger.ErrLocked); engine, err = startEngine(ctx, c) {
		if _, err := os.Stat(mcp.SocketPath(path)); err == nil {
			return attachProxy(ctx, &heir{config: c, store: path, server: f.server}, name, command, in, out)
		}
		if time.Since(began) > lockWait || ctx.Err() != nil {
			return fmt.Errorf("the process that holds the store offers no socket %s to work through; give this proxy a store of its own with --store: %w",
				mcp.SocketPath(path), err)
		}
		time.Sleep(lockLook)
	}
	if err != nil {
		return err
	}
	return errors.Join(serveProxy(ctx, engine, name, command, in, out), stopProxy(engine))
}

// A client that starts its proxy anew may not wait for the old one, which takes up to leaveWait to end and offers no
// socket by then.
const (
	lockWait = 2 * leaveWait
	lockLook = 50 * time.Millisecond
)

func startEngine(ctx context.Context, c holdfast.Config) (*holdfast.Engine, error) {
	engine, err := holdfast.New(c)
	if err != nil {
		return nil, err
	}
	return engine, engine.Start(ctx)
}

func serveProxy(ctx context.Context, e *holdfast.Engine, name string, command []string, in io.Reader, out io.Writer) error {
	if len(command) > 0 {
		if err := e.AddMCP(ctx, name, command...); err != nil {
			return err
		}
	}
	return e.ServeMCP(ctx, name, in, out)
}

func stopProxy(e *holdfast.Engine) error {
	drain, cancel := context.WithTimeout(context.Background(), leaveWait)
	defer cancel()
	return e.Stop(drain)
}

// attachProxy works through the process that holds the store, and takes its place once that has ended.
func attachProxy(ctx context.Context, next *heir, name string, command []string, in io.Reader, out io.Writer) error {
	socket := mcp.SocketPath(next.store)
	a := mcp.Attachment{Socket: socket, Server: name, TakeOver: next.takeOver, Logger: next.config.Logger}
	if len(command) > 0 {
		dir, err := os.Getwd()
		if err != nil {
			return err
		}
		a.Command = &mcp.Command{Args: command, Env: os.Environ(), Dir: dir}
	}
	a.Logger.Info("another process holds the store; working through it", "socket", socket)
	return errors.Join(mcp.Attach(ctx, a, in, out), next.stop())
}

// heir is an attached proxy's own engine, which it starts when the process that held the store has ended.
type heir struct {
	config        holdfast.Config
	store, server string // server is one of the configuration, or empty

	mu     sync.Mutex
	engine *holdfast.Engine
	over   bool // the client has gone
}

// takeOver starts the engine. A proxy whose configuration lacks its server would take the store from those that have it, for
// nothing.
func (h *heir) takeOver(ctx context.Context) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.over {
		return errors.New("its client has gone")
	}
	engine, err := holdfast.New(h.config)
	if err != nil {
		return err
	}
	if h.server != "" && !engine.HasMCP(h.server) {
		return fmt.Errorf("its own configuration has no MCP server %q; start the process that has it again, or give this proxy its --config", h.server)
	}
	if err := engine.Start(context.WithoutCancel(ctx)); err != nil { // it is not the call's alone
		return err
	}
	if _, err := os.Stat(mcp.SocketPath(h.store)); err != nil {
		return errors.Join(fmt.Errorf("its socket cannot be opened; a shorter path may do: %w", err), stopProxy(engine))
	}
	h.engine = engine
	return nil
}

func (h *heir) stop() error {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.over = true
	if h.engine == nil {
		return nil
	}
	return stopProxy(h.engine)
}

// path is the store's file.
func (f *storeFlags) path() (string, error) {
	found, err := f.find()
	return found.path, err
}

var (
	runners = regexp.MustCompile(`^(npx|bunx|uvx|pipx|node|bun|deno|python[0-9.]*|uv|run|exec|docker|sh|bash|env|-.*|.*=.*)$`)
	hollow  = regexp.MustCompile(`^(index|main|server|cli|dist|build|src|lib|bin|out)(\.[a-z]+)?$`) // say nothing of a server
	notName = regexp.MustCompile(`[^a-z0-9_]+`)
)

// adHocName names a server by its command, the same each time: keys are scoped by it.
func adHocName(command []string) string {
	sum := sha256.Sum256([]byte(strings.Join(command, "\x00")))
	word := "server"
	for _, arg := range command {
		base := strings.ToLower(filepath.Base(arg))
		for folder := filepath.Dir(arg); hollow.MatchString(base) && folder != filepath.Dir(folder); folder = filepath.Dir(folder) {
			base = strings.ToLower(filepath.Base(folder))
		}
		if name := strings.Trim(notName.ReplaceAllString(base, "-"), "-"); name != "" && !runners.MatchString(base) {
			word = name
			break
		}
	}
	return word[:min(len(word), 48)] + "-" + hex.EncodeToString(sum[:4])
}
