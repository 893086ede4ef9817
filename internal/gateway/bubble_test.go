package gateway_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/holdfast-ai/holdfast/intent"
	"github.com/holdfast-ai/holdfast/internal/gateway"
	"github.com/holdfast-ai/holdfast/internal/policy"
	"github.com/holdfast-ai/holdfast/internal/route"
	"github.com/holdfast-ai/holdfast/internal/upstream"
	"github.com/holdfast-ai/holdfast/ledger"
	"github.com/holdfast-ai/holdfast/ledger/sqlite"
	"github.com/holdfast-ai/holdfast/ledger/sqlite/faultdisk"
)

// bubble is a gateway in fake time: its disk is in memory, and its provider a handler at the other end of a pipe.
type bubble struct {
	*testing.T
	disk   *faultdisk.Disk
	far    pipes
	policy *policy.Config
	store  ledger.Ledger
	life   *life
	gw     *gateway.Gateway                                                  // its gateway
	dial   func(ctx context.Context, network, addr string) (net.Conn, error) // of engines that are started from now on; nil: to far
}

// inBubble runs f in fake time, with the provider far.
func inBubble(t *testing.T, yaml string, far http.Handler, f func(*bubble)) {
	synctest.Test(t, func(t *testing.T) {
		cfg, faults := policy.Parse("test.yaml", []byte(yaml), os.LookupEnv)
		if cfg == nil {
			t.Fatalf("policy: %v", faults)
		}
		b := &bubble{T: t, policy: cfg, disk: faultdisk.New(t.TempDir()), far: make(pipes)}
		server := &http.Server{Handler: far}
		served := make(chan error)
		go func() { served <- server.Serve(b.far) }()
		b.start()
		f(b)
		b.close()
		_ = server.Close()
		<-served
	})
}

// start opens the store, as the one engine of its time.
func (b *bubble) start() {
	b.Helper()
	l, err := sqlite.Open(context.Background(), sqlite.Config{Path: "/bubble.db", Env: "test", Disk: b.disk, Readers: 1})
	if err != nil {
		b.Fatal(err)
	}
	b.store = l
	b.life = b.engine(true)
	b.gw = b.life.gw
}

func (b *bubble) close() {
	b.Helper()
	b.life.stop()
	if err := b.store.Close(); err != nil {
		b.Error(err)
	}
}

// life is an engine on the store. freeze ends its heartbeat and leaves its calls as they are, as SIGSTOP does.
type life struct {
	gw           *gateway.Gateway
	freeze, stop func()
}

// engine starts an engine; unless it is alone, others work on the same store.
func (b *bubble) engine(alone bool) *life {
	b.Helper()
	log := intent.New(intent.Config{Ledger: b.store, Exclusive: alone})
	if _, err := log.Recover(b.Context()); err != nil {
		b.Fatal(err)
	}
	dial := b.dial
	if dial == nil {
		dial = b.far.dial
	}
	calls := upstream.New(upstream.Config{DialContext: dial})
	routes := route.New(route.Config{Cooldowns: b.store})
	if err := routes.Load(b.Context()); err != nil {
		b.Fatal(err)
	}
	gw, err := gateway.New(b.Context(), gateway.Config{Policy: b.policy, Ledger: b.store, Log: log, Upstream: calls, Routes: routes})
	if err != nil {
		b.Fatal(err)
	}
	beating, freeze := context.WithCancel(context.Background())
	working, rest := context.WithCancel(context.Background())
	ended := make(chan error, 2)
	go func() { ended <- log.Run(beating) }()
	go func() { ended <- gw.Jobs().Run(working) }()
	return &life{gw: gw, freeze: freeze, stop: func() {
		rest()
		freeze()
		gw.Drain(context.Background())
		for range 2 {
			if err := <-ended; err != nil {
				b.Error(err)
			}
		}
		calls.CloseIdle()
		routes.Close()
		log.Close()
	}}
}

// submit has a call of op done later.
func (b *bubble) submit(op, workflow string) string {
	b.Helper()
	rec, _, err := b.gw.SubmitJob(httptest.NewRequest("POST", "/holdfast/v1/jobs", nil), gateway.JobRequest{Path: "/v1/chat/completions",
		IdempotencyKey: op, Workflow: workflow, Body: json.RawMessage(fmt.Sprintf(`{"model":"m","messages":[{"role":"user","content":"op=%s"}]}`, op))})
	if err != nil {
		b.Fatal(err)
	}
	return rec.ID
}

func (b *bubble) get(id string) *ledger.Record {
	b.Helper()
	rec, err := b.store.Get(context.Background(), id)
	if err != nil {
		b.Fatal(err)
	}
	return rec
}

// pipes are connections in memory.
type pipes chan net.Conn

func (p pipes) dial(ctx context.Context, _, _ string) (net.Conn, error) {
	near, far := net.Pipe()
	select {
	case p <- far:
		return near, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

func (p pipes) Accept() (net.Conn, error) {
	c, ok := <-p
	if !ok {
		return nil, net.ErrClosed
	}
	return c, nil
}

func (p pipes) Close() error   { close(p); return nil }
func (p pipes) Addr() net.Addr { return &net.TCPAddr{} }

const bubbled = `
env: test
providers:
  openai: {type: openai, base_url: "http://127.0.0.1/v1", api_key: "sk-jobs"}
workflows:
  act: {match: {paths: ["/by-name-only"]}, effect: external, retry: {base: 1ms, max: 2ms}}
  default: {retry: {base: 1ms, max: 2ms}, breaker: {failure_threshold: 30}}
`

// opOf is the operation that a request names.
func opOf(r *http.Request) string {
	body, _ := io.ReadAll(r.Body)
	_, op, _ := strings.Cut(string(body), "op=")
	op, _, _ = strings.Cut(op, `"`)
	return op
}

const completion = `{"id":"c","object":"chat.completion","created":1,"model":"m","choices":[{"index":0,"message":{"role":"assistant","content":"hi"},"finish_reason":"stop"}]}`
