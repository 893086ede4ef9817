// Package reconcile reads, from far sides and without changing them, whether effects took place.
package reconcile

import (
	"context"
	"database/sql"
	"encoding/json"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"time"

	"github.com/holdfast-ai/holdfast/idempotency"
	"github.com/holdfast-ai/holdfast/intent"
	"github.com/holdfast-ai/holdfast/internal/policy"
	"github.com/holdfast-ai/holdfast/internal/upstream"
	"github.com/holdfast-ai/holdfast/ledger"
)

// ToolReader calls a read-only tool of an MCP server. It is safe for concurrent use.
type ToolReader interface {
	// ReadTool asks the server that r was sent to, as r's caller would. It returns the tool's structured result, else its
	// text; failed says that the tool reports an error with it. It refuses a tool that is not read-only. Errors:
	// intent.ErrNotNow where this process has no way to the server just now.
	ReadTool(ctx context.Context, r *ledger.Record, tool string, arguments json.RawMessage) (result any, failed bool, err error)
}

// Config makes a Set. Tools may be nil: then what an MCP server's tool would show cannot be told.
type Config struct {
	Policy   *policy.Config
	Ledger   ledger.Ledger
	Upstream upstream.Client
	Tools    ToolReader
	Logger   *slog.Logger
	// Before is the set that this one takes the place of; nil: none. Checks that it began go on, and what it has opened
	// belongs to both: the last one is closed.
	Before *Set
}

// Set has the reconcilers of a configuration, and those that a program adds. It is safe for concurrent use.
type Set struct {
	c      Config
	secret []byte // of outbound keys (semantics 17)

	mu    sync.Mutex
	made  map[*policy.Reconcile]intent.Reconciler
	added map[string]intent.Reconciler // by workflow
	tools ToolReader
	dbs   *databases
}

// New compiles the reconcilers of c.Policy. Nothing is connected to yet.
func New(ctx context.Context, c Config) (*Set, error) {
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	s := &Set{c: c, made: map[*policy.Reconcile]intent.Reconciler{}, added: map[string]intent.Reconciler{}, tools: c.Tools, dbs: &databases{open: map[string]*sql.DB{}}}
	if c.Before != nil {
		s.dbs = c.Before.dbs
	}
	var err error
	if s.secret, err = c.Ledger.Secret(ctx, "hmac"); err != nil {
		return nil, fmt.Errorf("reconcile: read the store's secret: %w", err)
	}
	for i := range c.Policy.Workflows {
		w := &c.Policy.Workflows[i]
		if err := s.make(w.Path(), w.Reconcile, place{key: w.Idempotency.Key}); err != nil {
			return nil, err
		}
	}
	for i := range c.Policy.Tools {
		t := &c.Policy.Tools[i]
		for j := range t.Routes {
			if err := s.make(t.Path(j), t.Routes[j].Reconcile, place{tool: t, key: t.Routes[j].Key}); err != nil {
				return nil, err
			}
		}
	}
	for i := range c.Policy.MCP.Servers {
		m := &c.Policy.MCP.Servers[i]
		for j := range m.Tools {
			at := place{server: m.Name, key: m.Tools[j].Key}
			if err := s.make("mcp.servers."+m.Name+".tools."+m.Tools[j].Name, m.Tools[j].Reconcile, at); err != nil {
				return nil, err
			}
		}
	}
	return s, nil
}

// place is where a reconciler stands, which says whom it asks, and for what.
type place struct {
	key    string // the template of the operation's key
	tool   *policy.ToolServer
	server string // an MCP server
}

// make compiles one block.
func (s *Set) make(path string, r *policy.Reconcile, at place) error {
	if r == nil {
		return nil
	}
	var made intent.Reconciler
	var err error
	switch {
	case r.Get != "":
		made, err = s.newGet(r, at)
	case r.OpenAIResponse:
		made = &openAIResponse{s, r}
	case r.SQL != "":
		made, err = s.newSQL(r)
	case r.Tool != "":
		made, err = newTool(s, r, at.server)
	default:
		return nil
	}
	if err != nil {
		return fmt.Errorf("%s.reconcile: %w", path, err)
	}
	s.made[r] = &masking{made, s, at}
	return nil
}

