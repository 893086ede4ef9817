// Package holdfast runs the whole engine — log, gateway, admin API — inside a program, as the holdfast command does.
package holdfast

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/holdfast-ai/holdfast/intent"
	"github.com/holdfast-ai/holdfast/internal/admin"
	"github.com/holdfast-ai/holdfast/internal/gateway"
	"github.com/holdfast-ai/holdfast/internal/mutant"
	"github.com/holdfast-ai/holdfast/internal/policy"
	"github.com/holdfast-ai/holdfast/internal/reconcile"
	"github.com/holdfast-ai/holdfast/internal/route"
	"github.com/holdfast-ai/holdfast/internal/shared"
	"github.com/holdfast-ai/holdfast/internal/telemetry"
	"github.com/holdfast-ai/holdfast/internal/upstream"
	"github.com/holdfast-ai/holdfast/ledger"
	"github.com/holdfast-ai/holdfast/ledger/postgres"
	"github.com/holdfast-ai/holdfast/ledger/spread"
	"github.com/holdfast-ai/holdfast/ledger/sqlite"
)

// Config says how to start an Engine. Its zero value is that of `holdfast serve` without a file: an embedded
// store in ./holdfast.db and three providers with the keys of the environment.
type Config struct {
	// File is a holdfast.yaml.
	File string
	// Listen, Admin, Store (sqlite:FILE, FILE or postgres://USER@HOST/DB) and Env win over the file where they are set.
	Listen, Admin, Store, Env string
	// Embedded opens no ports: the program uses Do, Outbox and Transport alone.
	Embedded bool
	// Passing says that the process ends with the one MCP client that it serves, so that proxies which work through it need not
	// wait for it to be started again before they take the store over.
	Passing bool
	// Stderr gets what MCP servers that run as child processes write there. Default: nowhere.
	Stderr io.Writer
	// Watch has File, and what it names, read again when it changes, as Reload does.
	Watch bool
	// Upstreams are NAME=BASE_URL, each replacing the base URL of a provider.
	Upstreams []string
	// Getenv looks variables up. Default os.LookupEnv.
	Getenv func(string) (string, bool)
	// Logger hears of everything that an operator should know. Default: none.
	Logger *slog.Logger
}

// Engine is one gateway with its store. Start it once, stop it once.
type Engine struct {
	conf    Config
	policy  atomic.Pointer[policy.Config] // in force
	logger  *slog.Logger
	ledger  ledger.Ledger
	log     *intent.Log
	gateway *gateway.Gateway
	meter   *telemetry.Meter
	routes  *route.Table
	shared  *shared.State // nil: this process counts for itself
	client  upstream.Client
	mcp     mcpService
	fleet   fleetService

	embedded  bool
	passing   bool
	functions *functions
	outbox    *Outbox
	exchanges exchanges // of Transport
	handling  sync.Mutex
	handlers  map[string]Handler
	finders   map[string]Reconciler // by workflow

	reconcilers atomic.Pointer[reconcile.Set]
	reloads     reloads

	data, admin *server
	background  sync.WaitGroup
	stop        context.CancelFunc
	stopJobs    context.CancelFunc
}

// New reads and checks the configuration. Nothing is opened yet. Errors: *ConfigError.
func New(c Config) (*Engine, error) {
	if c.Getenv == nil {
		c.Getenv = os.LookupEnv
	}
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	cfg, refused := servable(c)
	if refused != nil {
		return nil, configError(refused)
	}
	e := &Engine{conf: c, logger: c.Logger, embedded: c.Embedded, passing: c.Passing, mcp: mcpService{stderr: c.Stderr}}
	e.policy.Store(cfg)
	return e, nil
}

