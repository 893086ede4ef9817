package simulation

import (
	"context"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/holdfast-ai/holdfast/intent"
	"github.com/holdfast-ai/holdfast/internal/gateway"
	"github.com/holdfast-ai/holdfast/internal/policy"
	"github.com/holdfast-ai/holdfast/internal/upstream"
	"github.com/holdfast-ai/holdfast/ledger"
	"github.com/holdfast-ai/holdfast/ledger/sqlite"
	"github.com/holdfast-ai/holdfast/ledger/sqlite/faultdisk"
)

// configuration is every gateway's. WORKERS is the plan's.
const configuration = `
env: sim
providers:
  openai: {type: openai, base_url: "http://127.0.0.1/v1"}
  anthropic: {type: anthropic, base_url: "http://127.0.0.1"}
  gemini: {type: gemini, base_url: "http://127.0.0.1"}
limits: {workers: WORKERS}
workflows:
  external: {match: {paths: ["/by-name-only"]}, effect: external, idempotency: {window: 10m}, TIMES}
  strict: {match: {paths: ["/by-name-only"]}, durability: strict, TIMES}
  pipeline: {match: {paths: ["/by-name-only"]}, idempotency: {derive: always}, TIMES}
  conflict: {match: {paths: ["/by-name-only"]}, idempotency: {on_in_flight: conflict}, TIMES}
  wait: {match: {paths: ["/by-name-only"]}, idempotency: {on_in_flight: wait}, TIMES}
  cancel: {match: {paths: ["/by-name-only"]}, on_disconnect: cancel, TIMES}
  default: {TIMES}
`

const times = `bridge_after: 1s, finish_limit: 20s, timeouts: {first_token: 8s, idle: 5s, attempt: 12s, total: 15s, request: 25s, stream: 30s}`

func configure(workers int) (*policy.Config, error) {
	text := strings.ReplaceAll(strings.ReplaceAll(configuration, "TIMES", times), "WORKERS", fmt.Sprint(workers))
	cfg, faults := policy.Parse("simulation.yaml", []byte(text), os.LookupEnv)
	if cfg == nil {
		return nil, fmt.Errorf("policy: %v", faults)
	}
	return cfg, nil
}

const storePath = "/disk/holdfast.db"

// world is what every history begins with.
type world struct {
	disk     *faultdisk.Disk
	policies map[int]*policy.Config
	dir      string
	verbose  bool
	dirs     atomic.Int64
}

// history is one life of the engine.
type history struct {
	world *world
	plan  *plan
	disk  *faultdisk.Disk
	began time.Time
	far   *provider

	mu       sync.Mutex
	near     *process // nil while it is down
	skew     time.Duration
	fault    func(faultdisk.Op) error
	downs    []time.Time // when a process ended, or the disk suffered
	requests []*request
	maxDrain int
	wrong    []string
	log      strings.Builder

	dead   sync.WaitGroup // what is left of processes that died
	cutRng *rand.Rand
}

func (h *history) logf(format string, a ...any) {
	if !h.world.verbose {
		return
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	fmt.Fprintf(&h.log, "%9.3fs  ", time.Since(h.began).Seconds())
	fmt.Fprintf(&h.log, format+"\n", a...)
}

// violation notes that an invariant does not hold.
func (h *history) violation(format string, a ...any) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.wrong = append(h.wrong, fmt.Sprintf(format, a...))
}

// process is one life of the gateway's program.
type process struct {
	h      *history
	store  *sqlite.Ledger
	log    *intent.Log
	gw     *gateway.Gateway
	server *http.Server
	net    *listener
	calls  upstream.Client
	stop   func()
	dead   atomic.Bool
	ending atomic.Bool
	over   chan struct{}         // closed when it has ended; a channel, because fake time stands still for a mutex
	armed  atomic.Pointer[event] // dies at a point of its next commit
	mu     sync.Mutex
	links  []*link // to the provider
}

