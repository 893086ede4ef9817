package policy

import (
	"strings"
	"testing"
)

// TestHidden holds which values no answer may show: those of fields named like credentials, however they are written.
func TestHidden(t *testing.T) {
	c, faults := Parse("holdfast.yaml", []byte(`
providers:
  openai: {api_key: "${KEY}", headers: {OpenAI-Organization: "${ORG}", X-Proxy-Token: "literal-4711-abcdef"}}
tools:
  shop:
    base_url: https://shop.test
    headers: {X-Deploy: "${DEPLOY}", X-Auth-Type: completed, X-Session-Span: "86400000", Cookie: "sid=${KEY}; lang=en", X-Api-Key: "${KEY}"}
mcp:
  servers:
    notes: {url: "https://notes.test/mcp", headers: {Authorization: "Bearer ${KEY}", X-Team: "${ORG}"}}
    files: {command: [files], env: {GITHUB_TOKEN: "${KEY}", DATABASE_URL: "postgres://app:${KEY}@db/x", REGION: "${ORG}", API_KEY_FILE: /run/secrets/key-4711, TOKEN_URL: "https://auth.test/v1/x4711", PIN_SECRET: "4711"}}
`), func(name string) (string, bool) {
		return map[string]string{"KEY": "sk-4711-abcdef-4711", "ORG": "org-4711-abcdef", "DEPLOY": "production"}[name], true
	})
	if Refused(faults) {
		t.Fatal(lines(faults))
	}
	var warned []string
	for _, f := range faults {
		if strings.Contains(f.What, "not masked") {
			warned = append(warned, f.Path)
		}
	}
	if got, want := strings.Join(warned, " "), "tools.shop.headers.X-Auth-Type tools.shop.headers.X-Session-Span mcp.servers.files.env.PIN_SECRET"; got != want {
		t.Errorf("warned of %s, want %s", got, want)
	}
	names := func(fields int, of func(int) string) string {
		var all []string
		for i := range fields {
			all = append(all, of(i))
		}
		return strings.Join(all, " ")
	}
	openai, shop := c.Provider("openai").Hidden(), c.Tools[0].Hidden()
	notes, files := c.MCP.Servers[0].Hidden(), c.MCP.Servers[1].Hidden()
	for got, want := range map[string]string{
		names(len(openai), func(i int) string { return openai[i].Name }): "X-Proxy-Token api_key",
		names(len(shop), func(i int) string { return shop[i].Name }):     "X-Auth-Type X-Session-Span Cookie X-Api-Key",
		names(len(notes), func(i int) string { return notes[i].Name }):   "Authorization",
		names(len(files), func(i int) string { return files[i].Name }):   "GITHUB_TOKEN DATABASE_URL PIN_SECRET",
	} {
		if got != want {
			t.Errorf("hidden are %s, want %s", got, want)
		}
	}
}
