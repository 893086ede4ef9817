package gateway_test

import (
	"context"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"

	"github.com/holdfast-ai/holdfast/intent"
	"github.com/holdfast-ai/holdfast/internal/gateway"
	"github.com/holdfast-ai/holdfast/internal/policy"
	"github.com/holdfast-ai/holdfast/ledger/sqlite"
)

// Whose request for an MCP server it is, and which credential goes on to that server (semantics 44).
func TestMCPCallers(t *testing.T) {
	const servers = "\nmcp: {servers: {child: {command: [x]}, open: {url: \"http://127.0.0.1:1\"}, ours: {url: \"http://127.0.0.1:1\", headers: {Authorization: \"Bearer s\"}}}}"
	var got gateway.MCPCaller
	ask := func(auth, path, credential, host string) int {
		t.Helper()
		cfg, faults := policy.Parse("test.yaml", []byte("env: test\n"+auth+servers), func(string) (string, bool) { return "", false })
		if cfg == nil {
			t.Fatal(faults)
		}
		store, err := sqlite.Open(t.Context(), sqlite.Config{Path: filepath.Join(t.TempDir(), "s.db"), Env: "test"})
		if err != nil {
			t.Fatal(err)
		}
		defer store.Close()
		log := intent.New(intent.Config{Ledger: store, Exclusive: true})
		defer log.Close()
		got = gateway.MCPCaller{}
		g, err := gateway.New(context.Background(), gateway.Config{Policy: cfg, Ledger: store, Log: log,
			MCP: func(w http.ResponseWriter, _ *http.Request, who gateway.MCPCaller) {
				got = who
				w.WriteHeader(http.StatusAccepted)
			}})
		if err != nil {
			t.Fatal(err)
		}
		r := httptest.NewRequest(http.MethodPost, "http://"+host+path, strings.NewReader("{}"))
		if credential != "" {
			r.Header.Set("Authorization", "Bearer "+credential)
		}
		w := httptest.NewRecorder()
		g.ServeHTTP(w, r)
		return w.Code
	}
	const keys = `auth: {keys: [{key: "key-of-one-1", tenant: one, owner: o}]}`
	for _, c := range []struct {
		auth, path, credential, host string
		status                       int
		tenant, forwarded            string
	}{
		{"", "/mcp/child", "t", "localhost", 202, "main", ""},
		{"", "/mcp/ours", "t", "localhost", 202, "main", ""},
		{"", "/mcp/open", "", "localhost", 202, "main", ""},
		{"", "/mcp/open", "t", "localhost", 202, "c-", "Bearer t"},
		{"", "/mcp/open", "t", "evil.example", 403, "", ""},
		{keys, "/mcp/open", "key-of-one-1", "localhost", 202, "one", ""},
		{keys, "/mcp/open", "t", "localhost", 401, "", ""},
		{keys, "/mcp/open", "", "localhost", 401, "", ""},
		{"auth: {tenant: all}", "/mcp/open", "t", "localhost", 202, "all", "Bearer t"},
	} {
		status := ask(c.auth, c.path, c.credential, c.host)
		if status != c.status || !strings.HasPrefix(got.Tenant, c.tenant) || got.Authorization != c.forwarded {
			t.Errorf("%+v: %d, %+v", c, status, got)
		}
	}
}
