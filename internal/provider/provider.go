// Package provider knows the wire formats: which call a request is, what a stream's events mean, and what an
// error of ours must look like so that the official SDK raises it.
package provider

// Wire is the family of a wire format.
type Wire string

const (
	OpenAI    Wire = "openai"
	Anthropic Wire = "anthropic"
	Gemini    Wire = "gemini"
)

// Format is how an answer's body is framed.
type Format uint8

const (
	JSON      Format = iota // one document
	SSE                     // text/event-stream
	JSONArray               // Gemini's streamGenerateContent without alt=sse
	Opaque                  // anything else, passed through
)

// Call is what a request asks for, read from method, path, header and body.
type Call struct {
	Wire     Wire
	Endpoint string // chat.completions, responses, embeddings, models, messages, count_tokens, generateContent, …; "" when unknown
	Path     string // path for the provider, without the prefix
	Model    string
	Stream   bool
	Format   Format // of a successful answer
	Read     bool   // GET, count_tokens, models: no intent
	Known    bool   // false: pass-through path (interface.md §2)
	Acts     string // why the request makes the provider act (semantics 2), e.g. "tools[2].type=mcp"; "" if not
}

// Usage is what the provider reports, in tokens; -1 is unknown.
type Usage struct{ Input, Output, Cached, Reasoning int64 }

// Progress is what a stream has shown so far. Offsets are bytes of the stream, -1 until seen.
type Progress struct {
	Events       int    // complete events (array elements)
	FirstVisible int    // index of the first event with visible text, -1
	Boundary     int64  // start of the event with the first content of any kind (text, reasoning, tool call)
	Completing   int64  // start of the event that completes the answer (semantics 28)
	ErrorAt      int64  // start of the in-stream error event
	Committed    int64  // end of the last complete event
	Ended        bool   // the grammar's own end was seen
	Terminal     string // [DONE], message_stop, response.completed, finishReason, …
	Finish       string // last finish or stop reason
	ErrorType    string // most specific machine-readable code of the in-stream error
	ErrorData    []byte // the error event's data
	Usage        Usage
	ToolStarted  bool // an event named a tool call
	HostedTool   bool // a provider-hosted tool began to run
	ResponseID   string
	ServedModel  string
}

// Stream reads one answer's stream. Feed never changes, keeps or reorders bytes; it may be called with any
// cut. Close is called at the end of the body and reports how it ended.
type Stream interface {
	Feed(p []byte) error
	Close() End
	Progress() *Progress
}

// End is how a stream ended.
type End string

const (
	Complete End = "complete"
	Errored  End = "error" // the stream itself says so
	Cut      End = "cut"
)
