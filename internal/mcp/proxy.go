// Package mcp passes everything between MCP clients and servers through, and makes each call of a write tool one effect.
package mcp

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"os"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/holdfast-ai/holdfast/intent"
	"github.com/holdfast-ai/holdfast/internal/budget"
	"github.com/holdfast-ai/holdfast/internal/policy"
	"github.com/holdfast-ai/holdfast/ledger"
)

// Config makes a Proxy. Policy, Ledger and Log are needed; the rest may be left out.
type Config struct {
	Policy   *policy.Config
	Ledger   ledger.Ledger
	Log      *intent.Log
	Observer Observer
	Logger   *slog.Logger
	// Memory counts the bodies of calls on their way against limits.body_memory, together with whoever else holds some;
	// nil counts the proxy's alone.
	Memory *budget.Bytes
	// Store is the log's file where no admin API is served, so that whoever settles a call has to name it; else empty.
	Store string
	// Passing says that this process ends with the client that started it, and that nobody starts it again.
	Passing bool
	// Stderr gets what servers that run as child processes write there. Default: nowhere.
	Stderr io.Writer
	// Sessions bounds the clients at a time, default 1000; a session nobody has used for Idle, default 30 min, is ended.
	Sessions int
	Idle     time.Duration
}

// Proxy stands between MCP clients and the servers of a configuration. It is safe for concurrent use.
type Proxy struct {
	policy   atomic.Pointer[policy.Config]
	ledger   ledger.Ledger
	log      *intent.Log
	observer Observer
	logger   *slog.Logger
	stderr   io.Writer
	store    string
	passing  bool
	memory   *budget.Bytes
	most     int
	idle     time.Duration
	client   *http.Client
	held     held
	halted   chan struct{} // closed when calls on their way are no longer waited for
	halt     sync.Once
	ids      atomic.Int64

	mu       sync.Mutex
	servers  map[string]*server
	sessions map[string]*session
	flights  map[string]*flight // by key, for whoever calls the same
	aloft    map[*flight]struct{}
	wanted   map[string]struct{}    // servers that somebody would look at, if there were a session
	waits    map[string]struct{}    // unknown intents whose wait for a session is on record
	parked   map[string]*time.Timer // intents whose server waits for the client's input
	draining bool
	closed   bool
	work     sync.WaitGroup
}

// Caller is whose session it is.
type Caller struct {
	Tenant, Owner string
	// Authorization is passed on to an HTTP server for which the configuration has no credential.
	Authorization string

	header   http.Header // of an attached proxy's own
	attached bool        // over the socket beside the store
	scope    string      // of an attached proxy's keys: its client's session outlives the process that holds the store
}

// Bounds where Config leaves them out.
const (
	defaultSessions = 1000
	defaultIdle     = 30 * time.Minute
)

// New reads what earlier processes left unknown and returns a Proxy.
func New(ctx context.Context, c Config) (*Proxy, error) {
	p := &Proxy{ledger: c.Ledger, log: c.Log, observer: c.Observer, logger: c.Logger, stderr: c.Stderr, store: c.Store, passing: c.Passing, most: c.Sessions, idle: c.Idle,
		halted: make(chan struct{}), held: held{all: map[heldKey]string{}}, servers: map[string]*server{}, sessions: map[string]*session{}, flights: map[string]*flight{}, aloft: map[*flight]struct{}{}, parked: map[string]*time.Timer{}, wanted: map[string]struct{}{}, waits: map[string]struct{}{}}
	p.policy.Store(c.Policy)
	if p.observer == nil {
		p.observer = silent{}
	}
	if p.logger == nil {
		p.logger = slog.New(slog.DiscardHandler)
	}
	if p.stderr == nil {
		p.stderr = io.Discard
	}
	if p.most <= 0 {
		p.most = defaultSessions
	}
	if p.idle <= 0 {
		p.idle = defaultIdle
	}
	if p.memory = c.Memory; p.memory == nil {
		p.memory = budget.New(p.limits().BodyMemory)
	}
	p.client = newClient(http.DefaultTransport.(*http.Transport).Clone())
	for i := range c.Policy.MCP.Servers {
		s := &c.Policy.MCP.Servers[i]
		p.servers[s.Name] = newServer(*s, p.depth(), p.client)
	}
	if p.ledger != nil {
		for _, srv := range p.servers {
			if err := p.load(ctx, srv); err != nil {
				return nil, fmt.Errorf("read the calls of MCP servers: %w", err)
			}
		}
	}
	p.work.Go(p.reap)
	return p, nil
}

