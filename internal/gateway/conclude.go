package gateway

import (
	"errors"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/holdfast-ai/holdfast/breaker"
	"github.com/holdfast-ai/holdfast/intent"
	"github.com/holdfast-ai/holdfast/internal/mutant"
	"github.com/holdfast-ai/holdfast/internal/policy"
	"github.com/holdfast-ai/holdfast/internal/provider"
	"github.com/holdfast-ai/holdfast/internal/upstream"
	"github.com/holdfast-ai/holdfast/ledger"
)

// success is a complete answer.
type success struct {
	body       []byte
	usage      provider.Usage
	events     int
	unrecorded bool

	finish       string // finish or stop reason, as the provider says it
	tool, hosted bool   // it names a call of a tool, or a hosted tool ran
}

// succeed records a complete answer and lets clients have the rest of it: at once, or under durability: strict
// when it is on record, at most commit_wait later (semantics 28).
func (e *execution) succeed(resp *upstream.Response, s success) {
	set := intent.Settlement{
		Ending:     intent.Ending{End: ledger.AttemptSuccess, Status: resp.Status},
		Outcome:    ledger.OutcomeSuccess,
		Visibility: ledger.VisComplete, Partial: s.events > 0, ServedModel: e.served,
		UsageIn: max(s.usage.Input, 0), UsageOut: max(s.usage.Output, 0), Delivery: ledger.DeliveryOpen,
	}
	e.kept = e.keepable(resp, &s)
	set.Cached = e.kept.rows()
	if (e.keep || e.kept != nil) && !s.unrecorded {
		e.answered = e.storedAnswer(resp.Status, resp.Header, s.body, s.events)
		set.Answer, set.KeepUntil = &e.answered.answer, e.answered.until
		set.Body = &ledger.Body{Kind: ledger.BodyAnswer, ContentType: header(resp, "Content-Type"), Data: s.body}
	}
	e.attempted(ledger.AttemptSuccess, "")
	e.pay(ledger.AttemptSuccess, s.usage)
	if e.job != nil {
		e.nest.route.Ease(e.sent)
	}
	e.nest.quit(breaker.Success)
	strict := e.wf.Durability == policy.Strict || e.job != nil // whose worker goes by what is on record
	e.word = lateWord{set.Ending, set.Body}
	err := e.op.Settle(set, !strict, e.landed)
	h := &head{status: resp.Status, header: resp.Header, stream: s.events > 0, unrecorded: s.unrecorded}
	h.pending = err != nil // also where another replica has taken it over meanwhile: what came late is evidence, and no state
	if err != nil && !errors.Is(err, intent.ErrCommitWait) {
		e.g.logger.Error("a complete answer could not be recorded", "intent", e.op.ID(), "error", err)
	}
	e.recordSeen(e.answered, false, nil, nil)
	e.rec.pending(h.pending)
	e.rec.open(h)
	e.end(ending{whole: true})
}

// conclude records a failure behind which nothing is sent, and lets clients know: by its ending, or by what the recording
// shows already.
func (e *execution) conclude(o *outcome) {
	if !o.visible {
		e.unanswered(o)
	}
	v := o.verdict
	if o.how.fail != nil {
		o.how.fail.Intent = e.op.ID()
	}
	if o.document != nil {
		e.rec.replace(o.document)
		o.remaining()
	}
	e.answered = o.answered
	if !o.recorded {
		if errors.Is(e.cause(), errInterrupted) && v.end != ledger.AttemptFailed {
			e.interrupted(o.how)
			return
		}
		if v.end == ledger.AttemptUnknown && (e.op.Head().Hold || v.lane != "") && !mutant.On("unknown-is-failed") {
			e.lose(o)
			return
		}
	}
	e.fail(o)
}

