// Package signal turns every way in which a provider can fail into one value.
package signal

import (
	"encoding/json"
	"math"
	"time"
)

// Class says what kind of failure an answer is. The values are the corpus's.
type Class string

// The classes; those without a word beside them are what their names say.
const (
	None           Class = "none"             // the answer is no failure
	RateLimited    Class = "rate_limited"     // clears by itself in seconds to hours
	QuotaExhausted Class = "quota_exhausted"  // a daily or monthly allowance, credit or spend limit
	Overloaded     Class = "overloaded"       // the provider's capacity
	ServerError    Class = "server_error"     // the provider failed
	Timeout        Class = "timeout"          // a deadline passed
	Connection     Class = "connection_error" // certainly nothing was processed
	Unknown        Class = "unknown_outcome"  // the request went out and no conclusive answer came back
	InvalidRequest Class = "invalid_request"
	ContextLength  Class = "context_length"
	TooLarge       Class = "too_large"
	ContentFilter  Class = "content_filter"
	Auth           Class = "auth"
	Permission     Class = "permission"
	NotFound       Class = "not_found"
)

// Limit names the limit that was hit; empty (JSON null) when none is known.
type Limit string

// The limits, per minute where nothing else is said.
const (
	Requests       Limit = "requests"
	Tokens         Limit = "tokens"
	InputTokens    Limit = "input_tokens"
	OutputTokens   Limit = "output_tokens"
	Concurrency    Limit = "concurrency"
	RequestsPerDay Limit = "requests_per_day"
	TokensPerDay   Limit = "tokens_per_day"
	Spend          Limit = "spend"
)

// MarshalJSON writes null for no limit, as the corpus does.
func (l Limit) MarshalJSON() ([]byte, error) {
	if l == "" {
		return []byte("null"), nil
	}
	return json.Marshal(string(l))
}

// Lane is where the failed request should go. Policy may decide otherwise.
type Lane string

const (
	RetryInPlace    Lane = "retry_in_place"   // retryable, wait at most 30 s or unstated
	BackgroundRetry Lane = "background_retry" // retryable, longer wait or a daily quota
	OwnerReview     Lane = "owner_review"     // account, key, configuration, money, an absurd wait, an open tool call
	Fail            Lane = "fail"             // return the error to the caller
	DeadLetter      Lane = "dead_letter"      // the server forbids a retry of its own failure
)

// Phase is how far the answer had come when it failed.
type Phase string

const (
	BeforeFirstToken Phase = "before_first_token"
	MidStream        Phase = "mid_stream"  // visible text or a tool call was delivered already
	NoResponse       Phase = "no_response" // Transport says what is known
)

// Answer is what came back from a provider, or did not.
type Answer struct {
	Provider   string // openai, anthropic, gemini, …; rules rest on the form of the answer, not on this name
	Endpoint   string // "POST /v1/chat/completions"
	Route      string // route key to carry over; made of Provider and Endpoint when empty
	ReceivedAt time.Time
	Status     int                 // 0 when no response came
	Header     map[string][]string // names in any case
	Body       []byte              // as on the wire, compressed or not; not kept, not changed
	Phase      Phase
	Transport  *Transport // only for NoResponse
}

// Signal is what a provider said. Its JSON names are the corpus's.
type Signal struct {
	HTTPStatus        int    `json:"http_status"`
	ProviderErrorType string `json:"provider_error_type"`
	Class             Class  `json:"class"`
	Retryable         bool   `json:"retryable"`      // the same request may be sent again automatically; a fact, not the decision (semantics 5)
	RetryAfterMS      *int64 `json:"retry_after_ms"` // as stated, rounded up, uncapped, at most math.MaxInt64; nil if none or invalid; 0 for a date in the past
	LimitDimension    Limit  `json:"limit_dimension"`
	RouteKey          string `json:"route_key"`
	VisibilityState   string `json:"visibility_state"` // before_first_token or partial_output
	OutcomeKnown      bool   `json:"outcome_known"`    // false when the provider may have processed and billed the request
	SuggestedLane     Lane   `json:"suggested_lane"`
	Message           string `json:"message,omitempty"` // the provider's words, at most 512 bytes, key-like words masked
}

// RetryAfter is the stated wait as a duration. It saturates at about 292 years and is never negative.
func (s Signal) RetryAfter() (wait time.Duration, stated bool) {
	if s.RetryAfterMS == nil {
		return 0, false
	}
	if *s.RetryAfterMS > math.MaxInt64/int64(time.Millisecond) {
		return math.MaxInt64, true
	}
	return time.Duration(*s.RetryAfterMS) * time.Millisecond, true
}

// Classify never panics, keeps nothing of a, and costs nothing that a 2xx on the hot path must pay: the
// gateway asks only about answers that failed or whose stream says so.
func Classify(a Answer) Signal {
	var s Signal
	switch {
	case a.Phase == NoResponse || a.Status == 0:
		s = classifyTransport(a.Transport)
	default:
		s = classifyResponse(&a)
		if s.Class == None && a.Transport != nil { // whole as far as it goes, but the connection broke
			s = classifyTransport(a.Transport)
		}
	}
	s.HTTPStatus = a.Status
	s.RouteKey = routeKey(&a)
	s.VisibilityState = "before_first_token"
	if a.Phase == MidStream {
		s.VisibilityState = "partial_output"
		midStream(&s)
	}
	return s
}

func classifyResponse(a *Answer) Signal {
	h := readHeaders(a.Header)
	clock := clock{now: a.ReceivedAt, date: h.get("date")}
	f := readFault(a, h, clock)
	v := judge(a.Status, &f)
	s := Signal{Class: v.class, ProviderErrorType: f.name(a.Status), LimitDimension: v.limit, Message: bounded(f.message)}
	if v.class == None {
		s.ProviderErrorType, s.OutcomeKnown, s.Message = "", true, ""
		return s
	}
	if ms, ok := statedWait(h, &f, v, clock); ok {
		s.RetryAfterMS = &ms
	}
	s.Retryable = v.retryable()
	s.OutcomeKnown = !v.has(processed)
	forbidden := applyShouldRetry(h.get("x-should-retry"), v, &s)
	s.SuggestedLane = lane(v, &s, forbidden)
	if a.Phase == MidStream && (v.ownersMatter() || f.toolStarted) {
		s.Retryable, s.SuggestedLane = false, OwnerReview
	}
	return s
}

// midStream: after visible output nothing is repeated, and what was shown has been processed (semantics 22).
func midStream(s *Signal) {
	if s.Class == None {
		return
	}
	if s.Retryable, s.OutcomeKnown = false, false; s.SuggestedLane != OwnerReview {
		s.SuggestedLane = Fail
	}
}
