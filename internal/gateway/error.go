package gateway

import (
	"fmt"
	"math/rand/v2"
	"net/http"
	"strconv"
	"time"

	"github.com/holdfast-ai/holdfast/ledger"
)

// Code is one of the gateway's own error codes (interface.md §2).
type Code string

const (
	CodeInvalidKey       Code = "invalid_idempotency_key"
	CodeInvalidRequest   Code = "invalid_request"
	CodeKeyReused        Code = "idempotency_key_reused"
	CodeInFlight         Code = "request_in_flight"
	CodeOutcomeUnknown   Code = "outcome_unknown"
	CodeStreamLost       Code = "stream_lost"
	CodeStoreUnavailable Code = "store_unavailable"
	CodeDraining         Code = "draining"
	CodeShed             Code = "shed"
	CodeAdmission        Code = "admission_timeout"
	CodeBulkheadFull     Code = "bulkhead_full"
	CodeRateLimited      Code = "rate_limited"
	CodeCircuitOpen      Code = "circuit_open"
	CodeSpendExceeded    Code = "spend_exceeded"
	CodeAllTiersFailed   Code = "all_tiers_failed"
	CodeDeadline         Code = "deadline_exceeded"
	CodeIncomplete       Code = "upstream_incomplete"
	CodeContract         Code = "contract_mismatch"
	CodeOwnerReview      Code = "owner_review_required"
	CodeTooLarge         Code = "request_too_large"
	CodeAnswerTooLarge   Code = "response_too_large"
	CodeUnauthorized     Code = "unauthorized"
	CodeForbidden        Code = "forbidden"
	CodeNotFound         Code = "not_found"
)

// Words of Holdfast-Safe-To-Retry.
const (
	safeYes   = "yes"
	safeNo    = "no"
	safeAfter = "after-reconcile"
)

// class is what the table of interface.md §2 says of a code.
type class struct {
	status int
	again  bool             // x-should-retry
	wait   [2]time.Duration // Retry-After is drawn from here; zero: none
	safe   string           // "": by effect, generation yes, external after-reconcile
}

var classes = map[Code]class{
	CodeInvalidKey:       {400, false, noWait, safeNo},
	CodeInvalidRequest:   {400, false, noWait, safeNo},
	CodeKeyReused:        {422, false, noWait, safeNo},
	CodeInFlight:         {409, true, shortWait, safeYes},
	CodeOutcomeUnknown:   {409, false, noWait, safeAfter},
	CodeStreamLost:       {409, false, noWait, safeNo},
	CodeStoreUnavailable: {503, true, shortWait, safeYes},
	CodeDraining:         {503, true, shortWait, safeYes},
	CodeShed:             {503, true, jitterWait, safeYes},
	CodeAdmission:        {503, true, jitterWait, safeYes},
	CodeBulkheadFull:     {429, true, jitterWait, safeYes},
	CodeRateLimited:      {429, true, noWait, safeYes},
	CodeCircuitOpen:      {503, true, noWait, safeYes},
	CodeSpendExceeded:    {429, false, noWait, safeNo},
	CodeAllTiersFailed:   {502, false, noWait, ""},
	CodeDeadline:         {504, false, noWait, ""},
	CodeIncomplete:       {502, false, noWait, ""},
	CodeContract:         {502, false, noWait, safeNo},
	CodeOwnerReview:      {403, false, noWait, safeNo},
	CodeTooLarge:         {413, false, noWait, safeNo},
	CodeAnswerTooLarge:   {502, false, noWait, ""},
	CodeUnauthorized:     {401, false, noWait, safeNo},
	CodeForbidden:        {403, false, noWait, safeNo},
	CodeNotFound:         {404, false, noWait, safeNo},
}

var (
	noWait     = [2]time.Duration{}
	shortWait  = [2]time.Duration{time.Second, 5 * time.Second}
	jitterWait = [2]time.Duration{time.Second, 3 * time.Second}
)

// Error is an error of the gateway's own, or the provider's answer passed on as one. Status codes are chosen
// here and nowhere else.
type Error struct {
	Code     Code
	Message  string        // for a person: what happened, what to do
	Err      error         // cause, for the log only: it may name hosts
	Safe     string        // overrides the table's word
	Wait     time.Duration // overrides the table's Retry-After
	Intent   string        // id of the operation, where there is one
	Degraded string        // Holdfast-Degraded
	Open     bool          // the operation goes on: this client's time alone is over
}

func (e *Error) Error() string {
	if e.Err != nil {
		return string(e.Code) + ": " + e.Message + ": " + e.Err.Error()
	}
	return string(e.Code) + ": " + e.Message
}

func (e *Error) Unwrap() error { return e.Err }

func errorf(code Code, format string, args ...any) *Error {
	return &Error{Code: code, Message: fmt.Sprintf(format, args...)}
}

// Status is the HTTP status of e.
func (e *Error) Status() int { return classes[e.Code].status }

// headers writes what every error carries.
func (e *Error) headers(h http.Header, effect ledger.Effect) {
	c := classes[e.Code]
	set(h, "Holdfast-Error", string(e.Code))
	set(h, "Holdfast-Safe-To-Retry", e.safe(c, effect))
	set(h, "X-Should-Retry", strconv.FormatBool(e.again(c)))
	if e.Intent != "" {
		set(h, "Holdfast-Intent", e.Intent)
	}
	if e.Degraded != "" {
		set(h, "Holdfast-Degraded", e.Degraded)
	}
	if wait := e.retryAfter(c); wait > 0 {
		set(h, "Retry-After", strconv.FormatInt(int64((wait+time.Second-1)/time.Second), 10))
		set(h, "Retry-After-Ms", strconv.FormatInt(wait.Milliseconds(), 10))
	}
}

// longWait is the longest wait for which a client is told to come back by itself where the wait is a route's: an SDK
// sleeps through it, and its user with it (interface.md §2).
const longWait = 8 * time.Second

func (e *Error) again(c class) bool {
	return c.again && (e.Code != CodeRateLimited && e.Code != CodeCircuitOpen || e.Wait > 0 && e.Wait <= longWait)
}

func (e *Error) safe(c class, effect ledger.Effect) string {
	switch {
	case e.Safe != "":
		return e.Safe
	case c.safe != "":
		return c.safe
	case effect == ledger.EffectExternal:
		return safeAfter
	}
	return safeYes
}

func (e *Error) retryAfter(c class) time.Duration {
	if e.Wait > 0 {
		return e.Wait
	}
	if c.wait[1] == 0 {
		return 0
	}
	return c.wait[0] + rand.N(c.wait[1]-c.wait[0])
}

// set writes a header whose name is in canonical form already.
func set(h http.Header, name, value string) { h[name] = []string{value} }
