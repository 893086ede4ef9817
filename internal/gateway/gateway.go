// Package gateway is the data plane: the way of a request from a client to a provider and back, once.
package gateway

import (
	"context"
	"fmt"
	"log"
	"log/slog"
	"net/http"
	"slices"
	"sync/atomic"
	"time"

	"github.com/holdfast-ai/holdfast/intent"
	"github.com/holdfast-ai/holdfast/internal/budget"
	"github.com/holdfast-ai/holdfast/internal/policy"
	"github.com/holdfast-ai/holdfast/internal/route"
	"github.com/holdfast-ai/holdfast/internal/upstream"
	"github.com/holdfast-ai/holdfast/ledger"
	"github.com/holdfast-ai/holdfast/queue"
	"github.com/holdfast-ai/holdfast/spend"
)

// Config makes a Gateway. All fields but Observer are needed.
type Config struct {
	Policy   *policy.Config
	Ledger   ledger.Ledger
	Log      *intent.Log
	Upstream upstream.Client
	// Routes is the live state of the routes; one table for all that call through them.
	Routes *route.Table
	// Shared is what replicas share; nil: this process counts for itself.
	Shared Shared
	// API answers /holdfast/v1/… on the data port for the tenant that Tenant(r) names; nil: not found.
	API http.Handler
	// MCP answers /mcp/{server}; nil: not found.
	MCP      func(http.ResponseWriter, *http.Request, MCPCaller)
	Observer Observer
	// Heartbeat is nil while the store has a current heartbeat of this engine; nil: nobody asks for one.
	Heartbeat func() error
	// Callbacks sends callbacks; nil: one that resolves names as the system does.
	Callbacks CallbackSender
	// Peers finds the other gateways on the same ledger; nil: this one is alone.
	Peers  Peers
	Logger *slog.Logger
}

// Gateway serves the data plane. It is an http.Handler, safe for concurrent use.
type Gateway struct {
	current  atomic.Pointer[edition]
	ledger   ledger.Ledger
	log      *intent.Log
	upstream upstream.Client
	api      http.Handler
	mcp      func(http.ResponseWriter, *http.Request, MCPCaller)
	observer Observer
	logger   *slog.Logger

	salt   []byte // of tenants made from forwarded credentials
	secret []byte // of outbound keys (semantics 17)

	registry  registry
	replays   *replayCache
	mem       *budget.Bytes // of bodies of all calls, against limits.body_memory
	sightings sightings
	writes    writes // of tools without a key template
	late      listeners
	repeats   repeats
	routes    *route.Table
	jobs      *queue.Queue
	callbacks *callbacks
	book      *spend.Book // what workflows have spent today
	nobody    string      // mark of routes to which no credential goes
	started   time.Time   // ledger time
	answers   *answers    // that other requests may be given
	left      func(key string) bool
	working   atomic.Int64
	running   inflight
	draining  atomic.Bool
	leaving   atomic.Bool // soon draining
	beat      func() error
	shared    Shared          // nil: this process counts for itself
	halted    context.Context // ends when what is passed on may no longer run
	halt      context.CancelCauseFunc
	through   *http.Transport // for what is passed on unbuffered

	peers      Peers // nil: alone
	owners     owners
	awaits     *awaits // ends that other gateways write
	links      *links
	reclaiming atomic.Bool
	proxyLog   *log.Logger
}

// Memory counts the bodies of calls on their way, for other parts of the engine that hold some.
func (g *Gateway) Memory() *budget.Bytes { return g.mem }

// New reads the store's secrets and returns a Gateway.
func New(ctx context.Context, c Config) (*Gateway, error) {
	g := &Gateway{running: newInflight(), ledger: c.Ledger, log: c.Log, upstream: c.Upstream, api: c.API, mcp: c.MCP,
		observer: c.Observer, logger: c.Logger, peers: c.Peers, routes: c.Routes, beat: c.Heartbeat, shared: c.Shared, replays: newReplayCache(replayBytes)}
	if g.observer == nil {
		g.observer = silent{}
	}
	if g.logger == nil {
		g.logger = slog.New(slog.DiscardHandler)
	}
	g.late.open()
	g.halted, g.halt = context.WithCancelCause(context.Background())
	g.through, g.proxyLog = passThrough(), slog.NewLogLogger(g.logger.Handler(), slog.LevelWarn)
	g.mem = budget.New(c.Policy.Limits.BodyMemory)
	g.sightings.memory = budget.New(min(spillBeyond, c.Policy.Limits.BodyMemory/4))
	var err error
	if g.salt, err = c.Ledger.Secret(ctx, "salt"); err != nil {
		return nil, fmt.Errorf("gateway: read the store's salt: %w", err)
	}
	if g.secret, err = c.Ledger.Secret(ctx, "hmac"); err != nil {
		return nil, fmt.Errorf("gateway: read the store's secret: %w", err)
	}
	if err := g.linkUp(ctx); err != nil {
		return nil, err
	}
	g.nobody, g.answers = g.credentialMark(""), newAnswers(g)
	first, err := g.edition(c.Policy)
	if err != nil {
		return nil, err
	}
	g.current.Store(first)
	if err := g.answers.load(ctx, first.cacheBounds); err != nil {
		return nil, err
	}
	g.book = spend.New(g.ledger.Now)
	if g.shared != nil {
		g.book.Join(g.shared)
	}
	if err := g.recount(ctx, c.Policy, daily(c.Policy, &policy.Config{})); err != nil {
		return nil, err
	}
	g.jobs, g.callbacks = g.newQueue(c.Policy), g.newCallbacks(c.Callbacks)
	g.sightings.g, g.started = g, g.ledger.Now()
	if g.left, err = leftKeys(ctx, c.Ledger); err != nil {
		return nil, fmt.Errorf("gateway: read the derived keys that are left: %w", err)
	}
	if g.fleet() {
		g.answers.learns()
	}
	return g, nil
}

