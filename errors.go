package holdfast

import (
	"errors"
	"math/rand/v2"
	"net/http"
	"slices"
	"strconv"
	"time"
)

// Code is the reason of an [Error], in the words of Holdfast-Error on the wire (docs/errors.md). It is an error
// itself, so that callers branch with errors.Is(err, holdfast.ErrUnknown).
type Code string

func (c Code) Error() string { return "holdfast: " + string(c) }

// The codes that callers branch on. Failed and AnswerGone are the library's own; the others are the gateway's too.
const (
	// ErrUnknown: the effect may have happened. Nothing runs again under this key until evidence or a person says
	// (holdfast intents resolve).
	ErrUnknown Code = "outcome_unknown"
	// ErrInFlight: the first call with this key still runs, and policy lets nobody wait.
	ErrInFlight Code = "request_in_flight"
	// ErrKeyReused: the key was used for something else.
	ErrKeyReused Code = "idempotency_key_reused"
	// ErrStoreUnavailable: nothing could be written down, so nothing was done.
	ErrStoreUnavailable Code = "store_unavailable"
	// ErrDraining: the engine is stopping, or not running. Nothing was done.
	ErrDraining Code = "draining"
	// ErrShed: limits.workers calls are in progress. Nothing was done.
	ErrShed Code = "shed"
	// ErrDeadline: the time was over; Error.SafeToRetry says what that means.
	ErrDeadline Code = "deadline_exceeded"
	// ErrInvalid and ErrInvalidKey: the operation was refused as it stands.
	ErrInvalid    Code = "invalid_request"
	ErrInvalidKey Code = "invalid_idempotency_key"
	// ErrFailed: the function failed, and its key is free: it had no effect, or only a cost.
	ErrFailed Code = "failed"
	// ErrAnswerGone: the operation is finished and its result cannot be given any more. Nothing runs again.
	ErrAnswerGone Code = "answer_gone"
	// ErrAllTiersFailed, ErrIncomplete and ErrStreamLost come through a [Engine.Transport] only.
	ErrAllTiersFailed Code = "all_tiers_failed"
	ErrIncomplete     Code = "upstream_incomplete"
	ErrStreamLost     Code = "stream_lost"
)

// Safety says whether the same operation may be asked for again, as Holdfast-Safe-To-Retry does.
type Safety string

// AfterReconcile means: only when it is known what became of the first.
const (
	Safe           Safety = "yes"
	Unsafe         Safety = "no"
	AfterReconcile Safety = "after-reconcile"
)

// Error is every error that Holdfast itself makes. Match its Code with errors.Is, get at the rest with errors.As.
type Error struct {
	Code        Code
	Intent      string // id of the operation, for holdfast trace; "" where there is none
	Message     string // for a person: what happened, what to do
	SafeToRetry Safety
	RetryAfter  time.Duration // 0: no such advice
	Err         error         // what the function or the store said
}

func (e *Error) Error() string {
	text := "holdfast: " + string(e.Code)
	if e.Message != "" {
		text += ": " + e.Message
	}
	if e.Intent != "" {
		text += " (" + e.Intent + ")"
	}
	if e.Err != nil {
		text += ": " + e.Err.Error()
	}
	return text
}

// Is reports whether target is e's Code.
func (e *Error) Is(target error) bool { return target == error(e.Code) }

// Unwrap returns what the function or the store said.
func (e *Error) Unwrap() error { return e.Err }

// refusal makes an Error with what docs/errors.md says of its code.
func refusal(code Code, message string) *Error {
	e := &Error{Code: code, Message: message, SafeToRetry: Safe}
	switch code {
	case ErrUnknown:
		e.SafeToRetry = AfterReconcile
	case ErrKeyReused, ErrInvalid, ErrInvalidKey, ErrAnswerGone:
		e.SafeToRetry = Unsafe
	case ErrInFlight, ErrStoreUnavailable, ErrDraining, ErrShed:
		e.RetryAfter = time.Second + rand.N(2*time.Second)
	}
	return e
}

// FromHeader returns the gateway's own error that an answer's headers tell of, as an *Error; nil for every other
// answer. It is for those who call through a [Engine.Transport] or a gateway and have the answer of their SDK's error in hand.
func FromHeader(h http.Header) error {
	code := h.Get("Holdfast-Error")
	if code == "" {
		return nil
	}
	e := &Error{Code: Code(code), Intent: h.Get("Holdfast-Intent"), SafeToRetry: Safety(h.Get("Holdfast-Safe-To-Retry"))}
	if !slices.Contains([]Safety{Safe, Unsafe, AfterReconcile}, e.SafeToRetry) {
		e.SafeToRetry = AfterReconcile
	}
	if ms, err := strconv.ParseInt(h.Get("Retry-After-Ms"), 10, 64); err == nil && ms > 0 && ms <= maxAdvice.Milliseconds() {
		e.RetryAfter = time.Duration(ms) * time.Millisecond
	}
	return e
}

// maxAdvice is the longest Retry-After that is believed.
const maxAdvice = 24 * time.Hour

// judgement is a function's own word on what its error means.
type judgement struct {
	error
	sent bool
}

func (j judgement) Unwrap() error  { return j.error }
func (j judgement) Definite() bool { return true }
func (j judgement) NotSent() bool  { return !j.sent }

// Definite wraps err to say: this failed, and certainly had no effect. The key is released, and the same operation
// may run again. A refusal that must be remembered — a declined card — is a result, not an error. Definite(nil) is nil.
func Definite(err error) error {
	if err == nil {
		return nil
	}
	return judgement{err, true}
}

// NotSent wraps err to say: nothing was sent, the far side does not know of it. The attempt is on record as not made.
// NotSent(nil) is nil.
func NotSent(err error) error {
	if err == nil {
		return nil
	}
	return judgement{err, false}
}

// definite asks an error, which may be of anybody's type, whether it proves that nothing happened.
func definite(err error) bool {
	var d interface{ Definite() bool }
	return errors.As(err, &d) && d.Definite() || notSent(err)
}

func notSent(err error) bool {
	var n interface{ NotSent() bool }
	return errors.As(err, &n) && n.NotSent()
}
