package policy

import (
	"reflect"
	"time"
)

// ToolServer is an HTTP write tool behind /tools/{name}/.
type ToolServer struct {
	Name    string   `yaml:"-"`
	BaseURL string   `yaml:"base_url" is:"required,url" doc:"The rest of the path is appended."`
	Headers []Header `yaml:"headers,map" is:"header" doc:"Headers of every request, e.g. a key."`
	Mode    Mode     `yaml:"mode" default:"enforce" enum:"enforce|observe" doc:"observe only reports."`
	Routes  []Route  `yaml:"routes" doc:"First match wins; calls that match none are external with every default."`
}

// Route is the policy of one kind of request to an HTTP tool.
type Route struct {
	Match      string `yaml:"match" is:"required,route" doc:"METHOD /path, the path a glob, e.g. POST /charges."`
	CallPolicy `yaml:",inline"`
}

// CallPolicy is the policy of one write tool or route, with every default applied.
type CallPolicy struct {
	Mode      Mode          `yaml:"mode" enum:"enforce|observe" doc:"The server's if left out."`
	Effect    Effect        `yaml:"effect" default:"external" enum:"read|generation|external" doc:"What a call does."`
	OnUnknown OnUnknown     `yaml:"on_unknown" enum:"retry|hold" doc:"hold, unless effect is generation."`
	Derive    Derive        `yaml:"derive" default:"always" enum:"retries|always|off" doc:"What a derived key is taken for."`
	Key       string        `yaml:"key" is:"template" doc:"Key from business arguments, e.g. {customer}:{amount}:{cart}."`
	Ignore    []string      `yaml:"ignore" is:"field" doc:"Arguments that may differ under one key, a or a.b.c."`
	Window    time.Duration `yaml:"window" is:"positive" doc:"24h with a key template, else the session, at most 10m."`
	TTL       time.Duration `yaml:"ttl" is:"positive" doc:"From settlement, for keys that callers give: 24h."`
	Timeout   time.Duration `yaml:"timeout" default:"60s" is:"positive" doc:"One attempt."`

	Durability Durability `yaml:"durability" enum:"relaxed|strict" doc:"strict, unless effect is generation."`
	Succeeded  Conditions `yaml:"succeeded" doc:"Expressions or statuses that mean success."`
	Failed     Conditions `yaml:"failed" doc:"Expressions or statuses that mean failure."`
	Definite   Conditions `yaml:"definite" doc:"Further failures that certainly had no effect; \"!503\": this status proves nothing."`
	Reconcile  *Reconcile `yaml:"reconcile" doc:"How an unknown outcome is found out, read-only."`
	Approval   string     `yaml:"approval" default:"none" enum:"none|dispatch" doc:"An owner approves first."`
}

// MCP is the MCP proxy.
type MCP struct {
	Servers []MCPServer `yaml:"servers,map" is:"name" doc:"Servers behind /mcp/{server}."`
}

// MCPServer is one proxied server, a command or an address.
type MCPServer struct {
	Name    string    `yaml:"-"`
	Command []string  `yaml:"command" doc:"Program and arguments of a stdio server."`
	Env     []Header  `yaml:"env,map" doc:"Environment of the command."`
	URL     string    `yaml:"url" is:"url" doc:"Address of a streamable HTTP server."`
	Headers []Header  `yaml:"headers,map" is:"header" doc:"Headers of every request to url."`
	Mode    Mode      `yaml:"mode" default:"enforce" enum:"enforce|observe" doc:"observe only reports."`
	Tools   []MCPTool `yaml:"tools,map" doc:"Policies by tool name; others go by the server's readOnlyHint."`
}

// MCPTool is the policy of one tool.
type MCPTool struct {
	Name       string `yaml:"-"`
	CallPolicy `yaml:",inline"`
}

// Call is the policy of a tool's calls. written is false where the configuration says nothing of the tool: then it has
// every default, and its effect is for the server's readOnlyHint to say (design.md §6).
func (s *MCPServer) Call(tool string) (p CallPolicy, written bool) {
	for i := range s.Tools {
		if s.Tools[i].Name == tool {
			return s.Tools[i].CallPolicy, true
		}
	}
	setDefaults(reflect.ValueOf(&p).Elem())
	p.resolve(s.Mode)
	return p, false
}
