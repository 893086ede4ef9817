package holdfast

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"sync"
	"sync/atomic"
	"time"

	"github.com/holdfast-ai/holdfast/idempotency"
	"github.com/holdfast-ai/holdfast/intent"
	"github.com/holdfast-ai/holdfast/internal/gateway"
	"github.com/holdfast-ai/holdfast/internal/mutant"
	"github.com/holdfast-ai/holdfast/internal/policy"
	"github.com/holdfast-ai/holdfast/ledger"
)

// work is a function with its result written down.
type work func(ctx context.Context) (product, error)

// returnGrace is how long a function whose context has ended may take to say what became of it.
const returnGrace = time.Second

// Why a function's context ended.
var (
	errTime        = fmt.Errorf("the function's time is over: %w", context.DeadlineExceeded)
	errCallersGone = errors.New("every caller left, and on_disconnect is cancel")
	errInterrupted = errors.New("this engine was told to stop")
	errGoexit      = errors.New("the function ended its goroutine (runtime.Goexit)")
)

// outcome is what became of a flight; it does not change once flight.done is closed.
type outcome struct {
	product
	intent    string
	attempts  int
	at        time.Time
	replayed  bool
	pending   bool
	err       *Error
	panicked  any
	elsewhere bool           // another flight or the ledger has the answer: look again
	again     *intent.Ending // it failed; this is to be recorded before a further attempt (outbox)
}

// flight is one function in progress. It belongs to its intent, not to the caller that began it.
type flight struct {
	f        *functions
	q        *request
	op       *intent.Op
	recorded time.Time // when the result was known to be stored, before done is closed
	more     bool      // a definite failure is followed by another attempt (outbox)
	began    time.Time
	ctx      context.Context
	cancel   context.CancelCauseFunc
	timer    *time.Timer
	over     atomic.Bool // what came first, the return or the end of its time, says how it ended
	done     chan struct{}
	out      outcome

	mu      sync.Mutex
	callers int
	saved   bool // the record of the outcome has landed
}

// newFlight prepares what q asks for. The caller is the first of those who wait.
func (q *request) newFlight() *flight {
	fl := &flight{f: q.f, q: q, done: make(chan struct{}), callers: 1}
	fl.ctx, fl.cancel = context.WithCancelCause(context.Background())
	return fl
}

// join enters fl under its key, or returns the flight that is there.
func (f *functions) join(fl *flight) *flight {
	f.mu.Lock()
	defer f.mu.Unlock()
	if other := f.flights[fl.q.head.Key]; other != nil {
		other.mu.Lock()
		other.callers++
		other.mu.Unlock()
		return other
	}
	f.flights[fl.q.head.Key] = fl
	return nil
}

// forget takes fl out once its record has landed, or never will.
func (f *functions) forget(fl *flight) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.flights[fl.q.head.Key] == fl {
		delete(f.flights, fl.q.head.Key)
	}
}

// admit takes a place among the functions in progress, which finish gives back.
func (f *functions) admit(fl *flight) *Error {
	f.mu.Lock()
	defer f.mu.Unlock()
	switch {
	case f.draining:
		return refusal(ErrDraining, "this engine is stopping; nothing was done")
	case len(f.working) >= f.e.config().Limits.Workers:
		return refusal(ErrShed, "limits.workers functions are in progress; nothing was done")
	}
	f.working[fl] = struct{}{}
	f.running.Add(1)
	return nil
}

// start lets the function run. Its dispatch is durable.
func (fl *flight) start(ctx context.Context, deadline time.Time, fn work) {
	if why := fl.notBegun(ctx); why != nil {
		fl.over.Store(true)
		fl.record(fl.op.NotSent("its caller or its engine left before it was begun", "semantics 25"))
		fl.end(outcome{err: &Error{Code: ErrDeadline, Message: "it was over before the function was called; nothing was done",
			SafeToRetry: Safe, Err: why}})
		return
	}
	st := fl.op.Status()
	fl.began = time.Now()
	inner, cancel := context.WithCancelCause(context.WithoutCancel(ctx))
	inner, stop := context.WithDeadlineCause(inner, deadline, errTime)
	fl.mu.Lock()
	stopped := context.Cause(fl.ctx)
	fl.ctx, fl.cancel = inner, func(why error) { cancel(why); stop() }
	fl.timer = time.AfterFunc(time.Until(deadline)+returnGrace, fl.overdue)
	fl.mu.Unlock()
	if stopped != nil {
		fl.interrupt(stopped)
	}
	key := idempotency.OutboundKey(fl.f.secret, fl.q.head.Key)
	go fl.fly(context.WithValue(inner, attemptKey{}, Attempt{Intent: fl.op.ID(), Number: st.Attempt, Key: key}), fn)
}

