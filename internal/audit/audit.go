// Package audit sends each write of an MCP server twice to see what a repeat does.
package audit

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// Errors that a caller branches on.
var (
	// ErrNotAllowed refuses to write to a server that nobody gave up for it (semantics 42).
	ErrNotAllowed = errors.New("the audit writes: give --allow-writes for a server whose data may change, or --reset CMD that restores it")
	// ErrNoServer is a Config that names neither a command nor a URL, or both.
	ErrNoServer = errors.New("name one server: -- CMD ARG… or --url URL")
	// ErrNoTool is a Config.Tools entry that the server does not have as a write tool.
	ErrNoTool = errors.New("no such write tool")
	// ErrNothing is an audit of which nothing came: no tool was there to be audited, or none could be judged.
	ErrNothing = errors.New("nothing was audited")
)

// Config is what to audit and how. The zero value of a field is its documented default.
type Config struct {
	Command []string          // server on stdio: program, arguments
	Proxy   []string          // command of the same server behind a proxy, which is audited then; empty: not again
	URL     string            // server on streamable HTTP
	Header  http.Header       // sent with each HTTP request
	Tools   []string          // only these write tools; empty means all
	Args    map[string][]Args // arguments by tool, instead of made ones

	AllowWrites bool   // the server's data may change
	Reset       string // shell command that restores the data; run before each tool, with the server stopped

	Timeout time.Duration // of one call; 30 s
	Settle  time.Duration // quiet that ends the wait for an effect; 1 s
	Late    time.Duration // between a call and its late repeat, at least; 10 s
	Limit   time.Duration // of all probes of one tool; 40 × Settle + 4 × Late + 2 × Timeout

	Progress io.Writer // what it is doing, a line each; nil tells nobody
	Stderr   io.Writer // the server's own; nil discards it

	connect func() mcp.Transport // a server inside a test's bubble, in place of both
}

// Args are the arguments of one call.
type Args = map[string]any

func (c Config) withDefaults() (Config, error) {
	if c.connect == nil && (len(c.Command) == 0) == (c.URL == "") {
		return c, ErrNoServer
	}
	if !c.AllowWrites && c.Reset == "" {
		return c, ErrNotAllowed
	}
	set := func(d *time.Duration, def time.Duration) {
		if *d <= 0 {
			*d = def
		}
	}
	set(&c.Timeout, 30*time.Second)
	set(&c.Settle, time.Second)
	set(&c.Late, 10*time.Second)
	set(&c.Limit, 40*c.Settle+4*c.Late+2*c.Timeout)
	if c.Progress == nil {
		c.Progress = io.Discard
	}
	if c.Stderr == nil {
		c.Stderr = io.Discard
	}
	return c, nil
}

// Run audits the server's write tools, and returns what it found. A server that fails during the audit costs the tool
// under test its verdict, not the audit; an error means that nothing can be said at all, or nothing of the server behind
// the proxy where there is a report. With a Proxy the server is audited a second time behind it, and that report is
// Through in the first. ErrNothing comes with a report, which has no tool, or none that could be judged.
func Run(ctx context.Context, c Config) (*Report, error) {
	c, err := c.withDefaults()
	if err != nil {
		return nil, err
	}
	report, err := runOnce(ctx, c)
	if report == nil || err != nil || len(c.Proxy) == 0 {
		return report, err
	}
	fmt.Fprintf(c.Progress, "the same through %s\n", shellLine(c.Proxy))
	c.Command, c.URL, c.Header = c.Proxy, "", nil
	if report.Through, err = runOnce(ctx, c); err != nil {
		return report, fmt.Errorf("behind the proxy: %w", err)
	}
	return report, nil
}

func runOnce(ctx context.Context, c Config) (*Report, error) {
	a := newAuditor(c)
	defer func() { a.server.close() }()
	if err := a.restart(ctx); err != nil {
		return nil, err
	}
	a.report = &Report{Server: a.server.name(ctx), Target: c.target(), Started: time.Now().UTC()}
	if err := a.watchIdle(ctx); err != nil {
		return nil, err
	}
	chosen, err := a.choose() // after the watch, which finds out what only says that it reads
	if err != nil {
		return nil, err
	}
	for i, t := range chosen {
		fmt.Fprintf(c.Progress, "[%d/%d] %s\n", i+1, len(chosen), t.name)
		if err := a.tool(ctx, t); err != nil {
			return nil, err
		}
	}
	if err := a.lateRepeats(ctx); err != nil {
		return nil, err
	}
	a.finish()
	return a.report, a.report.nothing(len(a.all))
}

func (c Config) target() string {
	if c.URL != "" {
		return c.URL
	}
	return shellLine(c.Command)
}
