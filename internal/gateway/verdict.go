package gateway

import (
	"context"
	"crypto/tls"
	"errors"
	"net"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/holdfast-ai/holdfast/intent"
	"github.com/holdfast-ai/holdfast/internal/mutant"
	"github.com/holdfast-ai/holdfast/internal/policy"
	"github.com/holdfast-ai/holdfast/internal/provider"
	"github.com/holdfast-ai/holdfast/internal/upstream"
	"github.com/holdfast-ai/holdfast/ledger"
	"github.com/holdfast-ai/holdfast/signal"
)

// verdict is what one attempt's end means for its intent.
type verdict struct {
	end    ledger.AttemptEnd
	status int
	kind   string // provider_error_type
	reason string
	rule   string
	keep   bool // success, or a definite permanent failure: stored and replayed (semantics 14)
	wait   time.Duration
	lane   string
	signal signal.Signal
	billed *provider.Usage // of an answer that fails its attempt and is paid for all the same; nil: there is none

	limited bool // the attempt had less than its own time-out: it says nothing of the provider
	cooled  bool // the route's cool-down was set by it
}

func (v verdict) ending() intent.Ending {
	return intent.Ending{End: v.end, Status: v.status, Error: v.kind, Reason: v.reason, Rule: v.rule,
		Billed: v.end == ledger.AttemptUnknown || v.billed != nil, RetryAfter: v.wait, Lane: v.lane}
}

// permanent are the definite failures that are stored and replayed (semantics 14): the same request fails again.
// 401, 402 and 403 are not among them: an operator mends those while the request stays right, and then the
// caller's retry under the same key must get through.
var permanent = []int{400, 404, 405, 410, 411, 413, 414, 415, 422, 428, 431, 501}

// judge reads a provider's non-2xx answer, or an error it put into a 200.
func (e *execution) judge(status int, header map[string][]string, body []byte) verdict {
	v := judge(e.wf, e.effect == ledger.EffectExternal, e.received(status, header, body))
	v.hide(e.target.hidden)
	e.cool(&v)
	return v
}

// received is an answer of which no client has seen anything, as package signal takes it.
func (e *execution) received(status int, header map[string][]string, body []byte) signal.Answer {
	asked := e.asked()
	return signal.Answer{Provider: string(asked.Wire), Endpoint: e.request.Method + " " + asked.Path, ReceivedAt: time.Now(),
		Status: status, Header: header, Body: body, Phase: signal.BeforeFirstToken}
}

// judge is what a failure means for its intent, whatever else is known of the call.
func judge(wf *policy.Workflow, external bool, a signal.Answer) verdict {
	s := signal.Classify(a)
	v := verdict{end: ledger.AttemptFailed, status: a.Status, kind: s.ProviderErrorType, rule: "semantics 3", signal: s,
		reason: "the provider answered " + strconv.Itoa(a.Status)}
	if wait, ok := s.RetryAfter(); ok {
		v.wait = wait
	}
	known := s.OutcomeKnown
	if external {
		known = signal.Definite(a) || definitely(wf, a.Status, a.Header, a.Body)
		if known && wf.Definite.Denies(a.Status) && !mutant.On("definite-undenied") {
			known, v.rule = false, wf.Path()+".definite"
			v.reason += ", which proves nothing here"
		}
	}
	if !known {
		v.end = ledger.AttemptUnknown
	}
	if external && a.Status == http.StatusConflict && !known {
		v.reason += ": it has this request, or one like it"
	}
	lasting := !s.Retryable && slices.Contains(permanent, a.Status) && s.Class != signal.QuotaExhausted
	v.keep = known && (lasting || mutant.On("stored-transient-failure"))
	return v
}

// definitely applies the workflow's definite: further statuses that prove that nothing happened (semantics 3). What it says of the
// contrary ("!503") is stronger, and is for the caller to ask.
func definitely(wf *policy.Workflow, status int, header map[string][]string, body []byte) bool {
	if wf.Definite.IsZero() {
		return false
	}
	ok, err := wf.Definite.Decide(exprAnswer(status, header, body))
	return ok && err == nil
}