// Start opens the store, recovers what a dead process left, and listens. When it returns nil, both listeners
// accept; an error has closed again what was opened.
func (e *Engine) Start(ctx context.Context) (err error) {
	defer func() {
		if err != nil {
			e.close()
		}
	}()
	if err = e.openStore(ctx); err != nil {
		return err
	}
	e.meter, err = telemetry.New()
	if err != nil {
		return fmt.Errorf("telemetry: %w", err)
	}
	e.log = intent.New(intent.Config{Ledger: e.ledger, CommitWait: e.config().Limits.CommitWait, Observe: e.changed,
		Lane: func(r *ledger.Record) string { return e.gateway.AgedLane(r) }, Logger: e.logger, Exclusive: !e.many(), Info: e.ownerInfo})
	if err = e.startFleet(ctx); err != nil {
		return err
	}
	counts, err := e.ledger.Counts(ctx)
	if err != nil {
		return fmt.Errorf("store: count what is not settled: %w", err)
	}
	e.meter.Seed(counts) // what recovery moves is told of as a change
	if err = e.log.Alive(ctx); err != nil {
		return fmt.Errorf("store: heartbeat: %w", err)
	}
	if err = e.recover(ctx); err != nil {
		return err
	}
	e.client = upstream.New(upstream.Config{Proxy: http.ProxyFromEnvironment})
	e.openShared(ctx)
	e.routes = route.New(route.Config{Cooldowns: e.ledger, Logger: e.logger, OnBreaker: e.meter.Breaker, Breakers: e.breakers()})
	if err = e.routes.Load(ctx); err != nil {
		return err
	}
	api := admin.New(admin.Config{Ledger: e.ledger, Log: e.log, Peers: e.fleet.peers, Policy: e.config, Configuration: e.configuration, Logger: e.logger, Routes: e.routes,
		Bulkheads: func() []gateway.Bulkhead { return e.gateway.Bulkheads() }, Gateway: func() *gateway.Gateway { return e.gateway }})
	if e.fleet.peers != nil {
		api.ServePeers(e.fleet.peers)
	}
	e.gateway, err = gateway.New(ctx, gateway.Config{Policy: e.config(), Ledger: e.ledger, Log: e.log, Upstream: e.client, Routes: e.routes, Shared: e.sharedState(),
		API: api.Tenants(gateway.Tenant), MCP: e.serveMCP, Observer: e.meter, Logger: e.logger, Heartbeat: e.heartbeat(), Peers: e.others()})
	if err != nil {
		return err
	}
	e.meter.Lanes(e.gateway.Lanes)
	e.meter.Routes(e.routes.List)
	if err = e.startMCP(ctx, api); err != nil {
		return err
	}
	if e.functions, err = newFunctions(ctx, e); err != nil {
		return err
	}
	set, err := e.newReconcilers(ctx, e.config())
	if err != nil {
		return err
	}
	e.putReconcilers(set)
	if err = e.listen(api); err != nil {
		return err
	}
	e.inForceSince()
	if err = e.runBackground(); err != nil {
		return err
	}
	e.logger.Info("holdfast is up", "listen", e.Addr(), "admin", e.AdminAddr(), "store", e.storeNames(), "env", e.config().Env,
		"revision", e.config().Revision, "owner", e.log.Owner())
	return nil
}

// changed is told of every change of an intent.
func (e *Engine) changed(c intent.Change) {
	e.meter.Change(c)
	if c.From == ledger.Unknown && e.gateway != nil {
		e.gateway.Reconciled(c.Head, c.Outcome == ledger.OutcomeSuccess)
	}
}

func (e *Engine) openStore(ctx context.Context) (err error) {
	if e.many() {
		return e.openDatabases(ctx)
	}
	dsn := e.config().Store[0]
	e.ledger, err = opened(sqlite.Open(ctx, sqlite.Config{Path: dsn.Path(), Env: e.config().Env, Logger: e.logger,
		Hook: func(point string) { mutant.Point("store." + point) }}))
	if err != nil {
		return fmt.Errorf("store %s: %w", dsn, err)
	}
	return nil
}

// openDatabases opens the database that is the store, or all of those that operations are spread over.
func (e *Engine) openDatabases(ctx context.Context) (err error) {
	var stores []ledger.Ledger
	defer func() {
		if err != nil {
			for _, s := range stores {
				err = errors.Join(err, s.Close())
			}
		}
	}()
	for _, dsn := range e.config().Store {
		s, err := postgres.Open(ctx, postgres.Config{URL: dsn.Reveal(), Env: e.config().Env, Logger: e.logger})
		if err != nil {
			return fmt.Errorf("store %s: %w", dsn, err)
		}
		stores = append(stores, s)
	}
	if len(stores) == 1 {
		if err := spread.Alone(ctx, stores[0]); err != nil {
			return fmt.Errorf("store %s: %w", e.config().Store[0], err)
		}
		e.ledger = stores[0]
		return nil
	}
	all, err := spread.New(ctx, stores, e.logger)
	if err != nil {
		return fmt.Errorf("store: %w", err)
	}
	e.ledger = all
	return nil
}