// Reload has calls that come from now on go by c, whose mcp block is the one that the proxy was made with.
func (p *Proxy) Reload(c *policy.Config) { p.policy.Store(c) }

// newClient follows no redirect: that would send a call twice.
func newClient(t *http.Transport) *http.Client {
	t.DisableCompression = true
	return &http.Client{Transport: t, CheckRedirect: noRedirect}
}

func noRedirect(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }

// Command is an ad-hoc server: a program, where it runs, and its environment, beside this process's own or in its place.
type Command struct {
	Args []string `json:"args"`
	Env  []string `json:"env,omitempty"`
	Dir  string   `json:"dir,omitempty"`
}

// Add makes an ad-hoc server known under a name. Adding it again changes nothing for sessions that exist.
func (p *Proxy) Add(ctx context.Context, name string, c Command) error {
	return p.add(ctx, name, c, os.Environ)
}

func (p *Proxy) add(ctx context.Context, name string, c Command, inherit func() []string) error {
	if len(c.Args) == 0 {
		return errors.New("there is no command to run")
	}
	srv := newServer(policy.MCPServer{Name: name}, p.depth(), p.client)
	srv.command = command{c, inherit}
	if p.server(name) == nil {
		if err := p.load(ctx, srv); err != nil {
			return err
		}
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	was := p.servers[name]
	if was != nil && was.command.equal(srv.command) {
		return nil
	}
	if was != nil {
		srv.history = was.history // it is one server, in another environment
	}
	p.servers[name] = srv
	return nil
}

// load reads what earlier processes left of a server's calls.
func (p *Proxy) load(ctx context.Context, srv *server) error {
	if err := p.held.loadServer(ctx, p.ledger, srv.name); err != nil {
		return err
	}
	return srv.history.load(ctx, p.ledger, srv.name)
}

func (c command) equal(o command) bool {
	return slices.Equal(c.Args, o.Args) && slices.Equal(c.Env, o.Env) && c.Dir == o.Dir
}

func (p *Proxy) server(name string) *server {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.servers[name]
}

var (
	errDraining = errors.New("holdfast is shutting down")
	errSessions = errors.New("there are too many MCP sessions")
)

// open begins a session.
func (p *Proxy) open(srv *server, who Caller, w *web) (*session, error) {
	var b [16]byte
	_, _ = rand.Read(b[:]) // it never fails (crypto/rand)
	return p.openAs(srv, who, hex.EncodeToString(b[:]), w)
}

func (p *Proxy) openAs(srv *server, who Caller, id string, w *web) (*session, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	switch {
	case p.draining:
		return nil, errDraining
	case p.sessions[id] != nil:
		return p.sessions[id], nil
	case len(p.sessions) >= p.most:
		return nil, errSessions
	}
	s := newSession(p, srv, id, who)
	s.web = w
	p.sessions[id] = s
	return s, nil
}

// end closes a session.
func (p *Proxy) end(s *session) {
	p.mu.Lock()
	delete(p.sessions, s.id)
	p.mu.Unlock()
	s.close()
}

// reap ends sessions that nobody uses.
func (p *Proxy) reap() {
	tick := time.NewTicker(min(p.idle/4, time.Minute))
	defer tick.Stop()
	for {
		select {
		case <-p.halted:
			return
		case <-tick.C:
		}
		p.mu.Lock()
		var all []*session
		for _, s := range p.sessions {
			if s.web != nil && s.abandoned(p.idle) {
				all = append(all, s)
			}
		}
		p.mu.Unlock()
		for _, s := range all {
			p.logger.Info("an MCP session that nobody used is ended", "server", s.srv.name)
			p.end(s)
		}
	}
}

func (s *session) abandoned(idle time.Duration) bool {
	if s.busy() || s.web.watched() {
		return false
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return time.Since(s.used) > idle && len(s.tasks) == 0
}

// begin counts work of the proxy's, unless it is closed.
func (p *Proxy) begin(f func()) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return false
	}
	p.work.Go(f)
	return true
}

