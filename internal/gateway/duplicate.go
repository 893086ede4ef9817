package gateway

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/holdfast-ai/holdfast/intent"
	"github.com/holdfast-ai/holdfast/internal/mutant"
	"github.com/holdfast-ai/holdfast/internal/policy"
	"github.com/holdfast-ai/holdfast/ledger"
)

// duplicate looks for the operation that this request repeats: a running one in this process, then a recent
// answer. What only the ledger knows, the claim finds.
func (c *call) duplicate() *Error {
	if c.retries() {
		c.g.observer.Lookup(c.wf.Name)
		return c.adopt()
	}
	if !c.claimed {
		return c.firstSight()
	}
	c.g.observer.Lookup(c.wf.Name)
	if c.resume && c.severalSeen() {
		return errStreamLost
	}
	if s := c.g.replays.get(c.key, c.g.ledger.Now()); s != nil {
		if !c.clashes(s.fp) {
			c.noteReplay(s)
		}
		return c.replayStored(s)
	}
	c.exec, c.leader = c.g.newExecution(c), true
	c.exec.key = c.key
	if c.resume {
		return c.resumeRunning()
	}
	if running := c.g.registry.join(c.key, c.exec); running != nil {
		c.exec.cancel(nil)
		c.exec, c.leader = running, false
		return c.follow(running)
	}
	return nil
}

// follow answers a duplicate of a running execution by on_in_flight.
func (c *call) follow(e *execution) *Error {
	c.replay = true
	c.attend()
	if c.clashes(e.fp) {
		return c.reused(e.opID())
	}
	c.g.observer.Duplicate(c.wf.Name, "in_flight")
	e.followers.Add(1)
	switch {
	case e.unsaved() && ledger.HealthOf(c.g.ledger, e.opID()) != nil:
		return c.unkept(e)
	case e.failed() && !c.resume && !mutant.On("join-what-failed"): // the rest of a recording is its own, whatever it is
		return &Error{Code: CodeInFlight, Message: "the first request with this key has failed, and that is not yet on record", Intent: e.opID()}
	case c.wf.Idempotency.OnInFlight == policy.Conflict:
		return &Error{Code: CodeInFlight, Message: "the first request with this key still runs", Intent: e.opID()}
	case e.attached() > c.g.policy.Limits.Attached:
		return &Error{Code: CodeInFlight, Message: "limits.attached clients wait for this answer already", Intent: e.opID()}
	case c.wf.Idempotency.OnInFlight == policy.Wait:
		return c.awaitEnd(e)
	}
	return nil
}

func (c *call) awaitEnd(e *execution) *Error {
	ctx, stop := c.patience()
	defer stop()
	select {
	case <-e.finished:
		return nil
	case <-ctx.Done():
		return c.waited(e, ctx)
	}
}

// patience bounds how long this client waits for somebody else's execution.
func (c *call) patience() (context.Context, context.CancelFunc) {
	limit := c.wf.Timeouts.Request
	if c.deadline > 0 {
		limit = min(limit, c.deadline)
	}
	return context.WithDeadline(c.r.Context(), c.began.Add(limit))
}

// waited says that this client's time is over while the operation goes on.
func (c *call) waited(e *execution, ctx context.Context) *Error {
	if c.r.Context().Err() != nil {
		return nil
	}
	return &Error{Code: CodeDeadline, Message: "this request's time is over; the operation still runs, and its answer is kept for the same key",
		Safe: safeYes, Intent: e.opID(), Open: true, Err: ctx.Err()}
}

