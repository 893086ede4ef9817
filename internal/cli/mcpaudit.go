package cli

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/holdfast-ai/holdfast/internal/audit"
)

// auditOptions are the flags of `holdfast mcp audit`.
type auditOptions struct {
	cfg           audit.Config
	headers       []string
	args, traffic string // files
	json, md      bool
	quiet         bool
	proxy         bool // audit once more, behind our own proxy
}

// mcpAuditCommand is `holdfast mcp audit`.
func mcpAuditCommand() *cobra.Command {
	var o auditOptions
	cmd := &cobra.Command{
		Use:   "audit [flags] -- CMD ARG…",
		Short: "Send each write of an MCP server twice, and report what the repeat does",
		Long: `Send each write of an MCP server twice: in sequence, at once, after a lost reply, and late; and different writes at
once. What the repeat did is read from the server's own read tools and resources, and from the two answers. Arguments
are made from each tool's schema, from records that the read tools show, and from --args or --traffic.

It writes, so it asks for --allow-writes (a server whose data may change) or --reset (a command that restores it; it
is run before each tool, with the server stopped). Exit status 1 means findings; 2 that there was nothing to find them in: wrong
usage, a server that does not start or has no write tool, or none that could be judged.

With --through-proxy the same audit is made a second time, with holdfast mcp proxy and a log of its own before the
server, and the report says of each tool what it was before and what it is behind the proxy. A late repeat can only show
what is forgotten within --late: raise it above the time for which a server is said to deduplicate.`,
		Example: `  holdfast mcp audit --allow-writes -- npx -y @modelcontextprotocol/server-memory
  holdfast mcp audit --reset 'rm -rf data && cp -r seed data' --markdown -- npx -y @modelcontextprotocol/server-filesystem data
  holdfast mcp audit --allow-writes --url http://127.0.0.1:3000/mcp --tool create_ticket --json

  # what Holdfast repairs: the same server again, with holdfast mcp proxy before it
  holdfast mcp audit --allow-writes --through-proxy --markdown -- npx -y @modelcontextprotocol/server-memory`,
		Args: cobra.ArbitraryArgs,
		RunE: func(cmd *cobra.Command, args []string) error { return o.run(cmd, args) },
	}
	f := cmd.Flags()
	f.StringVar(&o.cfg.URL, "url", "", "a server on streamable HTTP, in place of a command")
	f.StringArrayVar(&o.headers, "header", nil, "'Name: value' sent with each request to --url; may be repeated")
	f.StringArrayVar(&o.cfg.Tools, "tool", nil, "audit this write tool only; may be repeated")
	f.BoolVar(&o.cfg.AllowWrites, "allow-writes", false, "the server's data may change")
	f.StringVar(&o.cfg.Reset, "reset", "", "shell command that restores the server's data")
	f.StringVar(&o.args, "args", "", "JSON file of arguments by tool: an object or a list of them; {unique} becomes a new word")
	f.StringVar(&o.traffic, "traffic", "", "file of recorded JSON-RPC messages, one a line, whose tools/call arguments are used")
	f.DurationVar(&o.cfg.Timeout, "timeout", 30*time.Second, "of one call")
	f.DurationVar(&o.cfg.Settle, "settle", time.Second, "quiet after which an effect counts as complete")
	f.DurationVar(&o.cfg.Late, "late", 10*time.Second, "wait before a late repeat, at least")
	f.DurationVar(&o.cfg.Limit, "limit", 0, "of all probes of one tool; 0 is 40 times --settle, 4 times --late and 2 times --timeout")
	f.BoolVar(&o.proxy, "through-proxy", false, "audit the server once more behind holdfast mcp proxy, and report both")
	f.BoolVar(&o.json, "json", false, "print the report as JSON")
	f.BoolVar(&o.md, "markdown", false, "print the report as Markdown, with the evidence")
	f.BoolVarP(&o.quiet, "quiet", "q", false, "no progress, and nothing of the server's own stderr")
	return cmd
}

