package gateway_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/holdfast-ai/holdfast/intent"
	"github.com/holdfast-ai/holdfast/internal/gateway"
	"github.com/holdfast-ai/holdfast/internal/policy"
	"github.com/holdfast-ai/holdfast/internal/route"
	"github.com/holdfast-ai/holdfast/internal/sim"
	"github.com/holdfast-ai/holdfast/internal/upstream"
	"github.com/holdfast-ai/holdfast/ledger"
	"github.com/holdfast-ai/holdfast/ledger/sqlite"
	"github.com/holdfast-ai/holdfast/ledger/sqlite/faultdisk"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// rig is a gateway over a real store, in front of a simulated provider on real sockets.
type rig struct {
	t        *testing.T
	sim      *sim.Server
	gw       *gateway.Gateway
	log      *intent.Log
	routes   *route.Table
	store    ledger.Ledger
	server   *httptest.Server
	client   *http.Client
	path     string
	stop     context.CancelFunc
	stopJobs context.CancelFunc
	policy   *policy.Config
	disk     *faultdisk.Disk
	stopped  bool
	hungUp   atomic.Int64 // connections that the gateway has closed
}

// workflows is the policy of most tests: SIM is the simulator. Its calls are attempted once, so that a test sees what an
// attempt means; what follows an attempt has policies of its own in nest_test.go.
const workflows = `
env: test
providers:
  openai: {type: openai, base_url: "SIM/v1"}
  anthropic: {type: anthropic, base_url: "SIM"}
  gemini: {type: gemini, base_url: "SIM"}
workflows:
  external: {match: {paths: ["/by-name-only"]}, effect: external, timeouts: {first_token: 2s, attempt: 2s, total: 2s, request: 3s}, retry: {max_attempts: 1}}
  external_relaxed: {match: {paths: ["/by-name-only"]}, effect: external, durability: relaxed, retry: {max_attempts: 1}}
  strict: {match: {paths: ["/by-name-only"]}, durability: strict, retry: {max_attempts: 1}}
  pipeline: {match: {paths: ["/by-name-only"]}, idempotency: {derive: always}, retry: {max_attempts: 1}}
  conflict: {match: {paths: ["/by-name-only"]}, idempotency: {on_in_flight: conflict}, retry: {max_attempts: 1}}
  wait: {match: {paths: ["/by-name-only"]}, idempotency: {on_in_flight: wait}, retry: {max_attempts: 1}}
  cancel: {match: {paths: ["/by-name-only"]}, on_disconnect: cancel, retry: {max_attempts: 1}}
  "off": {match: {paths: ["/by-name-only"]}, idempotency: {derive: "off"}, retry: {max_attempts: 1}}
  watch: {match: {paths: ["/by-name-only"]}, mode: observe, idempotency: {derive: always}, retry: {max_attempts: 1}}
  deny: {match: {paths: ["/by-name-only"]}, idempotency: {on_store_error: deny}, retry: {max_attempts: 1}}
  allow: {match: {paths: ["/by-name-only"]}, idempotency: {derive: always, on_store_error: allow}, retry: {max_attempts: 1}}
  quick: {match: {paths: ["/by-name-only"]}, timeouts: {first_token: 1s, idle: 1s, attempt: 1s, total: 1200ms, request: 3s, stream: 5s}, retry: {max_attempts: 1}}
  default: {retry: {max_attempts: 1}}
`

type option func(*rigConfig)

type rigConfig struct {
	yaml     string
	wrap     func(ledger.Ledger) ledger.Ledger
	observer gateway.Observer
	logs     io.Writer
	api      http.Handler
	disk     *faultdisk.Disk // in place of the machine's
}

func newRig(t *testing.T, options ...option) *rig {
	t.Helper()
	c := rigConfig{yaml: workflows}
	for _, o := range options {
		o(&c)
	}
	r := &rig{t: t, sim: sim.New(sim.Config{}), path: filepath.Join(t.TempDir(), "holdfast.db")}
	if err := r.sim.Start(); err != nil {
		t.Fatal(err)
	}
	cfg, faults := policy.Parse("test.yaml", []byte(strings.ReplaceAll(c.yaml, "SIM", r.sim.URL())), os.LookupEnv)
	if cfg == nil {
		t.Fatalf("policy: %v", faults)
	}
	r.policy = cfg
	r.start(c)
	t.Cleanup(func() {
		r.close()
		if err := r.sim.Close(); err != nil {
			t.Error(err)
		}
	})
	return r
}