// held answers for a key that the ledger says is claimed, or takes over an intent that waits for this request.
// again is true when the holder has gone meanwhile.
func (c *call) held(holder string) (again bool, refusal *Error) {
	ctx, stop := context.WithTimeout(context.Background(), c.g.policy.Limits.CommitWait)
	defer stop()
	refused := c.g.log.Refused(holder)
	r, err := c.g.ledger.Get(ctx, holder)
	if errors.Is(err, ledger.ErrNotFound) {
		return true, nil
	}
	if err != nil {
		return false, c.storeAway(err)
	}
	if c.clashes(r.Fingerprint) {
		return false, c.reused(r.ID)
	}
	if c.goesOnWith(r) {
		if refusal := c.resumes(r); refusal != nil {
			return false, refusal
		}
		return c.takeOver(r)
	}
	if c.g.elsewhere(r) && c.leader && !refused {
		return false, c.followThere(r)
	}
	return c.heldBy(ctx, r, refused)
}

// stillUnknown says when the outcome is looked for again, where somebody looks (interface.md §2).
func (g *Gateway) stillUnknown(id string) *Error {
	e := unknownError(id)
	if wait, ok := g.log.NextCheck(id); ok {
		e.Wait = max(wait, time.Second)
	}
	return e
}

func unknownError(id string) *Error {
	return &Error{Code: CodeOutcomeUnknown, Intent: id, Message: "the effect of this request may have happened and its outcome is not known; " +
		"nothing is sent again until evidence or a person settles it. What is known: holdfast trace " + id +
		". To settle it: holdfast intents resolve " + id + " --outcome success|failed --by NAME --reason TEXT"}
}

// repeated is the history's line for requests that repeated an operation.
func repeated(kind string, requests int64) ledger.Event {
	return ledger.Event{Kind: "duplicate", Reason: kind, Rule: "interface §4",
		Evidence: fmt.Appendf(nil, `{"requests":%d}`, requests)}
}

// noteReplay writes a replay from memory down.
func (c *call) noteReplay(s *stored) {
	requests := c.g.repeats.worth(s.id)
	if requests == 0 {
		return
	}
	c.g.ledger.Enqueue(&ledger.Write{ID: s.id, Append: true, Relaxed: true, Events: []ledger.Event{c.stamped(repeated("settled", requests))}})
}

func (c *call) duplicateOf(r *ledger.Record, kind string) {
	c.g.observer.Duplicate(c.wf.Name, kind)
	if requests := c.g.repeats.worth(r.ID); requests > 0 {
		c.g.log.Load(r).Note(repeated(kind, requests))
	}
}

// heldSettled replays what the ledger kept.
func (c *call) heldSettled(ctx context.Context, r *ledger.Record) (bool, *Error) {
	if !c.g.ledger.Now().Before(r.ClaimUntil) { // its time is over, or it was released meanwhile
		return true, nil
	}
	c.duplicateOf(r, "settled")
	s, err := c.g.load(ctx, r)
	if err != nil {
		return false, c.storeAway(err)
	}
	return false, c.replayStored(s)
}

// load reads a settled answer back and keeps it at hand.
func (g *Gateway) load(ctx context.Context, r *ledger.Record) (*stored, error) {
	s := &stored{key: r.Key, fp: r.Fingerprint, id: r.ID, until: r.ClaimUntil, at: r.SettledAt,
		model: [2]string{r.RequestedModel, r.ServedModel}, tries: r.Attempt}
	if r.Answer == nil {
		s.reason = "it was settled as " + r.Outcome.String() + " without an answer of the far side"
		if r.Outcome == ledger.OutcomeSuccess {
			s.reason += ": its effect took place"
		}
		return s, nil
	}
	s.answer = *r.Answer
	if r.Answer.HasBody {
		b, err := g.ledger.Body(ctx, r.ID, ledger.BodyAnswer)
		if errors.Is(err, ledger.ErrNotFound) {
			s.reason = "its answer is no longer kept"
			return s, nil
		}
		if err != nil {
			return nil, err
		}
		s.body = b.Data
	}
	if !s.until.IsZero() {
		g.replays.put(s)
	}
	return s, nil
}

