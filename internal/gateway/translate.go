package gateway

import (
	"cmp"
	"crypto/rand"
	"encoding/json"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/holdfast-ai/holdfast/fallback"
	"github.com/holdfast-ai/holdfast/internal/mutant"
	"github.com/holdfast-ai/holdfast/internal/policy"
	"github.com/holdfast-ai/holdfast/internal/provider"
	"github.com/holdfast-ai/holdfast/internal/provider/wire"
	"github.com/holdfast-ai/holdfast/ledger"
	"github.com/holdfast-ai/holdfast/translate"
)

// A tier may speak another wire format than its client. Then the request is translated before it is sent and the answer before
// anything else reads it: what is recorded, replayed and resumed is in the client's words. What the answer means for the operation
// (its verdict, its wait, its tokens) is read in the tier's own.

// translation is a call in the words of the provider that answers it.
type translation struct {
	*translate.Call
	spec provider.Call // as that provider reads it
}

// clientAPIs are the endpoints whose calls can be told to another API.
var clientAPIs = map[string]translate.API{wire.Chat: translate.OpenAIChat, wire.Messages: translate.AnthropicMessages}

// farAPIs are what providers of each type are asked by.
var farAPIs = map[provider.Wire]translate.API{provider.OpenAI: translate.OpenAIChat, provider.Anthropic: translate.AnthropicMessages,
	provider.Gemini: translate.GeminiGenerate}

// translates reports whether calls of an endpoint can be told to a provider of a type, as far as that goes by the APIs alone.
func translates(endpoint string, to provider.Wire) bool {
	return translate.Can(clientAPIs[endpoint], farAPIs[to])
}

// endpointAt is the endpoint at which a provider of a type takes a call of another's, for the name of its route: calls that are
// translated share the route, and so its cool-downs and its breaker, with those that are not.
func endpointAt(endpoint string, to provider.Wire, stream bool) string {
	switch {
	case !translates(endpoint, to):
		return endpoint
	case to == provider.OpenAI:
		return wire.Chat
	case to == provider.Anthropic:
		return wire.Messages
	case stream:
		return wire.StreamGenerate
	}
	return wire.Generate
}

// told is a request of endpoint in the words of provider p. The error says by field and rule what cannot be told.
func told(endpoint string, p *policy.Provider, model string, body []byte, limits *policy.Limits) (*translation, error) {
	to := provider.Wire(p.Type)
	if !translates(endpoint, to) {
		return nil, &translate.Mismatch{From: translate.API(cmp.Or(endpoint, "an unknown path")), To: farAPIs[to], Field: "the call",
			Rule: "only chat completions and messages are translated"}
	}
	call, err := translate.Request(clientAPIs[endpoint], farAPIs[to], body, translate.Options{Model: model, OldMaxTokens: !ofOpenAI(p.BaseURL),
		Seed: rand.Text(), EventBytes: int(limits.EventBytes)})
	if err != nil {
		return nil, err
	}
	t := &translation{Call: call}
	path, query := t.address()
	t.spec = provider.Parse(&provider.Request{Method: http.MethodPost, Path: path, RawQuery: query, Body: call.Body, Wire: to})
	return t, nil
}

// ofOpenAI says that max_completion_tokens is known at an address: it is OpenAI's own or Azure's. Other servers of that shape may know
// max_tokens alone, and those that know both take either.
func ofOpenAI(base string) bool {
	u, err := url.Parse(base)
	if err != nil {
		return false
	}
	host := "." + u.Hostname()
	return strings.HasSuffix(host, ".openai.com") || strings.HasSuffix(host, ".azure.com")
}

// address is where the provider takes the call.
func (t *translation) address() (path, query string) {
	path, query, _ = strings.Cut(t.Path, "?")
	return path, query
}

// anthropicVersion is the version of the API that package translate writes.
const anthropicVersion = "2023-06-01"

// passedOn are the only headers of a client that another provider is sent: all else is said to the client's own, its credential first.
var passedOn = []string{"User-Agent", "Traceparent", "Tracestate", "Baggage"}

// accountHeaders say to whom at the client's own provider a call belongs: another one of the same format does not know them, and
// refuses the call for them or learns what is none of its business.
var accountHeaders = []string{"Openai-Organization", "Openai-Project", "X-Goog-User-Project"}

// header begins the header of the request, from the client's.
func (t *translation) header(from http.Header) http.Header {
	h := make(http.Header, 8)
	for _, name := range passedOn {
		if v := from[name]; v != nil {
			h[name] = v
		}
	}
	if mutant.On("translated-with-credential") {
		for _, name := range credentialHeaders {
			h[name] = from[name]
		}
	}
	set(h, "Content-Type", "application/json")
	set(h, "Accept", "application/json")
	if t.Stream {
		set(h, "Accept", "text/event-stream")
	}
	if t.To == translate.AnthropicMessages {
		set(h, "Anthropic-Version", anthropicVersion)
	}
	return h
}

// keptBehind are the only headers of another provider's answer that a client is told, under its own API's names.
var keptBehind = []string{"Date", "Retry-After", "Retry-After-Ms"}

// heard is the header of an answer for the client. Its body is another, so that nothing is left which describes the old one.
func (t *translation) heard(from http.Header, contentType string) http.Header {
	h := make(http.Header, 5)
	for _, name := range keptBehind {
		if v := from[name]; v != nil {
			h[name] = v
		}
	}
	id := "X-Request-Id"
	if t.From == translate.AnthropicMessages {
		id = "Request-Id"
	}
	if v := cmp.Or(first(from["X-Request-Id"]), first(from["Request-Id"])); v != "" {
		set(h, id, v)
	}
	set(h, "Content-Type", contentType)
	return h
}

// refusal is a provider's own error as its client's API has it.
func (t *translation) refusal(status int, body []byte) (int, []byte) {
	f := t.Fault(status, body)
	return f.Status, t.ErrorBody(f)
}

// betas are headers that switch parts of the client's own API on. What those parts say stands in the body, where an unknown field is a
// mismatch.
var betas = []string{"Anthropic-Beta", "Openai-Beta"}

// sayLeftOut puts on record, once, the fields of the request that say nothing to the tier that it is at.
func (e *execution) sayLeftOut() {
	l := e.course.leg()
	if l.crosses == nil || l.said {
		return
	}
	l.said = true
	left := slices.Clone(l.crosses.Dropped)
	for _, name := range betas {
		if e.course.asked.header[name] != nil {
			left = append(left, "header "+name)
		}
	}
	if len(left) == 0 {
		return
	}
	said, err := json.Marshal(map[string][]string{"left_out": left})
	if err != nil { // words
		return
	}
	e.op.Note(ledger.Event{Kind: "note", Reason: "told to " + l.name + " without what says nothing there: " + strings.Join(left, ", "),
		Rule: "tiers.provider", Evidence: said})
}

// unsaid is a tier that a request cannot be told to.
func unsaid(err error) *fallback.Lack {
	return &fallback.Lack{Rule: "tiers.provider", Reason: "the request cannot be said in its format: " + err.Error()}
}