// start brings the gateway up on the disk, as serve does.
func (h *history) start() (*process, error) {
	ctx := context.Background()
	p := &process{over: make(chan struct{}), h: h, net: newListener()}
	logger := slog.New(slog.DiscardHandler)
	if h.world.verbose {
		logger = slog.New(slog.NewTextHandler(logWriter{h}, &slog.HandlerOptions{Level: slog.LevelDebug}))
	}
	var err error
	p.store, err = sqlite.Open(ctx, sqlite.Config{Path: storePath, Env: "sim", Disk: h.disk, Readers: 1, Logger: logger, Hook: p.point,
		Wall: func() time.Time { h.mu.Lock(); defer h.mu.Unlock(); return time.Now().Add(h.skew) },
		Mono: func() time.Duration { return time.Since(h.began) }})
	if err != nil {
		return nil, fmt.Errorf("open: %w", err)
	}
	cfg := h.world.policies[h.plan.Workers]
	p.log = intent.New(intent.Config{Ledger: p.store, CommitWait: cfg.Limits.CommitWait, Exclusive: true, Logger: logger})
	if _, err = p.log.Recover(ctx); err == nil {
		p.calls = upstream.New(upstream.Config{DialContext: p.dial})
		p.gw, err = gateway.New(ctx, gateway.Config{Policy: cfg, Ledger: p.store, Log: p.log, Upstream: p.calls, Logger: logger})
	}
	if err != nil {
		p.log.Close()
		return nil, fmt.Errorf("start: %w", joinClose(err, p.store))
	}
	p.server = &http.Server{Handler: p.gw, ConnContext: gateway.ConnContext, ErrorLog: slog.NewLogLogger(logger.Handler(), slog.LevelWarn)}
	served := make(chan struct{})
	go func() { _ = p.server.Serve(gateway.Watch(p.net)); close(served) }()
	background, stop := context.WithCancel(ctx)
	ran := make(chan struct{})
	go func() { _ = p.log.Run(background); close(ran) }()
	p.stop = func() { stop(); <-ran; <-served }
	return p, nil
}

func joinClose(err error, store *sqlite.Ledger) error {
	if e := store.Close(); e != nil {
		return fmt.Errorf("%w; and close: %w", err, e)
	}
	return err
}

type logWriter struct{ h *history }

func (w logWriter) Write(p []byte) (int, error) {
	w.h.logf("gateway: %s", strings.TrimSpace(string(p)))
	return len(p), nil
}

