package explain

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/holdfast-ai/holdfast/signal"
)

// ErrQuestion is wrapped by the errors that say what is wrong with a question.
var ErrQuestion = errors.New("the question cannot be read")

// Question is an answer of a provider, or what is known of one that did not come, and the circumstances that a decision
// weighs beside it. The zero value of each is the common case. As JSON it is a line of signals.jsonl (docs/signals.md)
// with the fields of Circumstances beside its own.
type Question struct {
	// Answer is what came back. With neither a status nor a transport error the question is about the request alone.
	Answer signal.Answer
	Circumstances
}

// Circumstances are what the gateway knows at an attempt's end beside the answer.
type Circumstances struct {
	Workflow       string            `json:"workflow,omitempty"` // "": as a request with the fields below would get it
	Method         string            `json:"method,omitempty"`   // POST
	Path           string            `json:"path,omitempty"`
	Model          string            `json:"model,omitempty"`
	RequestHeaders map[string]string `json:"request_headers,omitempty"`
	Request        string            `json:"request,omitempty"` // the request's body

	Effect      string `json:"effect,omitempty"`       // read, generation or external instead of the workflow's
	Attempt     int    `json:"attempt,omitempty"`      // which attempt ended so; 0 is the first
	RemainingMS *int64 `json:"remaining_ms,omitempty"` // of the operation's budget; all of timeouts.total if left out
	Tier        string `json:"tier,omitempty"`         // that the attempt was made at; "": by the provider, else where the call begins
	Async       bool   `json:"async,omitempty"`        // the client accepts an answer later
	ClientLeft  bool   `json:"client_left,omitempty"`
	Breaker     string `json:"breaker,omitempty"` // open, or closed
	ShareUsed   bool   `json:"share_used,omitempty"`
}

// answerFields are the fields of a line of signals.jsonl; the last five describe a case and decide nothing.
var answerFields = []string{"provider", "endpoint", "received_at", "http_status", "headers", "body", "body_encoding", "phase", "transport",
	"id", "expected", "source", "why", "debatable"}

var circumstanceFields = []string{"workflow", "method", "path", "model", "request_headers", "request", "effect", "attempt", "remaining_ms", "tier",
	"async", "client_left", "breaker", "share_used"}

// UnmarshalJSON refuses a field that it does not know: a misspelt one would change the answer unnoticed.
func (q *Question) UnmarshalJSON(text []byte) error {
	var fields map[string]json.RawMessage
	if err := json.Unmarshal(text, &fields); err != nil {
		return fmt.Errorf("%w: %w", ErrQuestion, err)
	}
	known := slices.Concat(answerFields, circumstanceFields)
	for _, name := range slices.Sorted(maps.Keys(fields)) {
		if !slices.Contains(known, name) {
			return fmt.Errorf("%w: there is no field %.64q; known are %s", ErrQuestion, name, strings.Join(known, ", "))
		}
	}
	_, a, err := signal.ParseAnswer(text)
	if err == nil {
		q.Answer = a
		err = json.Unmarshal(text, &q.Circumstances)
	}
	if err != nil {
		return fmt.Errorf("%w: %w", ErrQuestion, err)
	}
	return nil
}

// MarshalJSON writes the form that UnmarshalJSON reads, the body in base64.
func (q Question) MarshalJSON() ([]byte, error) {
	a := q.Answer
	line := struct {
		Provider     string              `json:"provider,omitempty"`
		Endpoint     string              `json:"endpoint,omitempty"`
		ReceivedAt   time.Time           `json:"received_at,omitzero"`
		HTTPStatus   int                 `json:"http_status"`
		Headers      map[string][]string `json:"headers,omitempty"`
		Body         []byte              `json:"body,omitempty"`
		BodyEncoding string              `json:"body_encoding,omitempty"`
		Phase        signal.Phase        `json:"phase,omitempty"`
		Transport    *signal.Transport   `json:"transport,omitempty"`
		Circumstances
	}{a.Provider, a.Endpoint, a.ReceivedAt, a.Status, a.Header, a.Body, "", a.Phase, a.Transport, q.Circumstances}
	if len(a.Body) > 0 {
		line.BodyEncoding = "base64"
	}
	return json.Marshal(line)
}

// answered reports whether the question tells of an answer, or of none that came; else it is about a request alone.
func (q *Question) answered() bool {
	return q.Answer.Status != 0 || q.Answer.Transport != nil || q.Answer.Phase == signal.NoResponse
}

// check refuses what no attempt can be.
func (q *Question) check() error {
	bad := func(format string, args ...any) error {
		return fmt.Errorf("%w: %s", ErrQuestion, fmt.Sprintf(format, args...))
	}
	switch a := &q.Answer; {
	case a.Status != 0 && (a.Status < 100 || a.Status > 999):
		return bad("a status is 100 to 999, such as 429, not %d", a.Status)
	case a.Phase != "" && !slices.Contains([]signal.Phase{signal.BeforeFirstToken, signal.MidStream, signal.NoResponse}, a.Phase):
		return bad("the phase is before_first_token, mid_stream or no_response, not %.64q", string(a.Phase))
	case a.Status != 0 && a.Phase == signal.NoResponse:
		return bad("with the phase no_response there is no status")
	case a.Transport != nil && !slices.Contains([]signal.Sent{"", signal.SentNone, signal.SentPartial, signal.SentAll}, a.Transport.RequestBytesSent):
		return bad("of a request none, partial or all was sent, not %.64q", string(a.Transport.RequestBytesSent))
	case q.Effect != "" && !slices.Contains([]string{"read", "generation", "external"}, q.Effect):
		return bad("the effect is read, generation or external, not %.64q", q.Effect)
	case q.Breaker != "" && q.Breaker != "open" && q.Breaker != "closed":
		return bad("the breaker is open or closed, not %.64q", q.Breaker)
	case q.Attempt < 0:
		return bad("attempts are counted from 1")
	case q.RemainingMS != nil && (*q.RemainingMS < 0 || *q.RemainingMS > maxRemainingMS):
		return bad("the rest of the budget is 0 to a year")
	}
	return nil
}

const maxRemainingMS = 366 * 24 * 3600 * 1000
