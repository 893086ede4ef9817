package mcp

import (
	"bytes"
	"context"
	"io"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/tidwall/gjson"

	"github.com/holdfast-ai/holdfast/internal/policy"
)

// The line that settles a call works as it is pasted, but for the words that only a person knows.
func TestResolveLine(t *testing.T) {
	const line = "holdfast intents resolve 01a2 --outcome success|failed --by NAME --reason TEXT"
	for store, want := range map[string]string{
		"":                      line,
		"/var/lib/holdfast.db":  line + " --store /var/lib/holdfast.db",
		"/srv/data/my notes.db": line + " --store '/srv/data/my notes.db'",
		"/tmp/it's $HOME;ls.db": line + ` --store '/tmp/it'\''s $HOME;ls.db'`,
	} {
		if got := ResolveLine("01a2", store); got != want {
			t.Errorf("%s:\n%s, want\n%s", store, got, want)
		}
	}
}

func TestUnknownNamesTheStore(t *testing.T) {
	r := newRig(t, "stdio")
	r.proxy.store = "/srv/log.db"
	got := r.stdio().call("write", `{"n":1,"fault":"die_after"}`)
	r.mentions(got, "OUTCOME UNKNOWN", "--outcome success|failed --by NAME --reason TEXT --store /srv/log.db")
}

// Whoever names a server that there is not learns which there are: over stdio, over HTTP, and through another engine's socket.
func TestUnknownServerNamesTheKnown(t *testing.T) {
	r := newRig(t, "stdio")
	const known = `there is no MCP server "fra"; `
	err := r.proxy.ServeStdio(t.Context(), "fra", strings.NewReader(""), io.Discard)
	if err == nil || !strings.HasPrefix(err.Error(), known) || !strings.Contains(err.Error(), "has far; ") {
		t.Errorf("stdio: %v", err)
	}

	resp, err := http.Post(r.web.URL+"/mcp/fra", "application/json", strings.NewReader(hello))
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	if got := gjson.GetBytes(body, "error.message").Str; resp.StatusCode != 404 || !strings.Contains(got, known) || !strings.Contains(got, "has far; ") {
		t.Errorf("HTTP: %d %s", resp.StatusCode, body)
	}

	dir, err := os.MkdirTemp("", "mcp") // a socket's path is short
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(dir)
	socket, err := Listen(filepath.Join(dir, "s"), r.proxy, http.NotFoundHandler())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { socket.Stop(); socket.Close() }()
	var out bytes.Buffer
	if err := Attach(t.Context(), Attachment{Socket: filepath.Join(dir, "s"), Server: "fra", Logger: slog.New(slog.DiscardHandler)}, strings.NewReader(hello+"\n"), &out); err != nil {
		t.Error(err)
	}
	got := gjson.GetBytes(out.Bytes(), "error.message").Str
	if !strings.Contains(got, known) || !strings.Contains(got, "has far; ") || strings.ContainsAny(got, "{}") || strings.Count(got, "holdfast:") != 1 {
		t.Errorf("attached: %s", &out)
	}
}

const hello = `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"t","version":"1"}}}`

func TestServersAreListedWithinBounds(t *testing.T) {
	cfg, p := &policy.Config{}, &Proxy{}
	p.policy.Store(cfg)
	if got := p.noServer("a"); !strings.Contains(got, "the configuration has none") {
		t.Error(got)
	}
	for range namesMost + 3 {
		cfg.MCP.Servers = append(cfg.MCP.Servers, policy.MCPServer{Name: "s"})
	}
	got := p.noServer(strings.Repeat("x", 1<<20))
	if !strings.Contains(got, "s, and 3 more;") || len(got) > 1000 {
		t.Errorf("%d bytes: %.500s", len(got), got)
	}
}

// An HTTP refusal reaches a stdio client in words: JSON within a JSON string is for nobody.
func TestRefusalWords(t *testing.T) {
	ours := http.Header{"Holdfast-Error": {"not_found"}}
	for name, c := range map[string]struct {
		e    sendError
		want string
	}{
		"ours":           {sendError{status: 404, header: ours, body: failure(nil, codeInvalidRequest, "no such thing")}, "no such thing"},
		"a server's":     {sendError{status: 400, body: []byte(`{"jsonrpc":"2.0","id":null,"error":{"code":-32600,"message":"bad"}}`)}, "the server answered HTTP 400: bad"},
		"OAuth":          {sendError{status: 401, body: []byte(`{"error":"invalid_token","error_description":"it has expired"}`)}, "the server answered HTTP 401: it has expired"},
		"an error alone": {sendError{status: 401, body: []byte(`{"error":"invalid_token"}`)}, "the server answered HTTP 401: invalid_token"},
		"other JSON":     {sendError{status: 500, body: []byte(`{"stack":["a"]}`)}, "the server answered HTTP 500"},
		"text":           {sendError{status: 502, body: []byte("Bad Gateway\n")}, "the server answered HTTP 502: Bad Gateway"},
		"nothing":        {sendError{status: 503}, "the server answered HTTP 503"},
		"no text":        {sendError{status: 503, body: []byte("\xff\xfe")}, "the server answered HTTP 503"},
	} {
		if got := refusalWords(&c.e); got != c.want {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
}

// A command that there is not is said when a client begins.
func TestNoSuchCommand(t *testing.T) {
	r := newRig(t, "stdio")
	if err := r.proxy.Add(context.Background(), "none", Command{Args: []string{"no-such-program-anywhere"}}); err != nil {
		t.Fatal(err)
	}
	err := r.proxy.ServeStdio(t.Context(), "none", strings.NewReader(hello), io.Discard)
	if err == nil || !strings.Contains(err.Error(), "no-such-program-anywhere") || !strings.Contains(err.Error(), "cannot be run") {
		t.Errorf("%v", err)
	}
}
