package gateway

import (
	"bytes"
	"context"
	"errors"
	"time"

	"github.com/holdfast-ai/holdfast/breaker"
	"github.com/holdfast-ai/holdfast/internal/mutant"
	"github.com/holdfast-ai/holdfast/internal/policy"
	"github.com/holdfast-ai/holdfast/internal/provider"
	"github.com/holdfast-ai/holdfast/ledger"
)

// A mirror is an execution in the registry that makes no upstream call: it shows its clients what another gateway's execution
// shows, as far as that one can be reached, and knows by the log how it ends. Its clients read its recording as any other.

// errUnwatched ends a mirror for which nobody waits any more.
var errUnwatched = errors.New("nobody here waits for it any more")

// follow answers from an operation that another gateway works on, by on_in_flight.
func (c *call) followThere(r *ledger.Record) *Error {
	c.duplicateOf(r, "in_flight")
	if c.wf.Idempotency.OnInFlight == policy.Conflict && !c.retries() && !c.resume {
		return &Error{Code: CodeInFlight, Message: "the first request with this key still runs", Intent: r.ID}
	}
	e := c.exec
	e.nest.quit(breaker.Ignored)
	e.purse.drop()
	c.g.running.begin() // the mirror's own, which a drain waits for
	if c.admitted {
		c.g.leave()
		c.admitted = false
	}
	e.mirrors(r)
	c.leader, c.replay, c.mirror = false, true, true
	c.attend()
	go e.reflect(r)
	if c.wf.Idempotency.OnInFlight == policy.Wait && !c.retries() {
		return c.awaitEnd(e)
	}
	return nil
}

// mirrors makes e the mirror of what is on record.
func (e *execution) mirrors(r *ledger.Record) {
	op := e.g.log.Load(r)
	e.course = &course{legs: e.course.legs, at: e.course.at} // the call may go on by its own, behind this
	e.mu.Lock()
	e.op, e.began, e.tries, e.served = op, r.CreatedAt, r.Attempt, r.ServedModel
	e.remote = true
	e.mu.Unlock()
}

// isMirror says that e shows another gateway's execution.
func (e *execution) isMirror() bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.remote
}

// reflect keeps the mirror until the operation has ended, or nobody waits for it here.
func (e *execution) reflect(r *ledger.Record) {
	defer e.g.running.end()
	how := e.reflection(r)
	e.mu.Lock()
	e.saved = true
	e.mu.Unlock()
	if how.fail != nil && how.fail.Intent == "" {
		how.fail.Intent = r.ID
	}
	e.seenThere(how)
	e.endUnkept(how)
}

// reflection waits for the end: told by the gateway that makes the answer, or read in the log, whichever comes first and says more.
func (e *execution) reflection(r *ledger.Record) ending {
	w := e.g.awaits.add(r.ID)
	defer e.g.awaits.remove(w)
	ctx, stop := context.WithCancelCause(e.ctx)
	defer stop(nil)
	told := e.g.relay(ctx, e, r)
	hush := func() { // the relay, for what it brings from now on is not the same answer's
		stop(nil)
		for told != nil {
			if _, more := <-told; !more {
				told = nil
			}
		}
	}
	for {
		select {
		case how, ok := <-told:
			if ok {
				return how
			}
			told = nil // it cannot be reached, or no longer: the log has the word
			e.g.awaits.soon(w)
		case now := <-w.news:
			if how, over := e.landedThere(r, now, told, hush); over {
				return how
			}
		case <-e.ctx.Done():
			hush()
			return e.unreflected()
		}
	}
}

// seenThere keeps, under the operation's derived key, what its clients here are told of a failure (semantics 21).
func (e *execution) seenThere(how ending) {
	if e.seen == nil || how.fail == nil || how.again || how.fail.Code == CodeDraining {
		return
	}
	h := &held{until: time.Now().Add(e.wf.ErrorHold), fail: how.fail, since: time.Now()}
	e.seen.mu.Lock()
	e.seen.failed, e.seen.last = true, h
	if how.fail.Code == CodeAllTiersFailed || how.fail.Code == CodeDeadline {
		e.seen.hold = h
	}
	e.seen.mu.Unlock()
}

// unreflected ends a mirror that was stopped. Who comes in this moment looks the key up again.
func (e *execution) unreflected() ending {
	if !errors.Is(context.Cause(e.ctx), errInterrupted) {
		return ending{again: true, abort: e.rec.shown()}
	}
	fail := errorf(CodeDraining, "this gateway is shutting down; the operation goes on at another one, and its answer is kept for the same key")
	return e.brokenOff(fail)
}

