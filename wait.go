package holdfast

import (
	"context"
	"time"

	"github.com/holdfast-ai/holdfast/intent"
	"github.com/holdfast-ai/holdfast/internal/policy"
	"github.com/holdfast-ai/holdfast/ledger"
)

// end tells everybody who waits how it ended.
func (fl *flight) end(out outcome) {
	if fl.op != nil {
		st := fl.op.Status()
		out.intent, out.attempts = fl.op.ID(), st.Attempt
		if out.err != nil {
			out.err.Intent = out.intent
		}
	}
	if out.err != nil {
		fl.f.forget(fl) // who comes from now on asks the ledger
	}
	fl.finish(out)
}

func (fl *flight) finish(out outcome) {
	fl.out = out
	close(fl.done)
	fl.mu.Lock()
	cancel := fl.cancel
	fl.mu.Unlock()
	cancel(nil)
	fl.f.mu.Lock()
	defer fl.f.mu.Unlock()
	if _, ok := fl.f.working[fl]; ok {
		delete(fl.f.working, fl)
		fl.f.running.Done()
	}
}

// abandon ends a flight of which nothing was begun: everybody who waits gets the same error.
func (fl *flight) abandon(err *Error) error {
	fl.f.forget(fl)
	fl.finish(outcome{err: err})
	return err
}

// standDown makes those who wait look the key up themselves: its answer is elsewhere.
func (fl *flight) standDown() {
	fl.f.forget(fl)
	fl.finish(outcome{elsewhere: true})
}

// took gives fl its intent. Duplicates may be asking for it already.
func (fl *flight) took(op *intent.Op) {
	fl.mu.Lock()
	fl.op = op
	fl.mu.Unlock()
}

func (fl *flight) id() string {
	fl.mu.Lock()
	defer fl.mu.Unlock()
	if fl.op == nil {
		return ""
	}
	return fl.op.ID()
}

func (fl *flight) attached() int {
	fl.mu.Lock()
	defer fl.mu.Unlock()
	return fl.callers
}

// leave takes a caller away; the last one to go ends the function's context where on_disconnect says so.
func (fl *flight) leave() {
	fl.mu.Lock()
	fl.callers--
	gone, cancel := fl.callers == 0, fl.cancel
	fl.mu.Unlock()
	if gone && fl.q.cancels && !fl.ended() {
		cancel(errCallersGone)
	}
}

func (fl *flight) ended() bool {
	select {
	case <-fl.done:
		return true
	default:
		return false
	}
}

// await waits as the caller that began the flight. A panic of the function is the caller's.
func (q *request) await(ctx context.Context, fl *flight) (*outcome, error) {
	defer fl.leave()
	if err := q.wait(ctx, fl); err != nil {
		return nil, err
	}
	if fl.out.panicked != nil {
		panic(fl.out.panicked)
	}
	if fl.out.err != nil {
		return nil, fl.out.err.copy()
	}
	out := fl.out
	return &out, nil
}

// follow answers a duplicate of a flight by on_in_flight.
func (q *request) follow(ctx context.Context, fl *flight) (out *outcome, again bool, err error) {
	defer fl.leave()
	if fl.q.head.Fingerprint != q.head.Fingerprint {
		return nil, false, q.reused(fl.id())
	}
	q.f.e.meter.Duplicate(q.rule.Name, "in_flight")
	if refused := q.mayFollow(fl); refused != nil {
		return nil, false, refused
	}
	if err := q.wait(ctx, fl); err != nil {
		return nil, false, err
	}
	switch {
	case fl.out.elsewhere, fl.out.again != nil:
		return nil, true, nil
	case fl.out.err != nil:
		return nil, false, fl.out.err.copy()
	case fl.out.fault != nil:
		gone := refusal(ErrAnswerGone, "this operation succeeded and nothing runs again, but its result could not be stored")
		gone.Intent = fl.out.intent
		return nil, false, gone
	}
	shared := fl.out
	shared.replayed, shared.at = true, fl.recorded
	return &shared, false, nil
}

// mayFollow says why a duplicate may not wait.
func (q *request) mayFollow(fl *flight) *Error {
	fl.mu.Lock()
	saved := fl.saved
	fl.mu.Unlock()
	why := ""
	switch {
	case fl.ended() && !saved && fl.out.err == nil && !fl.out.elsewhere && ledger.HealthOf(q.f.e.ledger, fl.id()) != nil:
		// The result exists and its record does not yet: until the store is back nobody else may get it (semantics 18).
		why = "the first call with this key is not yet on record: the store is unavailable"
	case q.rule.Idempotency.OnInFlight == policy.Conflict && !fl.ended():
		why = "the first call with this key still runs"
	case fl.attached() > q.f.e.config().Limits.Attached:
		why = "limits.attached callers wait for this result already"
	default:
		return nil
	}
	e := refusal(ErrInFlight, why)
	e.Intent = fl.id()
	return e
}

// wait returns when fl has ended, or says that this caller's time is over first: the operation goes on.
func (q *request) wait(ctx context.Context, fl *flight) error {
	if fl.ended() {
		return nil
	}
	timer := time.NewTimer(time.Until(q.limit))
	defer timer.Stop()
	why := errTime
	select {
	case <-fl.done:
		return nil
	case <-ctx.Done():
		why = context.Cause(ctx)
	case <-timer.C:
	}
	return &Error{Code: ErrDeadline, Message: "this caller's time is over; the operation goes on, and its result is kept for the same key",
		SafeToRetry: Safe, Intent: fl.id(), Err: why}
}

// copy lets each caller have an error of its own.
func (e *Error) copy() *Error {
	own := *e
	return &own
}

// drain takes on nothing more and waits for what is in progress until ctx ends; what is then still running is told to
// stop, and recorded as interrupted.
func (f *functions) drain(ctx context.Context) {
	f.mu.Lock()
	f.draining = true
	f.mu.Unlock()
	finished := make(chan struct{})
	go func() {
		f.running.Wait()
		close(finished)
	}()
	select {
	case <-finished:
		return
	case <-ctx.Done():
	}
	f.mu.Lock()
	var all []*flight
	for fl := range f.working {
		all = append(all, fl)
	}
	f.mu.Unlock()
	for _, fl := range all {
		fl.interrupt(errInterrupted)
	}
	<-finished
}

// close waits for late results that are being kept; later ones are lost.
func (f *functions) close() {
	f.mu.Lock()
	f.draining, f.closed = true, true
	f.mu.Unlock()
	f.late.Wait()
}
