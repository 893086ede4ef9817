package provider

import (
	"bytes"
	"strconv"

	"github.com/holdfast-ai/holdfast/internal/provider/anthropic"
	"github.com/holdfast-ai/holdfast/internal/provider/gemini"
	"github.com/holdfast-ai/holdfast/internal/provider/jsonview"
	"github.com/holdfast-ai/holdfast/internal/provider/openai"
	"github.com/holdfast-ai/holdfast/internal/provider/wire"
)

// Why a body is no answer.
const (
	NoFault   = wire.NoFault
	Empty     = wire.Empty
	Truncated = wire.Truncated
	NotJSON   = wire.NotJSON
	IsError   = wire.IsError
)

// PlainAnswer reads an answer that is one document. Only a whole document of the API's kind under 2xx is
// Complete: neither an empty body, a truncated one, a page of HTML, nor an error object, whatever the status.
func PlainAnswer(call *Call, status int, contentType string, body []byte) Plain {
	p := Plain{Usage: wire.NoUsage()}
	text := bytes.TrimSpace(body) // DeepSeek sends empty lines while it waits
	switch {
	case len(text) == 0:
		p.Fault, p.ErrorType = Empty, httpCode("http_", status)
	case text[0] != '{' && text[0] != '[':
		p.Fault, p.ErrorType = NotJSON, httpCode("http_", status)
		if text[0] == '<' || FormatOf(call, contentType) == Opaque && bytes.Contains(text, []byte("<html")) {
			p.ErrorType = httpCode("html_", status)
		}
	case !jsonview.Complete(text):
		p.Fault, p.ErrorType = Truncated, string(Truncated)
	default:
		readDocument(call, status, text, &p)
	}
	if status/100 != 2 && p.Fault == NoFault {
		p.Fault, p.ErrorType = IsError, httpCode("http_", status)
	}
	p.Complete = p.Fault == NoFault
	return p
}

func httpCode(kind string, status int) string { return kind + strconv.Itoa(status) }

func readDocument(call *Call, status int, doc jsonview.Value, p *Plain) {
	switch call.Wire {
	case Anthropic:
		anthropic.Plain(doc, p)
	case Gemini:
		gemini.Plain(doc, p)
	default:
		openai.Plain(doc, p)
	}
	if p.Fault == IsError && p.ErrorType == wire.UnnamedError {
		p.ErrorType = httpCode("http_", status)
	}
}