// inputWait is how long a server's question may stay open.
const inputWait = 10 * time.Minute

// park gives an intent that waits for its client's input a time to live.
func (p *Proxy) park(id string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return
	}
	if was := p.parked[id]; was != nil {
		was.Stop()
	}
	p.parked[id] = time.AfterFunc(inputWait, func() { p.begin(func() { p.unpark(id) }) })
}

func (p *Proxy) unpark(id string) {
	p.mu.Lock()
	delete(p.parked, id)
	p.mu.Unlock()
	ctx, stop := p.commitWait()
	defer stop()
	r, err := p.ledger.Get(ctx, id)
	if err != nil || r.State != ledger.Created {
		return
	}
	if err := p.log.Load(r).Discard("the client did not answer the server's question", "MCP 2026-07-28"); err != nil && !errors.Is(err, ledger.ErrStale) {
		p.logger.Warn("a call that waits for input could not be discarded", "intent", id, "error", err)
	}
}

// Close takes on no more calls, waits for those on their way until ctx ends, records the rest as unknown, and ends every
// session and server.
func (p *Proxy) Close(ctx context.Context) {
	p.mu.Lock()
	p.draining = true
	p.mu.Unlock()
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for p.flying() && ctx.Err() == nil {
		select {
		case <-ctx.Done():
		case <-tick.C:
		}
	}
	p.halt.Do(func() { close(p.halted) })
	p.mu.Lock()
	p.closed = true
	all := make([]*session, 0, len(p.sessions))
	for _, s := range p.sessions {
		all = append(all, s)
	}
	for _, t := range p.parked {
		t.Stop()
	}
	p.mu.Unlock()
	p.work.Wait() // flights first: what is on their way is recorded as interrupted, not as lost
	for _, s := range all {
		p.end(s)
	}
	p.client.CloseIdleConnections()
}

func (p *Proxy) flying() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	for f := range p.aloft {
		f.mu.Lock()
		task := f.early != nil
		f.mu.Unlock()
		if !task {
			return true
		}
	}
	return false
}

// keep is a request as it goes on record, nil where retention.request_bodies keeps none.
func (p *Proxy) keep(kind ledger.BodyKind, raw []byte) *ledger.Body {
	if p.policy.Load().Retention.RequestBodies == "none" {
		return nil
	}
	return &ledger.Body{Kind: kind, ContentType: "application/json", Data: raw}
}

func (p *Proxy) isHalted() bool {
	select {
	case <-p.halted:
		return true
	default:
		return false
	}
}

func (p *Proxy) commitWait() (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.Background(), p.limits().CommitWait)
}

// next is an id that no other request of this process has, in whichever session.
func (p *Proxy) next() int64 { return p.ids.Add(1) }

func (p *Proxy) limits() policy.Limits { return p.policy.Load().Limits }
func (p *Proxy) depth() int            { return p.policy.Load().Limits.JSONDepth }
func (p *Proxy) env() string           { return p.policy.Load().Env }
func (p *Proxy) revision() string      { return p.policy.Load().Revision }

// tenant is whose calls those of a stdio client are (semantics 44).
func (p *Proxy) tenant() string {
	if t := p.policy.Load().Auth.Tenant; t != "" {
		return t
	}
	return "main"
}

// since is how old an intent is.
func (p *Proxy) since(op *intent.Op) time.Duration { return p.ledger.Now().Sub(op.Head().CreatedAt) }
