package gateway

import (
	"errors"

	"github.com/holdfast-ai/holdfast/internal/provider"
	"github.com/holdfast-ai/holdfast/internal/provider/wire"
	"github.com/holdfast-ai/holdfast/internal/sse"
	"github.com/holdfast-ai/holdfast/internal/upstream"
	"github.com/holdfast-ai/holdfast/ledger"
	"github.com/holdfast-ai/holdfast/signal"
	"github.com/holdfast-ai/holdfast/translate"
)

// tellPlain is a provider's whole answer in its client's words, which take its place in the recording.
func (e *execution) tellPlain(resp *upstream.Response, body []byte) ([]byte, *outcome) {
	answer, err := e.crosses().Answer(body)
	var fault *translate.Fault
	switch {
	case errors.As(err, &fault): // which only a model's own word for its end says
		v := e.judge(errorStatus(nil, fault.Code), resp.Header, nil)
		v.inside(fault.Code, e.effect == ledger.EffectExternal)
		resp.Header = e.crosses().heard(resp.Header, provider.ContentType)
		return nil, e.passError(v, fault.Status, resp, e.crosses().ErrorBody(fault))
	case err != nil:
		v, fail := notTold(err, resp.Status)
		return nil, &outcome{verdict: v, how: ending{fail: fail}, body: e.partial()}
	}
	e.rec.replace(answer)
	resp.Header = e.crosses().heard(resp.Header, provider.ContentType)
	return answer, nil
}

// tellError is a provider's error in its client's words, with the status that the client's API has for it.
func (e *execution) tellError(resp *upstream.Response, status int, body []byte) (int, []byte) {
	resp.Header = e.crosses().heard(resp.Header, provider.ContentType)
	return e.crosses().refusal(status, body)
}

// untellable says that an answer came, and cannot be told.
func untellable(err error) bool {
	return errors.Is(err, translate.ErrMismatch) || errors.Is(err, translate.ErrMalformed) || errors.Is(err, sse.ErrTooLarge)
}

// notTold ends an answer that its client's API has no words for, or that is none of its own. The same tier would say it again.
func notTold(err error, status int) (verdict, *Error) {
	code := CodeIncomplete
	if errors.Is(err, translate.ErrMismatch) {
		code = CodeContract
	}
	v := verdict{end: ledger.AttemptUnknown, status: status, kind: string(code), reason: "the answer cannot be told in the client's API: " + err.Error(),
		rule: "tiers.provider", signal: signal.Signal{Class: signal.Unknown, ProviderErrorType: string(code)}}
	return v, &Error{Code: code, Message: v.reason}
}

// usage is what the far side has said of the tokens.
func (t *telling) usage() provider.Usage {
	u := t.events.Usage()
	if !u.Known {
		return wire.NoUsage()
	}
	return provider.Usage{Input: u.Input, Output: u.Output, Cached: wire.Positive(u.Cached), Reasoning: wire.Positive(u.Thought)}
}
