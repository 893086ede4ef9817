package translate

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
)

// ErrFault is what every [*Fault] is: the far side reports an error.
var ErrFault = errors.New("the far side reports an error")

// Kind is what an error means, whatever an API's word for it.
type Kind string

// The kinds of errors that every API has.
const (
	Invalid        Kind = "invalid_request"
	Authentication Kind = "authentication"
	Permission     Kind = "permission"
	NotFound       Kind = "not_found"
	Conflict       Kind = "conflict"
	TooLarge       Kind = "too_large"
	RateLimited    Kind = "rate_limited"
	Quota          Kind = "quota"
	Overloaded     Kind = "overloaded"
	TimedOut       Kind = "timeout"
	Server         Kind = "server"
)

// Fault is an error that the far side reported. It is [ErrFault].
type Fault struct {
	Status  int    // of HTTP, in the client's API
	Kind    Kind   // what it means
	Code    string // the far side's own word, or ""
	Message string // the far side's, as it came
	// Data is the far side's document, as it came, up to 64 KiB of it; nil where it sent none of its API. Whoever knows that API
	// reads more of it, such as how long to wait.
	Data []byte
}

// faultBytes bounds Fault.Data.
const faultBytes = 64 << 10

func (f *Fault) Error() string { return fmt.Sprintf("%v: %s: %s", ErrFault, f.Kind, f.Message) }

// Unwrap is ErrFault.
func (f *Fault) Unwrap() error { return ErrFault }

// Fault reads the answer of a call that failed: a status and a body, which may be anything.
func (c *Call) Fault(status int, body []byte) *Fault {
	if v := parse(validUTF8(body)); v != nil {
		if f := c.report(v, status); f != nil {
			return f
		}
	}
	f := &Fault{Kind: kindOf(status), Message: fmt.Sprintf("the provider answered %d without an error of its API", status)}
	f.Status = c.status(f.Kind, status)
	return f
}

// reported is the error in a document that came with a status of success, nil if it holds none.
func (c *Call) reported(v value) *Fault { return c.report(v, 0) }

func (c *Call) report(v value, status int) *Fault {
	for first := range v.items() { // Gemini without alt=sse
		v = first
		break
	}
	e := v.get("error")
	switch {
	case e.is('{'):
	case e.is('"'): // Ollama
		e = value(doc{"message", e}.bytes())
	case v.get("object").text() == "error" || v.get("type").text() == "error": // Mistral, vLLM; Anthropic without its inner object
		e = v
	default:
		return nil
	}
	f := &Fault{Message: e.get("message").text(), Code: e.get("code").text(), Data: bytes.Clone(v[:min(len(v), faultBytes)])}
	words := []string{f.Code, e.get("status").text(), e.get("type").text()}
	if n := e.get("code"); status == 0 && n.number() {
		status = int(n.int())
	}
	for _, w := range words {
		if f.Code == "" {
			f.Code = w
		}
		if k, ok := kinds[w]; ok && f.Kind == "" {
			f.Kind = k
		}
	}
	if k := kindOf(status); f.Kind == "" || common[f.Kind] && status >= 400 {
		f.Kind = k
	}
	if f.Message == "" {
		f.Message = "the provider gave no message"
	}
	f.Status = c.status(f.Kind, status)
	return f
}

// kinds are the words of the three APIs: https://platform.openai.com/docs/guides/error-codes,
// https://platform.claude.com/docs/en/api/errors, https://ai.google.dev/gemini-api/docs/troubleshooting.
var kinds = map[string]Kind{
	"invalid_request_error": Invalid, "INVALID_ARGUMENT": Invalid, "FAILED_PRECONDITION": Invalid, "OUT_OF_RANGE": Invalid,
	"invalid_prompt": Invalid, "context_length_exceeded": Invalid, "content_filter": Invalid, "content_policy_violation": Invalid,
	"authentication_error": Authentication, "invalid_api_key": Authentication, "UNAUTHENTICATED": Authentication,
	"permission_error": Permission, "PERMISSION_DENIED": Permission,
	"not_found_error": NotFound, "NOT_FOUND": NotFound, "model_not_found": NotFound,
	"conflict_error": Conflict, "ALREADY_EXISTS": Conflict, "ABORTED": Conflict,
	"request_too_large": TooLarge,
	"rate_limit_error":  RateLimited, "rate_limit_exceeded": RateLimited, "RESOURCE_EXHAUSTED": RateLimited, "rate_limited": RateLimited,
	"insufficient_quota": Quota, "billing_error": Quota, "credit_balance_exhausted": Quota, "organization_spend_limit_exceeded": Quota,
	"project_spend_limit_exceeded": Quota, "organization_usage_limit_exceeded": Quota,
	"overloaded_error": Overloaded, "server_is_overloaded": Overloaded, "slow_down": Overloaded, "UNAVAILABLE": Overloaded,
	"service_unavailable_error": Overloaded,
	"timeout_error":             TimedOut, "DEADLINE_EXCEEDED": TimedOut,
	"api_error": Server, "server_error": Server, "INTERNAL": Server, "UNKNOWN": Server,
}