// moved says that an operation is no longer what its gateway was working on.
func moved(was, now *ledger.Record) bool {
	return now == nil || now.State == ledger.Settled || now.State == ledger.Unknown || now.LeaseOwner != was.LeaseOwner
}

// landedThere is what the log says of the end. While the gateway that made the answer tells of it, its word is waited for: it
// says the same, with the failure in its own words. One from which it was taken knows of no end.
func (e *execution) landedThere(was, now *ledger.Record, told <-chan ending, hush func()) (how ending, over bool) {
	if !moved(was, now) {
		if !e.g.lives(e.ctx, was.LeaseOwner) { // though it may still be talking: what its lease held is not its own any more
			e.g.reclaims()
		}
		return ending{}, false
	}
	if told != nil && now != nil && now.State == ledger.Settled && now.LeaseOwner == was.LeaseOwner {
		return ending{}, false
	}
	hush()
	if e.rec.begun() {
		return e.goesOnFromRecord(now)
	}
	if e.seen != nil && now != nil {
		e.seen.refreshed(now)
	}
	if now != nil && now.State == ledger.Settled && now.Outcome == ledger.OutcomeFailed && now.Answer == nil && !orphaned(was, now) &&
		!mutant.On("follower-of-a-failure-dispatches") {
		return ending{fail: failedThere(now)}, true // semantics 21
	}
	return ending{again: true}, true
}

// orphaned says that an operation failed because its gateway ended, not because of what was answered: whoever waits for it goes on
// as after a restart.
func orphaned(was, r *ledger.Record) bool {
	return r.Crashes > was.Crashes || r.LastError == "crash" || r.LastError == "interrupted"
}

// failedThere is what followers of a failure hear of it where the log alone tells (semantics 21).
func failedThere(r *ledger.Record) *Error {
	e := &Error{Code: CodeAllTiersFailed, Intent: r.ID, Wait: r.RetryAfter, Message: "the first request with this key failed at another replica"}
	if r.LastError != "" {
		e.Message += ": " + r.LastError
	}
	if _, known := classes[Code(r.LastError)]; known {
		e.Code = Code(r.LastError)
	}
	return e
}

// goesOnFromRecord gives clients that have seen a part the rest of what is on record, where that is the same execution's: an
// answer is never spliced onto another one (semantics 26).
func (e *execution) goesOnFromRecord(r *ledger.Record) (how ending, over bool) {
	lost := errorf(CodeIncomplete, "the replica that made this answer can no longer be reached")
	if r == nil || r.State != ledger.Settled || r.Answer == nil || !r.Answer.HasBody {
		return e.brokenOff(lost), true
	}
	ctx, stop := context.WithTimeout(context.Background(), e.g.policy.Limits.CommitWait)
	defer stop()
	b, err := e.g.ledger.Body(ctx, r.ID, ledger.BodyAnswer)
	if err != nil {
		return e.brokenOff(lost), true
	}
	have := e.rec.bytes(e.rec.length())
	if e.rec.sparse() { // what came first is not kept any more
		return e.brokenOff(lost), true
	}
	if !bytes.HasPrefix(b.Data, have) && !mutant.On("relay-splices-runs") {
		return e.brokenOff(lost), true
	}
	if rest := b.Data[min(len(have), len(b.Data)):]; e.rec.append(rest) < len(rest) {
		return e.brokenOff(lost), true
	}
	return ending{whole: true}, true
}

// brokenOff tells clients that have seen a part, in their stream, that the rest does not come; others by an answer.
func (e *execution) brokenOff(fail *Error) ending {
	h := e.rec.opened()
	switch {
	case h == nil:
		return ending{fail: fail}
	case !h.stream:
		return ending{abort: true}
	}
	format := provider.FormatOf(&e.spec, h.contentType())
	read := provider.NewStream(&e.spec, format, provider.Limits{EventBytes: int(e.g.policy.Limits.EventBytes)})
	_ = read.Feed(e.rec.bytes(e.rec.visibleTo()))
	p := read.Progress()
	fail.Intent = e.opID()
	return ending{tail: e.streamError(fail, format, p)}
}

// begun says that the head of the answer is known: clients may have it.
func (r *recording) begun() bool { return r.opened() != nil }

// sparse says that the beginning is no longer kept.
func (r *recording) sparse() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.dropped
}

func (r *recording) opened() *head {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.head
}

// append keeps bytes that another gateway has shown, without letting clients read them yet. It returns how many: fewer where no
// memory is left.
func (r *recording) append(p []byte) (n int) {
	for n < len(p) {
		room, _ := r.space()
		if room == nil {
			break
		}
		k := copy(room, p[n:])
		r.wrote(k)
		n += k
	}
	return n
}
