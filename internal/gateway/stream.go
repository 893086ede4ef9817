package gateway

import (
	"bytes"
	"encoding/json"
	"io"
	"time"

	"github.com/holdfast-ai/holdfast/internal/mutant"
	"github.com/holdfast-ai/holdfast/internal/policy"
	"github.com/holdfast-ai/holdfast/internal/provider"
	"github.com/holdfast-ai/holdfast/internal/upstream"
	"github.com/holdfast-ai/holdfast/ledger"
	"github.com/holdfast-ai/holdfast/signal"
)

// streaming is one streamed answer on its way through the recording.
type streaming struct {
	e       *execution
	resp    *upstream.Response
	told    *telling // resp.Body, where it is translated
	read    provider.Stream
	format  provider.Format
	strict  bool
	crossed bool // the boundary was passed: clients have the head (semantics 22)
	dropped bool
	begun   bool        // something but white space has come
	noted   bool        // the response's id is in the history
	last    *time.Timer // bounds how long the stream's last event waits for the end of the body
}

// stream passes a stream on event by event. Status, head and lead-in wait for the first content; half an event
// never leaves, so that whatever ends the stream can be said in one clean event behind it.
func (e *execution) stream(resp *upstream.Response, format provider.Format) *outcome {
	s := &streaming{e: e, resp: resp, format: format, strict: e.wf.Durability == policy.Strict,
		read: provider.NewStream(&e.spec, format, provider.Limits{EventBytes: int(e.g.policy.Limits.EventBytes)})}
	s.told, _ = resp.Body.(*telling)
	defer s.goOn()
	for {
		p, ok := e.rec.space()
		if !ok {
			if o := s.oversized(); o != nil {
				return o
			}
			p, _ = e.rec.space()
		}
		n, err := resp.Body.Read(p)
		if n > 0 {
			e.rec.wrote(n)
			e.watch.progress()
			if s.oneDocument(p[:n]) {
				return e.plain(resp, provider.JSON)
			}
			if perr := s.read.Feed(p[:n]); perr != nil {
				return s.broken(perr)
			}
			if e.rec.size > e.g.policy.Limits.MaxResponseBytes {
				if o := s.oversized(); o != nil {
					return o
				}
			}
		}
		if err == io.EOF {
			return s.ended()
		}
		if err != nil {
			return s.broken(err)
		}
		// Waking clients for each event costs more than the event; while more is here already it can wait.
		if resp.Body.Buffered() == 0 || n == len(p) {
			s.advance()
		}
		if s.dropped {
			if err := e.rec.waitRoom(e.ctx); err != nil {
				return s.broken(err)
			}
		}
	}
}

// oneDocument says, with the first bytes of a stream, that a document came where an array was asked for: in front of an error or of more
// it would be no JSON, so that nothing of it leaves before all of it is here.
func (s *streaming) oneDocument(p []byte) bool {
	if s.format != provider.JSONArray || s.begun || mutant.On("document-as-element") {
		return false
	}
	array := false
	s.begun, array = beginning(p)
	return s.begun && !array
}

// beginning says whether something but white space has come, and whether that begins an array.
func beginning(p []byte) (begun, array bool) {
	p = bytes.TrimLeft(p, "\ufeff \t\r\n")
	return len(p) > 0, len(p) > 0 && p[0] == '['
}

// advance lets clients have what they may have by now.
func (s *streaming) advance() {
	p := s.read.Progress()
	s.identify(p)
	s.awaitEnd(p)
	if !s.crossed {
		held := s.e.rec.size
		begun := p.Boundary >= 0 && (p.ErrorAt < 0 || p.Boundary < p.ErrorAt)
		if mutant.On("boundary-at-first-event") {
			begun = p.Events > 0
		}
		if mutant.On("bridge-without-hold") {
			begun = begun || p.Events > 0 && time.Since(s.e.sent) > s.e.wf.BridgeAfter
		}
		if !begun && held <= s.e.g.policy.Limits.LeadInBytes {
			return
		}
		s.cross()
	}
	if p.ErrorAt >= 0 {
		s.e.spend()
	}
	s.e.rec.show(s.withoutLast(p))
}

// endPatience is how long a stream's last event waits for the end of the body. The two leave in one write then: a client
// that hangs up at that event has the end as well, and has left nothing unread, for which its kernel would reset the
// connection as if the answer had been lost (semantics 19). A provider whose end comes later, or never, keeps no client
// from its whole answer.
const endPatience = 500 * time.Millisecond

// final says that nothing which belongs to the answer can follow the grammar's own end; behind Gemini's finishReason usage may.
func (s *streaming) final() bool {
	return s.e.spec.Wire != provider.Gemini || s.format == provider.JSONArray
}