// start brings the gateway up on r's store, as a process does.
func (r *rig) start(c rigConfig) {
	r.t.Helper()
	ctx := context.Background()
	logs := c.logs
	if logs == nil {
		logs = io.Discard
	}
	logger := slog.New(slog.NewTextHandler(logs, &slog.HandlerOptions{Level: slog.LevelDebug}))
	on := sqlite.Config{Path: r.path, Env: "test", Logger: logger}
	if r.disk = c.disk; c.disk != nil {
		on.Disk = c.disk
	}
	store, err := sqlite.Open(ctx, on)
	if err != nil {
		r.t.Fatal(err)
	}
	r.store = store
	if c.wrap != nil {
		r.store = c.wrap(store)
	}
	r.log = intent.New(intent.Config{Ledger: r.store, CommitWait: r.policy.Limits.CommitWait, Exclusive: true, Logger: logger})
	if _, err := r.log.Recover(ctx); err != nil {
		r.t.Fatal(err)
	}
	client := upstream.New(upstream.Config{})
	r.routes = route.New(route.Config{Cooldowns: r.store, Logger: logger})
	if err := r.routes.Load(ctx); err != nil {
		r.t.Fatal(err)
	}
	r.gw, err = gateway.New(ctx, gateway.Config{Policy: r.policy, Ledger: r.store, Log: r.log, Upstream: client, Routes: r.routes,
		Observer: c.observer, API: c.api, Logger: logger})
	if err != nil {
		r.t.Fatal(err)
	}
	r.server = httptest.NewUnstartedServer(r.gw)
	r.server.Listener = gateway.Watch(r.server.Listener)
	r.server.Config.ConnContext = gateway.ConnContext
	r.server.Config.ConnState = func(_ net.Conn, s http.ConnState) {
		if s == http.StateClosed {
			r.hungUp.Add(1)
		}
	}
	r.server.Start()
	r.client = &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 64}}
	background, stop := context.WithCancel(ctx)
	done := make(chan struct{})
	go func() { _ = r.log.Run(background); close(done) }()
	jobs, stopJobs := context.WithCancel(ctx)
	r.stopJobs = stopJobs
	var worked sync.WaitGroup
	worked.Go(func() { _ = r.gw.Jobs().Run(jobs) })
	worked.Go(func() { _ = r.gw.Callbacks().Run(jobs) })
	r.stop = func() { stop(); <-done; worked.Wait(); client.CloseIdle() }
	r.stopped = false
}

func (r *rig) close() {
	if r.stopped {
		return
	}
	r.stopped = true
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	r.client.CloseIdleConnections()
	r.stopJobs()
	r.gw.Drain(ctx)
	r.server.Close()
	r.stop()
	r.log.Close()
	if err := r.store.Close(); err != nil {
		r.t.Error(err)
	}
	if r.disk != nil {
		return
	}
	if found, err := sqlite.Verify(context.Background(), r.path); err != nil || len(found) > 0 {
		r.t.Errorf("store verify: %v %v", found, err)
	}
}

// script sets what the simulator does with the calls of an operation, one step a call.
func (r *rig) script(op string, steps ...string) {
	r.t.Helper()
	var list []sim.Step
	for _, s := range steps {
		list = append(list, r.step(s))
	}
	if err := r.sim.AddRules(sim.Rule{Match: sim.Match{Op: op}, Steps: list}); err != nil {
		r.t.Fatal(err)
	}
}

// always lets every call of an operation go the same way.
func (r *rig) always(op, step string) {
	r.t.Helper()
	if err := r.sim.AddRules(sim.Rule{Match: sim.Match{Op: op}, Steps: []sim.Step{r.step(step)}, Times: -1}); err != nil {
		r.t.Fatal(err)
	}
}

