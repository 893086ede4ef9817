// Package provider knows the wire formats: which call a request is, what a stream's events mean, and what an
// error of ours must look like so that the official SDK raises it.
package provider

import (
	"mime"
	"strings"

	"github.com/holdfast-ai/holdfast/internal/provider/wire"
	"github.com/holdfast-ai/holdfast/internal/sse"
)

// The vocabulary is wire's, which the packages of the single APIs share.
type (
	Wire     = wire.Family
	Format   = wire.Format
	Call     = wire.Call
	Usage    = wire.Usage
	Progress = wire.Progress
	End      = wire.End
	Plain    = wire.Plain
)

// The wire formats.
const (
	OpenAI    = wire.OpenAI
	Anthropic = wire.Anthropic
	Gemini    = wire.Gemini
	Tool      = wire.Tool
)

// The framings of a body.
const (
	JSON      = wire.JSON
	SSE       = wire.SSE
	JSONArray = wire.JSONArray
	Opaque    = wire.Opaque
)

// How a stream can end.
const (
	Complete = wire.Complete
	Errored  = wire.Errored
	Cut      = wire.Cut
)

// ErrTooLarge is what Stream.Feed's error wraps if one event is larger than Limits.EventBytes.
var ErrTooLarge = sse.ErrTooLarge

// Stream reads one answer's stream. Feed never changes, keeps or reorders bytes; it may be called with any
// cut. After an error of Feed nothing more is learned from the stream, which may still be forwarded. Close is
// called at the end of the body and reports how it ended.
type Stream interface {
	Feed(p []byte) error
	Close() End
	Progress() *Progress
}

// FormatOf returns how an answer to call is framed, by its own content type: a provider that was asked for a
// stream may answer with a document, and a proxy with a page (BR-047).
func FormatOf(call *Call, contentType string) Format {
	kind, _, err := mime.ParseMediaType(contentType)
	if err != nil {
		kind, _, _ = strings.Cut(contentType, ";")
		kind = strings.ToLower(strings.TrimSpace(kind))
	}
	switch {
	case kind == "text/event-stream":
		return SSE
	case kind == "application/json" || strings.HasSuffix(kind, "+json"):
		if call.Format == JSONArray {
			return JSONArray
		}
		return JSON
	case kind == "" && call.Known:
		return call.Format
	}
	return Opaque
}