// awaitEnd bounds the wait for the end of the body once the answer has come whole: what is read no more ends it.
func (s *streaming) awaitEnd(p *provider.Progress) {
	switch {
	case p.Last < 0:
		s.goOn()
	case s.last == nil && s.final():
		body := s.resp.Body
		s.last = time.AfterFunc(endPatience, func() { _ = body.Close() })
	}
}

// withoutLast is how far clients may read while the end of the body may still come.
func (s *streaming) withoutLast(p *provider.Progress) int64 {
	to := s.visible(p)
	if p.Last < 0 || p.Last >= to || mutant.On("end-apart") {
		return to
	}
	if s.last == nil {
		rec := s.e.rec
		s.last = time.AfterFunc(endPatience, func() { rec.showLast(to) })
	}
	return p.Last
}

// goOn forgets a last event that was none, or that has its end.
func (s *streaming) goOn() {
	if s.last != nil {
		s.last.Stop()
		s.last = nil
	}
}

// identify keeps the response's id as soon as it is known: by it the outcome is found out (reconcile: openai_response).
func (s *streaming) identify(p *provider.Progress) {
	r := s.e.wf.Reconcile
	if s.noted || p.ResponseID == "" || r == nil || !r.OpenAIResponse || !s.e.op.Head().Hold {
		return
	}
	s.noted = true
	id, err := json.Marshal(map[string]string{"response_id": p.ResponseID})
	if err != nil { // a string
		return
	}
	s.e.op.Note(ledger.Event{Kind: "note", Reason: "the response's id", Rule: "reconcile.openai_response", Evidence: id})
}

// visible is the offset up to which clients may read: whole events, and under durability: strict none that
// completes the answer before it is on record (semantics 28).
func (s *streaming) visible(p *provider.Progress) int64 {
	if s.strict && p.Completing >= 0 {
		return min(p.Committed, p.Completing)
	}
	return p.Committed
}

func (s *streaming) cross() {
	s.crossed = true
	s.e.nest.ticket.Answered()
	s.e.watch.crossed()
	s.e.rec.open(&head{status: s.resp.Status, header: s.resp.Header, stream: true, unrecorded: s.dropped})
}

// oversized goes on without keeping a generation that is larger than may be held; an external one is unknown.
func (s *streaming) oversized() *outcome {
	if s.dropped {
		return nil
	}
	if s.e.effect == ledger.EffectExternal {
		return s.fail(verdict{end: ledger.AttemptUnknown, kind: string(CodeAnswerTooLarge), reason: errTooLarge.Error(),
			rule: "limits.max_response_bytes"}, tooLargeToKeep())
	}
	s.dropped = true
	s.e.rec.drop()
	if !s.crossed {
		s.cross()
	}
	s.e.overflowed()
	return nil
}

// ended handles the end of the body.
func (s *streaming) ended() *outcome {
	s.advance() // content that came with a break is the client's: what it gets must not hang on how bytes arrive
	how := s.read.Close()
	p := s.read.Progress()
	switch {
	case how == provider.Errored:
		return s.errored(p)
	case how == provider.Cut && mutant.On("cut-is-complete"):
		return s.complete(p)
	case how == provider.Cut:
		return s.broken(io.ErrUnexpectedEOF)
	default:
		return s.complete(p)
	}
}

func (s *streaming) complete(p *provider.Progress) *outcome {
	if p.ServedModel != "" {
		s.e.serves(p.ServedModel)
	}
	if !s.crossed && s.e.declines(func() bool { return provider.DeclinedStream(s.format, s.e.rec.bytes(s.e.rec.size)) }) {
		return s.e.declined(s.resp, s.e.rec.bytes(s.e.rec.size), s.usage(p), true)
	}
	done := success{usage: s.usage(p), events: max(p.Events, 1), unrecorded: s.dropped, finish: p.Finish, tool: p.ToolStarted, hosted: p.HostedTool}
	if !s.dropped && (s.e.keep || s.e.asks != nil) {
		done.body = s.e.rec.bytes(s.e.rec.size)
	}
	s.e.succeed(s.resp, done)
	return nil
}

// errored ends a stream that says itself that it failed. Before the boundary that is the provider's error, as if
// it had come with its status; behind it the event has been, or is, passed on unchanged, and follows once more where clients overlook its form.
func (s *streaming) errored(p *provider.Progress) *outcome {
	e := s.e
	v, status := s.reported(p)
	if e.effect == ledger.EffectExternal {
		v.end = ledger.AttemptUnknown
	}
	if !s.crossed {
		s.resp.Header = jsonHeader(s.resp.Header)
		return e.passError(v, status, s.resp, e.errorDocument(p.ErrorData, p.ErrorType, status))
	}
	v.end = ledger.AttemptUnknown // some of it was made, and is billed
	v.reason = "the provider broke the stream off with an error"
	if p.HostedTool {
		v.lane = string(signal.OwnerReview)
	}
	e.spend()
	e.rec.show(p.Committed)
	return &outcome{verdict: v, how: ending{tail: append(s.closing(p), s.onceMore(p, status)...)}, body: e.partial(), visible: true}
}

