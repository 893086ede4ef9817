package gateway_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
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
	log    *intent.Log
	gw     *gateway.Gateway
	stop   func()
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

func (b *bubble) start() {
	b.Helper()
	ctx, stop := context.WithCancel(context.Background())
	l, err := sqlite.Open(ctx, sqlite.Config{Path: "/bubble.db", Env: "test", Disk: b.disk, Readers: 1})
	if err != nil {
		b.Fatal(err)
	}
	b.store, b.log = l, intent.New(intent.Config{Ledger: l, Exclusive: true})
	if _, err := b.log.Recover(ctx); err != nil {
		b.Fatal(err)
	}
	calls := upstream.New(upstream.Config{DialContext: b.far.dial})
	routes := route.New(route.Config{Cooldowns: l})
	if err := routes.Load(ctx); err != nil {
		b.Fatal(err)
	}
	if b.gw, err = gateway.New(ctx, gateway.Config{Policy: b.policy, Ledger: l, Log: b.log, Upstream: calls, Routes: routes}); err != nil {
		b.Fatal(err)
	}
	ended := make(chan error, 2)
	go func() { ended <- b.log.Run(ctx) }()
	go func() { ended <- b.gw.Jobs().Run(ctx) }()
	b.stop = func() {
		stop()
		b.gw.Drain(context.Background())
		for range 2 {
			if err := <-ended; err != nil {
				b.Error(err)
			}
		}
		calls.CloseIdle()
		routes.Close()
	}
}

func (b *bubble) close() {
	b.Helper()
	b.stop()
	b.log.Close()
	if err := b.store.Close(); err != nil {
		b.Error(err)
	}
}

// submit has a call of op done later.
func (b *bubble) submit(op string) string {
	b.Helper()
	rec, _, err := b.gw.SubmitJob(httptest.NewRequest("POST", "/holdfast/v1/jobs", nil), gateway.JobRequest{Path: "/v1/chat/completions",
		IdempotencyKey: op, Body: json.RawMessage(fmt.Sprintf(`{"model":"m","messages":[{"role":"user","content":"op=%s"}]}`, op))})
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
  default: {retry: {base: 1ms, max: 2ms}, breaker: {failure_threshold: 30}}
`

const completion = `{"id":"c","object":"chat.completion","created":1,"model":"m","choices":[{"index":0,"message":{"role":"assistant","content":"hi"},"finish_reason":"stop"}]}`