type stage struct {
	name string
	run  func(*call) *Error
}

// stages is the way of a request. Each either goes on, answers (done), or refuses.
var stages = [...]stage{
	{"route", (*call).route},         // which provider, which path
	{"identify", (*call).identify},   // whose call: tenant, owner
	{"control", (*call).control},     // our own headers
	{"read", (*call).read},           // the body, bounded
	{"policy", (*call).choose},       // which workflow, which effect
	{"pass", (*call).pass},           // reads and unknown paths need no intent's answer
	{"key", (*call).derive},          // what the request means
	{"async", (*call).async},         // Prefer: respond-async: a job, answered at once
	{"duplicate", (*call).duplicate}, // replay, attach, 409, 422
	{"admit", (*call).admit},         // a place among the workers
	{"cached", (*call).cached},       // an earlier answer, where it is wanted first
	{"permit", (*call).permit},       // a slot of the tier, a permit of the route
	{"claim", (*call).claim},         // claim + dispatched, durable
	{"run", (*call).run},             // the upstream call
	{"answer", (*call).answer},       // the recording, to this client
}

// ServeHTTP has a request go by the configuration that is in force when it comes, to its end.
func (g *Gateway) ServeHTTP(w http.ResponseWriter, r *http.Request) { g.current.Load().serve(w, r) }

func (g *edition) serve(w http.ResponseWriter, r *http.Request) {
	disarm(w)
	if g.peers != nil && peerPath(r.URL.Path) {
		g.servePeer(w, r)
		return
	}
	if g.shared != nil && g.shared.Degraded() {
		set(w.Header(), "Holdfast-Degraded", "shared_state")
	}
	if !g.guard.admit(w, r) {
		return
	}
	if local(r.URL.Path) {
		g.serveLocal(w, r)
		return
	}
	c := &call{g: g, out: patient{ResponseWriter: w}, r: r, began: time.Now()}
	c.w = &c.out
	defer c.observe()
	defer c.release()
	defer c.broke()
	for i := 0; i < len(stages); i++ {
		if err := stages[i].run(c); err != nil {
			taken, passing := c.unrecorded(err)
			if taken {
				err = passing
			}
			if err != nil && !c.instead(err) {
				c.refuse(err)
			}
			return
		}
		if c.done {
			return
		}
		if c.again {
			c.lookAgain()
			i = duplicateStage - 1
		}
	}
}

// duplicateStage is where a call begins again whose running answer turned out to be elsewhere.
var duplicateStage = slices.IndexFunc(stages[:], func(s stage) bool { return s.name == "duplicate" })

// broke keeps a defect of ours, in a stage, from holding a key: what never began is given up.
func (c *call) broke() {
	p := recover()
	if p == nil {
		return
	}
	if e := c.exec; e != nil && c.leader && e.request == nil && !e.over() {
		c.abandon(errorf(CodeAllTiersFailed, "the gateway failed before the call was sent"))
	}
	c.sever()
	panic(p)
}

// Drain stops taking on work and waits for what is in progress, until ctx ends; what is then still on its way
// is recorded as interrupted, and its clients are told in their streams.
func (g *Gateway) Drain(ctx context.Context) {
	g.draining.Store(true)
	g.late.end()
	defer g.late.all.Wait()
	finished := make(chan struct{})
	go func() {
		g.running.wait()
		close(finished)
	}()
	select {
	case <-finished:
	case <-ctx.Done():
		g.halt(errInterrupted)
		g.registry.each(func(e *execution) { e.stop(errInterrupted) })
		<-finished
	}
	g.answers.close()
	g.sightings.flush()
	g.unlink()
	g.through.CloseIdleConnections()
}