// dial connects to the provider. The dead call nobody.
func (p *process) dial(ctx context.Context, _, _ string) (net.Conn, error) {
	k := newLink(time.Millisecond, 64<<10)
	c, err := p.h.far.net.dial(ctx, k)
	if err != nil {
		return nil, err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.dead.Load() {
		k.sever()
		return nil, syscall.ECONNREFUSED
	}
	p.links = append(p.links, k)
	return c, nil
}

// point is a point of a commit, where an armed process dies.
func (p *process) point(name string) {
	if e := p.armed.Load(); e != nil && e.Point == name && p.armed.CompareAndSwap(e, nil) {
		p.h.die(p, e.Kind)
	}
}

// die ends a process at once: nothing of it reaches anybody any more. What Go cannot kill unwinds aside.
func (h *history) die(p *process, kind string) {
	if p.dead.Swap(true) {
		return
	}
	h.logf("event: %s", kind)
	h.mu.Lock()
	if kind == "power" {
		h.disk.Cut(h.cutRng)
	} else {
		h.disk.Kill()
	}
	h.downs = append(h.downs, time.Now())
	h.near = nil
	h.mu.Unlock()
	p.net.kill()
	p.mu.Lock()
	for _, k := range p.links {
		k.sever()
	}
	p.mu.Unlock()
	h.dead.Go(func() {
		p.shut(0)
		h.disk.Boot()
		h.mu.Lock()
		h.disk.SetFault(h.fault)
		h.mu.Unlock()
		h.revive()
	})
}

// revive starts the next process, until one comes up.
func (h *history) revive() {
	for {
		p, err := h.start()
		if err == nil {
			h.logf("event: up")
			h.mu.Lock()
			h.near = p
			h.downs = append(h.downs, time.Now())
			h.mu.Unlock()
			return
		}
		h.logf("event: the gateway does not start: %v", err)
		if h.plan.End*10 < time.Since(h.began) {
			h.violation("the gateway does not come up again: %v", err)
			return
		}
		time.Sleep(500 * time.Millisecond)
	}
}

// shut ends a process in order, or lets go of what is left of it.
func (p *process) shut(patience time.Duration) {
	if !p.ending.CompareAndSwap(false, true) {
		<-p.over
		return
	}
	defer close(p.over)
	p.unwind(patience)
}

func (p *process) unwind(patience time.Duration) {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	p.gw.Drain(ctx)
	if !p.dead.Load() {
		_ = p.server.Shutdown(ctx)
	}
	_ = p.server.Close()
	p.stop()
	p.calls.CloseIdle()
	p.log.Close()
	if err := p.store.Close(); err != nil {
		p.h.logf("event: close: %v", err)
	}
}

// happen lets one event come.
func (h *history) happen(e event) {
	h.mu.Lock()
	p := h.near
	h.mu.Unlock()
	switch e.Kind {
	case "power", "kill":
		if p != nil && e.Point == "" {
			h.die(p, e.Kind)
		} else if p != nil {
			p.armed.Store(&e)
		}
	case "restart":
		h.restart(p, e.For)
	case "step":
		h.mu.Lock()
		h.skew += e.Step
		h.mu.Unlock()
	default:
		h.suffer(e)
	}
}

func (h *history) restart(p *process, patience time.Duration) {
	if p == nil || p.dead.Load() {
		return
	}
	h.logf("event: restart")
	h.mu.Lock()
	h.near = nil
	h.downs = append(h.downs, time.Now())
	h.mu.Unlock()
	p.shut(patience)
	if !p.dead.Load() { // else its death revives it
		h.revive()
	}
}

// suffer makes the disk slow or faulty for a time.
func (h *history) suffer(e event) {
	h.logf("event: disk: %s for %v", e.Kind, e.For)
	h.setFault(func(op faultdisk.Op) error {
		switch {
		case e.Kind == "slow" && op.Kind == faultdisk.Sync:
			time.Sleep(e.Delay)
		case e.Kind == "eio" && (op.Kind == faultdisk.Sync || op.Kind == faultdisk.Write):
			return syscall.EIO
		case e.Kind == "enospc" && op.Kind == faultdisk.Write:
			return syscall.ENOSPC
		}
		return nil
	})
	time.Sleep(e.For)
	h.setFault(nil)
	h.logf("event: disk: well")
}

func (h *history) setFault(f func(faultdisk.Op) error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.fault = f
	h.downs = append(h.downs, time.Now())
	h.disk.SetFault(f)
}

// live plays the plan to its end. It is called in a bubble.
func (h *history) live() {
	h.began = time.Now()
	h.cutRng = rand.New(rand.NewPCG(h.plan.Seed, 9))
	h.disk.SetFault(nil)
	h.far = newProvider(h)
	defer h.far.close()
	p, err := h.start()
	if err != nil {
		h.violation("the first start: %v", err)
		return
	}
	h.near = p
	var clients, events sync.WaitGroup
	for i := range h.plan.Ops {
		o := &h.plan.Ops[i]
		for j := range o.Clients {
			clients.Go(func() { h.client(o, j) })
		}
	}
	for _, e := range h.plan.Events {
		events.Go(func() { time.Sleep(e.At); h.happen(e) })
	}
	watched := make(chan struct{})
	ended := make(chan struct{})
	go func() { defer close(watched); h.watch(ended) }()
	clients.Wait()
	events.Wait()
	h.dead.Wait()
	h.probe()
	close(ended)
	<-watched
	h.rest()
}

// watch samples what must stay bounded.
func (h *history) watch(ended chan struct{}) {
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	for {
		select {
		case <-ended:
			return
		case <-tick.C:
		}
		h.mu.Lock()
		p := h.near
		h.mu.Unlock()
		if p != nil {
			h.maxDrain = max(h.maxDrain, p.gw.Holding().Drains)
		}
	}
}

// probe asks once more for everything that has a key, of a gateway that suffers nothing.
func (h *history) probe() {
	time.Sleep(10 * time.Second)
	var all sync.WaitGroup
	for i := range h.plan.Ops {
		o := &h.plan.Ops[i]
		if o.Key || o.Workflow == "pipeline" {
			all.Go(func() { h.ask(o, -1, nil, &try{Leave: stays, Delay: time.Millisecond, Room: 64 << 10}, 0, false) })
		}
	}
	all.Wait()
}

// rest waits until everything must be over, checks, and ends the last process.
func (h *history) rest() {
	h.mu.Lock()
	p := h.near
	h.mu.Unlock()
	if p == nil {
		return
	}
	time.Sleep(90 * time.Second)
	if held := p.gw.Holding(); held != (gateway.Holding{}) {
		h.violation("at rest the gateway holds %+v", held)
	}
	p.armed.Store(nil)
	records := h.records(p.store)
	p.shut(30 * time.Second)
	h.check(records)
}

func (h *history) records(l ledger.Ledger) []*ledger.Record {
	var all []*ledger.Record
	before := ""
	for {
		page, err := l.List(context.Background(), ledger.Filter{Limit: 1000, Before: before})
		if err != nil {
			h.violation("the log cannot be read: %v", err)
			return all
		}
		all = append(all, page...)
		if len(page) < 1000 {
			return all
		}
		before = page[len(page)-1].ID
	}
}
