package sdk

import (
	"context"
	"net/http"
	"testing"
)

// call is what a test asks of a client: a prompt and the headers that go with it.
type call struct {
	op     string            // counted by the simulator
	prompt string            // made another question for each operation
	script string            // how the simulator answers, docs/sim.md
	header map[string]string // set through the client's own means
	tool   bool              // the weather tool is offered
	again  bool              // a client that retries only if told to is told to
}

// headers are all headers of the call.
func (c call) headers() map[string]string {
	h := map[string]string{"Sim-Op": c.op}
	if c.script != "" {
		h["Sim-Script"] = c.script
	}
	for k, v := range c.header {
		h[k] = v
	}
	return h
}

// answer is what the client handed out; after an error, what it had handed out by then.
type answer struct {
	text string
	call *toolCall
}

type toolCall struct{ name, args string }

// failure is an error as the client shows it.
type failure struct {
	typed  bool   // of the client's own API error type
	status int    // 0: not known to it
	code   string // the gateway's or the provider's code
}

// client is one API of one official SDK.
type client struct {
	name   string
	wire   string // as in the corpus: chat.completions, responses, messages, streamGenerateContent
	retry  bool   // retries 408, 409, 429 and 5xx twice unless told not to (sdk-facts.md, read in its source)
	rebody bool   // retries a plain body that was cut, too
	plain  func(context.Context, call) (answer, error)
	stream func(context.Context, call) (answer, error)
	fault  func(error) failure
	// Events of the simulator's streams: so many come before the first content, and a tool's arguments are
	// under way after so many.
	lead, inTool int
}

const (
	toolName = "get_weather"
	toolArgs = `{"city":"Zürich \"Altstadt\"","days":3,"units":{"temperature":"C"}}`
)

// toolSchema is the schema of the weather tool's arguments, made anew as some clients write into it.
func toolSchema() map[string]any {
	return map[string]any{
		"city":  map[string]any{"type": "string"},
		"days":  map[string]any{"type": "integer"},
		"units": map[string]any{"type": "object", "properties": map[string]any{"temperature": map[string]any{"type": "string"}}},
	}
}

// httpClient is shared by every client, as in a program. Its transport is Go's default one, watched.
func httpClient() *http.Client { return &http.Client{Transport: recorder{http.DefaultTransport}} }

// clients are all APIs of all SDKs, pointed at base.
func clients(base string) []client {
	chat, responses := openaiClients(base)
	return []client{chat, responses, anthropicClient(base), geminiClient(base)}
}

// each runs f for every API of every SDK.
func each(t *testing.T, f func(*testing.T, client)) {
	t.Helper()
	eachOf(t, clients(theRig.url), f)
}

func eachOf(t *testing.T, list []client, f func(*testing.T, client)) {
	t.Helper()
	for _, c := range list {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			f(t, c)
		})
	}
}

// ask makes a plain or a streamed call and records its exchanges.
func (c client) ask(ctx context.Context, streamed bool, in call) (answer, *tape, error) {
	return c.askOn(ctx, &tape{}, streamed, in)
}

func (c client) askOn(ctx context.Context, t *tape, streamed bool, in call) (answer, *tape, error) {
	in.prompt += " (" + in.op + ")" // else a lost answer of one test would be another's
	do := c.plain
	if streamed {
		do = c.stream
	}
	out, err := do(withTape(ctx, t), in)
	return out, t, err
}

// both runs f for the plain and the streamed form.
func both(t *testing.T, f func(t *testing.T, streamed bool)) {
	t.Helper()
	for name, streamed := range map[string]bool{"plain": false, "stream": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f(t, streamed)
		})
	}
}
