// Package wire is the vocabulary that the wire formats share.
package wire

// Family is the family of a wire format.
type Family string

// The families.
const (
	OpenAI    Family = "openai"
	Anthropic Family = "anthropic"
	Gemini    Family = "gemini"
	Tool      Family = "tool" // an HTTP tool of the user's own: any document, no grammar
)

// Format is how an answer's body is framed.
type Format uint8

// The formats.
const (
	JSON      Format = iota // one document
	SSE                     // text/event-stream
	JSONArray               // Gemini's streamGenerateContent without alt=sse
	Opaque                  // anything else, passed through
)

// String returns the format's name as the corpus spells it.
func (f Format) String() string {
	switch f {
	case JSON:
		return "json"
	case SSE:
		return "sse"
	case JSONArray:
		return "json_array"
	}
	return "opaque"
}

// The endpoints whose meaning is known (interface.md §2).
const (
	Chat             = "chat.completions"
	Responses        = "responses"
	ResponsesGet     = "responses.get"
	Embeddings       = "embeddings"
	Models           = "models"
	Messages         = "messages"
	CountTokens      = "count_tokens"
	Generate         = "generateContent"
	StreamGenerate   = "streamGenerateContent"
	Embed            = "embedContent"
	BatchEmbed       = "batchEmbedContents"
	GeminiCountToken = "countTokens"
)

// Call is what a request asks for, read from method, path, header and body.
type Call struct {
	Wire     Family
	Endpoint string // chat.completions, responses, embeddings, models, messages, count_tokens, generateContent, …; "" when unknown
	Path     string // path for the provider, without the prefix
	Model    string
	Stream   bool
	Format   Format // of a successful answer
	Read     bool   // GET, HEAD, count_tokens, models: no intent
	Known    bool   // false: pass-through path (interface.md §2)
	Acts     string // why the request makes the provider act (semantics 2), e.g. "tools[2].type=mcp"; "" if not
}

// Usage is what the provider reports, in tokens; -1 is unknown.
type Usage struct{ Input, Output, Cached, Reasoning int64 }

// NoUsage is a usage of which nothing is known.
func NoUsage() Usage { return Usage{-1, -1, -1, -1} }

// Known reports whether the provider gave any count.
func (u Usage) Known() bool { return u.Input >= 0 || u.Output >= 0 }

// Progress is what a stream has shown so far. Offsets are bytes of the stream, -1 until seen.
type Progress struct {
	Events       int   // complete events (array elements)
	FirstVisible int   // index of the first event with visible text, -1
	Boundary     int64 // start of the event with the first content of any kind (text, reasoning, tool call)
	// Completing is the start of the event that completes the answer (semantics 28): the finish chunk, the
	// message_delta with a stop reason, response.completed. Of a JSON array only the closing bracket tells which
	// element is the last, so there it moves on to the start of each element as it comes.
	Completing int64
	ErrorAt    int64 // start of the in-stream error event
	// Committed is where the stream may be cut or ended: after the last complete event (and the comments and blank
	// lines that followed it), the last element, or the array's closing bracket.
	Committed int64
	// Last is the start of the event that is the grammar's own end, or of the array's closing bracket, as long as no event
	// has followed it.
	Last        int64
	CRLF        bool   // the last complete event's lines end in CR LF
	Ended       bool   // the grammar's own end was seen
	Terminal    string // [DONE], message_stop, response.completed, finishReason, …
	Finish      string // last finish or stop reason
	ErrorType   string // most specific machine-readable code of the in-stream error
	ErrorData   []byte // the error event's data, its first 64 KiB
	ErrorNamed  bool   // its event: line says error
	ErrorBare   bool   // it is no event, but a line of JSON between events
	Closed      bool   // the array's closing bracket was seen
	Usage       Usage
	ToolStarted bool // an event named a tool call
	HostedTool  bool // a provider-hosted tool began to run
	ResponseID  string
	ServedModel string
}

// NewProgress is the progress of a stream of which nothing has come.
func NewProgress() Progress {
	return Progress{FirstVisible: -1, Boundary: -1, Completing: -1, ErrorAt: -1, Last: -1, Usage: NoUsage()}
}

// End is how a stream ended.
type End string

// The ends.
const (
	Complete End = "complete"
	Errored  End = "error" // the stream itself says so
	Cut      End = "cut"
)

// Plain is what an answer that is one document says.
type Plain struct {
	Complete    bool   // a whole answer of the API's kind
	Fault       Fault  // why not
	Finish      string // finish or stop reason, or status
	ErrorType   string // most specific machine-readable code, if the body is an error
	Usage       Usage
	ToolStarted bool // names a tool call
	HostedTool  bool // a provider-hosted tool ran
	ResponseID  string
	ServedModel string
}

// Fault is why a body is no answer.
type Fault string

// The faults.
const (
	NoFault   Fault = ""
	Empty     Fault = "empty"
	Truncated Fault = "truncated_json"
	NotJSON   Fault = "not_json" // HTML of a proxy or captive portal, plain text
	IsError   Fault = "error"    // an error object, under whatever status
)