// step reads the name of a ready-made step, or one in JSON.
func (r *rig) step(s string) (st sim.Step) {
	r.t.Helper()
	text := s
	if !strings.HasPrefix(s, "{") {
		text = `"` + s + `"`
	}
	if err := json.Unmarshal([]byte(text), &st); err != nil {
		r.t.Fatalf("step %s: %v", s, err)
	}
	return st
}

// answered is one whole answer.
type answered struct {
	status  int
	header  http.Header
	trailer http.Header
	body    []byte
	err     error // of reading the body
}

func (a *answered) code() string { return a.header.Get("Holdfast-Error") }

type request struct {
	method, path, body string
	header             map[string]string
	ctx                context.Context
}

func chat(op string, extra ...string) request {
	return request{path: "/v1/chat/completions", body: fmt.Sprintf(`{"model":"gpt-5","messages":[{"role":"user","content":"hello op=%s"}]%s}`, op, strings.Join(extra, ""))}
}

func streamed(op string) request { return chat(op, `,"stream":true`) }

// op is the operation that chat and streamed wrote into the body.
func (q request) op() string {
	_, rest, _ := strings.Cut(q.body, "op=")
	op, _, _ := strings.Cut(rest, `"`)
	return op
}

func (q request) with(pairs ...string) request {
	h := map[string]string{}
	for k, v := range q.header {
		h[k] = v
	}
	for i := 0; i+1 < len(pairs); i += 2 {
		h[pairs[i]] = pairs[i+1]
	}
	q.header = h
	return q
}

func (q request) key(k string) request      { return q.with("Idempotency-Key", k) }
func (q request) workflow(w string) request { return q.with("Holdfast-Workflow", w) }

func (r *rig) open(q request) (*http.Response, error) {
	ctx := q.ctx
	if ctx == nil {
		ctx = context.Background()
	}
	if q.method == "" {
		q.method = "POST"
	}
	req, err := http.NewRequestWithContext(ctx, q.method, r.server.URL+q.path, bytes.NewReader([]byte(q.body)))
	if err != nil {
		return nil, err
	}
	req.Header.Set("Content-Type", "application/json")
	for k, v := range q.header {
		req.Header[http.CanonicalHeaderKey(k)] = []string{v}
	}
	return r.client.Do(req)
}

func (r *rig) do(q request) *answered {
	resp, err := r.open(q)
	if err != nil {
		return &answered{err: err, header: http.Header{}}
	}
	defer resp.Body.Close()
	a := &answered{status: resp.StatusCode, header: resp.Header}
	a.body, a.err = io.ReadAll(resp.Body)
	a.trailer = resp.Trailer
	return a
}

// must fails the test unless the answer has this status, and reads whole.
func (r *rig) must(q request, status int) *answered {
	r.t.Helper()
	a := r.do(q)
	if a.err != nil || a.status != status {
		r.t.Fatalf("status %d, want %d; %s %v", a.status, status, a.body, a.err)
	}
	return a
}

func (r *rig) calls(op string, want int64) {
	r.t.Helper()
	if got := r.sim.Counts(op).Calls; int64(got) != want {
		r.t.Errorf("op %s: %d upstream calls, want %d", op, got, want)
	}
}

func (r *rig) record(id string) *ledger.Record {
	r.t.Helper()
	rec, err := r.store.Get(context.Background(), id)
	if err != nil {
		r.t.Fatalf("intent %q: %v", id, err)
	}
	return rec
}

// settled waits until the intent's record has landed.
func (r *rig) settled(id string) *ledger.Record {
	r.t.Helper()
	wait(r.t, func() bool { return r.record(id).State == ledger.Settled })
	return r.record(id)
}

// wait polls for what another goroutine of the test will bring about. Its patience is only there to name the test that
// hangs.
func wait(t *testing.T, ok func() bool) {
	t.Helper()
	for end := time.Now().Add(2 * time.Minute); time.Now().Before(end); <-time.After(2 * time.Millisecond) {
		if ok() {
			return
		}
	}
	t.Fatal("it did not come about within two minutes")
}

func (r *rig) inForce() *policy.Config { return r.policy }