// exprAnswer is an answer as expressions see it. JSON that is none, or says two things, is a fault and no document.
func exprAnswer(status int, header map[string][]string, body []byte) policy.Answer {
	a := policy.Answer{Status: status, Headers: map[string]string{}}
	for name, values := range header {
		if len(values) > 0 {
			a.Headers[strings.ToLower(name)] = values[0]
		}
	}
	a.Body, a.Fault = policy.Reading(body)
	return a
}

// accepted applies succeeded: and failed: to a 2xx (semantics 4). A failure says that nothing happened and frees the key, so it has
// to be shown: by an answer that can be read, and has the shape which the expression is written for.
func accepted(wf *policy.Workflow, status int, header map[string][]string, body []byte) (verdict, bool) {
	if wf.Failed.IsZero() && wf.Succeeded.IsZero() {
		return verdict{}, true
	}
	a := exprAnswer(status, header, body)
	maybe, unread := wf.Failed.Match(a)
	if failed, _ := wf.Failed.Decide(a); failed {
		return verdict{end: ledger.AttemptFailed, status: status, kind: "failed_by_policy", rule: wf.Path() + ".failed",
			reason: "the answer matches failed"}, false
	}
	if status == http.StatusNoContent && errors.Is(unread, policy.ErrEmpty) {
		unread = nil // as announced, it says nothing of a failure
	}
	good, err := wf.Succeeded.Match(a)
	switch {
	case maybe:
		return unproven(status, "the answer fits failed, but has another shape than is asked for there"), false
	case errors.Is(errors.Join(unread, err), policy.ErrDocument):
		return unproven(status, a.Fault.Error()), false
	case good || wf.Succeeded.IsZero():
		return verdict{}, true
	case !wf.Failed.IsZero():
		return unproven(status, "the answer matches neither succeeded nor failed"), false
	}
	if _, err := wf.Succeeded.Decide(a); err != nil {
		return unproven(status, "the answer has another shape than succeeded asks for"), false
	}
	return verdict{end: ledger.AttemptFailed, status: status, kind: "failed_by_policy", rule: "semantics 4",
		reason: "the answer does not match succeeded"}, false
}

// unproven is a 2xx that proves neither.
func unproven(status int, reason string) verdict {
	return verdict{end: ledger.AttemptUnknown, status: status, kind: "unmatched_answer", rule: "semantics 4", reason: reason}
}

// transportVerdict reads what is known when no answer came.
func (e *execution) transportVerdict(err error) (verdict, *Error) {
	var ue *upstream.Error
	sent := upstream.All
	if errors.As(err, &ue) {
		sent = ue.Sent
	}
	cause := e.cause()
	v := verdict{end: ledger.AttemptUnknown, kind: "connection_error", rule: "semantics 3",
		reason: "the connection broke before the answer was complete"}
	fail := &Error{Code: CodeAllTiersFailed, Message: "the provider did not answer: " + v.reason, Err: err}
	switch {
	case cause != nil:
		v.kind, v.reason, v.rule = kindOf(cause), cause.Error(), ruleOf(cause)
		fail = &Error{Code: CodeDeadline, Message: cause.Error(), Err: err}
		if leftAlone(cause) || errors.Is(cause, errInterrupted) {
			fail.Code = CodeAllTiersFailed
		}
	case ue != nil && ue.Timeout:
		v.kind, v.reason = "timeout", "the connection timed out"
		fail = &Error{Code: CodeDeadline, Message: "the provider did not answer in time", Err: err}
	case errors.Is(err, intent.ErrLeaseOver):
		v.kind, v.reason, v.rule = "lease_over", "nothing was sent: this engine had stood still behind the attempt's record, and others may have taken it over", "semantics 6"
		fail.Message = "the gateway stood still before the call was sent; nothing was sent"
	case sent == upstream.None:
		v.reason = "nothing was sent: the provider could not be reached"
		fail.Message = "the provider could not be reached; nothing was sent"
		e.misconfigured(&v, err)
	}
	if sent == upstream.None {
		v.end = ledger.AttemptNotSent
		fail.Safe = safeYes
	}
	v.signal = e.transportSignal(err, cause, ue)
	v.limited = errors.Is(cause, errTotal) && !e.watch.whole || errors.Is(err, intent.ErrLeaseOver)
	return v, fail
}

