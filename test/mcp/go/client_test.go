//lint:file-ignore SA1019 Sampling, roots and logging are on their way out of the protocol and still in use: they have to pass.

package mcpclient

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// ways are the pairs of transports: the client's and the server's. direct is without Holdfast, as the measure.
var ways = []struct {
	name, client, server string
}{
	{"stdio-stdio", "stdio", "everything-stdio"}, {"stdio-http", "stdio", "everything-http"},
	{"http-stdio", "http", "everything-stdio"}, {"http-http", "http", "everything-http"},
	{"own-stdio", "own", "everything-stdio"}, {"direct", "direct", ""},
}

// heard is what the server asked of the client, and told it.
type heard struct {
	mu       sync.Mutex
	progress []float64
	logs     int
	updated  []string
}

func (h *heard) has(f func() bool) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return f()
}

func client(h *heard) *mcp.Client {
	c := mcp.NewClient(&mcp.Implementation{Name: "test", Version: "1"}, &mcp.ClientOptions{
		CreateMessageHandler: func(_ context.Context, r *mcp.CreateMessageRequest) (*mcp.CreateMessageResult, error) {
			return &mcp.CreateMessageResult{Content: &mcp.TextContent{Text: "sampled by the client"}, Model: "m", Role: "assistant"}, nil
		},
		ElicitationHandler: func(context.Context, *mcp.ElicitRequest) (*mcp.ElicitResult, error) {
			return &mcp.ElicitResult{Action: "decline"}, nil
		},
		ProgressNotificationHandler: func(_ context.Context, r *mcp.ProgressNotificationClientRequest) {
			h.mu.Lock()
			h.progress = append(h.progress, r.Params.Progress)
			h.mu.Unlock()
		},
		LoggingMessageHandler: func(context.Context, *mcp.LoggingMessageRequest) {
			h.mu.Lock()
			h.logs++
			h.mu.Unlock()
		},
		ResourceUpdatedHandler: func(_ context.Context, r *mcp.ResourceUpdatedNotificationRequest) {
			h.mu.Lock()
			h.updated = append(h.updated, r.Params.URI)
			h.mu.Unlock()
		},
	})
	c.AddRoots(&mcp.Root{URI: "file:///a/root", Name: "a root of the client"})
	return c
}

// connect reaches a server: through the gateway's port, through a process that works through the gateway's log, or
// through one with a log of its own.
func connect(t *testing.T, how, server string, h *heard) *mcp.ClientSession {
	t.Helper()
	var transport mcp.Transport
	switch how {
	case "http":
		transport = &mcp.StreamableClientTransport{Endpoint: here.gateway + "/mcp/" + server}
	case "stdio":
		transport = &mcp.CommandTransport{Command: proxy("--config", here.config, "--server", server)}
	case "own":
		transport = &mcp.CommandTransport{Command: proxy("--config", here.config, "--store", filepath.Join(t.TempDir(), "own.db"), "--server", server)}
	case "direct":
		args := program("server-everything", "stdio")
		transport = &mcp.CommandTransport{Command: exec.Command(args[0], args[1:]...)}
	}
	ctx, stop := context.WithTimeout(t.Context(), 60*time.Second)
	defer stop()
	s, err := client(h).Connect(ctx, transport, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() }) // a session of a server that was killed on purpose does not close well
	return s
}

func proxy(args ...string) *exec.Cmd {
	cmd := exec.Command(here.holdfast, append([]string{"mcp", "proxy", "--log-level", "error"}, args...)...)
	if os.Getenv("HOLDFAST_VERBOSE") != "" {
		cmd.Stderr = os.Stderr
	}
	return cmd
}

func textOf(t *testing.T, r *mcp.CallToolResult) string {
	t.Helper()
	var out strings.Builder
	for _, c := range r.Content {
		if x, ok := c.(*mcp.TextContent); ok {
			out.WriteString(x.Text + "\n")
		}
	}
	return out.String()
}

func call(t *testing.T, s *mcp.ClientSession, name string, args map[string]any) *mcp.CallToolResult {
	t.Helper()
	if args == nil {
		args = map[string]any{} // this client would send null, which no server takes
	}
	r, err := s.CallTool(t.Context(), &mcp.CallToolParams{Name: name, Arguments: args})
	if err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	return r
}

