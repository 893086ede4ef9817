package gateway_test

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/holdfast-ai/holdfast/intent"
	replicas "github.com/holdfast-ai/holdfast/internal/fleet"
	"github.com/holdfast-ai/holdfast/internal/gateway"
	"github.com/holdfast-ai/holdfast/internal/policy"
	"github.com/holdfast-ai/holdfast/internal/route"
	"github.com/holdfast-ai/holdfast/internal/sim"
	"github.com/holdfast-ai/holdfast/internal/upstream"
	"github.com/holdfast-ai/holdfast/ledger"
	"github.com/holdfast-ai/holdfast/ledger/sqlite"
)

// A fleet is several gateways on one ledger in front of one simulated provider, each with its own listener, log and owner, as
// replicas behind a balancer are.
type fleet struct {
	t     *testing.T
	nodes []*node
	peers *peerBook
}

// node is one gateway of a fleet: a rig whose store and provider are the fleet's.
type node struct {
	*rig
	cut   *cutLedger
	peers *replicas.Peers
}

// openShared opens what the gateways of a fleet share. It is called once for each fleet, and what it returns once for each of its
// gateways; over Postgres each has a ledger of its own, over SQLite they share one.
var openShared = func(t *testing.T) func() ledger.Ledger {
	store, err := sqlite.Open(context.Background(), sqlite.Config{Path: filepath.Join(t.TempDir(), "holdfast.db"), Env: "test"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := store.Close(); err != nil {
			t.Error(err)
		}
	})
	return func() ledger.Ledger { return store }
}

// newFleet starts n gateways.
func newFleet(t *testing.T, n int, options ...option) *fleet {
	t.Helper()
	c := rigConfig{yaml: workflows}
	for _, o := range options {
		o(&c)
	}
	provider := sim.New(sim.Config{})
	if err := provider.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := provider.Close(); err != nil {
			t.Error(err)
		}
	})
	cfg, faults := policy.Parse("test.yaml", []byte(strings.ReplaceAll(c.yaml, "SIM", provider.URL())), os.LookupEnv)
	if cfg == nil {
		t.Fatalf("policy: %v", faults)
	}
	f := &fleet{t: t, peers: &peerBook{dead: map[string]bool{}}}
	open := openShared(t)
	for range n {
		f.nodes = append(f.nodes, f.start(provider, cfg, open()))
	}
	t.Cleanup(f.close)
	return f
}

func (f *fleet) start(provider *sim.Server, cfg *policy.Config, store ledger.Ledger) *node {
	t, ctx := f.t, context.Background()
	t.Helper()
	cut := &cutLedger{Ledger: store}
	r := &rig{t: t, sim: provider, policy: cfg, store: store}
	n := &node{rig: r, cut: cut}
	logger := slog.New(slog.DiscardHandler)
	r.server = httptest.NewUnstartedServer(nil)
	address := "http://" + r.server.Listener.Addr().String()
	r.log = intent.New(intent.Config{Ledger: cut, CommitWait: cfg.Limits.CommitWait, Logger: logger,
		Info: func() []byte { return replicas.Info{Address: address}.Encode() }})
	if err := r.log.Alive(ctx); err != nil {
		t.Fatal(err)
	}
	secret, err := cut.Secret(ctx, replicas.SecretName)
	if err != nil {
		t.Fatal(err)
	}
	directory := replicas.NewDirectory(cut, r.log.Owner(), logger)
	n.peers = replicas.NewPeers(directory, replicas.NewSigner(r.log.Owner(), secret, cut.Now), logger)
	client := upstream.New(upstream.Config{})
	r.routes = route.New(route.Config{Cooldowns: cut, Logger: logger})
	r.gw, err = gateway.New(ctx, gateway.Config{Policy: cfg, Ledger: cut, Log: r.log, Upstream: client, Routes: r.routes, Logger: logger, Peers: &way{n.peers, f.peers}})
	if err != nil {
		t.Fatal(err)
	}
	r.server.Config.Handler = http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
		if strings.HasPrefix(q.URL.Path, replicas.Prefix) {
			n.peers.ServeHTTP(w, q)
			return
		}
		r.gw.ServeHTTP(w, q)
	})
	r.server.Listener = gateway.Watch(r.server.Listener)
	r.server.Config.ConnContext = gateway.ConnContext
	r.server.Start()
	r.client = &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 64}}
	background, stop := context.WithCancel(ctx)
	var ran sync.WaitGroup
	ran.Go(func() { _ = r.log.Run(background) })
	r.stop = func() { stop(); ran.Wait(); client.CloseIdle(); n.peers.Close(); directory.Close() }
	r.stopJobs = func() {}
	return n
}

