package eval

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/holdfast-ai/holdfast/intent"
	"github.com/holdfast-ai/holdfast/internal/gateway"
	"github.com/holdfast-ai/holdfast/internal/pause"
	"github.com/holdfast-ai/holdfast/internal/policy"
	"github.com/holdfast-ai/holdfast/internal/route"
	"github.com/holdfast-ai/holdfast/internal/upstream"
	"github.com/holdfast-ai/holdfast/ledger"
	"github.com/holdfast-ai/holdfast/ledger/sqlite"
)

// rig is a gateway of its own, with a log that is thrown away. It has no port: requests reach it over pipes, so that nobody else
// on the machine can use the providers' credentials through it.
type rig struct {
	dir      string
	ledger   ledger.Ledger
	log      *intent.Log
	routes   *route.Table
	upstream upstream.Client
	gateway  *gateway.Gateway
	pipes    *pipes
	server   *http.Server
	client   *http.Client
	running  sync.WaitGroup
	stop     context.CancelFunc
}

func newRig(ctx context.Context, cfg *policy.Config, logger *slog.Logger) (r *rig, err error) {
	r = &rig{}
	defer func() {
		if err != nil {
			err = errors.Join(fmt.Errorf("a gateway for the run: %w", err), r.close())
		}
	}()
	if r.dir, err = os.MkdirTemp("", "holdfast-eval-"); err != nil {
		return r, err
	}
	store, err := sqlite.Open(ctx, sqlite.Config{Path: filepath.Join(r.dir, "eval.db"), Env: cfg.Env, Logger: logger})
	if err != nil {
		return r, err
	}
	r.ledger = store
	r.log = intent.New(intent.Config{Ledger: r.ledger, CommitWait: cfg.Limits.CommitWait, Logger: logger, Exclusive: true})
	if _, err := r.log.Recover(ctx); err != nil {
		return r, err
	}
	r.upstream = upstream.New(upstream.Config{Proxy: http.ProxyFromEnvironment})
	r.routes = route.New(route.Config{Cooldowns: r.ledger, Logger: logger})
	r.gateway, err = gateway.New(ctx, gateway.Config{Policy: cfg, Ledger: r.ledger, Log: r.log, Upstream: r.upstream, Routes: r.routes, Logger: logger})
	if err != nil {
		return r, err
	}
	r.serve()
	return r, nil
}

func (r *rig) serve() {
	background, stop := context.WithCancel(context.Background())
	r.stop = stop
	r.running.Go(func() { _ = r.log.Run(background) })
	r.pipes = newPipes()
	r.server = &http.Server{Handler: r.gateway, ErrorLog: log.New(io.Discard, "", 0)}
	r.running.Go(func() { _ = r.server.Serve(r.pipes) })
	r.client = &http.Client{Transport: &http.Transport{DialContext: r.pipes.dial, DisableCompression: true, MaxIdleConnsPerHost: 256}}
}

// recordWait is how long the record of a call that failed may take to land behind its answer.
const recordWait = 2 * time.Second

// doubtful is how many attempts of a call may have been billed without being its answer, as the rig's own log has it: those before an
// answer, all of a call that failed. Where nothing is on record, each of them may have been.
func (r *rig) doubtful(ctx context.Context, out *Result) int {
	switch {
	case out.OK && out.Attempts <= 1:
		return 0
	case out.intent == "" && out.Status == 0: // the connection to the rig broke
		return 1
	case out.intent == "":
		return out.Attempts
	}
	for end := time.Now().Add(recordWait); time.Now().Before(end); {
		rec, err := r.ledger.Get(ctx, out.intent)
		if err == nil && (out.OK || rec.State == ledger.Settled || rec.State == ledger.Unknown) {
			if !out.OK && rec.Outcome == ledger.OutcomeSuccess { // an answer that is none to the run
				return rec.BilledMaybe + 1
			}
			return rec.BilledMaybe
		}
		if !pause.For(ctx, 5*time.Millisecond) {
			break
		}
	}
	return out.Attempts
}

// endWait is how long calls that were given up may take to end.
const endWait = 2 * time.Second

// close ends what is still on its way, and removes the log.
func (r *rig) close() error {
	var errs []error
	if r.gateway != nil {
		over, cancel := context.WithTimeout(context.Background(), endWait)
		r.gateway.Drain(over)
		cancel()
		r.client.CloseIdleConnections()
		errs = append(errs, r.server.Close())
	}
	if r.stop != nil {
		r.stop()
	}
	r.running.Wait()
	if r.upstream != nil {
		r.upstream.CloseIdle()
	}
	if r.routes != nil {
		r.routes.Close()
	}
	if r.log != nil {
		r.log.Close()
	}
	if r.ledger != nil {
		errs = append(errs, r.ledger.Close())
	}
	if r.dir != "" {
		errs = append(errs, os.RemoveAll(r.dir))
	}
	return errors.Join(errs...)
}

// pipes is a listener in memory.
type pipes struct {
	conns chan net.Conn
	done  chan struct{}
	once  sync.Once
}

func newPipes() *pipes { return &pipes{conns: make(chan net.Conn), done: make(chan struct{})} }

func (p *pipes) dial(ctx context.Context, _, _ string) (net.Conn, error) {
	near, far := net.Pipe()
	select {
	case p.conns <- far:
		return near, nil
	case <-p.done:
		return nil, net.ErrClosed
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

// Accept, Close and Addr are net.Listener.
func (p *pipes) Accept() (net.Conn, error) {
	select {
	case c := <-p.conns:
		return c, nil
	case <-p.done:
		return nil, net.ErrClosed
	}
}

func (p *pipes) Close() error {
	p.once.Do(func() { close(p.done) })
	return nil
}

func (p *pipes) Addr() net.Addr { return pipeAddr{} }

type pipeAddr struct{}

func (pipeAddr) Network() string { return "pipe" }
func (pipeAddr) String() string  { return "pipe" }
