package mcpclient

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// modernServer speaks MCP 2026-07-28: requests without a session, rounds of input, subscriptions as a request.
func modernServer(effects string) *mcp.Server {
	s := mcp.NewServer(&mcp.Implementation{Name: "modern", Version: "1"}, nil)
	type in struct {
		N string `json:"n"`
	}
	mcp.AddTool(s, &mcp.Tool{Name: "book"}, func(_ context.Context, r *mcp.CallToolRequest, x in) (*mcp.CallToolResult, any, error) {
		if x.N == "ask" && r.Params.InputResponses == nil {
			return &mcp.CallToolResult{RequestState: "round one", InputRequests: mcp.InputRequestMap{"sure": &mcp.ElicitParams{Message: "sure?"}}}, nil, nil
		}
		f, err := os.OpenFile(effects, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
		if err != nil {
			return nil, nil, err
		}
		defer f.Close()
		fmt.Fprintln(f, x.N)
		return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: "booked " + x.N}}}, nil, nil
	})
	mcp.AddTool(s, &mcp.Tool{Name: "wait", Annotations: &mcp.ToolAnnotations{ReadOnlyHint: true}}, func(ctx context.Context, r *mcp.CallToolRequest, _ in) (*mcp.CallToolResult, any, error) {
		for i := range 3 {
			if err := r.Session.NotifyProgress(ctx, &mcp.ProgressNotificationParams{ProgressToken: r.Params.GetProgressToken(), Progress: float64(i + 1)}); err != nil {
				return nil, nil, err
			}
		}
		return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: "waited"}}}, nil, nil
	})
	return s
}

const modernEffects = "HOLDFAST_TEST_MODERN"

// modernStdio is this program as such a server.
func modernStdio(effects string) {
	if err := modernServer(effects).Run(context.Background(), &mcp.StdioTransport{}); err != nil {
		fmt.Fprintln(os.Stderr, err)
	}
}

func TestModern(t *testing.T) {
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	for _, way := range []string{"stdio-stdio", "stdio-http", "http-stdio", "http-http"} {
		t.Run(way, func(t *testing.T) {
			dir := t.TempDir()
			effects := filepath.Join(dir, "effects")
			far := httptest.NewServer(mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return modernServer(effects) }, &mcp.StreamableHTTPOptions{Stateless: true}))
			defer far.Close()
			server := fmt.Sprintf("{url: %q}", far.URL)
			if strings.HasSuffix(way, "-stdio") {
				server = fmt.Sprintf("{command: [%q], env: {%s: %q}}", self, modernEffects, effects)
			}
			config := filepath.Join(dir, "holdfast.yaml")
			text := "env: test\nlisten: 127.0.0.1:0\nadmin: 127.0.0.1:0\nstore: \"sqlite:" + filepath.Join(dir, "holdfast.db") + "\"\nmcp: {servers: {far: " + server + "}}\n"
			if err := os.WriteFile(config, []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
			h := &heard{}
			var transport mcp.Transport = &mcp.CommandTransport{Command: proxy("--config", config, "--server", "far")}
			if strings.HasPrefix(way, "http") {
				url, stop := serve(t, config, filepath.Join(dir, "ready.json"))
				defer stop()
				transport = &mcp.StreamableClientTransport{Endpoint: url + "/mcp/far"}
			}
			ctx, stop := context.WithTimeout(t.Context(), time.Minute)
			defer stop()
			s, err := client(h).Connect(ctx, transport, nil)
			if err != nil {
				t.Fatal(err)
			}
			defer s.Close()
			if v := s.InitializeResult().ProtocolVersion; v != "2026-07-28" {
				t.Errorf("the version is %s", v)
			}
			for range 2 {
				if got := textOf(t, call(t, s, "book", map[string]any{"n": "x"})); !strings.Contains(got, "booked x") {
					t.Error(got)
				}
			}
			if got := textOf(t, call(t, s, "book", map[string]any{"n": "ask"})); !strings.Contains(got, "booked ask") {
				t.Errorf("after a round of input: %s", got)
			}
			p := &mcp.CallToolParams{Name: "wait", Arguments: map[string]any{"n": "y"}}
			p.SetProgressToken("token")
			if _, err := s.CallTool(ctx, p); err != nil {
				t.Error(err)
			}
			eventually(t, "progress", func() bool { return h.has(func() bool { return len(h.progress) == 3 }) })
			if b, err := os.ReadFile(effects); err != nil || string(b) != "x\nask\n" {
				t.Errorf("the effects are %q, %v", b, err)
			}
		})
	}
}

// serve runs a gateway of the test's own.
func serve(t *testing.T, config, ready string) (string, func()) {
	t.Helper()
	ctx, stop := context.WithCancel(context.Background())
	done, err := start(ctx, []string{here.holdfast, "serve", "--config", config, "--ready-file", ready}, "holdfast is up")
	if err != nil {
		stop()
		t.Fatal(err)
	}
	url, err := listening(ready)
	if err != nil {
		t.Error(err)
	}
	return url, func() { stop(); <-done }
}
