package provider

import (
	"bytes"
	"encoding/json"
	"net/http"

	"github.com/holdfast-ai/holdfast/internal/provider/jsonview"
	"github.com/holdfast-ai/holdfast/internal/provider/wire"
)

// Error is an error of Holdfast's own, to be told in the words of the API that was called.
type Error struct {
	Code      string            // of the table in interface.md §2, e.g. "outcome_unknown"
	Status    int               // HTTP status; in a stream the one it would have had
	Message   string            // what happened and what to do next, for a human
	Param     string            // the request's field at fault, if one is
	RequestID string            // the intent's id, where the envelope has a place for it
	Meta      map[string]string // further facts, e.g. a reason per tier
}

// Error implements error.
func (e *Error) Error() string { return e.Code + ": " + e.Message }

// ContentType is that of every Body.
const ContentType = "application/json"

// Body returns e in the envelope of call's API: OpenAI's error.code, Anthropic's error.type and Gemini's
// error.details[].reason is e.Code.
func (e *Error) Body(call *Call) []byte { return e.envelope(call.Wire) }

func (e *Error) envelope(w Wire) []byte {
	switch w {
	case Anthropic:
		return encode(struct {
			Type      string         `json:"type"`
			Error     anthropicError `json:"error"`
			RequestID string         `json:"request_id,omitempty"`
		}{"error", e.anthropic(), e.RequestID})
	case Gemini:
		return encode(struct {
			Error geminiError `json:"error"`
		}{e.gemini()})
	}
	return encode(struct {
		Error openaiError `json:"error"`
	}{e.openai()})
}

type openaiError struct {
	Message string            `json:"message"`
	Type    string            `json:"type"`
	Param   *string           `json:"param"`
	Code    string            `json:"code"`
	Meta    map[string]string `json:"metadata,omitempty"`
}

func (e *Error) openai() openaiError {
	return openaiError{e.Message, openaiType(e.Status), e.param(), e.Code, e.Meta}
}

func (e *Error) param() *string {
	if e.Param == "" {
		return nil
	}
	return &e.Param
}

func openaiType(status int) string {
	switch {
	case status == http.StatusUnauthorized:
		return "authentication_error"
	case status == http.StatusForbidden:
		return "permission_error"
	case status == http.StatusTooManyRequests:
		return "rate_limit_error"
	case status >= 500:
		return "server_error"
	}
	return "invalid_request_error"
}

type anthropicError struct {
	Type    string            `json:"type"`
	Message string            `json:"message"`
	Meta    map[string]string `json:"metadata,omitempty"`
}

func (e *Error) anthropic() anthropicError { return anthropicError{e.Code, e.Message, e.Meta} }

type geminiError struct {
	Code    int         `json:"code"`
	Message string      `json:"message"`
	Status  string      `json:"status"`
	Details []errorInfo `json:"details"`
}

// errorInfo is google.rpc.ErrorInfo.
type errorInfo struct {
	Type   string            `json:"@type"`
	Reason string            `json:"reason"`
	Domain string            `json:"domain"`
	Meta   map[string]string `json:"metadata,omitempty"`
}

func (e *Error) gemini() geminiError {
	return geminiError{e.Status, e.Message, googleStatus(e.Status), []errorInfo{{
		Type: "type.googleapis.com/google.rpc.ErrorInfo", Reason: e.Code, Domain: "holdfast", Meta: e.Meta,
	}}}
}

// googleStatus is the name in google/rpc/code.proto that maps to an HTTP status.
func googleStatus(status int) string {
	switch status {
	case http.StatusUnauthorized:
		return "UNAUTHENTICATED"
	case http.StatusForbidden:
		return "PERMISSION_DENIED"
	case http.StatusNotFound:
		return "NOT_FOUND"
	case http.StatusConflict:
		return "ABORTED"
	case http.StatusUnprocessableEntity:
		return "FAILED_PRECONDITION"
	case http.StatusTooManyRequests:
		return "RESOURCE_EXHAUSTED"
	case http.StatusInternalServerError:
		return "INTERNAL"
	case http.StatusBadGateway, http.StatusServiceUnavailable:
		return "UNAVAILABLE"
	case http.StatusGatewayTimeout:
		return "DEADLINE_EXCEEDED"
	}
	if status >= 500 {
		return "INTERNAL"
	}
	return "INVALID_ARGUMENT"
}

// encode marshals a struct of strings, numbers and maps, which cannot fail.
func encode(v any) []byte {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	_ = enc.Encode(v)
	return bytes.TrimSuffix(b.Bytes(), []byte("\n"))
}

