package policy

import (
	"strings"

	"github.com/holdfast-ai/holdfast/internal/redact"
)

// proving are words in the names of header fields and variables that prove something. That a value is written as a reference
// (${NAME}) says nothing of it: an environment's name is no secret, and hiding it would hide what answers say.
var proving = []string{"auth", "key", "token", "secret", "password", "passwd", "passphrase", "cookie", "credential", "signature", "session"}

// sentSecret is a value that the far side is sent and that no answer may show, with where it is written.
type sentSecret struct {
	path string
	redact.Field
}

// hidden are those among fields below path.
func hidden(path string, fields []Header) []sentSecret {
	var all []sentSecret
	for _, h := range fields {
		if value := h.Value.Reveal(); value != "" && (proves(h.Name) || redact.Password(value) != "") {
			all = append(all, sentSecret{join(path, h.Name), redact.Field{Name: h.Name, Value: value}})
		}
	}
	return all
}

// places are how variables are called that say where a secret is.
var places = []string{"_file", "_path", "_dir", "_sock", "_url", "_uri", "_endpoint", "_host"}

func proves(name string) bool {
	name = strings.ReplaceAll(strings.ToLower(name), "-", "_")
	for _, end := range places {
		if strings.HasSuffix(name, end) {
			return false
		}
	}
	for _, word := range proving {
		if strings.Contains(name, word) {
			return true
		}
	}
	return false
}

func (s *ToolServer) hidden() []sentSecret {
	return hidden(join("tools", s.Name)+".headers", s.Headers)
}

func (s *MCPServer) hidden() []sentSecret {
	path := join("mcp.servers", s.Name)
	return append(hidden(path+".headers", s.Headers), hidden(path+".env", s.Env)...)
}

func (p *Provider) hidden() []sentSecret {
	path := join("providers", p.Name)
	all := hidden(path+".headers", p.Headers)
	if !p.APIKey.IsZero() {
		all = append(all, sentSecret{path + ".api_key", redact.Field{Name: "api_key", Value: p.APIKey.Reveal()}})
	}
	return all
}

func fields(all []sentSecret) []redact.Field {
	var out []redact.Field
	for _, p := range all {
		out = append(out, p.Field)
	}
	return out
}

// Hidden are the values that the server is sent and that no answer may show.
func (s *ToolServer) Hidden() []redact.Field { return fields(s.hidden()) }

// Hidden are the values that the server is sent, or has in its environment, and that no answer may show.
func (s *MCPServer) Hidden() []redact.Field { return fields(s.hidden()) }

// Hidden are the values that the provider is sent and that no answer may show.
func (p *Provider) Hidden() []redact.Field { return fields(p.hidden()) }

// secrets warns of those that cannot be kept out of answers.
func (k *checker) secrets() {
	var all []sentSecret
	for i := range k.c.Providers {
		all = append(all, k.c.Providers[i].hidden()...)
	}
	for i := range k.c.Tools {
		all = append(all, k.c.Tools[i].hidden()...)
	}
	for i := range k.c.MCP.Servers {
		all = append(all, k.c.MCP.Servers[i].hidden()...)
	}
	for _, p := range all {
		if !p.Distinct() {
			k.warn(p.path, "is so short or plain that it cannot be told from other text: where an answer says it back, it is not masked",
				"take a key of at least 16 letters and digits; if it is no secret, give it a name without key, token or auth")
		}
	}
}
