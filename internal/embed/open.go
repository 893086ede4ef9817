package embed

import (
	"fmt"
	"net/http"
	"strings"

	"github.com/holdfast-ai/holdfast/internal/policy"
)

// Open makes the embedders of a configuration, by name; "" is the one of a semantic cache that names none. The error names the
// embedder that cannot be made; nothing is sent to an endpoint yet.
func Open(c *policy.Config) (map[string]Embedder, error) {
	out := map[string]Embedder{"": NGram{}}
	for i := range c.Embedders {
		e, err := open(c, &c.Embedders[i])
		if err != nil {
			return nil, fmt.Errorf("embedders.%s: %w", c.Embedders[i].Name, err)
		}
		out[c.Embedders[i].Name] = e
	}
	return out, nil
}

func open(c *policy.Config, e *policy.Embedder) (Embedder, error) {
	switch e.Type {
	case "ngram":
		return NGram{}, nil
	case "model2vec":
		return OpenModel(e.Path)
	}
	p := c.Provider(e.Provider)
	if p == nil {
		return nil, fmt.Errorf("there is no provider %q", e.Provider)
	}
	return NewEndpoint(EndpointConfig{Base: p.BaseURL, Gemini: p.Type == "gemini", Model: e.Model, Header: header(p), Timeout: e.Timeout}), nil
}

// header is what is sent to a provider beside a text: its further headers, and its key where its API, or its auth_header, has it.
func header(p *policy.Provider) http.Header {
	h := http.Header{}
	for _, f := range p.Headers {
		h.Set(f.Name, f.Value.Reveal())
	}
	key := p.APIKey.Reveal()
	switch {
	case key == "":
	case p.AuthHeader != "" && !strings.EqualFold(p.AuthHeader, "Authorization"):
		h.Set(p.AuthHeader, key)
	case p.AuthHeader == "" && p.Type == "gemini":
		h.Set("X-Goog-Api-Key", key)
	default:
		h.Set("Authorization", "Bearer "+key)
	}
	return h
}