// streamReports is the reason of an in-stream error: the provider did not answer with the status that it stands for.
const streamReports = "the provider's stream reports an error"

// reported is what an in-stream error means, by the words of whoever answered, and the status that its client's API has for it.
func (s *streaming) reported(p *provider.Progress) (v verdict, status int) {
	data, kind := p.ErrorData, p.ErrorType
	if s.told != nil && s.told.fault != nil && !mutant.On("translated-error-judged-as-told") {
		data, kind = s.told.fault.Data, s.told.fault.Code
	}
	status = errorStatus(data, kind)
	v = s.e.judge(status, s.resp.Header, data)
	v.kind, v.keep, v.reason = kind, false, streamReports
	if s.told != nil && s.told.fault != nil {
		status = s.told.fault.Status
	}
	return v, status
}

// usage is what the provider has said of the tokens, whether or not it is told to the client as well.
func (s *streaming) usage(p *provider.Progress) provider.Usage {
	if s.told == nil || mutant.On("translated-usage-as-told") {
		return p.Usage
	}
	return s.told.usage()
}

// onceMore is the stream's own error in the form that every official client raises, where its own form is not.
func (s *streaming) onceMore(p *provider.Progress, status int) []byte {
	if !provider.Overlooked(&s.e.spec, s.format, p) {
		return nil
	}
	again := &provider.Error{Code: p.ErrorType, Status: status, Message: errorMessage(p.ErrorData)}
	return again.InStream(&s.e.spec, s.format, p)
}

// closing is what the error's own event still lacks: its blank line, or the bracket behind it. Half an event that stands behind
// the error is left out, for it is none.
func (s *streaming) closing(p *provider.Progress) []byte {
	switch {
	case s.format == provider.JSONArray && !p.Closed:
		return []byte("\r\n]")
	case s.format == provider.JSONArray || p.ErrorBare || p.ErrorAt < p.Committed:
		return nil
	}
	s.e.rec.show(s.e.rec.size) // it came whole
	if p.CRLF {                // LF LF would swallow the CRLF events that genai-go has buffered before it
		return []byte("\r\n\r\n")
	}
	return []byte("\n\n")
}

// broken ends a stream that stopped without its end.
func (s *streaming) broken(err error) *outcome {
	e := s.e
	s.advance()
	s.read.Close()
	p := s.read.Progress()
	if p.ErrorAt >= 0 {
		return s.errored(p)
	}
	if p.Ended && s.final() && !mutant.On("break-behind-the-end") {
		// The API's own end says that the answer is whole, and its clients have read it so: what becomes of the connection
		// behind it takes nothing back. Half an event there is none.
		e.rec.cut(p.Committed)
		return s.complete(p)
	}
	if s.refused(p) {
		return s.complete(p)
	}
	var v verdict
	var fail *Error
	if c := e.cause(); c != nil {
		v, fail = e.transportVerdict(err)
	} else if untellable(err) {
		v, fail = notTold(err, s.resp.Status)
	} else {
		v = verdict{kind: string(CodeIncomplete), reason: "the stream ended before its end", rule: "semantics 27",
			signal: cutSignal()}
		fail = &Error{Code: CodeIncomplete, Message: "the provider's stream ended before its end", Err: err}
	}
	v.end = ledger.AttemptUnknown
	fail.Safe = ""
	if p.HostedTool {
		v.lane, v.rule = string(signal.OwnerReview), "semantics 27"
	}
	return s.fail(v, fail)
}

// refused makes a whole answer of a stream without content that had said by its provider's policy on content that it is none, and then
// broke off: what it says is known, and another tier is for fallback.on to allow (see declines).
func (s *streaming) refused(p *provider.Progress) bool {
	if s.crossed || p.Finish == "" || mutant.On("torn-refusal-is-a-cut") {
		return false
	}
	body := append(s.e.rec.bytes(p.Committed), provider.EndOf(&s.e.spec, s.format, p)...)
	if !provider.DeclinedStream(s.format, body) {
		return false
	}
	s.e.rec.replace(body)
	return true
}

// fail ends the stream for its clients: by an error instead of an answer, or behind the boundary by one
// structured error that their SDKs raise (semantics 24).
func (s *streaming) fail(v verdict, fail *Error) *outcome {
	e := s.e
	if s.crossed {
		// Whole events that came with the break are the client's; they were only waiting to be shown.
		p := s.read.Progress()
		e.rec.show(s.visible(p))
		fail.Intent = e.op.ID()
		return &outcome{verdict: v, how: ending{tail: e.streamError(fail, s.format, p)}, body: e.partial(), visible: true}
	}
	return &outcome{verdict: v, how: ending{fail: fail}, body: e.partial()}
}
