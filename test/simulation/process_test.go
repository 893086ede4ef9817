package simulation

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/holdfast-ai/holdfast/intent"
	"github.com/holdfast-ai/holdfast/internal/gateway"
	"github.com/holdfast-ai/holdfast/internal/route"
	"github.com/holdfast-ai/holdfast/internal/upstream"
	"github.com/holdfast-ai/holdfast/ledger/sqlite"
)

// process is one life of the gateway's program.
type process struct {
	h      *history
	store  *sqlite.Ledger
	log    *intent.Log
	gw     *gateway.Gateway
	rival  *gateway.Gateway // nil where no client asks for it
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
	logger := slog.New(alarm{h, slog.DiscardHandler})
	if h.world.verbose {
		logger = slog.New(alarm{h, slog.NewTextHandler(logWriter{h}, &slog.HandlerOptions{Level: slog.LevelDebug})})
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
	routes := route.New(route.Config{Cooldowns: p.store, Logger: logger})
	if _, err = p.log.Recover(ctx); err == nil {
		err = routes.Load(ctx)
	}
	if err == nil {
		p.calls = upstream.New(upstream.Config{DialContext: p.dial})
		g := gateway.Config{Policy: cfg, Ledger: p.store, Log: p.log, Upstream: p.calls, Routes: routes, Logger: logger}
		p.gw, err = gateway.New(ctx, g)
		if err == nil && h.plan.rival() {
			p.rival, err = gateway.New(ctx, g)
		}
	}
	if err != nil {
		p.log.Close()
		return nil, fmt.Errorf("start: %w", joinClose(err, p.store))
	}
	p.server = &http.Server{Handler: p, ConnContext: gateway.ConnContext, ErrorLog: slog.NewLogLogger(logger.Handler(), slog.LevelWarn)}
	served := make(chan struct{})
	go func() { _ = p.server.Serve(gateway.Watch(p.net)); close(served) }()
	background, stop := context.WithCancel(ctx)
	ran := make(chan struct{})
	go func() { _ = p.log.Run(background); close(ran) }()
	p.stop = func() { stop(); <-ran; <-served }
	return p, nil
}

// rivalHeader says that a request is the rival's.
const rivalHeader = "Simulation-Rival"

func (p *process) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.Header.Get(rivalHeader) != "" {
		r.Header.Del(rivalHeader)
		p.rival.ServeHTTP(w, r)
		return
	}
	p.gw.ServeHTTP(w, r)
}

// gateways are those of the process.
func (p *process) gateways() []*gateway.Gateway {
	if p.rival == nil {
		return []*gateway.Gateway{p.gw}
	}
	return []*gateway.Gateway{p.gw, p.rival}
}

func joinClose(err error, store *sqlite.Ledger) error {
	if e := store.Close(); e != nil {
		return fmt.Errorf("%w; and close: %w", err, e)
	}
	return err
}

// alarm hears of panics, which the gateway outlives.
type alarm struct {
	h *history
	slog.Handler
}

func (a alarm) Enabled(ctx context.Context, l slog.Level) bool {
	return l >= slog.LevelWarn || a.Handler.Enabled(ctx, l)
}

func (a alarm) Handle(ctx context.Context, r slog.Record) error {
	if strings.Contains(r.Message, "panic") {
		text := r.Message
		r.Attrs(func(x slog.Attr) bool { text += " " + x.String(); return true })
		a.h.violation("%s", text)
	}
	if !a.Handler.Enabled(ctx, r.Level) {
		return nil
	}
	return a.Handler.Handle(ctx, r)
}

func (a alarm) WithAttrs(list []slog.Attr) slog.Handler { return alarm{a.h, a.Handler.WithAttrs(list)} }
func (a alarm) WithGroup(name string) slog.Handler      { return alarm{a.h, a.Handler.WithGroup(name)} }

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
	h.suffers(true)
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
			h.suffers(true)
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
	for _, g := range p.gateways() {
		g.Drain(ctx)
	}
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