func (f *fleet) close() {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	for _, n := range f.nodes {
		n.client.CloseIdleConnections()
	}
	for _, n := range f.nodes {
		n.leave(ctx)
	}
}

// leave ends a gateway in order, once.
func (n *node) leave(ctx context.Context) {
	if n.stopped {
		return
	}
	n.stopped = true
	n.gw.Drain(ctx)
	n.server.Close()
	n.stop()
	n.log.Close()
}

// die makes the others believe that n is dead, and n unable to write: its process is as good as gone.
func (f *fleet) die(n *node) {
	f.t.Helper()
	n.cut.gone.Store(true)
	f.peers.bury(n.log.Owner())
	n.stop()
	past := ledger.Owner{ID: n.log.Owner(), Until: n.store.Now().Add(-time.Second)}
	if err := n.store.Beat(context.Background(), past); err != nil {
		f.t.Fatal(err)
	}
}

// unreachable has no gateway find another.
func (f *fleet) unreachable() { f.peers.hidden.Store(true) }

// ways are how gateways may know of one another: with a way to each other, and by the ledger alone.
func ways(t *testing.T, test func(t *testing.T, f func(n int, options ...option) *fleet)) {
	for _, reached := range []bool{true, false} {
		name := "reached"
		if !reached {
			name = "by the ledger"
		}
		t.Run(name, func(t *testing.T) {
			test(t, func(n int, options ...option) *fleet {
				f := newFleet(t, n, options...)
				f.peers.hidden.Store(!reached)
				return f
			})
		})
	}
}

// peerBook says whom nobody reaches.
type peerBook struct {
	mu     sync.Mutex
	dead   map[string]bool
	hidden atomic.Bool
}

func (p *peerBook) bury(owner string) {
	p.mu.Lock()
	p.dead[owner] = true
	p.mu.Unlock()
}

func (p *peerBook) reached(owner string) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return !p.dead[owner] && !p.hidden.Load()
}

// way is one gateway's to the others, while there is one.
type way struct {
	*replicas.Peers
	book *peerBook
}

func (w *way) Do(ctx context.Context, owner, method, target string, header http.Header, body []byte) (*http.Response, error) {
	if !w.book.reached(owner) {
		return nil, replicas.ErrUnreachable
	}
	return w.Peers.Do(ctx, owner, method, target, header, body)
}

// cutLedger is one gateway's way to the ledger, which can break.
type cutLedger struct {
	ledger.Ledger
	gone atomic.Bool
	body atomic.Pointer[[]byte] // in the place of every answer
}

func (l *cutLedger) Body(ctx context.Context, id string, kind ledger.BodyKind) (*ledger.Body, error) {
	b, err := l.Ledger.Body(ctx, id, kind)
	if other := l.body.Load(); err == nil && other != nil {
		b.Data = *other
	}
	return b, err
}

var errCut = errors.Join(ledger.ErrUnavailable, errors.New("cut off"))

func (l *cutLedger) Enqueue(w *ledger.Write) <-chan struct{} {
	if !l.gone.Load() {
		return l.Ledger.Enqueue(w)
	}
	w.Err = errCut
	done := make(chan struct{})
	close(done)
	return done
}

func (l *cutLedger) Healthy() error {
	if l.gone.Load() {
		return errCut
	}
	return l.Ledger.Healthy()
}
