package provider

import (
	"net/http"
	"net/url"
	"strings"

	"github.com/holdfast-ai/holdfast/internal/provider/jsonview"
	"github.com/holdfast-ai/holdfast/internal/provider/wire"
)

// Request is what Parse looks at.
type Request struct {
	Method   string
	Path     string // without the provider's prefix, escaped or not
	RawQuery string
	Header   http.Header
	Body     []byte // decoded; nil if it is not read
	Wire     Wire   // of the provider that a prefix named; "" decides by header and path
}

// Parse says which call a request is. Of the body it reads single fields in one pass. Where a key occurs twice
// the last value counts, as it does for the providers, except for Acts: there any value that acts counts.
func Parse(r *Request) Call {
	c := Call{Wire: r.Wire, Path: r.Path, Format: Opaque}
	if c.Wire == "" {
		c.Wire = WireOf(r.Path, r.Header)
	}
	c.Read = r.Method == http.MethodGet || r.Method == http.MethodHead
	switch c.Wire {
	case Anthropic:
		c.Endpoint = anthropicEndpoint(r.Path, c.Read)
	case Gemini:
		c.Endpoint, c.Model = geminiEndpoint(r.Path, c.Read)
	default:
		c.Endpoint, c.Model = openaiEndpoint(r.Path, c.Read)
	}
	if c.Endpoint == "" || !c.Read && r.Method != http.MethodPost {
		c.Endpoint = ""
		return c
	}
	c.Known = true
	c.Read = c.Read || c.Endpoint == wire.CountTokens || c.Endpoint == wire.GeminiCountToken
	body := readBody(&c, r.Body)
	c.Stream = streams(&c, r.RawQuery, body)
	c.Format = formatOf(&c, r.RawQuery)
	return c
}

// WireOf is the routing of a path without a provider's prefix (interface.md §2).
func WireOf(path string, h http.Header) Wire {
	switch {
	case says(h["Anthropic-Version"]):
		return Anthropic
	case strings.HasPrefix(path, "/v1beta"), strings.HasPrefix(path, "/v1alpha"), strings.HasPrefix(path, "/upload/"),
		says(h["X-Goog-Api-Key"]):
		return Gemini
	}
	return OpenAI
}

// says is whether a header field has a first value, as http.Header.Get gives it.
func says(values []string) bool { return len(values) > 0 && values[0] != "" }

func streams(c *Call, query string, streamField bool) bool {
	switch c.Endpoint {
	case wire.StreamGenerate:
		return true
	case wire.Chat, wire.Responses, wire.Messages:
		return streamField
	case wire.ResponsesGet:
		return queryValue(query, "stream") == "true"
	}
	return false
}

func formatOf(c *Call, query string) Format {
	switch {
	case c.Endpoint == wire.StreamGenerate && queryValue(query, "alt") != "sse" && queryValue(query, "$alt") != "sse":
		return JSONArray
	case c.Stream:
		return SSE
	}
	return JSON
}

func queryValue(query, key string) string {
	if !strings.Contains(query, key) && !strings.Contains(query, "%") {
		return ""
	}
	v, _ := url.ParseQuery(query) // a broken pair is skipped
	return v.Get(key)
}

// openaiEndpoint knows the paths with or without version, and Azure's with a deployment, which is the model.
func openaiEndpoint(path string, read bool) (endpoint, model string) {
	rest := strings.Trim(path, "/")
	if after, ok := strings.CutPrefix(rest, "openai/"); ok {
		rest = after
	} else if after, ok := strings.CutPrefix(rest, "api/"); ok {
		rest = after
	}
	if after, ok := strings.CutPrefix(rest, "deployments/"); ok {
		model, rest, _ = strings.Cut(after, "/")
	}
	rest = trimVersion(rest)
	switch {
	case read && isOrUnder(rest, "models"):
		return wire.Models, ""
	case read && strings.HasPrefix(rest, "responses/") && strings.Count(rest, "/") == 1:
		return wire.ResponsesGet, ""
	case read:
		return "", ""
	}
	switch rest {
	case "chat/completions":
		return wire.Chat, model
	case "responses":
		return wire.Responses, model
	case "embeddings":
		return wire.Embeddings, model
	}
	return "", ""
}

func anthropicEndpoint(path string, read bool) string {
	rest := trimVersion(strings.Trim(path, "/"))
	switch {
	case read && isOrUnder(rest, "models"):
		return wire.Models
	case read:
		return ""
	case rest == "messages":
		return wire.Messages
	case rest == "messages/count_tokens":
		return wire.CountTokens
	}
	return ""
}

// geminiEndpoint reads …/{model}:{method}, of the Gemini API and of Vertex AI.
func geminiEndpoint(path string, read bool) (endpoint, model string) {
	rest := trimVersion(strings.Trim(path, "/"))
	if read {
		if isOrUnder(rest, "models") {
			return wire.Models, ""
		}
		return "", ""
	}
	if strings.Contains(rest, "%") {
		if plain, err := url.PathUnescape(rest); err == nil {
			rest = plain
		}
	}
	name, method, _ := strings.Cut(rest[strings.LastIndexByte(rest, '/')+1:], ":")
	switch method {
	case wire.Generate, wire.StreamGenerate, wire.Embed, wire.BatchEmbed, wire.GeminiCountToken:
		return method, name
	}
	return "", ""
}

func isOrUnder(path, root string) bool {
	after, ok := strings.CutPrefix(path, root)
	return ok && (after == "" || after[0] == '/')
}

// trimVersion drops a leading segment such as v1, v1beta or v4.
func trimVersion(path string) string {
	seg, rest, ok := strings.Cut(path, "/")
	if ok && len(seg) > 1 && seg[0] == 'v' && seg[1] >= '0' && seg[1] <= '9' {
		return rest
	}
	return path
}

// readBody reads what the body says of the call and returns its stream member.
func readBody(c *Call, body []byte) (stream bool) {
	for o := jsonview.Value(body).Object(); ; {
		key, val, ok := o.Next()
		if !ok {
			return stream
		}
		switch string(key) {
		case "model":
			if c.Wire != Gemini && val.IsString() {
				c.Model = val.String()
			}
		case "stream":
			stream = val.True()
		default:
			if c.Acts == "" && !c.Read {
				c.Acts = acts(string(key), val)
			}
		}
	}
}