// remaining says in the provider's own error how long its wait still is (semantics 36): where it stands in the words
// alone, no client reads it, and while the call waited here it has become shorter.
func (o *outcome) remaining() {
	if o.how.reveal == nil || o.wait <= 0 {
		return
	}
	h := o.how.reveal.header.Clone()
	delete(h, "Retry-After-Ms")
	delete(h, "Retry-After")
	if left := o.wait - time.Since(o.at); left > 0 {
		set(h, "Retry-After", strconv.FormatInt(int64((left-1)/time.Second)+1, 10))
	}
	o.how.reveal.header = h
}

// fail settles a failed operation.
func (e *execution) fail(o *outcome) {
	v := o.verdict
	s := intent.Settlement{Ending: o.ending(), Outcome: ledger.OutcomeFailed, Reason: o.settling(e), Visibility: e.visibility(),
		Partial: e.rec.shown(), ServedModel: e.served, Body: o.body}
	if mutant.On("canned-answer-settled") && e.g.caches[e.wf.Name] != nil {
		s.Outcome = ledger.OutcomeSuccess
	}
	if e.answered != nil {
		s.Answer, s.KeepUntil = &e.answered.answer, e.answered.until
	}
	var err error
	end := e.end
	if v.end == ledger.AttemptNotSent && !o.recorded && e.attempts() == 1 {
		err = e.op.NotSent(v.reason, v.rule)
		end = e.endUnkept
	} else {
		// A failure that releases its key is on record before its client hears of it: the client's next try with
		// that key must find it released and not this failure once more (semantics 14).
		e.word = lateWord{s.Ending, s.Body}
		keeps := (e.answered != nil || !e.claimed) && e.job == nil
		err = e.op.Settle(s, keeps && e.wf.Durability != policy.Strict, e.landed)
		if !keeps { // it may have taken longer than commit_wait
			e.spend()
		}
	}
	if err != nil && !errors.Is(err, intent.ErrCommitWait) {
		e.g.logger.Error("a failed attempt could not be recorded", "intent", e.op.ID(), "error", err)
	}
	e.logEnd(o)
	e.recordSeen(e.answered, v.end == ledger.AttemptUnknown, e.holdFor(v, o.how, o.reply), e.lastWord(v, o.how, o.reply))
	end(o.how)
}

// ending is the attempt's end as the log takes it; what is on record already is not said twice.
func (o *outcome) ending() intent.Ending {
	end := o.verdict.ending()
	end.Evidence = o.evidence
	if o.recorded {
		return intent.Ending{Rule: o.rule}
	}
	return end
}

// settling is why the operation ends here, in words.
func (o *outcome) settling(e *execution) string {
	if cause := e.cause(); leftAlone(cause) && !errors.Is(cause, errFinishLimit) && !errors.Is(cause, errDrainQuota) {
		return "client_cancelled: " + cause.Error()
	}
	return o.reason
}

// recordSeen tells the sighting how its operation ended.
func (e *execution) recordSeen(answer *stored, unknown bool, hold, last *held) {
	if e.seen != nil {
		e.seen.tried(e.course.tries)
		e.seen.ended(answer, unknown, e.attempts()+e.inherited, hold, last)
	}
}

// lose holds the intent: nothing sends it again until evidence or a person has spoken (semantics 2).
func (e *execution) lose(o *outcome) {
	how := o.how
	err := e.op.Lose(o.ending(), o.body)
	if how.fail != nil && (how.fail.Code == CodeAllTiersFailed || e.spec.Wire == provider.Tool) {
		told := e.lostError()
		told.Err = how.fail.Err
		how.fail = told
	}
	switch {
	case errors.Is(err, ledger.ErrStale):
		e.cameLate(lateWord{o.ending(), o.body})
	case err != nil:
		e.g.logger.Error("an unknown outcome could not be recorded; recovery will find it", "intent", e.op.ID(), "error", err)
	}
	e.logEnd(o)
	if e.seen != nil {
		// Nothing may send it again: within the window its key says so, to everybody.
		window := e.seen.ends.Sub(e.g.ledger.Now())
		e.seen.pin()
		e.recordSeen(nil, false, &held{until: time.Now().Add(window), fail: unknownError(e.op.ID())}, nil)
	}
	e.endUnkept(how)
}

