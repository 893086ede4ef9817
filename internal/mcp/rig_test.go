package mcp

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/tidwall/gjson"
	"go.uber.org/goleak"

	"github.com/holdfast-ai/holdfast/intent"
	"github.com/holdfast-ai/holdfast/internal/policy"
	"github.com/holdfast-ai/holdfast/ledger"
	"github.com/holdfast-ai/holdfast/ledger/sqlite"
)

func TestMain(m *testing.M) {
	if os.Getenv("FAKE_EFFECTS") != "" {
		fakeStdio()
		return
	}
	goleak.VerifyTestMain(m)
}

// rig is a proxy over a real log, with a fake server behind it.
type rig struct {
	*testing.T
	effects string
	store   string
	policy  *policy.Config
	ledger  ledger.Ledger
	clock   *clock
	log     *intent.Log
	proxy   *Proxy
	far     *fakeHTTP
	web     *httptest.Server
	counts  counts
}

// clock is ledger time that a test moves.
type clock struct {
	mu    sync.Mutex
	began time.Time
	ahead time.Duration
}

func (c *clock) mono() time.Duration {
	c.mu.Lock()
	defer c.mu.Unlock()
	return time.Since(c.began) + c.ahead
}

func (c *clock) wall() time.Time { return c.began.Add(c.mono()) }

func (c *clock) pass(d time.Duration) {
	c.mu.Lock()
	c.ahead += d
	c.mu.Unlock()
}

type counts struct {
	mu       sync.Mutex
	dups     map[string]int
	attempts map[string]int // by end and kind
}

func (c *counts) Lookup(string) {}
func (c *counts) ToolAttempt(_, _ string, end ledger.AttemptEnd, kind string, took time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.attempts == nil {
		c.attempts = map[string]int{}
	}
	c.attempts[end.String()+" "+kind]++
}
func (c *counts) StoreError(string) {}
func (c *counts) Duplicate(_, of string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.dups == nil {
		c.dups = map[string]int{}
	}
	c.dups[of]++
}

const stdioYAML = `
env: test
limits: {max_response_bytes: 1MiB, max_request_bytes: 1MiB, json_depth: 32}
mcp:
  servers:
    far:
      %s
      tools:
        keyed: {effect: external, key: "{n}", timeout: 2s}
        quick: {effect: external, timeout: 500ms}
        asked: {effect: external, timeout: 2s}
        fails: {effect: external, failed: "body.isError"}
        watched: {effect: external, mode: observe}
        looks: {effect: read}
        costs: {effect: generation, timeout: 500ms}
        both: {effect: external, failed: 'result contains "bad"', succeeded: 'result contains "good"'}
`

// newRig has a fake behind it that is a child process, or with far: http an HTTP server.
func newRig(t *testing.T, far string) *rig {
	r := bareRig(t)
	where := ""
	if far == "http" {
		r.far = newFakeHTTP(r.effects)
		srv := httptest.NewServer(r.far)
		t.Cleanup(srv.Close)
		where = "url: " + srv.URL
	} else {
		exe, err := os.Executable()
		if err != nil {
			t.Fatal(err)
		}
		where = fmt.Sprintf("command: [%q]\n      env: {FAKE_EFFECTS: %q}", exe, r.effects)
	}
	r.configure(fmt.Sprintf(stdioYAML, where))
	return r
}

func bareRig(t *testing.T) *rig {
	dir := t.TempDir()
	return &rig{T: t, effects: filepath.Join(dir, "effects"), store: filepath.Join(dir, "holdfast.db"), clock: &clock{began: time.Now()}}
}

// configure starts the proxy of a configuration.
func (r *rig) configure(yaml string) {
	cfg, faults := policy.Parse("holdfast.yaml", []byte(yaml), func(string) (string, bool) { return "", false })
	if cfg == nil {
		r.Fatal(faults)
	}
	r.policy = cfg
	r.start()
	r.Cleanup(r.end)
}

func (r *rig) start() {
	r.Helper()
	l, err := sqlite.Open(context.Background(), sqlite.Config{Path: r.store, Env: "test", Wall: r.clock.wall, Mono: r.clock.mono})
	if err != nil {
		r.Fatal(err)
	}
	r.ledger = l
	r.log = intent.New(intent.Config{Ledger: r.ledger, Exclusive: true})
	if _, err := r.log.Recover(context.Background()); err != nil {
		r.Fatal(err)
	}
	logger := slog.New(slog.NewTextHandler(testWriter{r.T}, nil))
	r.proxy, err = New(context.Background(), Config{Policy: r.policy, Ledger: r.ledger, Log: r.log, Observer: &r.counts, Logger: logger})
	if err != nil {
		r.Fatal(err)
	}
	r.web = httptest.NewServer(r.proxy.Handler(func(q *http.Request) (Caller, error) {
		return Caller{Tenant: "main", Authorization: q.Header.Get("Authorization")}, nil
	}))
}

type testWriter struct{ t *testing.T }

func (w testWriter) Write(p []byte) (int, error) {
	if testing.Verbose() {
		fmt.Fprintf(os.Stderr, "%s: %s", w.t.Name(), p)
	}
	return len(p), nil
}