// Add has f find out what became of a workflow's operations, instead of what the configuration says.
func (s *Set) Add(workflow string, f intent.Reconciler) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.added[workflow] = f
}

// ReadTools gives the set its way to MCP servers.
func (s *Set) ReadTools(t ToolReader) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.tools = t
}

func (s *Set) toolReader() ToolReader {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.tools
}

// Close gives back what reconcilers have opened. No check may be under way.
func (s *Set) Close() error {
	return s.dbs.close()
}

// Providers of intents, as they stand in the log, whose policy is no workflow's.
const (
	toolProvider     = "tool"
	mcpProvider      = "mcp"
	outboxProvider   = "outbox"
	functionProvider = "function"
)

// Plan is how the outcome of r is found out; false: a person decides.
func (s *Set) Plan(r *ledger.Record) (intent.Plan, bool) {
	conf, keep, attempt := s.rule(r)
	s.mu.Lock()
	made, name := s.added[r.Workflow], "reconciler function"
	s.mu.Unlock()
	if made == nil || r.Provider == toolProvider || r.Provider == mcpProvider {
		if conf == nil || s.made[conf] == nil {
			return intent.Plan{}, false
		}
		made, name = s.made[conf], "reconciler "+kind(conf)
	}
	if conf == nil {
		conf = policy.DefaultReconcile(attempt)
	}
	return intent.Plan{Reconciler: made, Name: name, Batch: conf.When == "batch", Every: conf.Every, Quiet: conf.Quiet,
		Attempts: conf.Attempts, Keep: intent.KeyKept(&r.Intent, keep), Wanted: r.JobID != "" || r.Provider == outboxProvider}, true
}

func kind(r *policy.Reconcile) string {
	switch {
	case r.Get != "":
		return "get"
	case r.SQL != "":
		return "sql"
	case r.Tool != "":
		return "tool"
	}
	return "openai_response"
}

// rule is what the policy says of r: how it is reconciled, how long a success keeps its key, how long an attempt may
// take.
func (s *Set) rule(r *ledger.Record) (conf *policy.Reconcile, keep, attempt time.Duration) {
	cfg := s.c.Policy
	switch r.Provider {
	case toolProvider:
		t := cfg.ToolServer(r.Workflow)
		if t == nil {
			return nil, 0, 0
		}
		route := t.Find(r.Method, strings.TrimPrefix(r.Path, "/tools/"+t.Name))
		p := cfg.Call(t, route, r.Method)
		return p.Reconcile, p.TTL, p.Timeout
	case mcpProvider:
		for i := range cfg.MCP.Servers {
			m := &cfg.MCP.Servers[i]
			for j := range m.Tools {
				if p := &m.Tools[j]; m.Name == r.Workflow && p.Name == r.Endpoint {
					return p.Reconcile, p.TTL, p.Timeout
				}
			}
		}
		return nil, 0, 0
	}
	w := cfg.Workflow(r.Workflow)
	if r.Provider == functionProvider || r.Provider == outboxProvider {
		w = cfg.ForFunction(r.Workflow)
	}
	if w == nil {
		return nil, 24 * time.Hour, 0
	}
	return w.Reconcile, w.Idempotency.TTL, w.Timeouts.Attempt
}

// outbound is the key that the far side was given. An MCP server is given none.
func (s *Set) outbound(r *ledger.Record) string {
	if r.Key == "" || r.Provider == mcpProvider {
		return ""
	}
	return idempotency.OutboundKey(s.secret, r.Key)
}

// arguments is what the caller asked for, nil where it was not kept.
func (s *Set) arguments(ctx context.Context, r *ledger.Record) []byte {
	b, err := s.c.Ledger.Body(ctx, r.ID, ledger.BodyRequest)
	if err != nil {
		return nil
	}
	return argumentsOf(r.Provider, b.Data)
}

// cannotTell is a finding that says nothing, with the reason why.
func cannotTell(reason string, evidence any) intent.Finding {
	return intent.Finding{Reason: reason, Evidence: encode(evidence)}
}

func encode(v any) json.RawMessage {
	if v == nil {
		return nil
	}
	p, err := json.Marshal(v)
	if err != nil {
		return nil
	}
	return p
}
