package main

import (
	"context"
	"net/http/httptest"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/holdfast-ai/holdfast/test/mcp/server31/office"
)

// asProgram makes the test's own binary be the program.
const asProgram = "SERVER31_TEST_PROGRAM"

func TestMain(m *testing.M) {
	if os.Getenv(asProgram) == "1" {
		main()
		return
	}
	os.Exit(m.Run())
}

func connect(t *testing.T, transport mcp.Transport) *mcp.ClientSession {
	t.Helper()
	session, err := mcp.NewClient(&mcp.Implementation{Name: "test", Version: "1"}, nil).Connect(t.Context(), transport, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { session.Close() })
	return session
}

func text(t *testing.T, s *mcp.ClientSession, tool string, args map[string]any) string {
	t.Helper()
	res, err := s.CallTool(t.Context(), &mcp.CallToolParams{Name: tool, Arguments: args})
	if err != nil {
		t.Fatalf("%s: %v", tool, err)
	}
	if res.IsError {
		t.Fatalf("%s: %+v", tool, res.Content[0])
	}
	return res.Content[0].(*mcp.TextContent).Text
}

func order() map[string]any {
	return map[string]any{"customer": "Ana Ruiz", "sku": "lamp-led", "quantity": 2}
}

// program returns the command, with more in its environment.
func program(t *testing.T, env ...string) *mcp.CommandTransport {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), os.Args[0])
	cmd.Env = append(os.Environ(), append(env, asProgram+"=1")...)
	return &mcp.CommandTransport{Command: cmd}
}

func TestStdioForgetsAtRestart(t *testing.T) {
	fresh := ""
	for range 2 {
		s := connect(t, program(t))
		before := text(t, s, "order_list", map[string]any{})
		text(t, s, "order_create", order())
		if text(t, s, "order_list", map[string]any{}) == before {
			t.Error("no order was made")
		}
		if fresh != "" && before != fresh {
			t.Errorf("after a restart: %s, want %s", before, fresh)
		}
		fresh = before
		if err := s.Close(); err != nil {
			t.Fatalf("the program ended badly: %v", err)
		}
	}
}

func TestStateNeedsTheVariable(t *testing.T) {
	for _, value := range []string{"0", "1"} {
		s := connect(t, program(t, "SERVER31_STATE="+value))
		_, err := s.ReadResource(t.Context(), &mcp.ReadResourceParams{URI: office.StateURI})
		if shown := err == nil; shown != (value == "1") {
			t.Errorf("with %s the state is shown: %v (%v)", value, shown, err)
		}
	}
}

// over returns the transport to a server that all sessions share.
func over(t *testing.T, o *office.Office) func() mcp.Transport {
	t.Helper()
	server := httptest.NewServer(handler(o))
	t.Cleanup(server.Close)
	return func() mcp.Transport { return &mcp.StreamableClientTransport{Endpoint: server.URL + "/mcp"} }
}

func TestSessionsOverHTTPShareRecords(t *testing.T) {
	transport := over(t, office.New(office.Options{}))
	one, two := connect(t, transport()), connect(t, transport())
	before := text(t, two, "order_list", map[string]any{})
	text(t, one, "order_create", order())
	if text(t, two, "order_list", map[string]any{}) == before {
		t.Error("the other session does not see the order")
	}
}

// TestRequestGivenUpOverHTTPIssuesTwice drops the reply as HTTP does: the client hangs up before the answer.
func TestRequestGivenUpOverHTTPIssuesTwice(t *testing.T) {
	s := connect(t, over(t, office.New(office.Options{}))())
	args := map[string]any{"request_id": "req-1", "customer_id": "cus_1", "amount_cents": 100}
	ctx, hangUp := context.WithCancel(t.Context())
	lost := make(chan error, 1)
	go func() {
		_, err := s.CallTool(ctx, &mcp.CallToolParams{Name: "invoice_issue", Arguments: args})
		lost <- err
	}()
	for !strings.Contains(text(t, s, "invoice_list", map[string]any{}), "INV-0001") {
	}
	hangUp()
	if err := <-lost; err == nil {
		t.Fatal("the reply was not lost")
	}
	text(t, s, "invoice_issue", args)
	if got := text(t, s, "invoice_list", map[string]any{}); strings.Count(got, "INV-") != 2 {
		t.Errorf("invoices: %s", got)
	}
}

func TestBadFlagsFail(t *testing.T) {
	for _, args := range [][]string{{"--no-such-flag"}, {"--http", "not an address"}} {
		if err := run(t.Context(), args); err == nil {
			t.Errorf("%v: no error", args)
		}
	}
}
