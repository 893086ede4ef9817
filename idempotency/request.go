// Package idempotency says when two requests are one: their canonical form, its fingerprint and the key they share.
package idempotency

import (
	"bytes"
	"strings"
)

// Request is what a key is made of. Nothing in it is kept or changed.
type Request struct {
	Env, Tenant, Workflow string // scope of the key, not part of the fingerprint (semantics 15)

	Owner  string              // owner key for cost and capacity
	Method string              // as called; empty for an MCP tool
	Path   string              // for the provider, as called: without the gateway's prefix, percent escapes and all
	Query  string              // raw, without the question mark
	Header map[string][]string // names as net/http spells them
	Body   []byte              // as received, before any content decoding
	API    API                 // which published list applies; empty: the one that Path names
}

// API names a request format that has a list of fields without meaning (see [Published]).
type API string

// The formats. A request of any other kind has API Other: everything in it counts.
const (
	Other     API = "other"
	Chat      API = "openai.chat"
	Responses API = "openai.responses"
	Messages  API = "anthropic.messages"
	Generate  API = "gemini.generate"
	Converse  API = "bedrock.converse"
	Ollama    API = "ollama.chat"
	Tool      API = "mcp.tool"    // the parameters of tools/call
	Message   API = "mcp.message" // the same in its JSON-RPC envelope
)

// APIOf returns the format of a provider's path. Suffixes, because base URLs have prefixes of their own
// (/openai/deployments/NAME, /api/v1, /v1/projects/…).
func APIOf(path string) API {
	for _, s := range suffixes {
		if strings.HasSuffix(path, s.suffix) {
			return s.api
		}
	}
	return Other
}

// api is the format of the request: the one it names, else that of its path and, for a tool, of its body.
func (r *Request) api(body []byte) API {
	api := r.API
	if api == "" {
		api = APIOf(r.Path)
	}
	if api == Tool && bytes.Contains(body, []byte(`"jsonrpc"`)) {
		return Message
	}
	return api
}

var suffixes = [...]struct {
	suffix string
	api    API
}{
	{"/chat/completions", Chat},
	{"/v1/responses", Responses},
	{"/openai/responses", Responses},
	{"/v1/messages", Messages},
	{"/v1/messages/count_tokens", Messages},
	{":generateContent", Generate},
	{":streamGenerateContent", Generate},
	{"/converse", Converse},
	{"/converse-stream", Converse},
	{"/api/chat", Ollama},
	{"tools/call", Tool},
}