// misconfigured tells the owner of a fault that waiting mends seldom: a name that nobody knows, a certificate that is another's. What
// names hosts is for the log alone.
func (e *execution) misconfigured(v *verdict, err error) {
	var (
		name  *net.DNSError
		cert  *tls.CertificateVerificationError
		plain tls.RecordHeaderError
		alert tls.AlertError
	)
	what := ""
	switch {
	case errors.As(err, &name) && name.IsNotFound:
		what = "the host name of its base_url is not known (DNS)"
	case errors.As(err, &cert):
		what = "its certificate is not valid for its base_url (TLS)"
	case errors.As(err, &plain), errors.As(err, &alert):
		what = "it does not speak TLS as its base_url says"
	default:
		return
	}
	v.reason = "nothing was sent: " + what
	e.g.logger.Error("a provider's address is wrong, by what its connection says; see base_url", "provider", e.target.conf.Name, "fault", what, "error", err)
}

// transportSignal is what is known of the provider when no whole answer came.
func (e *execution) transportSignal(err, cause error, ue *upstream.Error) signal.Signal {
	t := &signal.Transport{RequestBytesSent: signal.SentAll}
	if ue != nil {
		t = signal.FromError(err, sentWords[ue.Sent], 0)
	}
	switch {
	case cause != nil && (leftAlone(cause) || errors.Is(cause, errInterrupted)):
		t.Error = "client disconnected"
	case cause != nil || ue != nil && ue.Timeout:
		t.Error = "timeout"
	}
	asked := e.asked()
	return signal.Classify(signal.Answer{Provider: string(asked.Wire), Endpoint: e.request.Method + " " + asked.Path,
		ReceivedAt: time.Now(), Phase: signal.NoResponse, Transport: t})
}

var sentWords = map[upstream.Sent]signal.Sent{upstream.None: signal.SentNone, upstream.Partial: signal.SentPartial, upstream.All: signal.SentAll}

// cutSignal is an answer that began and did not end.
func cutSignal() signal.Signal {
	return signal.Signal{Class: signal.Unknown, Retryable: true, ProviderErrorType: string(CodeIncomplete)}
}

// cause is why this process broke the call off, nil when it did not.
func (e *execution) cause() error {
	if e.ctx.Err() == nil {
		return nil
	}
	return context.Cause(e.ctx)
}

// leftAlone says that a call was broken off because no client was left.
func leftAlone(cause error) bool {
	return errors.Is(cause, errClientsGone) || errors.Is(cause, errGone) || errors.Is(cause, errFinishLimit) || errors.Is(cause, errDrainQuota)
}

func kindOf(cause error) string {
	switch {
	case leftAlone(cause):
		return "client_cancelled"
	case errors.Is(cause, errInterrupted):
		return "interrupted"
	}
	return "timeout"
}

func ruleOf(cause error) string {
	switch {
	case errors.Is(cause, errClientsGone):
		return "on_disconnect: cancel"
	case errors.Is(cause, errGone):
		return "semantics 25"
	case errors.Is(cause, errFinishLimit):
		return "finish_limit"
	case errors.Is(cause, errDrainQuota):
		return "finish_quota"
	case errors.Is(cause, errInterrupted):
		return "limits.drain_wait"
	case errors.Is(cause, errFirstToken):
		return "timeouts.first_token"
	case errors.Is(cause, errAttempt):
		return "timeouts.attempt"
	case errors.Is(cause, errIdle):
		return "timeouts.idle"
	case errors.Is(cause, errStreamLimit):
		return "timeouts.stream"
	}
	return "timeouts.total"
}

// failedTransport ends an attempt that got no answer.
func (e *execution) failedTransport(err error) *outcome {
	v, fail := e.transportVerdict(err)
	return &outcome{verdict: v, how: ending{fail: fail}}
}
