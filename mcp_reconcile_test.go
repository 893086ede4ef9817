package holdfast

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/holdfast-ai/holdfast/ledger"
	"github.com/holdfast-ai/holdfast/ledger/sqlite"
)

// orderFile names the environment variable that makes the test program an MCP server, which keeps its orders in that file.
const orderFile = "HOLDFAST_TEST_ORDERS"

type orderArgs struct {
	Customer string `json:"customer_id"`
	Fault    string `json:"fault,omitempty"`
}

type findArgs struct {
	Customer string `json:"customer"`
}

type foundOrders struct {
	Orders []string `json:"orders"`
}

// serveOrders is an MCP server of the official Go SDK: write tools that lose their replies, and tools that read.
func serveOrders(file string) {
	s := mcp.NewServer(&mcp.Implementation{Name: "orders", Version: "1"}, nil)
	create := func(ctx context.Context, _ *mcp.CallToolRequest, a orderArgs) (*mcp.CallToolResult, any, error) {
		switch a.Fault {
		case "before":
			<-ctx.Done()
			return nil, nil, ctx.Err()
		case "late":
			<-time.After(900 * time.Millisecond)
		}
		if err := appendOrder(file, a.Customer); err != nil {
			return nil, nil, err
		}
		switch a.Fault {
		case "die":
			os.Exit(3)
		case "after", "late":
			<-ctx.Done()
			return nil, nil, ctx.Err()
		}
		return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: "ordered for " + a.Customer}}}, nil, nil
	}
	for _, name := range []string{"create_order", "create_blind", "create_text", "create_batch"} {
		mcp.AddTool(s, &mcp.Tool{Name: name}, create)
	}
	find := func(_ context.Context, r *mcp.CallToolRequest, a findArgs) (*mcp.CallToolResult, foundOrders, error) {
		found, err := ordersOf(file, a.Customer)
		return nil, foundOrders{found}, err
	}
	reads := &mcp.ToolAnnotations{ReadOnlyHint: true}
	mcp.AddTool(s, &mcp.Tool{Name: "find_order", Annotations: reads}, find)
	mcp.AddTool(s, &mcp.Tool{Name: "look_and_touch", Annotations: &mcp.ToolAnnotations{IdempotentHint: true}}, func(ctx context.Context, r *mcp.CallToolRequest, a findArgs) (*mcp.CallToolResult, foundOrders, error) {
		_ = appendOrder(file, "written-by-a-reconciler")
		return find(ctx, r, a)
	})
	mcp.AddTool(s, &mcp.Tool{Name: "find_text", Annotations: reads}, func(_ context.Context, _ *mcp.CallToolRequest, a findArgs) (*mcp.CallToolResult, any, error) {
		found, err := ordersOf(file, a.Customer)
		b, _ := json.Marshal(found)
		if len(found) == 0 {
			return &mcp.CallToolResult{IsError: true, Content: []mcp.Content{&mcp.TextContent{Text: "unknown customer"}}}, nil, err
		}
		return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: string(b)}}}, nil, err
	})
	if err := s.Run(context.Background(), &mcp.StdioTransport{}); err != nil {
		os.Exit(1)
	}
}