// notBegun is why the function is not called any more, although its dispatch is durable (semantics 25).
func (fl *flight) notBegun(ctx context.Context) error {
	if why := fl.cause(nil); why != nil {
		return why
	}
	if ctx.Err() != nil && fl.attached() == 1 {
		return context.Cause(ctx)
	}
	return fl.op.Sending()
}

func (fl *flight) fly(ctx context.Context, fn work) {
	var p product
	err := errGoexit
	defer func() {
		broke := recover()
		if broke != nil {
			fl.f.e.logger.Error("panic in a function", "intent", fl.op.ID(), "panic", fmt.Sprint(broke), "stack", string(debug.Stack()))
			err = fmt.Errorf("the function panicked: %v", broke)
		}
		fl.returned(p, err, broke)
	}()
	mutant.Point("send.before")
	p, err = fn(ctx)
	mutant.Point("send.after")
}

// returned says how the function ended.
func (fl *flight) returned(p product, err error, broke any) {
	if !fl.over.CompareAndSwap(false, true) {
		fl.keepLate(p, err)
		return
	}
	fl.timer.Stop()
	switch {
	case err == nil:
		fl.succeed(p)
	case broke == nil && definite(err):
		fl.fail(err)
	default:
		fl.lose(err, broke)
	}
}

// overdue gives up on a function that has not returned.
func (fl *flight) overdue() {
	if fl.over.CompareAndSwap(false, true) {
		fl.lose(fl.cause(errTime), nil)
	}
}

// cause is why the function's context ended, else is when it did not.
func (fl *flight) cause(otherwise error) error {
	fl.mu.Lock()
	ctx := fl.ctx
	fl.mu.Unlock()
	if err := context.Cause(ctx); err != nil {
		return err
	}
	return otherwise
}

// interrupt ends the function's context; what has not returned soon is recorded as it is.
func (fl *flight) interrupt(why error) {
	fl.mu.Lock()
	cancel, timer := fl.cancel, fl.timer
	fl.mu.Unlock()
	cancel(why)
	if timer != nil {
		timer.Reset(returnGrace) // fires at once into over, where the function has returned meanwhile
	}
}

// succeed records the result: at once and beside its callers, or under durability: strict before they get it,
// at most commit_wait later (semantics 28).
func (fl *flight) succeed(p product) {
	if max := fl.f.e.config().Limits.MaxResponseBytes; p.fault == nil && int64(len(p.data)) > max {
		p.fault = fmt.Errorf("it has %d bytes, over limits.max_response_bytes", len(p.data))
	}
	s := intent.Settlement{Ending: intent.Ending{End: ledger.AttemptSuccess}, Outcome: ledger.OutcomeSuccess,
		Visibility: ledger.VisComplete, Delivery: ledger.DeliverySent, KeepUntil: fl.keepUntil()}
	if p.fault == nil {
		s.Answer = &ledger.Answer{HTTPStatus: 200, Header: map[string][]string{"Content-Type": {p.contentType}}, Source: fl.q.head.Provider, HasBody: true}
		s.Body = &ledger.Body{Kind: ledger.BodyAnswer, ContentType: p.contentType, Data: p.data}
	} else {
		fl.f.e.logger.Warn("a function's result cannot be stored; who asks again gets answer_gone", "intent", fl.op.ID(), "error", p.fault)
	}
	fl.observe(ledger.AttemptSuccess, "")
	strict := fl.q.rule.Durability == policy.Strict
	err := fl.op.Settle(s, !strict, fl.landed(p))
	if err != nil && !errors.Is(err, intent.ErrCommitWait) {
		fl.record(err)
	}
	if err == nil && strict {
		fl.recorded = fl.f.e.ledger.Now()
	}
	fl.end(outcome{product: p, pending: err != nil})
}

// landed is told when the record is durable, or never will be by this owner: then the result is evidence, never
// state (semantics 6).
func (fl *flight) landed(p product) func(error) {
	return func(err error) {
		if errors.Is(err, ledger.ErrStale) {
			_ = fl.op.Evidence(intent.Ending{End: ledger.AttemptSuccess, Reason: "came after its lease was lost"}, &ledger.Body{ContentType: p.contentType, Data: p.data})
		}
		fl.mu.Lock()
		fl.saved = true
		fl.mu.Unlock()
		fl.f.forget(fl)
	}
}

// keepUntil is the end of the claim (semantics 13).
func (fl *flight) keepUntil() time.Time {
	h, i := fl.op.Head(), fl.q.rule.Idempotency
	if h.Explicit {
		return fl.f.e.ledger.Now().Add(i.TTL)
	}
	return h.CreatedAt.Add(i.Window)
}

