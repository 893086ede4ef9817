package gateway_test

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/holdfast-ai/holdfast/intent"
	"github.com/holdfast-ai/holdfast/internal/gateway"
	"github.com/holdfast-ai/holdfast/internal/policy"
	"github.com/holdfast-ai/holdfast/internal/route"
	"github.com/holdfast-ai/holdfast/internal/sim"
	"github.com/holdfast-ai/holdfast/internal/upstream"
	"github.com/holdfast-ai/holdfast/ledger/sqlite"
)

// bench drives handler with b.N requests over 64 raw connections; body makes the n-th request's body.
func bench(b *testing.B, handler http.Handler, path, header string, body func(n int64) []byte) {
	server := httptest.NewServer(handler)
	defer server.Close()
	addr := server.Listener.Addr().String()
	var n atomic.Int64
	b.ReportAllocs()
	b.SetParallelism(32)
	b.ResetTimer()
	before := cpu()
	b.RunParallel(func(pb *testing.PB) {
		conn, err := net.Dial("tcp", addr)
		if err != nil {
			b.Error(err)
			return
		}
		defer conn.Close()
		in := bufio.NewReaderSize(conn, 64<<10)
		var out bytes.Buffer
		for pb.Next() {
			out.Reset()
			payload := body(n.Add(1))
			method := "POST"
			if payload == nil {
				method = "GET"
			}
			fmt.Fprintf(&out, "%s %s HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthorization: Bearer sk-test-0123456789\r\nContent-Type: application/json\r\nUser-Agent: bench\r\n%sContent-Length: %d\r\n\r\n",
				method, path, header, len(payload))
			out.Write(payload)
			if _, err := conn.Write(out.Bytes()); err != nil {
				b.Error(err)
				return
			}
			resp, err := http.ReadResponse(in, nil)
			if err != nil {
				b.Error(err)
				return
			}
			if _, err := io.Copy(io.Discard, resp.Body); err != nil || resp.StatusCode != 200 {
				b.Error(resp.StatusCode, err)
				return
			}
		}
	})
	b.ReportMetric(float64((cpu()-before).Nanoseconds())/float64(b.N)/1000, "cpu-µs/op")
}

// cpu is the time that this process has computed: client, gateway and provider together.
func cpu() time.Duration {
	var u syscall.Rusage
	_ = syscall.Getrusage(syscall.RUSAGE_SELF, &u)
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

var padding = strings.Repeat("lorem ipsum ", 80)

func plainBody(n int64) []byte {
	return fmt.Appendf(nil, `{"model":"gpt-5","messages":[{"role":"user","content":"%d %s"}]}`, n, padding)
}

func streamBody(n int64) []byte {
	return fmt.Appendf(nil, `{"model":"gpt-5","stream":true,"messages":[{"role":"user","content":"%d %s"}]}`, n, padding)
}

func BenchmarkGateway(b *testing.B) {
	provider := sim.New(sim.Config{Bench: &sim.Bench{Chunks: 32, Size: 300}})
	if err := provider.Start(); err != nil {
		b.Fatal(err)
	}
	defer provider.Close()
	target, _ := url.Parse(provider.URL())
	reverse := &httputil.ReverseProxy{
		Rewrite:   func(r *httputil.ProxyRequest) { r.SetURL(target) },
		Transport: &http.Transport{MaxIdleConnsPerHost: 512, DisableCompression: true},
	}
	gw := benchGateway(b, provider.URL())
	fixed := plainBody(0)
	for _, c := range []struct {
		name, path, header string
		body               func(int64) []byte
	}{
		{"plain", "/v1/chat/completions", "", plainBody},
		{"stream", "/v1/chat/completions", "", streamBody},
		{"read", "/v1/models", "", func(int64) []byte { return nil }},
	} {
		b.Run(c.name+"/direct", func(b *testing.B) { bench(b, provider, c.path, c.header, c.body) })
		b.Run(c.name+"/ReverseProxy", func(b *testing.B) { bench(b, reverse, c.path, c.header, c.body) })
		b.Run(c.name+"/gateway", func(b *testing.B) { bench(b, gw, c.path, c.header, c.body) })
		if c.name != "read" {
			b.Run(c.name+"/translated", func(b *testing.B) { bench(b, gw, c.path, "Holdfast-Workflow: told\r\n", c.body) })
		}
	}
	b.Run("replay/gateway", func(b *testing.B) {
		bench(b, gw, "/v1/chat/completions", "Idempotency-Key: bench\r\n", func(int64) []byte { return fixed })
	})
}

// benchPolicy has a workflow beside the default, whose calls Anthropic's API answers.
const benchPolicy = `
env: test
providers:
  openai: {type: openai, base_url: "SIM/v1"}
  anthropic: {type: anthropic, base_url: "SIM", api_key: "a-key-of-the-gateways-own"}
workflows:
  told: {match: {paths: ["/none"]}, tiers: [{name: far, provider: anthropic, model: claude-haiku-4-5}]}
  default: {}
`

func benchGateway(b *testing.B, far string) *gateway.Gateway {
	cfg, faults := policy.Parse("bench.yaml", []byte(strings.ReplaceAll(benchPolicy, "SIM", far)), os.LookupEnv)
	if cfg == nil {
		b.Fatal(faults)
	}
	ctx := context.Background()
	logger := slog.New(slog.DiscardHandler)
	store, err := sqlite.Open(ctx, sqlite.Config{Path: filepath.Join(b.TempDir(), "bench.db"), Env: "test"})
	if err != nil {
		b.Fatal(err)
	}
	log := intent.New(intent.Config{Ledger: store, Exclusive: true})
	client := upstream.New(upstream.Config{})
	gw, err := gateway.New(ctx, gateway.Config{Policy: cfg, Ledger: store, Log: log, Upstream: client, Routes: route.New(route.Config{Cooldowns: store}), Logger: logger})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() {
		gw.Drain(ctx)
		log.Close()
		client.CloseIdle()
		_ = store.Close()
	})
	return gw
}