// InStream returns the bytes that end a stream with e so that official SDKs raise (semantics 24). They belong
// directly after the at.Committed-th byte of the answer: p is the progress of what the client has been sent,
// nil if that is nothing.
func (e *Error) InStream(call *Call, format Format, p *Progress) []byte {
	if p == nil {
		start := wire.NewProgress()
		p = &start
	}
	if format == JSONArray {
		return e.lastElement(p)
	}
	eol := "\n"
	if p.CRLF {
		eol = "\r\n"
	}
	switch {
	case call.Wire == Anthropic:
		return sseEvent("error", e.envelope(Anthropic), eol)
	case call.Wire == Gemini:
		// The bare copy has no line end: clients that ignore the event read it as the stream's unfinished rest. The
		// line ends are the stream's: genai-go looks for LF LF first, over all the events that it has buffered.
		body := e.envelope(Gemini)
		return append(sseEvent("", body, eol), body...)
	case call.Endpoint == wire.Responses || call.Endpoint == wire.ResponsesGet:
		return sseEvent("error", e.responsesEvent(p.Events), eol)
	}
	return sseEvent("", e.envelope(OpenAI), eol)
}

// Overlooked reports whether the error that a stream brought itself has a form that some official client takes for
// one more event or for a silent end: then the same error must follow in the form of InStream, so that each client
// raises (semantics 24, measured with the clients of test/sdk).
func Overlooked(call *Call, format Format, p *Progress) bool {
	data := jsonview.Of(p.ErrorData)
	switch {
	case format != SSE || p.ErrorAt < 0:
		return false
	case call.Wire == Gemini: // the bare form by Vercel's, the event by older genai-go
		return true
	case p.ErrorBare: // a line without a field's name, by all
		return true
	case call.Wire == Anthropic: // without the event: line by all but Vercel's
		return !p.ErrorNamed
	case call.Endpoint == wire.Responses || call.Endpoint == wire.ResponsesGet: // flat fields and response.failed
		return !data.Get("error").IsObject()
	}
	return data.Get("choices").Set() || !data.Get("error").Filled() // beside choices by Vercel's, flat by OpenAI's own
}

func sseEvent(name string, data []byte, eol string) []byte {
	b := make([]byte, 0, 2*len(data)+64)
	if name != "" {
		b = append(append(append(b, "event: "...), name...), eol...)
	}
	b = append(append(b, "data: "...), data...)
	return append(append(b, eol...), eol...)
}

// responsesEvent is the nested form, which all clients raise, with the real API's flat fields beside it.
func (e *Error) responsesEvent(sequence int) []byte {
	return encode(struct {
		Type     string      `json:"type"`
		Sequence int         `json:"sequence_number"`
		Code     string      `json:"code"`
		Message  string      `json:"message"`
		Param    *string     `json:"param"`
		Error    openaiError `json:"error"`
	}{"error", sequence, e.Code, e.Message, e.param(), e.openai()})
}

// lastElement closes the array as Google does: with the error as its last element.
func (e *Error) lastElement(p *Progress) []byte {
	open := ","
	if p.Events == 0 {
		open = "["
	}
	return append(append([]byte(open+"\r\n"), e.envelope(Gemini)...), "\r\n]"...)
}

// EndOf returns what a stream whose answer is complete still lacks of its API's own end, for clients that wait for one; p is its progress.
func EndOf(call *Call, format Format, p *Progress) []byte {
	eol := "\n"
	if p.CRLF {
		eol = "\r\n"
	}
	switch {
	case format == JSONArray && !p.Closed:
		return []byte("\r\n]")
	case format != SSE || p.Ended:
		return nil
	case call.Endpoint == wire.Chat:
		return sseEvent("", []byte("[DONE]"), eol)
	case call.Endpoint == wire.Messages:
		return sseEvent("message_stop", []byte(`{"type":"message_stop"}`), eol)
	}
	return nil // Responses end with the event that completes them, generations with the finish reason
}

// KeepAlive returns the bytes that bridge a wait before the answer's first byte without a client noticing
// (semantics 23, in the form that each client survives), nil where there are none.
func KeepAlive(call *Call, format Format) []byte {
	switch {
	case format == JSONArray:
		return []byte("\r\n")
	case format != SSE:
		return nil
	case call.Wire == Anthropic:
		return []byte("event: ping\ndata: {\"type\": \"ping\"}\n\n")
	case call.Wire == Gemini:
		return []byte("\n\n")
	}
	return []byte(": keep-alive\n\n")
}