// common are the kinds whose words APIs say of very different failures: there the status says more.
var common = map[Kind]bool{Invalid: true, Server: true}

func kindOf(status int) Kind {
	switch status {
	case 401:
		return Authentication
	case 402:
		return Quota
	case 403:
		return Permission
	case 404:
		return NotFound
	case 409:
		return Conflict
	case 413:
		return TooLarge
	case 429:
		return RateLimited
	case 503, 529:
		return Overloaded
	case 408, 504, 524:
		return TimedOut
	}
	if status >= 400 && status < 500 {
		return Invalid
	}
	return Server
}

// clientErrors are the words and the status of each kind, in each client's API.
var clientErrors = map[API]map[Kind]struct {
	status     int
	kind, code string
}{
	OpenAIChat: {
		Invalid: {400, "invalid_request_error", ""}, Authentication: {401, "invalid_request_error", "invalid_api_key"},
		Permission: {403, "invalid_request_error", ""}, NotFound: {404, "invalid_request_error", ""}, Conflict: {409, "invalid_request_error", ""},
		TooLarge: {413, "invalid_request_error", ""}, RateLimited: {429, "requests", "rate_limit_exceeded"},
		Quota: {429, "insufficient_quota", "insufficient_quota"}, Overloaded: {503, "service_unavailable_error", "server_is_overloaded"},
		TimedOut: {504, "server_error", ""}, Server: {500, "server_error", ""},
	},
	AnthropicMessages: {
		Invalid: {400, "invalid_request_error", ""}, Authentication: {401, "authentication_error", ""}, Permission: {403, "permission_error", ""},
		NotFound: {404, "not_found_error", ""}, Conflict: {409, "conflict_error", ""}, TooLarge: {413, "request_too_large", ""},
		RateLimited: {429, "rate_limit_error", ""}, Quota: {402, "billing_error", ""}, Overloaded: {529, "overloaded_error", ""},
		TimedOut: {504, "timeout_error", ""}, Server: {500, "api_error", ""},
	},
}

// status is what the client's API answers an error of that kind with. What says more than its kind stays, where every client knows it: 502, 422
// and 408.
func (c *Call) status(k Kind, status int) int {
	if own := k == Server && status == 502 || k == Invalid && status == 422 || k == TimedOut && status == 408; own {
		return status
	}
	return clientErrors[c.From][k].status
}

// ErrorBody is the body that tells the client of an error.
func (c *Call) ErrorBody(f *Fault) []byte {
	word := clientErrors[c.From][f.Kind]
	if c.From == AnthropicMessages {
		return doc{"type", "error", "error", doc{"type", word.kind, "message", f.Message}}.bytes()
	}
	code := any(nil)
	switch {
	case word.code != "":
		code = word.code
	case f.Kind == Invalid && strings.Contains(f.Message, "prompt is too long"): // Anthropic's words for it
		code = "context_length_exceeded"
	}
	return doc{"error", doc{"message", f.Message, "type", word.kind, "param", nil, "code", code}}.bytes()
}

// errorEvent appends the event that tells a client of an error amid a stream.
func (c *Call) errorEvent(b []byte, f *Fault) []byte {
	if c.From == AnthropicMessages {
		b = append(b, "event: error\n"...)
	}
	return append(append(append(b, "data: "...), c.ErrorBody(f)...), "\n\n"...)
}