func (o *auditOptions) run(cmd *cobra.Command, args []string) error {
	if err := o.config(args); err != nil {
		return err
	}
	if !o.quiet {
		o.cfg.Progress, o.cfg.Stderr = cleanLines{cmd.ErrOrStderr()}, cleanLines{cmd.ErrOrStderr()}
	}
	if o.proxy {
		forget, err := o.behindProxy(args)
		if err != nil {
			return err
		}
		defer forget()
	}
	report, err := audit.Run(cmd.Context(), o.cfg)
	switch {
	case errors.Is(err, audit.ErrNotAllowed), errors.Is(err, audit.ErrNoServer), errors.Is(err, audit.ErrNoTool):
		return &usageError{err}
	case report == nil:
		return unaudited{err}
	}
	if err := o.print(cmd.OutOrStdout(), report); err != nil {
		return err
	}
	switch {
	case report.Failed():
		return errors.Join(fmt.Errorf("%w: %s", errFindings, report.Summary()), err)
	case err != nil:
		return unaudited{err}
	}
	return nil
}

// unaudited is why an audit has nothing to say.
type unaudited struct{ error }

func (e unaudited) Unwrap() []error { return []error{e.error, errNoCheck} }

// behindProxy makes our own program the proxy, with a log and a configuration of its own: what stands in the current
// folder is neither read nor written.
func (o *auditOptions) behindProxy(command []string) (forget func(), err error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp("", "holdfast-audit-")
	if err != nil {
		return nil, err
	}
	forget = func() { _ = os.RemoveAll(dir) } // a leftover in the system's folder for such harms nobody
	config := filepath.Join(dir, "holdfast.yaml")
	text, err := proxyConfig(o.cfg.URL, o.cfg.Header)
	if err == nil {
		err = os.WriteFile(config, text, 0o600) // there may be a credential among the headers
	}
	if err != nil {
		forget()
		return nil, err
	}
	o.cfg.Proxy = []string{self, "mcp", "proxy", "--config", config, "--store", filepath.Join(dir, "audit.db")}
	if o.cfg.URL != "" {
		o.cfg.Proxy = append(o.cfg.Proxy, "--server", auditedName)
	} else {
		o.cfg.Proxy = slices.Concat(o.cfg.Proxy, []string{"--"}, command)
	}
	return forget, nil
}

// auditedName is that of a server on HTTP in the proxy's configuration.
const auditedName = "audited"

// proxyConfig is the proxy's configuration: the server, where it is on HTTP. JSON is YAML, too.
func proxyConfig(address string, headers http.Header) ([]byte, error) {
	config := map[string]any{"env": "audit"}
	if address != "" {
		literal := strings.NewReplacer("${", "$${").Replace // what is a reference in a configuration is none here
		set := map[string]string{}
		for name, values := range headers {
			set[name] = literal(strings.Join(values, ", "))
		}
		server := map[string]any{"url": literal(address)}
		if len(set) > 0 {
			server["headers"] = set
		}
		config["mcp"] = map[string]any{"servers": map[string]any{auditedName: server}}
	}
	return json.Marshal(config)
}

// errFindings makes the exit status 1 when the audit itself went well.
var errFindings = errors.New("the audit has findings")

// config puts the flags' values together, and refuses what cannot be.
func (o *auditOptions) config(args []string) error {
	o.cfg.Command = args
	switch {
	case o.json && o.md:
		return usagef("--json and --markdown exclude each other")
	case o.args != "" && o.traffic != "":
		return usagef("--args and --traffic exclude each other")
	case o.cfg.Timeout <= 0 || o.cfg.Settle <= 0 || o.cfg.Late <= 0:
		return usagef("--timeout, --settle and --late must be positive, e.g. --late 10s")
	}
	if o.cfg.URL != "" {
		if u, err := url.Parse(o.cfg.URL); err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
			return usagef("--url is http://HOST/PATH or https://HOST/PATH, not %q", o.cfg.URL)
		}
	}
	o.cfg.Header = http.Header{}
	for _, h := range o.headers {
		name, value, ok := strings.Cut(h, ":")
		if !ok || strings.TrimSpace(name) == "" {
			return usagef("--header is 'Name: value', not %q", h)
		}
		o.cfg.Header.Add(strings.TrimSpace(name), strings.TrimSpace(value))
	}
	return o.arguments()
}

