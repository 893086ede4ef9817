package policy

import "strings"

// proving are words in the names of header fields that prove something. A reference (${NAME}) is a secret whatever its field is
// called: that is what references are for.
var proving = []string{"authorization", "auth", "key", "token", "secret", "password", "cookie", "credential", "signature", "session"}

// secretsOf are the values of headers that nobody else may see; path is where they are written.
func (c *Config) secretsOf(path string, headers []Header) []string {
	var all []string
	for _, h := range headers {
		if strings.Contains(c.source.raw[join(path, h.Name)], "${") || proves(h.Name) {
			all = append(all, h.Value.Reveal())
		}
	}
	return all
}

func proves(name string) bool {
	name = strings.ToLower(name)
	for _, word := range proving {
		if strings.Contains(name, word) {
			return true
		}
	}
	return false
}

// ToolSecrets are the values that a tool server is sent and that no answer may show.
func (c *Config) ToolSecrets(s *ToolServer) []string {
	return c.secretsOf(join("tools", s.Name)+".headers", s.Headers)
}

// ProviderSecrets are the values that a provider is sent and that no answer may show.
func (c *Config) ProviderSecrets(p *Provider) []string {
	return append(c.secretsOf(join("providers", p.Name)+".headers", p.Headers), p.APIKey.Reveal())
}
