package gateway

import (
	"context"
	"net/http"
	"strings"

	"github.com/holdfast-ai/holdfast/internal/policy"
	"github.com/holdfast-ai/holdfast/internal/provider"
)

// local says that a path is the gateway's own.
func local(path string) bool {
	return path == "/healthz" || path == "/readyz" || strings.HasPrefix(path, "/holdfast/") || reserved(path)
}

// reserved paths belong to MCP servers (interface.md §3). Until those are served they lead nowhere: never to an LLM
// provider, with a tool's arguments.
func reserved(path string) bool { return strings.HasPrefix(path, "/mcp/") }

type tenantKey struct{}

// Tenant is the tenant of a request that the gateway handed to Config.API.
func Tenant(r *http.Request) string {
	return caller(r).tenant
}

type identity struct {
	tenant string
	client *policy.AuthKey // nil without auth.keys, and for an operator
}

func caller(r *http.Request) identity {
	id, _ := r.Context().Value(tenantKey{}).(identity)
	return id
}

// serveLocal answers the gateway's own paths. The health checks need neither credential nor host and write
// nothing (semantics 44).
func (g *edition) serveLocal(w http.ResponseWriter, r *http.Request) {
	switch {
	case r.URL.Path == "/healthz":
		w.WriteHeader(http.StatusOK)
		_, _ = w.Write([]byte("ok\n"))
	case r.URL.Path == "/readyz":
		WriteReady(w, r, g.Readiness())
	case g.mcp != nil && strings.HasPrefix(r.URL.Path, "/mcp/"):
		g.serveMCP(w, r)
	default:
		g.serveAPI(w, r)
	}
}

func (g *edition) serveAPI(w http.ResponseWriter, r *http.Request) {
	c := &call{g: g, w: w, r: r, target: &target{wire: provider.OpenAI}}
	if g.api == nil || reserved(r.URL.Path) {
		c.refuse(errorf(CodeNotFound, "no such path"))
		return
	}
	tenant := mainTenant
	var client *policy.AuthKey
	if !g.guard.Open() {
		client = g.guard.Client(r)
		if client == nil {
			c.refuse(errorf(CodeUnauthorized, "this credential is not one of auth.keys"))
			return
		}
		tenant = client.Tenant
	} else if cred := g.guard.Credential(r); cred != "" && !g.replacesAll() {
		tenant = g.forwardedTenant(cred)
	}
	if g.guard.tenant != "" {
		tenant = g.guard.tenant
	}
	g.api.ServeHTTP(w, r.WithContext(context.WithValue(r.Context(), tenantKey{}, identity{tenant, client})))
}

// replacesAll says that no provider sees its clients' own credentials.
func (g *edition) replacesAll() bool {
	for _, t := range g.providers {
		if t.key == "" {
			return false
		}
	}
	return true
}