// lostError is what the clients of an operation hear whose outcome has just become unknown.
func (e *execution) lostError() *Error {
	told := e.g.stillUnknown(e.op.ID())
	if r := e.wf.Reconcile; r != nil && told.Wait == 0 { // it is not planned yet
		told.Wait = time.Second
		if r.When == "batch" {
			told.Wait = r.Every
		}
	}
	return told
}

func (e *execution) interrupted(how ending) {
	if err := e.op.Interrupt(errInterrupted.Error()); err != nil {
		e.g.logger.Error("an interrupted call could not be recorded; recovery will find it", "intent", e.op.ID(), "error", err)
	}
	if how.fail != nil {
		how.fail.Message = "this gateway was stopped while the call was on its way"
	}
	e.endUnkept(how)
}

// logEnd says once that an attempt failed, and where it was made: what follows may be at another tier.
func (e *execution) logEnd(o *outcome) {
	if o.logged {
		return
	}
	o.logged = true
	e.g.logger.Warn("attempt failed", "intent", e.op.ID(), "workflow", e.wf.Name, "tier", e.next.Tier, "provider", e.target.conf.Name, "model", e.next.Model,
		"end", o.end.String(), "status", o.status, "error_type", o.kind, "reason", o.reason, "rule", o.rule)
}

func (e *execution) visibility() ledger.Visibility {
	if e.rec.shown() {
		return ledger.VisPartial
	}
	return ledger.VisBefore
}

// lateWord is what an attempt brought after somebody else had moved its intent.
type lateWord struct {
	ending intent.Ending
	body   *ledger.Body
}

// cameLate keeps it as evidence: it is never state (semantics 6).
func (e *execution) cameLate(w lateWord) {
	w.ending.Reason = strings.TrimPrefix(w.ending.Reason+"; came after its lease was lost", "; ")
	if err := e.op.Evidence(w.ending, w.body); err != nil {
		e.g.logger.Error("what came after a lease was lost could not be recorded", "intent", e.op.ID(), "error", err)
	}
}

// landed is told when the record of a settled execution is durable, or never will be by this owner.
func (e *execution) landed(err error) {
	switch {
	case errors.Is(err, ledger.ErrStale):
		e.cameLate(e.word)
	case err == nil && e.answered != nil && e.claimed:
		e.g.replays.put(e.answered)
	case err == nil && e.seen != nil:
		e.seen.landed()
	}
	if err == nil && e.kept != nil {
		e.g.offer(e.kept)
	}
	e.mu.Lock()
	e.saved = true
	e.mu.Unlock()
	e.forget()
}

// unsaved says that the answer is complete and its record not yet durable.
func (e *execution) unsaved() bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.settled && !e.saved
}

func (e *execution) opID() string {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.op == nil {
		return ""
	}
	return e.op.ID()
}

// replayed are the headers that a replay repeats (semantics 29): no cookies, dates or rate limits.
var replayed = []string{"Content-Type", "Content-Encoding", "Content-Language", "Retry-After", "X-Request-Id", "Request-Id", "Openai-Processing-Ms",
	"Openai-Version", "Openai-Organization", "X-Generation-Id"}

func (e *execution) storedAnswer(status int, h http.Header, body []byte, events int) *stored {
	kept := make(map[string][]string, 2)
	for _, name := range replayed {
		if v := h[name]; v != nil {
			kept[name] = v
		}
	}
	if status < 300 {
		reason, notice := e.standsFor()
		if reason != "" {
			kept["Holdfast-Fallback-Reason"] = []string{reason}
		}
		if notice != "" {
			kept["Holdfast-Notice"] = []string{notice}
		}
	}
	st := e.op.Status()
	s := &stored{key: e.claim, fp: e.fp, id: e.op.ID(), body: body, at: e.g.ledger.Now(), tries: e.tries,
		model:  [2]string{plainName(e.spec.Model), e.served},
		answer: ledger.Answer{HTTPStatus: status, Header: kept, Source: st.Tier, Events: events, HasBody: true}}
	if e.claimed {
		s.until = e.keepUntil()
	}
	return s
}
