package sim

import (
	"fmt"
	"net/http"
	"strconv"
	"time"
)

// errorBody is the provider's envelope for a status.
func (q *request) errorBody(status int, code, message string) []byte {
	switch q.wire {
	case wireOpenAI:
		kind, usual := openAIError(status)
		if code == "" {
			code = usual
		}
		return doc{"error", doc{"message", message, "type", kind, "param", nil, "code", orNull(code)}}.bytes()
	case wireAnthropic:
		return anthropicError(orElse(code, anthropicErrorType(status)), message, q.anthropicID()).bytes()
	case wireGemini:
		body := geminiError(status, code, message)
		if q.array { // a stream without alt=sse is an array, in failure too
			return appendJSON(nil, list{body})
		}
		return body.bytes()
	}
	return doc{"error", doc{"code", orElse(code, http.StatusText(status)), "message", message}}.bytes()
}

// errorEvent is the error that a stream brings itself, as event n.
func (q *request) errorEvent(n int, code, message string) []byte {
	if message == "" {
		message = "The server had an error while processing your request. Sorry about that!"
	}
	switch q.endpoint {
	case "chat.completions":
		return data(doc{"error", doc{"message", message, "type", "server_error", "param", nil, "code", orNull(code)}})
	case "responses", "responses.get": // flat fields: the form that the provider really sends
		return event("error", doc{"type", "error", "sequence_number", n, "code", orElse(code, "server_error"), "message", message, "param", nil})
	case "messages":
		return event("error", anthropicError(orElse(code, "overloaded_error"), message, q.anthropicID()))
	}
	body := geminiError(http.StatusServiceUnavailable, code, message)
	if q.array {
		return append(appendJSON([]byte(arraySeparator(n)), body), ']')
	}
	return append(append([]byte("data: "), body.bytes()...), "\r\n\r\n"...)
}

// openAIError is the type and code that go with a status; docs of the API's error codes.
func openAIError(status int) (kind, code string) {
	switch status {
	case http.StatusUnauthorized:
		return "invalid_request_error", "invalid_api_key"
	case http.StatusForbidden:
		return "invalid_request_error", "unsupported_country_region_territory"
	case http.StatusNotFound:
		return "invalid_request_error", "model_not_found"
	case http.StatusTooManyRequests:
		return "requests", "rate_limit_exceeded"
	case http.StatusServiceUnavailable:
		return "service_unavailable_error", "server_is_overloaded"
	}
	if status >= 500 {
		return "server_error", ""
	}
	return "invalid_request_error", ""
}

func anthropicError(kind, message, requestID string) doc {
	return doc{"type", "error", "error", doc{"type", kind, "message", message}, "request_id", requestID}
}

func (q *request) anthropicID() string { return ident("req_", 24, q.call) }

// anthropicErrorType follows the table of the API's errors page.
func anthropicErrorType(status int) string {
	switch status {
	case http.StatusUnauthorized:
		return "authentication_error"
	case http.StatusPaymentRequired:
		return "billing_error"
	case http.StatusForbidden:
		return "permission_error"
	case http.StatusNotFound:
		return "not_found_error"
	case http.StatusConflict:
		return "conflict_error"
	case http.StatusRequestEntityTooLarge:
		return "request_too_large"
	case http.StatusTooManyRequests:
		return "rate_limit_error"
	case http.StatusGatewayTimeout:
		return "timeout_error"
	case http.StatusServiceUnavailable, 529:
		return "overloaded_error"
	}
	if status >= 500 {
		return "api_error"
	}
	return "invalid_request_error"
}

func geminiError(status int, code, message string) doc {
	name := orElse(code, geminiStatus(status))
	return doc{"error", doc{"code", status, "message", message, "status", name}}
}

// geminiStatus is google.rpc.Code's name for an HTTP status.
func geminiStatus(status int) string {
	switch status {
	case http.StatusBadRequest:
		return "INVALID_ARGUMENT"
	case http.StatusUnauthorized:
		return "UNAUTHENTICATED"
	case http.StatusForbidden:
		return "PERMISSION_DENIED"
	case http.StatusNotFound:
		return "NOT_FOUND"
	case http.StatusConflict:
		return "ABORTED"
	case http.StatusTooManyRequests:
		return "RESOURCE_EXHAUSTED"
	case 499:
		return "CANCELLED"
	case http.StatusNotImplemented:
		return "UNIMPLEMENTED"
	case http.StatusServiceUnavailable:
		return "UNAVAILABLE"
	case http.StatusGatewayTimeout:
		return "DEADLINE_EXCEEDED"
	}
	if status >= 500 {
		return "INTERNAL"
	}
	return "FAILED_PRECONDITION"
}

func orElse(s, other string) string {
	if s == "" {
		return other
	}
	return s
}

func orNull(s string) any {
	if s == "" {
		return nil
	}
	return s
}

// commonHeaders are the ones that each provider sends with every answer.
func (q *request) commonHeaders(h http.Header, now time.Time) {
	call := q.call
	set := func(pairs ...string) {
		for i := 0; i+1 < len(pairs); i += 2 {
			h.Set(pairs[i], pairs[i+1])
		}
	}
	switch q.wire {
	case wireOpenAI:
		left := strconv.FormatInt(9_999-call%1_000, 10)
		set("X-Request-Id", ident("req_", 32, call), "Openai-Organization", "org-sim", "Openai-Processing-Ms", "12",
			"Openai-Version", "2020-10-01", "X-Ratelimit-Limit-Requests", "10000", "X-Ratelimit-Limit-Tokens", "2000000",
			"X-Ratelimit-Remaining-Requests", left, "X-Ratelimit-Remaining-Tokens", "1999000",
			"X-Ratelimit-Reset-Requests", "6ms", "X-Ratelimit-Reset-Tokens", "30ms")
	case wireAnthropic:
		reset := now.UTC().Add(time.Second).Format(time.RFC3339)
		set("Request-Id", q.anthropicID(), "Anthropic-Organization-Id", "00000000-0000-4000-8000-000000000001",
			"Anthropic-Ratelimit-Requests-Limit", "4000", "Anthropic-Ratelimit-Requests-Remaining", "3999",
			"Anthropic-Ratelimit-Requests-Reset", reset, "Anthropic-Ratelimit-Input-Tokens-Limit", "400000",
			"Anthropic-Ratelimit-Input-Tokens-Remaining", "399000", "Anthropic-Ratelimit-Input-Tokens-Reset", reset,
			"Anthropic-Ratelimit-Output-Tokens-Limit", "80000", "Anthropic-Ratelimit-Output-Tokens-Remaining", "79000",
			"Anthropic-Ratelimit-Output-Tokens-Reset", reset)
	case wireGemini:
		if h.Get("Content-Type") == "application/json" {
			h.Set("Content-Type", "application/json; charset=UTF-8")
		}
		set("Vary", "Origin, X-Origin, Referer", "Server", "scaffolding on HTTPServer2",
			"Server-Timing", fmt.Sprintf("gfet4t7; dur=%d", 100+call%50), "X-Content-Type-Options", "nosniff")
	case wireTool:
		set("X-Request-Id", ident("req_", 32, call))
	}
}

// data is a server-sent event without a name.
func data(d doc) []byte {
	return append(appendJSON([]byte("data: "), d), "\n\n"...)
}

// event is a named server-sent event.
func event(name string, d doc) []byte {
	b := append([]byte("event: "), name...)
	return append(appendJSON(append(b, "\ndata: "...), d), "\n\n"...)
}