// storeNames is where the log is kept, without passwords.
func (e *Engine) storeNames() string {
	var names []string
	for _, dsn := range e.config().Store {
		names = append(names, dsn.String())
	}
	return strings.Join(names, ", ")
}

// opened is a ledger, or none at all where it could not be opened.
func opened[L ledger.Ledger](l L, err error) (ledger.Ledger, error) {
	if err != nil {
		return nil, err
	}
	return l, nil
}

func (e *Engine) recover(ctx context.Context) error {
	found, err := e.log.Recover(ctx)
	if err != nil {
		return err
	}
	if found != (intent.Recovered{}) {
		e.logger.Warn("recovered what an earlier process left", "waiting", found.Waiting, "unknown", found.Unknown,
			"failed", found.Failed, "settled", found.Settled, "dropped", found.Dropped)
	}
	return e.ledger.PutPolicy(ctx, e.config().Revision, e.config().Print())
}

func (e *Engine) listen(api *admin.API) error {
	if e.embedded {
		return nil
	}
	limits := e.config().Limits
	var err error
	if e.data, err = newServer("listen", e.config().Listen, e.dataPlane(), int(limits.HeaderBytes), e.logger); err != nil {
		return err
	}
	e.reachable()
	e.admin, err = newServer("admin", e.config().Admin, api.Operators(e.gateway.Guard, e.gateway.Readiness, e.meter.Handler()), int(limits.HeaderBytes), e.logger)
	return err
}

// Addr is the data plane's address, AdminAddr the admin API's, as host:port; empty where no port is open.
func (e *Engine) Addr() string      { return e.data.addr() }
func (e *Engine) AdminAddr() string { return e.admin.addr() }

// Stop takes on no more work, waits for what is in progress until ctx ends, records the rest as interrupted and
// closes the store.
func (e *Engine) Stop(ctx context.Context) error {
	if e.gateway != nil {
		e.logger.Info("draining", "limit", e.config().Limits.DrainWait)
		e.leave(ctx)
		var functions sync.WaitGroup
		functions.Go(func() { e.drainFunctions(ctx) })
		functions.Go(func() { e.mcp.close(ctx) })
		e.gateway.Drain(ctx)
		functions.Wait()
	}
	return e.close()
}

func (e *Engine) drainFunctions(ctx context.Context) {
	if e.outbox != nil {
		e.outbox.stop()
	}
	if e.functions != nil {
		e.functions.drain(ctx)
	}
	if e.outbox != nil {
		e.outbox.all.Wait()
	}
}

// DrainWait is limits.drain_wait.
func (e *Engine) DrainWait() time.Duration { return e.config().Limits.DrainWait }

// Run starts the engine and stops it, within limits.drain_wait, when ctx ends.
func (e *Engine) Run(ctx context.Context) error {
	if err := e.Start(ctx); err != nil {
		return err
	}
	<-ctx.Done()
	drain, cancel := context.WithTimeout(context.WithoutCancel(ctx), e.config().Limits.DrainWait)
	defer cancel()
	return e.Stop(drain)
}

func (e *Engine) close() error {
	var errs []error
	if e.data != nil {
		errs = append(errs, e.data.close())
	}
	if e.admin != nil {
		errs = append(errs, e.admin.close())
	}
	over, stop := context.WithCancel(context.Background())
	stop()
	e.mcp.close(over)
	e.exchanges.close()
	if e.client != nil {
		e.client.CloseIdle()
	}
	if e.functions != nil {
		e.drainFunctions(over)
		e.functions.close()
	}
	if e.stop != nil {
		e.stop()
	}
	e.background.Wait()
	if set := e.reconcilers.Load(); set != nil {
		errs = append(errs, set.Close())
	}
	if e.routes != nil {
		e.routes.Close()
	}
	e.shared.Close()
	if e.log != nil {
		e.fleet.over.Store(true)
		e.log.Close()
		e.ended()
	}
	if e.ledger != nil {
		errs = append(errs, e.ledger.Close())
	}
	return errors.Join(errs...)
}

