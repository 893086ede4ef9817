package gateway

import (
	"net/http"
	"strings"

	"github.com/holdfast-ai/holdfast/internal/policy"
	"github.com/holdfast-ai/holdfast/internal/provider"
)

// MCPCaller is whose request for an MCP server it is.
type MCPCaller struct {
	Tenant, Owner string
	// Authorization is the client's own credential, for a server that gets it; empty where the configuration has one, and
	// where the client's is one of auth.keys.
	Authorization string
}

// serveMCP hands a request for an MCP server on, by the rules of semantics 44.
func (g *edition) serveMCP(w http.ResponseWriter, r *http.Request) {
	who := MCPCaller{Tenant: mainTenant}
	name, _, _ := strings.Cut(strings.TrimPrefix(r.URL.Path, "/mcp/"), "/")
	switch {
	case !g.guard.Open():
		client := g.guard.Client(r)
		if client == nil {
			c := &call{g: g, w: w, r: r, target: &target{wire: provider.OpenAI}}
			c.refuse(errorf(CodeUnauthorized, "this credential is not one of auth.keys"))
			return
		}
		who.Tenant, who.Owner = client.Tenant, client.Owner
	case forwardsCredential(g.policy, name):
		who.Authorization = r.Header.Get("Authorization")
		if who.Authorization != "" {
			who.Tenant = g.forwardedTenant(g.guard.Credential(r))
		}
	}
	if g.guard.tenant != "" {
		who.Tenant = g.guard.tenant
	}
	g.mcp(w, r, who)
}

// forwardsCredential says that a server sees its clients' own credentials.
func forwardsCredential(c *policy.Config, name string) bool {
	for _, s := range c.MCP.Servers {
		if s.Name != name || s.URL == "" {
			continue
		}
		for _, h := range s.Headers {
			if strings.EqualFold(h.Name, "Authorization") {
				return false
			}
		}
		return true
	}
	return false
}