// takeOver goes on with an intent that waits for a request with its key (semantics 7): the compare-and-set of
// its next attempt decides who.
func (c *call) takeOver(r *ledger.Record) (again bool, refusal *Error) {
	op := c.g.log.Load(r)
	err := c.exec.takenOver(op)
	switch {
	case errors.Is(err, ledger.ErrStale):
		return true, nil
	case err != nil:
		return false, c.storeAway(err)
	}
	op.Note(ledger.Event{Kind: "note", Reason: "taken over by a request with its key", Rule: "semantics 7"})
	c.exec.took(op, r.CreatedAt)
	return false, nil
}

// storeAway refuses because the store cannot be read or written: nothing was sent.
func (c *call) storeAway(err error) *Error {
	c.g.observer.StoreError(c.wf.Name)
	return &Error{Code: CodeStoreUnavailable, Message: "the store is unavailable; nothing was sent", Err: err, Degraded: degraded}
}

// admit takes a place among the workers.
func (c *call) admit() *Error {
	if !c.leader {
		return nil
	}
	if err := c.place(); err != nil {
		return c.abandon(err)
	}
	return nil
}

// place takes a place among the workers, which release gives back.
func (c *call) place() *Error {
	c.g.running.begin() // before the look at draining: a drain that did not refuse this call waits for it
	working := c.g.working.Add(1)
	if c.g.draining.Load() {
		c.g.leave()
		return errorf(CodeDraining, "this gateway is shutting down; nothing was sent")
	}
	if most := c.places(); working > most {
		c.g.leave()
		return errorf(CodeShed, "%d calls are in progress, of limits.workers; nothing was sent", most)
	}
	c.admitted = true
	return nil
}

// claim makes the claim and the first attempt durable, in one commit, before anything is sent.
func (c *call) claim() *Error {
	if !c.leader {
		return nil
	}
	for range 4 { // each turn another owner moved the holder between two reads
		again, err := c.claimOnce()
		if c.mirror { // it is its clients', and ends with its operation
			return err
		}
		if err != nil {
			return c.abandon(err)
		}
		if c.done || !again {
			return nil
		}
	}
	return c.abandon(&Error{Code: CodeInFlight, Message: "the operation with this key is changing hands"})
}

func (c *call) claimOnce() (again bool, refusal *Error) {
	if c.job != nil {
		return false, c.claimJob()
	}
	if r := c.waiting; r != nil {
		c.waiting = nil
		return c.takeOver(r)
	}
	if holder := c.present(); holder != "" {
		return c.yieldTo(holder)
	}
	if c.approves() { // what was to answer it has ended in this moment: a call of its own would ask no owner
		return false, &Error{Code: CodeInFlight, Message: "the operation with this key has just ended; nothing was sent"}
	}
	op, err := c.g.log.Begin(c.begin())
	if holder := holderOf(err); holder != "" {
		return c.yieldTo(holder)
	}
	if err != nil {
		return false, c.storeAway(err)
	}
	c.exec.took(op, op.Head().CreatedAt)
	return false, nil
}

// present asks a reader who holds the key: a replay from the file then costs no refused write. Only the claim
// itself decides.
func (c *call) present() string {
	if r := c.holder(); r != nil {
		return r.ID
	}
	return ""
}

// holder is nil where nobody holds the key, and where the store is away: the claim will say so.
func (c *call) holder() *ledger.Record {
	if !c.claimed {
		return nil
	}
	ctx, stop := context.WithTimeout(context.Background(), c.g.policy.Limits.CommitWait)
	defer stop()
	r, err := c.g.ledger.Holder(ctx, c.key)
	if err != nil {
		return nil
	}
	return r
}

// keepUntil is the end of the claim of an answer that is kept (semantics 13).
func (e *execution) keepUntil() time.Time {
	i := e.wf.Idempotency
	if e.op.Head().Explicit || e.job != nil { // a job's answer is fetched when there is time
		return e.g.ledger.Now().Add(intent.KeyKept(e.op.Head(), i.TTL))
	}
	return e.began.Add(i.Window)
}