func asJSON(t *testing.T, v any) string {
	t.Helper()
	b, err := json.MarshalIndent(v, "", " ")
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// everything asks for all that the server offers, and returns what came in a form that can be compared.
func everything(t *testing.T, s *mcp.ClientSession, h *heard) map[string]string {
	ctx := t.Context()
	got := map[string]string{}
	init := s.InitializeResult()
	got["server"] = asJSON(t, init.Capabilities) + init.Instructions
	tools, err := s.ListTools(ctx, nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, x := range tools.Tools {
		if m, ok := x.InputSchema.(map[string]any); ok && x.Annotations != nil && !x.Annotations.ReadOnlyHint {
			if p, ok := m["properties"].(map[string]any); ok {
				delete(p, "repeat_reason")
			}
		}
	}
	got["tools"] = asJSON(t, tools.Tools)
	prompts, err := s.ListPrompts(ctx, nil)
	if err != nil {
		t.Fatal(err)
	}
	got["prompts"] = asJSON(t, prompts.Prompts)
	for n, c := range []struct {
		tool string
		args map[string]any
	}{
		{"echo", map[string]any{"message": "hé\u2028llo"}}, {"get-sum", map[string]any{"a": 2, "b": 3}}, {"get-tiny-image", nil},
		{"get-structured-content", map[string]any{"location": "New York"}}, {"get-resource-links", map[string]any{"count": 3}},
		{"get-annotated-message", map[string]any{"messageType": "error", "includeImage": true}}, {"get-roots-list", nil},
		{"trigger-sampling-request", map[string]any{"prompt": "p", "maxTokens": 10}}, {"trigger-elicitation-request", nil},
	} {
		r := call(t, s, c.tool, c.args)
		r.Meta = nil
		got[fmt.Sprint(n, c.tool)] = asJSON(t, r)
	}
	if r, err := s.CallTool(ctx, &mcp.CallToolParams{Name: "no-such-tool", Arguments: map[string]any{}}); err == nil {
		r.Meta = nil
		got["no such tool"] = asJSON(t, r)
	} else {
		got["no such tool"] = err.Error()
	}
	prompt, err := s.GetPrompt(ctx, &mcp.GetPromptParams{Name: prompts.Prompts[0].Name})
	if err != nil {
		t.Fatal(err)
	}
	got["prompt"] = asJSON(t, prompt)
	resources, err := s.ListResources(ctx, nil)
	if err != nil {
		t.Fatal(err)
	}
	got["resources"] = fmt.Sprint(len(resources.Resources))
	read, err := s.ReadResource(ctx, &mcp.ReadResourceParams{URI: resources.Resources[0].URI})
	if err != nil {
		t.Fatal(err)
	}
	got["resource"] = asJSON(t, read.Contents)
	p := &mcp.CallToolParams{Name: "trigger-long-running-operation", Arguments: map[string]any{"duration": 0.4, "steps": 4}}
	p.SetProgressToken("token")
	long, err := s.CallTool(ctx, p)
	if err != nil {
		t.Fatal(err)
	}
	got["long"] = textOf(t, long)
	eventually(t, "progress", func() bool { return h.has(func() bool { return len(h.progress) >= 4 }) })
	h.mu.Lock()
	got["progress"] = fmt.Sprint(h.progress)
	h.mu.Unlock()
	return got
}

func eventually(t *testing.T, what string, f func() bool) {
	t.Helper()
	for end := time.Now().Add(2 * time.Minute); time.Now().Before(end); <-time.After(10 * time.Millisecond) {
		if f() {
			return
		}
	}
	t.Fatal("never came: " + what)
}

// Everything that the server offers comes through as it comes without Holdfast.
func TestEverything(t *testing.T) {
	h := &heard{}
	want := everything(t, connect(t, "direct", "", h), h)
	for _, w := range ways {
		t.Run(w.name, func(t *testing.T) {
			h := &heard{}
			if diff := cmp.Diff(want, everything(t, connect(t, w.client, w.server, h), h)); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// What the server says of its own accord reaches the client.
func TestNotifications(t *testing.T) {
	for _, w := range ways {
		t.Run(w.name, func(t *testing.T) {
			t.Parallel()
			h := &heard{}
			s := connect(t, w.client, w.server, h)
			resources, err := s.ListResources(t.Context(), nil)
			if err != nil {
				t.Fatal(err)
			}
			uri := resources.Resources[0].URI
			if err := s.Subscribe(t.Context(), &mcp.SubscribeParams{URI: uri}); err != nil {
				t.Fatal(err)
			}
			if err := s.SetLoggingLevel(t.Context(), &mcp.SetLoggingLevelParams{Level: "debug"}); err != nil {
				t.Fatal(err)
			}
			call(t, s, "toggle-simulated-logging", nil)
			call(t, s, "toggle-subscriber-updates", nil)
			eventually(t, "a log message", func() bool { return h.has(func() bool { return h.logs > 0 }) })
			eventually(t, "an update", func() bool { return h.has(func() bool { return len(h.updated) > 0 }) })
		})
	}
}

// A client that no longer waits has its request cancelled at the server; the session goes on.
func TestCancel(t *testing.T) {
	for _, w := range ways {
		t.Run(w.name, func(t *testing.T) {
			t.Parallel()
			s := connect(t, w.client, w.server, &heard{})
			ctx, stop := context.WithTimeout(t.Context(), 300*time.Millisecond)
			defer stop()
			_, err := s.CallTool(ctx, &mcp.CallToolParams{Name: "trigger-long-running-operation", Arguments: map[string]any{"duration": 20, "steps": 2}})
			if err == nil {
				t.Error("a call that was cancelled has an answer")
			}
			if got := textOf(t, call(t, s, "echo", map[string]any{"message": "on"})); !strings.Contains(got, "on") {
				t.Error(got)
			}
		})
	}
}

// edit_file twice is one effect; so is move_file, whose second call fails without Holdfast.
func TestFilesystem(t *testing.T) {
	for _, how := range []string{"stdio", "http"} {
		t.Run(how, func(t *testing.T) {
			s := connect(t, how, "files", &heard{})
			dir := filepath.Join(here.dir, "files")
			path := filepath.Join(dir, how+".txt")
			call(t, s, "write_file", map[string]any{"path": path, "content": "one\n"})
			edit := map[string]any{"path": path, "edits": []any{map[string]any{"oldText": "one", "newText": "one one"}}}
			first := call(t, s, "edit_file", edit)
			again := call(t, s, "edit_file", edit)
			if first.IsError || again.IsError || again.Meta["holdfast/replayed"] != true {
				t.Errorf("%s\n%s", asJSON(t, first), asJSON(t, again))
			}
			if b, err := os.ReadFile(path); err != nil || string(b) != "one one\n" {
				t.Errorf("%q %v", b, err)
			}
			move := map[string]any{"source": path, "destination": path + ".moved"}
			for range 2 {
				if r := call(t, s, "move_file", move); r.IsError {
					t.Error(textOf(t, r))
				}
			}
			edit["path"], edit["repeat_reason"] = path+".moved", "the user wants more"
			call(t, s, "edit_file", edit)
			if b, err := os.ReadFile(path + ".moved"); err != nil || string(b) != "one one one\n" {
				t.Errorf("%q %v", b, err)
			}
		})
	}
}

// Ten identical calls at once are one effect, and all get the same answer.
func TestMemoryAtOnce(t *testing.T) {
	s := connect(t, "http", "memory", &heard{})
	args := map[string]any{"entities": []any{map[string]any{"name": "e", "entityType": "x", "observations": []any{"o"}}}}
	call(t, s, "read_graph", nil)
	var all sync.WaitGroup
	replays := make(chan bool, 10)
	for range 10 {
		all.Go(func() {
			r, err := s.CallTool(t.Context(), &mcp.CallToolParams{Name: "create_entities", Arguments: args})
			if err != nil {
				t.Error(err)
				return
			}
			if got := asJSON(t, r.StructuredContent); !strings.Contains(got, `"e"`) {
				t.Error(got)
			}
			replays <- r.Meta["holdfast/replayed"] == true
		})
	}
	all.Wait()
	close(replays)
	n := 0
	for r := range replays {
		if r {
			n++
		}
	}
	if n != 9 {
		t.Errorf("%d replays", n)
	}
}

// A server that is killed is started again; the session goes on.
func TestServerIsKilled(t *testing.T) {
	dir := t.TempDir()
	cmd := proxy(append([]string{"--store", filepath.Join(dir, "own.db"), "--"}, program("server-everything", "stdio")...)...)
	s, err := client(&heard{}).Connect(t.Context(), &mcp.CommandTransport{Command: cmd}, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	call(t, s, "echo", map[string]any{"message": "a"})
	kids, err := exec.Command("pgrep", "-P", fmt.Sprint(cmd.Process.Pid)).Output()
	if err != nil {
		t.Fatal(err)
	}
	if err := exec.Command("kill", append([]string{"-9"}, strings.Fields(string(kids))...)...).Run(); err != nil {
		t.Fatal(err)
	}
	if got := textOf(t, call(t, s, "echo", map[string]any{"message": "b"})); !strings.Contains(got, "b") {
		t.Error(got)
	}
}
