package gateway

import (
	"strings"

	"github.com/holdfast-ai/holdfast/decision"
	"github.com/holdfast-ai/holdfast/internal/policy"
	"github.com/holdfast-ai/holdfast/internal/provider"
	"github.com/holdfast-ai/holdfast/ledger"
	"github.com/holdfast-ai/holdfast/signal"
)

// Judgement is what the end of an attempt means for its operation, as far as the answer and the policy say it.
type Judgement struct {
	End     decision.End
	Status  int           // as in decision.Facts
	Signal  signal.Signal // what the decision rests on
	Visible bool          // the answer got past the boundary (semantics 22)
	Keep    bool          // stored and replayed under its key (semantics 14)
	Review  bool          // a hosted tool had begun: for its owner (semantics 27)
	Rule    string
	Reason  string
}

// Judge is how an attempt is judged that ended with a, for `holdfast explain`: the same code as for traffic, without a
// call. The answer's phase counts where the body does not show it.
func Judge(wf *policy.Workflow, call *provider.Call, external bool, a signal.Answer) Judgement {
	visible := a.Phase == signal.MidStream
	if a.Phase == signal.NoResponse || a.Status == 0 {
		return unanswered(a).judgement(0, false)
	}
	a.Phase = signal.BeforeFirstToken // it is the gateway that knows what its clients have seen
	if a.Status < 200 || a.Status > 299 {
		return judge(wf, external, a).judgement(a.Status, visible)
	}
	format := provider.FormatOf(call, headerOf(a.Header, "Content-Type"))
	if visible && format != provider.JSONArray {
		format = provider.SSE // only a stream is seen before it has ended
	}
	begun, array := beginning(a.Body)
	if format == provider.SSE || format == provider.JSONArray && (array || !begun) {
		return judgeStream(wf, call, format, external, visible, a)
	}
	return judgePlain(wf, call, external, a)
}

// unanswered mirrors transportVerdict where there is no connection to ask.
func unanswered(a signal.Answer) verdict {
	v := verdict{end: ledger.AttemptUnknown, signal: signal.Classify(a), rule: "semantics 3", reason: "no answer came"}
	switch t := a.Transport; {
	case t != nil && t.RequestBytesSent == signal.SentNone && t.ResponseBytes <= 0:
		v.end, v.reason = ledger.AttemptNotSent, "nothing was sent"
	case t != nil && t.ResponseBytes > 0:
		v.signal, v.rule, v.reason = cutSignal(), "semantics 27", "the answer broke off before its end"
	}
	return v
}

func judgePlain(wf *policy.Workflow, call *provider.Call, external bool, a signal.Answer) Judgement {
	p := provider.Plain{Complete: true}
	if call.Known && headerOf(a.Header, "Content-Encoding") == "" {
		p = provider.PlainAnswer(call, a.Status, headerOf(a.Header, "Content-Type"), a.Body)
	}
	switch {
	case p.Fault == provider.IsError:
		v := judge(wf, external, a)
		v.inside(p.ErrorType, external)
		return v.judgement(errorStatus(a.Body, p.ErrorType), false)
	case !p.Complete:
		v := verdict{end: ledger.AttemptUnknown, signal: cutSignal(), rule: "semantics 27", reason: "it is no answer of its API (" + string(p.Fault) + ")"}
		return v.judgement(a.Status, false)
	}
	if v, ok := accepted(wf, a.Status, a.Header, a.Body); !ok {
		return v.judgement(502, false)
	}
	return Judgement{End: decision.Success, Status: a.Status, Signal: signal.Classify(a), Keep: true, Rule: "semantics 1", Reason: "a complete answer"}
}

func judgeStream(wf *policy.Workflow, call *provider.Call, format provider.Format, external, visible bool, a signal.Answer) Judgement {
	read := provider.NewStream(call, format, provider.Limits{EventBytes: len(a.Body) + 1})
	failed := read.Feed(a.Body) != nil
	end, p := read.Close(), read.Progress()
	visible = visible || p.Boundary >= 0 && (p.ErrorAt < 0 || p.Boundary < p.ErrorAt)
	if end == provider.Errored {
		status := errorStatus(p.ErrorData, p.ErrorType)
		a.Status, a.Body = status, p.ErrorData
		v := judge(wf, external, a)
		v.reason = streamReports
		if v.keep = false; external || visible {
			v.end = ledger.AttemptUnknown
		}
		if p.HostedTool {
			v.lane = string(signal.OwnerReview)
		}
		return v.judgement(status, visible)
	}
	if end == provider.Cut || failed {
		v := verdict{end: ledger.AttemptUnknown, signal: cutSignal(), rule: "semantics 27", reason: "the stream ended before its end"}
		if p.HostedTool {
			v.lane = string(signal.OwnerReview)
		}
		return v.judgement(0, visible)
	}
	return Judgement{End: decision.Success, Status: a.Status, Signal: signal.Signal{Class: signal.None, OutcomeKnown: true}, Keep: true,
		Rule: "semantics 1", Reason: "a complete stream"}
}

func (v verdict) judgement(status int, visible bool) Judgement {
	return Judgement{End: ends[v.end], Status: status, Signal: v.signal, Visible: visible, Keep: v.keep && !visible, Review: v.lane != "",
		Rule: v.rule, Reason: v.reason}
}

func headerOf(h map[string][]string, name string) string {
	for n, values := range h {
		if strings.EqualFold(n, name) && len(values) > 0 {
			return values[0]
		}
	}
	return ""
}