// fail records a failure that had no effect. The key is released on record before anybody hears of it.
func (fl *flight) fail(cause error) {
	e := intent.Ending{End: ledger.AttemptFailed, Error: "function_error", Reason: fmt.Sprintf("the function says that nothing happened (%T)", innermost(cause)), Rule: "semantics 3"}
	if notSent(cause) {
		e.End = ledger.AttemptNotSent
	}
	fl.observe(e.End, e.Error)
	out := outcome{err: &Error{Code: ErrFailed, Message: "nothing happened", SafeToRetry: Safe, Err: cause}}
	var err error
	switch {
	case fl.more:
		out.again = &e
	case e.End == ledger.AttemptNotSent && fl.op.Status().Attempt == 1:
		err = fl.op.NotSent(e.Reason, e.Rule)
	default:
		err = fl.settleFailed(e)
	}
	fl.record(err)
	fl.end(out)
}

func (fl *flight) settleFailed(e intent.Ending) error {
	return fl.op.Settle(intent.Settlement{Ending: e, Outcome: ledger.OutcomeFailed, Reason: e.Reason, Visibility: ledger.VisBackground}, false, nil)
}

// lose records that nobody knows what the function did (semantics 2).
func (fl *flight) lose(cause error, broke any) {
	why := fl.cause(nil)
	e := intent.Ending{End: ledger.AttemptUnknown, Error: "function_error", Billed: true, Rule: "semantics 3",
		Reason: fmt.Sprintf("the function failed (%T) and does not say whether anything happened", innermost(cause))}
	switch {
	case broke != nil:
		e.Error, e.Reason = "panic", "the function panicked"
	case errors.Is(why, errTime):
		e.Error, e.Reason, e.Rule = "timeout", errTime.Error(), "timeouts.attempt"
	case why != nil:
		e.Error, e.Reason = "interrupted", why.Error()
	}
	fl.observe(e.End, e.Error)
	out := outcome{err: fl.lostError(cause, why), panicked: broke}
	var err error
	switch {
	case errors.Is(why, errInterrupted):
		err = fl.op.Interrupt(why.Error())
	case fl.op.Head().Hold:
		err = fl.op.Lose(e, nil)
	case fl.more:
		out.again = &e
	default:
		err = fl.settleFailed(e)
	}
	fl.record(err)
	fl.end(out)
}

func (fl *flight) lostError(cause, why error) *Error {
	if fl.op.Head().Hold {
		e := unknown(fl.op.ID())
		e.Err = cause
		return e
	}
	e := &Error{Code: ErrFailed, Message: "the function failed; it may have cost something", SafeToRetry: Safe, Err: cause}
	if errors.Is(why, errTime) {
		e.Code, e.Message = ErrDeadline, "the function's time was over; it may have cost something"
	}
	return e
}

// innermost is the error at the end of the chain, whose type says most. Its text may hold secrets and is not recorded.
func innermost(err error) error {
	for {
		next := errors.Unwrap(err)
		if next == nil {
			return err
		}
		err = next
	}
}

// record logs what could not be put on record; recovery finds it at the next start.
func (fl *flight) record(err error) {
	if err != nil {
		fl.f.e.logger.Error("what became of a function could not be recorded; recovery will find it", "intent", fl.op.ID(), "error", err)
	}
}

// keepLate keeps what a function returned after its operation had ended without it.
func (fl *flight) keepLate(p product, err error) {
	f := fl.f
	f.mu.Lock()
	if f.closed {
		f.mu.Unlock()
		f.e.logger.Warn("a function returned after its engine had stopped; its result is lost", "intent", fl.op.ID(), "failed", err != nil)
		return
	}
	f.late.Add(1)
	f.mu.Unlock()
	defer f.late.Done()
	e := intent.Ending{End: ledger.AttemptSuccess, Reason: "the function returned after its time was over"}
	s := intent.Settlement{Outcome: ledger.OutcomeSuccess, Visibility: ledger.VisBackground}
	switch {
	case err != nil && definite(err):
		e.End, e.Error, s.Outcome = ledger.AttemptFailed, "function_error", ledger.OutcomeFailed
	case err != nil:
		e.End, e.Error = ledger.AttemptUnknown, "function_error"
		fl.record(fl.op.Evidence(e, nil))
		return
	case p.fault == nil && int64(len(p.data)) <= f.e.config().Limits.MaxResponseBytes:
		s.Answer = &ledger.Answer{HTTPStatus: 200, Header: map[string][]string{"Content-Type": {p.contentType}}, Source: fl.q.head.Provider, HasBody: true}
		s.Body = &ledger.Body{Kind: ledger.BodyAnswer, ContentType: p.contentType, Data: p.data}
	}
	if s.Ending = e; err == nil {
		s.KeepUntil = fl.keepUntil()
	}
	ctx, stop := context.WithTimeout(context.Background(), f.e.config().Limits.CommitWait)
	defer stop()
	fl.record(f.e.log.Late(ctx, fl.op.ID(), s))
}

func (fl *flight) observe(end ledger.AttemptEnd, kind string) {
	fl.f.e.meter.Attempt(gateway.Attempt{Workflow: fl.q.rule.Name, Tier: fl.q.head.Provider, End: end, Error: kind, Took: time.Since(fl.began)})
}
