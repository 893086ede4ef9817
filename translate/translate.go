// Package translate says one provider's call in another provider's words.
//
// A request of one API becomes a request of another; the answer, plain or streamed, and the errors come back in the shape
// that the client asked for. All of it is a pure function of the bytes and the [Options]: no network, no clock but Options.Now.
//
// What the far side cannot be told is a [*Mismatch] that names the field and the rule; it is never left out in silence, and a
// field that is not known here is a mismatch too. The fields that may be left out are few, say nothing about the answer, and are
// reported in [Call.Dropped]:
//
//   - hints to a provider's prompt cache: prompt_cache_key, prompt_cache_retention, prompt_cache_options, prompt_cache_breakpoint
//     (OpenAI), cache_control (Anthropic). Each provider caches prefixes by its own means; the text is the same.
//   - metadata of OpenAI without store: it is kept with a stored completion only.
//   - user and safety_identifier of OpenAI, metadata.user_id of Anthropic, where the far side is Gemini: they tell two end users
//     apart for the provider's misuse reports, and generateContent has no such field.
//   - stream_options.include_obfuscation (OpenAI) and eager_input_streaming (Anthropic): the size and pace of a stream's events.
//   - service_tier of auto, default and standard_only, speed of standard: the ordinary way to be served.
//   - the name of a JSON schema: a label for the provider's own errors.
//   - the name of a document, where it is the only one and the far side is Gemini, which takes none.
//
// Two things an answer cannot say: an Anthropic client's stop sequence ends it with end_turn, as the other APIs do not tell which
// sequence it was; and it holds no thinking, which is signed by its provider. Whether the client's next request may go back to
// its own provider is not touched by that.
//
// What the rules rest on is said beside them: the reference pages of the three APIs and the official Go clients openai-go 3.99,
// anthropic-sdk-go 2.15 and go-genai 1.77.
package translate

import (
	"errors"
	"fmt"
	"net/url"
	"strings"
	"time"
)

// API is a wire format.
type API string

// The APIs that calls are translated between.
const (
	OpenAIChat        API = "openai.chat"
	AnthropicMessages API = "anthropic.messages"
	GeminiGenerate    API = "gemini.generate_content"
)

var (
	// ErrMismatch is what every [*Mismatch] is: the far side cannot be told, or did not say, what the client means.
	ErrMismatch = errors.New("contract mismatch")
	// ErrMalformed says that a document is not what its API defines, so that its meaning is unknown.
	ErrMalformed = errors.New("malformed document")
	// ErrDirection says that no translation exists between these two APIs (see [Can]).
	ErrDirection = errors.New("no translation between these APIs")
	// ErrCut says that a stream ended before the far side had finished its answer.
	ErrCut = errors.New("the stream ended before the answer did")
)

// Mismatch says which field cannot be translated, and why. It is [ErrMismatch].
type Mismatch struct {
	From, To API
	Field    string // path in the document that was to be translated, as messages[2].content[0].type
	Rule     string // why; one clause, without a full stop
}

func (m *Mismatch) Error() string {
	return fmt.Sprintf("%v: %s cannot go from %s to %s: %s; do without it, or name a tier of the client's own API", ErrMismatch, m.Field, m.From, m.To, m.Rule)
}

// Unwrap is ErrMismatch.
func (m *Mismatch) Unwrap() error { return ErrMismatch }

// DefaultMaxTokens is the max_tokens of a request to Anthropic, where the field is required, if neither the client nor
// Options.MaxTokens says one. Above 21,333 Anthropic's own clients insist on a stream.
const DefaultMaxTokens = 16384

// Options is what a translation must know beside the request.
type Options struct {
	// Model is the far side's name of the model, as its API takes it. Required.
	Model string
	// PublicName is the provider's public name of that model where Model is a name of one's own. What is known of models
	// (sampling, schemas, effort) goes by it; for a model that it does not know, the careful answer holds.
	PublicName string
	// MaxTokens is the output limit where the client sets none; 0 is DefaultMaxTokens for Anthropic and the model's own elsewhere.
	MaxTokens int64
	// OldMaxTokens writes max_tokens instead of max_completion_tokens, for servers that speak an older OpenAI shape. OpenAI's
	// reasoning models refuse it, wherever they are served.
	OldMaxTokens bool
	// Now stamps answers whose far side gives no time; nil is time.Now.
	Now func() time.Time
	// Seed makes the ids unique that are invented where the far side gives none, such as the calls of Gemini. It should
	// differ between any two answers: an intent's id and the attempt.
	Seed string
	// EventBytes bounds one event of a stream; 0 is 16 MiB.
	EventBytes int
}

func (o *Options) publicName() string {
	if o.PublicName != "" {
		return o.PublicName
	}
	return o.Model
}

func (o *Options) created() int64 {
	if o.Now != nil {
		return o.Now().Unix()
	}
	return time.Now().Unix()
}

// Can reports whether requests of from can be translated to to.
func Can(from, to API) bool {
	switch from {
	case OpenAIChat:
		return to == AnthropicMessages || to == GeminiGenerate
	case AnthropicMessages:
		return to == OpenAIChat || to == GeminiGenerate
	}
	return false
}

// Call is a translated request with what its answer's way back needs. It never changes: its methods may be called at once
// and as often as wanted.
type Call struct {
	From, To API
	// Body is the request in the far side's words.
	Body []byte
	// Path is where the far side's own host takes it, with the query.
	Path string
	// Stream says whether the client asked for a stream, and so the far side is asked for one.
	Stream bool
	// Dropped names the fields that were left out because they say nothing about the answer (see the package's comment), as
	// messages[].content[].cache_control.
	Dropped []string

	opts  Options
	usage bool // the client's stream wants its usage
}

// Request translates the body of a request. Its error is a [*Mismatch], or wraps ErrMalformed or ErrDirection.
func Request(from, to API, body []byte, opts Options) (*Call, error) {
	if !Can(from, to) {
		return nil, fmt.Errorf("%w: %s to %s", ErrDirection, from, to)
	}
	if opts.Model == "" {
		return nil, errors.New("translate: Options.Model is empty: name the far side's model")
	}
	v := parse(body)
	if !v.is('{') {
		return nil, fmt.Errorf("%w: the request is not a JSON object in UTF-8", ErrMalformed)
	}
	j := &job{from: from, to: to, opts: opts}
	c := j.read(v)
	if j.err == nil {
		j.check(c)
	}
	if j.err != nil {
		return nil, j.err
	}
	out := j.write(c)
	if j.err != nil {
		return nil, j.err
	}
	return &Call{From: from, To: to, Body: out.bytes(), Path: path(to, opts.Model, c.stream), Stream: c.stream,
		Dropped: j.dropped, opts: opts, usage: c.usage}, nil
}

func path(to API, model string, stream bool) string {
	switch to {
	case OpenAIChat:
		return "/v1/chat/completions"
	case AnthropicMessages:
		return "/v1/messages"
	}
	method := ":generateContent"
	if stream {
		method = ":streamGenerateContent?alt=sse"
	}
	return "/v1beta/models/" + url.PathEscape(strings.TrimPrefix(model, "models/")) + method
}

func (j *job) read(v value) *conversation {
	if j.from == OpenAIChat {
		return j.readOpenAI(v)
	}
	return j.readAnthropic(v)
}

func (j *job) write(c *conversation) doc {
	switch j.to {
	case OpenAIChat:
		return j.writeOpenAI(c)
	case AnthropicMessages:
		return j.writeAnthropic(c)
	}
	return j.writeGemini(c)
}