// end closes everything and holds the log against every invariant.
func (r *rig) end() {
	r.web.CloseClientConnections()
	r.web.Close()
	over, stop := context.WithCancel(context.Background())
	stop()
	r.proxy.Close(over)
	r.log.Close()
	if err := r.ledger.Close(); err != nil {
		r.Error(err)
	}
	found, err := sqlite.Verify(context.Background(), r.store)
	if err != nil {
		r.Error(err)
	}
	for _, v := range found {
		r.Errorf("verify: %s", v)
	}
}

// happened counts the far side's effects.
func (r *rig) happened(want int) {
	r.Helper()
	var b []byte
	effects := func() int {
		var err error
		if b, err = os.ReadFile(r.effects); err != nil && !os.IsNotExist(err) {
			r.Fatal(err)
		}
		return strings.Count(string(b), "\n")
	}
	r.until("as many effects", func() bool { return effects() >= want }) // one may come behind its call's time-out
	if got := effects(); got != want {
		r.Errorf("%d effects, want %d:\n%s", got, want, b)
	}
}

func (r *rig) intents() []*ledger.Record {
	r.Helper()
	all, err := r.ledger.List(r.Context(), ledger.Filter{})
	if err != nil {
		r.Fatal(err)
	}
	return all
}

// patience is only there to name the test that hangs.
const patience = 2 * time.Minute

// until waits for something that another goroutine does.
func (r *rig) until(what string, f func() bool) {
	r.Helper()
	for end := time.Now().Add(patience); time.Now().Before(end); <-time.After(time.Millisecond) {
		if f() {
			return
		}
	}
	r.Fatal("never came: " + what)
}

// line is a client over stdio.
type line struct {
	r    *rig
	in   io.WriteCloser
	n    int
	mu   sync.Mutex
	got  map[string]chan string
	rest chan string
	done chan error
}

func (r *rig) stdio() *line {
	r.Helper()
	toProxy, in := io.Pipe()
	out, fromProxy := io.Pipe()
	c := &line{r: r, in: in, got: map[string]chan string{}, rest: make(chan string, 100), done: make(chan error, 1)}
	ctx, stop := context.WithCancel(context.Background())
	go func() {
		err := r.proxy.ServeStdio(ctx, "far", toProxy, fromProxy)
		fromProxy.Close()
		toProxy.Close()
		c.done <- err
	}()
	read := make(chan struct{})
	go func() { defer close(read); c.read(out) }()
	r.Cleanup(func() { in.Close(); stop(); <-c.done; <-read })
	c.ask("initialize", `{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"t","version":"1"}}`)
	c.send(`{"jsonrpc":"2.0","method":"notifications/initialized"}`)
	return c
}

func (c *line) read(out io.Reader) {
	in := bufio.NewReaderSize(out, 4<<20)
	for {
		b, err := in.ReadString('\n')
		if err != nil {
			return
		}
		id := gjson.Get(b, "id").Raw
		c.mu.Lock()
		ch := c.got[id]
		c.mu.Unlock()
		if ch != nil && !gjson.Get(b, "method").Exists() {
			ch <- b
		} else {
			c.rest <- b
		}
	}
}

func (c *line) send(raw string) {
	if _, err := io.WriteString(c.in, raw+"\n"); err != nil {
		c.r.Errorf("send: %v", err)
	}
}

// begin sends a request and returns where its answer comes.
func (c *line) begin(method, params string) <-chan string {
	c.mu.Lock()
	c.n++
	id, ch := fmt.Sprint(c.n), make(chan string, 2)
	c.got[id] = ch
	c.mu.Unlock()
	c.send(`{"jsonrpc":"2.0","id":` + id + `,"method":"` + method + `","params":` + params + `}`)
	return ch
}

func (c *line) ask(method, params string) string {
	c.r.Helper()
	return c.r.wait(c.begin(method, params))
}

func (r *rig) wait(ch <-chan string) string {
	r.Helper()
	select {
	case got := <-ch:
		return got
	case <-time.After(patience):
		r.Fatal("no answer")
		return ""
	}
}

func params(tool, args string) string { return `{"name":"` + tool + `","arguments":` + args + `}` }

func (c *line) call(tool, args string) string {
	c.r.Helper()
	return c.ask("tools/call", params(tool, args))
}

// says checks members of an answer: path, value, …
func (r *rig) says(got string, want ...any) {
	r.Helper()
	for i := 0; i < len(want); i += 2 {
		path := strings.ReplaceAll(want[i].(string), "_meta.", `result._meta.holdfast/`)
		b, _ := json.Marshal(want[i+1])
		if v := gjson.Get(got, path); v.Raw != string(b) && !(v.Raw == "" && string(b) == "null") {
			r.Errorf("%s is %s, want %s, in %s", path, v.Raw, b, got)
		}
	}
}

func (r *rig) mentions(got string, words ...string) {
	r.Helper()
	for _, w := range words {
		if !strings.Contains(got, w) {
			r.Errorf("%q is not in %s", w, got)
		}
	}
}