func appendOrder(file, customer string) error {
	f, err := os.OpenFile(file, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	_, err = fmt.Fprintln(f, customer)
	return errors.Join(err, f.Close())
}

func ordersOf(file, customer string) ([]string, error) {
	b, err := os.ReadFile(file)
	if os.IsNotExist(err) {
		err = nil
	}
	found := []string{}
	for _, line := range strings.Fields(string(b)) {
		if line == customer {
			found = append(found, line)
		}
	}
	return found, err
}

const orderTools = `
env: test
listen: 127.0.0.1:0
admin: 127.0.0.1:0
mcp:
  servers:
    orders:
      command: [%q]
      env: {%s: %q}
      tools:
        create_order: {effect: external, key: "{customer_id}", timeout: 300ms,
          reconcile: {tool: find_order, arguments: {customer: "{customer_id}"}, happened: "len(result.orders) > 0", every: 100ms, quiet: 2s}}
        create_blind: {effect: external, key: "{customer_id}", timeout: 300ms,
          reconcile: {tool: look_and_touch, arguments: {customer: "{customer_id}"}, happened: "len(result.orders) > 0", every: 50ms, quiet: 100ms, attempts: 3}}
        create_batch: {effect: external, key: "{customer_id}", timeout: 300ms,
          reconcile: {tool: find_order, arguments: {customer: "{customer_id}"}, happened: "len(result.orders) > 0", when: batch, every: 1s}}
        create_text: {effect: external, key: "{customer_id}", timeout: 300ms,
          reconcile: {tool: find_text, arguments: {customer: "{customer_id}"}, happened: "len(result) > 0", not_happened: 'result == "unknown customer"', every: 100ms, quiet: 1s}}
`

// orderShop is an engine with an MCP proxy before the server of serveOrders.
type orderShop struct {
	*Engine
	t                   *testing.T
	config, store, file string
	said                *lockedBuffer
	up                  bool
	closing             []func()
}

type lockedBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *lockedBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *lockedBuffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

func openOrders(t *testing.T, embedded bool) *orderShop {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	s := &orderShop{t: t, file: filepath.Join(dir, "orders"), store: filepath.Join(dir, "holdfast.db"), said: &lockedBuffer{}}
	s.config = configured(t, fmt.Sprintf(orderTools, self, orderFile, s.file))
	s.start(embedded)
	t.Cleanup(func() {
		s.stop()
		if found, err := sqlite.Verify(context.Background(), s.store); err != nil || len(found) > 0 {
			t.Errorf("store verify: %v %v", found, err)
		}
	})
	return s
}

func (s *orderShop) start(embedded bool) {
	s.t.Helper()
	e, err := New(Config{File: s.config, Store: "sqlite:" + s.store, Embedded: embedded, Logger: slog.New(slog.NewTextHandler(s.said, nil)),
		Getenv: func(string) (string, bool) { return "", false }})
	if err == nil {
		err = e.Start(context.Background())
	}
	if err != nil {
		s.t.Fatal(err)
	}
	s.Engine, s.up = e, true
}

func (s *orderShop) stop() {
	if !s.up {
		return
	}
	s.up = false
	for _, f := range s.closing {
		f()
	}
	s.closing = nil
	if err := s.Stop(context.Background()); err != nil {
		s.t.Error(err)
	}
}

// client is an official client over stdio or, where the engine listens, over streamable HTTP.
func (s *orderShop) client() *mcp.ClientSession {
	s.t.Helper()
	var over mcp.Transport
	ended := make(chan struct{})
	if s.Addr() != "" {
		over = &mcp.StreamableClientTransport{Endpoint: "http://" + s.Addr() + "/mcp/orders"}
		close(ended)
	} else {
		in, toProxy := io.Pipe()
		fromProxy, out := io.Pipe()
		go func() {
			defer close(ended)
			_ = s.ServeMCP(context.Background(), "orders", in, out)
			_ = out.Close()
		}()
		over = &mcp.IOTransport{Reader: fromProxy, Writer: toProxy}
	}
	c, err := mcp.NewClient(&mcp.Implementation{Name: "test", Version: "1"}, nil).Connect(context.Background(), over, nil)
	if err != nil {
		s.t.Fatal(err)
	}
	s.closing = append(s.closing, func() { _ = c.Close(); <-ended })
	return c
}

// call returns the text of the answer, and the intent that it names.
func (s *orderShop) call(c *mcp.ClientSession, tool, customer, fault string) (text, id string) {
	s.t.Helper()
	args := map[string]any{"customer_id": customer}
	if fault != "" {
		args["fault"] = fault
	}
	r, err := c.CallTool(context.Background(), &mcp.CallToolParams{Name: tool, Arguments: args})
	if err != nil {
		s.t.Fatal(err)
	}
	if t, ok := r.Content[0].(*mcp.TextContent); ok {
		text = t.Text
	}
	id, _ = r.Meta["holdfast/intent"].(string)
	return text, id
}

func (s *orderShop) record(id string) *ledger.Record {
	s.t.Helper()
	r, err := s.ledger.Get(context.Background(), id)
	if err != nil {
		s.t.Fatalf("intent %q: %v", id, err)
	}
	return r
}

// lines counts the history's lines of one kind, and returns their evidence.
func (s *orderShop) lines(id, kind string) (n int, evidence string) {
	s.t.Helper()
	events, err := s.ledger.History(context.Background(), id)
	if err != nil {
		s.t.Fatal(err)
	}
	for i := range events {
		if events[i].Kind == kind {
			n, evidence = n+1, evidence+string(events[i].Evidence)
		}
	}
	return n, evidence
}

// waits counts the history's lines that say that nobody can look for the effect.
func (s *orderShop) waits(id string) (n int) {
	s.t.Helper()
	events, err := s.ledger.History(context.Background(), id)
	if err != nil {
		s.t.Fatal(err)
	}
	for i := range events {
		if events[i].Kind == "note" && strings.Contains(events[i].Reason, "waits until a client has a session") {
			n++
		}
	}
	return n
}

func (s *orderShop) settled(id string, want ledger.Outcome) {
	s.t.Helper()
	eventually(s.t, func() bool { return s.record(id).State == ledger.Settled })
	if r := s.record(id); r.Outcome != want {
		_, evidence := s.lines(id, "check")
		s.t.Errorf("%s: %s, want %s: %s", r.Endpoint, r.Outcome, want, evidence)
	}
}

// TestReconcileByTool has a lost reply of an official server found out by that server's own read tool, over both ways in: never more
// than one effect for a key, also where the effect comes after a first read that did not see it.
func TestReconcileByTool(t *testing.T) {
	for name, embedded := range map[string]bool{"mcp proxy": true, "serve": false} {
		t.Run(name, func(t *testing.T) {
			s := openOrders(t, embedded)
			c := s.client()
			for _, x := range []struct {
				tool, fault string
				outcome     ledger.Outcome
				effects     int
			}{
				{"create_order", "before", ledger.OutcomeFailed, 0},
				{"create_order", "after", ledger.OutcomeSuccess, 1},
				{"create_order", "late", ledger.OutcomeSuccess, 1},
				{"create_order", "die", ledger.OutcomeSuccess, 1},
				{"create_text", "before", ledger.OutcomeFailed, 0},
				{"create_text", "after", ledger.OutcomeSuccess, 1},
			} {
				customer := x.tool + "-" + x.fault
				text, id := s.call(c, x.tool, customer, x.fault)
				if !strings.Contains(text, "OUTCOME UNKNOWN") {
					t.Fatalf("%s: %s", customer, text)
				}
				s.settled(id, x.outcome)
				if n, evidence := s.lines(id, "check"); n == 0 || !strings.Contains(evidence, `"tool":"find_`) {
					t.Errorf("%s: %d checks, %s", customer, n, evidence)
				}
				again, _ := s.call(c, x.tool, customer, x.fault) // the same call: what took place is not done again
				if found, err := ordersOf(s.file, customer); err != nil || len(found) != x.effects {
					t.Errorf("%s: %d effects, %v, after %q", customer, len(found), err, again)
				}
			}
		})
	}
}

// TestReconcileByToolThatWrites asks no tool that neither policy nor server calls read-only: idempotentHint is no such word.
func TestReconcileByToolThatWrites(t *testing.T) {
	s := openOrders(t, true)
	_, id := s.call(s.client(), "create_blind", "b", "after")
	eventually(t, func() bool { n, _ := s.lines(id, "alert"); return n == 1 || s.record(id).State != ledger.Unknown })
	if n, _ := s.lines(id, "check"); n != 3 || s.record(id).State != ledger.Unknown {
		t.Errorf("%d checks, %s", n, s.record(id).State)
	}
	if found, err := ordersOf(s.file, "written-by-a-reconciler"); err != nil || len(found) != 0 {
		t.Errorf("a reconciler wrote %d times, %v", len(found), err)
	}
	if said := s.said.String(); !strings.Contains(said, "not read-only") || strings.Count(said, "a person decides") != 1 {
		t.Errorf("logged %s", said)
	}
}

// TestReconcileWaitsForSession looks at nothing and uses no check up while nobody has a session with the server, and
// looks as soon as somebody has.
func TestReconcileWaitsForSession(t *testing.T) {
	s := openOrders(t, true)
	_, id := s.call(s.client(), "create_batch", "w", "die")
	s.stop()
	s.start(true)
	eventually(t, func() bool { return strings.Contains(s.said.String(), "cannot be looked for") })
	if n, _ := s.lines(id, "check"); n != 0 || s.record(id).State != ledger.Unknown {
		t.Errorf("%d checks without a session; %s", n, s.record(id).State)
	}
	eventually(t, func() bool { return s.waits(id) == 1 })
	s.stop()
	s.start(true) // it still waits
	eventually(t, func() bool { return strings.Count(s.said.String(), "cannot be looked for") == 2 })
	if n := s.waits(id); n != 1 {
		t.Errorf("%d lines of one wait for a session", n)
	}
	c := s.client()
	s.settled(id, ledger.OutcomeSuccess)
	if n, _ := s.lines(id, "check"); n != 1 {
		t.Errorf("%d checks, want the one that a session made possible", n)
	}
	if text, again := s.call(c, "create_batch", "w", "die"); again != id || !strings.Contains(text, "nothing was executed now") && !strings.Contains(text, "Nothing was executed now") {
		t.Errorf("again: %s of %s", text, again)
	}
	if found, err := ordersOf(s.file, "w"); err != nil || len(found) != 1 {
		t.Errorf("%d effects, %v", len(found), err)
	}
}