// sweepEvery is how often retention looks for what is no longer kept.
const sweepEvery = time.Minute

// sweepAnyway is every how many turns of its own an engine sweeps although another one is there for it, which may be stuck.
const sweepAnyway = 10

func (e *Engine) runBackground() error {
	ctx, stop := context.WithCancel(context.Background())
	e.stop = stop
	e.background.Go(func() { _ = e.log.Run(ctx) })
	e.background.Go(func() { e.sweep(ctx) })
	if _, many := e.ledger.(ledger.Notifier); many || e.shared != nil {
		e.background.Go(func() { e.routes.Follow(ctx) })
	}
	if err := e.watch(ctx); err != nil {
		return err
	}
	var jobs context.Context
	jobs, e.stopJobs = context.WithCancel(ctx)
	e.background.Go(func() { _ = e.gateway.Jobs().Run(jobs) })
	e.background.Go(func() { _ = e.gateway.Callbacks().Run(jobs) })
	e.background.Go(func() { _ = e.log.Reconcile(ctx, intent.Patrol{Plan: e.plan, Returned: e.returned}) })
	return nil
}

func (e *Engine) sweep(ctx context.Context) {
	ticker := time.NewTicker(sweepEvery)
	defer ticker.Stop()
	turn := 0
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
		if turn++; !e.log.First("sweep") && turn%sweepAnyway != 0 {
			continue
		}
		r := e.config().Retention
		for more := true; more && ctx.Err() == nil; {
			var err error
			_, more, err = e.ledger.Sweep(ctx, ledger.Retention{Now: e.ledger.Now(), Answers: r.Answers, DeadLetter: r.DeadLetter,
				Rows: r.Rows, MaxBytes: r.MaxBytes})
			if err != nil {
				e.logger.Warn("retention did not finish", "error", err)
				break
			}
		}
	}
}

// closeWait bounds the wait for clients that are still reading when everything is done.
const closeWait = 5 * time.Second

// server is one listener with its HTTP server.
type server struct {
	http     *http.Server
	listener net.Listener
	done     chan error
}

func newServer(name, addr string, h http.Handler, headerBytes int, logger *slog.Logger) (*server, error) {
	l, err := net.Listen("tcp", addr)
	if err != nil {
		return nil, fmt.Errorf("listen on %s: %w; end what listens there (another holdfast serve?), or choose another address with --%s or %s: in the configuration",
			addr, err, name, name)
	}
	s := &server{listener: gateway.Watch(l), done: make(chan error, 1), http: &http.Server{
		Handler: h, ReadHeaderTimeout: 10 * time.Second, IdleTimeout: 2 * time.Minute, MaxHeaderBytes: headerBytes, ConnContext: gateway.ConnContext,
		ErrorLog: slog.NewLogLogger(logger.Handler(), slog.LevelDebug), Protocols: protocols(),
	}}
	go func() { s.done <- s.http.Serve(s.listener) }()
	return s, nil
}

// protocols are those a client on a trusted network may speak; TLS belongs to the balancer in front.
func protocols() *http.Protocols {
	p := new(http.Protocols)
	p.SetHTTP1(true)
	p.SetUnencryptedHTTP2(true)
	return p
}

func (s *server) addr() string {
	if s == nil {
		return ""
	}
	return s.listener.Addr().String()
}

func (s *server) close() error {
	// Answers that are complete still have to reach their clients.
	ctx, cancel := context.WithTimeout(context.Background(), closeWait)
	defer cancel()
	err := s.http.Shutdown(ctx)
	if errors.Is(err, context.DeadlineExceeded) {
		err = s.http.Close()
	}
	if served := <-s.done; !errors.Is(served, http.ErrServerClosed) {
		return errors.Join(err, served)
	}
	return err
}
