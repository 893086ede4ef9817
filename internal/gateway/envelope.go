package gateway

import (
	"encoding/json"
	"net/http"
	"strconv"

	"github.com/tidwall/gjson"

	"github.com/holdfast-ai/holdfast/internal/provider"
	"github.com/holdfast-ai/holdfast/ledger"
)

// refuse answers with an error of the gateway's own, in the envelope of the API that was called, so that SDKs
// raise their usual types (interface.md §2).
func (c *call) refuse(e *Error) {
	c.code = e.Code
	c.done = true
	if c.target != nil && c.spec.Wire == "" {
		c.spec.Wire = c.target.wire
	}
	if c.bridging {
		c.lateError(e)
		return
	}
	h := c.w.Header()
	e.headers(h, c.effect)
	if c.exec != nil && c.exec.opID() != "" { // of an execution that never began there is nothing to say
		c.operation(h)
	} else if c.exec != nil {
		c.exec.tiered(h)
	} else if c.earlier != nil {
		c.earlier.replayed(h)
	}
	if e.Code == CodeAllTiersFailed {
		delete(h, "Holdfast-Served-Model")
	}
	body := c.errorBody(e)
	set(h, "Content-Type", provider.ContentType)
	set(h, "Content-Length", strconv.Itoa(len(body)))
	c.status = e.Status()
	c.w.WriteHeader(c.status)
	_, err := c.w.Write(body)
	c.whole = err == nil
	if e.Err != nil {
		c.g.logger.Warn("request refused", "code", string(e.Code), "intent", e.Intent, "workflow", c.workflow(), "error", e.Err)
	}
}

// errorBody is e in the envelope of the API that was called.
func (c *call) errorBody(e *Error) []byte {
	if c.spec.Wire == provider.Tool {
		return e.plainBody(c.effect)
	}
	return e.envelope().Body(&c.spec)
}

// toolError is the envelope of a tool's errors, which no SDK reads: what the headers say, in words a program and a model
// can go by.
type toolError struct {
	Code         Code   `json:"code"`
	Message      string `json:"message"`
	SafeToRetry  string `json:"safe_to_retry"`
	RetryAfterMS int64  `json:"retry_after_ms,omitempty"`
	Intent       string `json:"intent,omitempty"`
}

func (e *Error) plainBody(effect ledger.Effect) []byte {
	c := classes[e.Code]
	body, err := json.Marshal(map[string]toolError{"error": {Code: e.Code, Message: e.envelope().Message, SafeToRetry: e.safe(c, effect),
		RetryAfterMS: e.Wait.Milliseconds(), Intent: e.Intent}})
	if err != nil { // strings and a number
		panic(err)
	}
	return body
}

func (e *Error) envelope() *provider.Error {
	return &provider.Error{Code: string(e.Code), Status: e.Status(), Message: "holdfast: " + e.Message, RequestID: e.Intent}
}

func (c *call) workflow() string {
	if c.wf == nil {
		return ""
	}
	return c.wf.Name
}

// streamError is fail as the last bytes of a stream that clients have seen a part of.
func (e *execution) streamError(fail *Error, format provider.Format, p *provider.Progress) []byte {
	shown := *p
	if format == provider.JSONArray && p.Completing >= 0 && e.rec.visibleTo() <= p.Completing {
		shown.Events-- // the last element is held back: it is not in front of the error
	}
	return fail.envelope().InStream(&e.spec, format, &shown)
}

// statusOf are the statuses that error types stand for where an error comes under a 200 (Anthropic's and
// Google's error pages, OpenAI's error codes).
var statusOf = map[string]int{
	"invalid_request_error": 400, "authentication_error": 401, "billing_error": 402, "permission_error": 403,
	"not_found_error": 404, "conflict_error": 409, "request_too_large": 413, "rate_limit_error": 429, "api_error": 500,
	"timeout_error": 504, "overloaded_error": 529,
	"rate_limit_exceeded": 429, "insufficient_quota": 429, "slow_down": 429, "tokens": 429, "requests": 429,
	"server_is_overloaded": 503, "service_unavailable_error": 503, "server_error": 500, "invalid_prompt": 400,
	"context_length_exceeded": 400, "content_filter": 400,
	"INVALID_ARGUMENT": 400, "FAILED_PRECONDITION": 400, "UNAUTHENTICATED": 401, "PERMISSION_DENIED": 403, "NOT_FOUND": 404,
	"ABORTED": 409, "RESOURCE_EXHAUSTED": 429, "CANCELLED": 499, "INTERNAL": 500, "UNKNOWN": 500, "UNAVAILABLE": 503,
	"DEADLINE_EXCEEDED": 504,
}

// errorStatus is the HTTP status of an error that came under a 200: the one it names, else its type's, else 502.
func errorStatus(document []byte, kind string) int {
	for _, path := range []string{"error.code", "error.status_code", "error.raw_status_code", "code"} {
		if n := int(gjson.GetBytes(document, path).Int()); n >= 400 && n <= 599 {
			return n
		}
	}
	if n, ok := statusOf[kind]; ok {
		return n
	}
	for _, path := range []string{"error.type", "error.status", "response.error.code"} {
		if n, ok := statusOf[gjson.GetBytes(document, path).String()]; ok {
			return n
		}
	}
	return http.StatusBadGateway
}

// errorDocument is an in-stream error as the body of an answer of its own: the provider's words, in the
// envelope that its plain errors have.
func (e *execution) errorDocument(data []byte, kind string, status int) []byte {
	doc := gjson.ParseBytes(data)
	if doc.Get("error").IsObject() && gjson.ValidBytes(data) {
		return data
	}
	return (&provider.Error{Code: kind, Status: status, Message: errorMessage(data)}).Body(&e.spec)
}

// errorMessage finds the provider's words in an in-stream error.
func errorMessage(data []byte) string {
	for _, path := range []string{"message", "error.message", "response.error.message", "error"} {
		if v := gjson.GetBytes(data, path); v.Type == gjson.String && v.Str != "" {
			return v.Str
		}
	}
	return "the provider's stream failed"
}

func jsonHeader(h http.Header) http.Header {
	out := h.Clone()
	set(out, "Content-Type", provider.ContentType)
	return out
}