func (o *auditOptions) arguments() (err error) {
	file, flag, parse := o.args, "--args", audit.ParseArgs
	if o.traffic != "" {
		file, flag, parse = o.traffic, "--traffic", audit.ParseTraffic
	}
	if file == "" {
		return nil
	}
	b, err := os.ReadFile(file)
	if err != nil {
		return &usageError{fmt.Errorf("%s: %w", flag, err)}
	}
	if o.cfg.Args, err = parse(b); err != nil {
		return &usageError{fmt.Errorf("%s %s: %w", flag, file, err)}
	}
	return nil
}

func (o *auditOptions) print(out io.Writer, r *audit.Report) error {
	switch {
	case o.json:
		e := json.NewEncoder(out)
		e.SetEscapeHTML(false)
		e.SetIndent("", "  ")
		return e.Encode(r)
	case o.md:
		return r.Markdown(out)
	}
	fmt.Fprintf(out, "%s: %s\n\n", clean(r.Server, 80), r.Summary())
	err := table(out, func(w io.Writer) {
		for _, t := range r.Tools {
			fmt.Fprintf(w, "%s\t%s\t%s\n", clean(t.Name, 60), t.Verdict, clean(t.Says, 120))
		}
	})
	if err != nil {
		return err
	}
	if r.Through != nil {
		mended, still := r.Mended()
		fmt.Fprintf(out, "\nthrough the proxy: %s\n  mended: %s\n  not: %s\n", r.Through.Summary(), clean(strings.Join(mended, ", "), 400), clean(strings.Join(still, ", "), 400))
	}
	for _, t := range r.Tools {
		printFindings(out, t)
	}
	printEnded(out, "", r)
	if r.Through != nil {
		printEnded(out, "through the proxy, ", r.Through)
	}
	if len(r.Left) > 0 {
		fmt.Fprintf(out, "\nthe audit left %s on the server; --json lists them\n", plural(len(r.Left), "change"))
	}
	return nil
}

// printEnded says when the server ended by itself.
func printEnded(out io.Writer, where string, r *audit.Report) {
	if len(r.Ended) == 0 {
		return
	}
	fmt.Fprintf(out, "\n%sthe server ended by itself %s, and was started again:\n", where, plural(len(r.Ended), "time"))
	for _, e := range r.Ended {
		fmt.Fprintf(out, "  %s\n", clean(e.String(), 240))
	}
}

// printFindings shows the first probe with each verdict, and the notes.
func printFindings(out io.Writer, t audit.ToolReport) {
	if !t.Verdict.Bad() {
		return
	}
	fmt.Fprintf(out, "\n%s: %s\n", clean(t.Name, 60), t.Verdict)
	for _, n := range t.Notes {
		fmt.Fprintf(out, "  %s\n", clean(n, 200))
	}
	shown := map[audit.Verdict]bool{}
	for _, f := range t.Findings {
		if !f.Verdict.Bad() || shown[f.Verdict] {
			continue
		}
		shown[f.Verdict] = true
		fmt.Fprintf(out, "  %s: %s: %s\n", f.Probe, f.Verdict, clean(f.Says, 200))
		for _, e := range f.Evidence {
			fmt.Fprintf(out, "    %s\n", clean(e, 240))
		}
	}
}

// cleanLines passes a stranger's lines on, fit for a terminal.
type cleanLines struct{ to io.Writer }

func (c cleanLines) Write(b []byte) (int, error) {
	for line := range strings.Lines(string(b)) {
		if _, err := fmt.Fprintln(c.to, clean(strings.TrimRight(line, "\r\n"), 400)); err != nil {
			return 0, err
		}
	}
	return len(b), nil
}
