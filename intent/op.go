package intent

import (
	"encoding/json"
	"errors"
	"sync"
	"time"

	"github.com/holdfast-ai/holdfast/internal/mutant"
	"github.com/holdfast-ai/holdfast/ledger"
)

// Op is one intent in the hands of whoever works on it. Its methods move the intent along the diagram; each
// returns when the move is durable. A move that another owner has overtaken fails with ledger.ErrStale and
// changes nothing: what came too late belongs to Evidence.
type Op struct {
	log     *Log
	head    ledger.Intent
	claim   string
	patient bool // see Patient

	mu      sync.Mutex
	st      ledger.Status
	running bool           // an attempt is on its way, as far as this hand knows
	untold  []ledger.Event // of a lease: it changes no version and is told with the next move
}

// Load takes an intent read from the ledger in hand.
func (g *Log) Load(r *ledger.Record) *Op {
	// Acting on a claim that an unclaimed intent never had touches no row, so the key alone is enough. An intent
	// that stays dispatched between two attempts has a time for the next (semantics 36), or no owner.
	running := r.State == ledger.Dispatched && r.LeaseOwner != "" && (r.ReadyAt.IsZero() || mutant.On("waiting-runs"))
	return &Op{log: g, head: r.Intent, st: r.Status, claim: r.Key, running: running}
}

// ID is the intent's id.
func (o *Op) ID() string { return o.head.ID }

// Head is the intent's immutable part; callers must not change it.
func (o *Op) Head() *ledger.Intent { return &o.head }

// Status is the last durable status.
func (o *Op) Status() ledger.Status {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.st
}

// Patient makes every later move of o wait for its commit however long the store takes: nobody waits for a job, and a
// dispatch given up after CommitWait would be taken for never sent (semantics 9) and the job with it. It returns o.
func (o *Op) Patient() *Op {
	o.patient = true
	return o
}

// Ending is how one attempt ended. An End of AttemptRunning in a Settlement says that the attempt's end is on
// record already.
type Ending struct {
	End        ledger.AttemptEnd
	Status     int    // HTTP status, 0 when none came
	Error      string // provider_error_type
	Reason     string // in words
	Rule       string // rule or policy field that decided, e.g. "semantics 3"
	Billed     bool   // marked possibly_billed
	RetryAfter time.Duration
	Lane       string // where the intent goes, "" where it stays
	Evidence   json.RawMessage
	// ReadyAt, of EndAttempt, is when the next attempt is due; until then nothing is on its way (semantics 36).
	ReadyAt time.Time
	// Free, of EndAttempt, gives the lease up with it: a job goes back to its lane. That is written however long the store is
	// away, as by Settle; ErrCommitWait says that it is not there yet.
	Free bool
}

// Settlement finishes an intent whose outcome is known.
type Settlement struct {
	Ending  Ending
	Outcome ledger.Outcome
	Reason  string
	// Answer and Body are kept for replay, KeepUntil the claim's end; a zero KeepUntil releases the claim
	// (semantics 14).
	Answer    *ledger.Answer
	Body      *ledger.Body
	KeepUntil time.Time
	// Cached are rows by which other requests find the answer of a success (semantics 47).
	Cached []ledger.Cached

	Visibility  ledger.Visibility
	Partial     bool
	ServedModel string
	UsageIn     int64
	UsageOut    int64
	Delivery    ledger.Delivery
}

// Dispatch makes the next attempt durable; only after it returned nil may its first byte leave. It is the
// first attempt of a created intent, or a further one of a dispatched intent, which an earlier attempt of
// unknown outcome allows only where the intent is not held (semantics 2).
func (o *Op) Dispatch(a Attempt) error {
	if err := o.log.fence(); err != nil {
		return err
	}
	c := o.change(o.log.ledger.Now())
	s := c.nextStep()
	if s == stepAttempt && o.head.Hold {
		return ErrHeld
	}
	if o.head.JobID != "" && !c.st.ExpiresAt.IsZero() && !c.now.Before(c.st.ExpiresAt) && !mutant.On("age-ignored") {
		return ErrAged
	}
	c.st.LeaseOwner, c.st.LeaseUntil = o.log.owner, time.Time{}
	c.dispatch(s, &a)
	return o.commit(c, c.write(), o.lateDispatch)
}

func (c *change) nextStep() step {
	if c.st.State == ledger.Dispatched {
		return stepAttempt
	}
	return stepDispatch
}

// EndAttempt records the end of an attempt after which the intent goes on: a definite failure returns it to
// intent_created, an unknown one leaves it dispatched (on_unknown: retry only).
func (o *Op) EndAttempt(e Ending) error {
	c := o.change(o.log.ledger.Now())
	c.endAttempt(e)
	if c.st.ReadyAt = e.ReadyAt; e.ReadyAt.IsZero() && c.st.State == ledger.Dispatched {
		c.st.ReadyAt = c.now // or a crash would take the attempt for one that is still on its way
	}
	if e.Free {
		c.st.LeaseOwner, c.st.LeaseUntil = "", time.Time{}
		return o.letGo(c)
	}
	return o.commit(c, c.write(), o.handBack)
}

func (c *change) endAttempt(e Ending) {
	c.end(e)
	switch {
	case e.End == ledger.AttemptFailed || e.End == ledger.AttemptNotSent:
		// A definite failure behind an unknown one leaves the intent where the unknown one put it: dispatched
		// (semantics 36). A held one went on behind an unknown attempt by evidence alone: it did not happen.
		if c.st.BilledMaybe > 0 && !c.op.head.Hold {
			c.step(stepContinue, ledger.Event{Reason: e.Reason, Rule: e.Rule})
			return
		}
		c.step(stepRelease, ledger.Event{Reason: e.Reason, Rule: e.Rule})
	case c.op.head.Hold:
		if c.err == nil {
			c.err = ErrHeld
		}
	default:
		c.step(stepContinue, ledger.Event{Reason: e.Reason, Rule: e.Rule})
	}
}

// Await keeps an intent of which nothing is on its way in this owner's hands, in a lane, until it may be sent.
func (o *Op) Await(lane string, ready time.Time, reason, rule string) error {
	if err := o.log.fence(); err != nil {
		return err
	}
	c := o.change(o.log.ledger.Now())
	c.require(!c.running, "await beside an attempt")
	c.step(stepContinue, ledger.Event{Reason: reason, Rule: rule})
	c.st.LeaseOwner, c.st.LeaseUntil = o.log.owner, time.Time{}
	c.st.Lane, c.st.ReadyAt = lane, ready
	return o.commit(c, c.write(), o.handBack)
}

// Settle records the end of the last attempt, confirms its outcome and settles the intent, in one commit.
// With relaxed it returns at once and the record follows; else it waits for durability, at most CommitWait,
// then returns ErrCommitWait while the write goes on. done, which may be nil, is told the end in either case.
func (o *Op) Settle(s Settlement, relaxed bool, done func(error)) error {
	c, w := o.settlement(s)
	if c.err != nil {
		if done != nil {
			done(c.err)
		}
		return c.err
	}
	w.Relaxed = relaxed
	if relaxed {
		o.relax(c, w, done)
		return nil
	}
	return o.strict(c, w, done)
}

func (o *Op) settlement(s Settlement) (*change, *ledger.Write) {
	c := o.change(o.log.ledger.Now())
	if s.Ending.End != ledger.AttemptRunning {
		c.end(s.Ending)
	}
	switch c.st.State {
	case ledger.Created: // its attempts failed, and the wait for the next one is over
		c.step(stepDiscard, ledger.Event{Reason: s.Reason, Rule: s.Ending.Rule})
	case ledger.Unknown:
		c.step(stepResolve, ledger.Event{Reason: s.Reason, Rule: s.Ending.Rule})
		c.step(stepSettle, ledger.Event{})
	default:
		c.step(stepConfirm, ledger.Event{Reason: s.Reason, Rule: s.Ending.Rule})
		c.step(stepSettle, ledger.Event{})
	}
	c.st.Outcome, c.st.Visibility, c.st.Partial = s.Outcome, s.Visibility, s.Partial
	c.st.UsageIn, c.st.UsageOut, c.st.Delivery = s.UsageIn, s.UsageOut, s.Delivery
	if s.ServedModel != "" {
		c.st.ServedModel = s.ServedModel
	}
	w := c.write()
	w.Answer, w.Cached = s.Answer, s.Cached
	if !s.KeepUntil.IsZero() && !mutant.On("release-on-settle") {
		w.Claim, w.ClaimUntil = ledger.ClaimKeep, s.KeepUntil
	}
	if s.Body != nil {
		w.Bodies = []ledger.Body{*s.Body}
	}
	return c, w
}

// relax lets the write ride with the next commit; only a store in trouble costs a goroutine.
func (o *Op) relax(c *change, w *ledger.Write, done func(error)) {
	o.log.settler.add(&settling{op: o, change: c, write: w, done: done, landed: o.log.ledger.Enqueue(w)})
}

func (o *Op) strict(c *change, w *ledger.Write, done func(error)) error {
	if c.err != nil {
		return c.err
	}
	if o.patient { // one that nobody waits for needs neither a goroutine nor a clock, unless the store is in trouble
		<-o.log.ledger.Enqueue(w)
		if err := o.landed(c, w); !errors.Is(err, ledger.ErrUnavailable) {
			if done != nil {
				done(err)
			}
			return err
		}
	}
	result := make(chan error, 1)
	o.persist(c, w, func(err error) {
		if done != nil {
			done(err) // first: what it lets go of is gone when the caller answers
		}
		result <- err
	})
	timer := time.NewTimer(o.log.wait)
	defer timer.Stop()
	select {
	case err := <-result:
		return err
	case <-timer.C:
		return ErrCommitWait
	}
}

// Lose records that the attempt's outcome is not known and holds the intent as unknown (semantics 2: hold).
func (o *Op) Lose(e Ending, body *ledger.Body) error {
	e.End = ledger.AttemptUnknown
	c := o.change(o.log.ledger.Now())
	c.end(e)
	c.lose(ledger.Event{Reason: e.Reason, Rule: e.Rule})
	w := c.write()
	if body != nil {
		w.Bodies = []ledger.Body{*body}
	}
	return o.strict(c, w, nil)
}

// lose holds the intent. What only evidence or a person ends neither expires nor belongs to an owner.
func (c *change) lose(e ledger.Event) {
	c.step(stepLose, e)
	c.st.Outcome, c.st.LeaseOwner, c.st.ExpiresAt = ledger.OutcomeUnknown, "", time.Time{}
}

// Discard settles an intent of which nothing is on its way and that nobody asks for any more, and releases its key: as
// discarded, but as failed where an attempt of it may have reached the far side (semantics 8). Beside an attempt that
// is on its way it is an *IllegalStepError.
func (o *Op) Discard(reason, rule string) error {
	c := o.change(o.log.ledger.Now())
	c.giveUp(reason, rule)
	return o.strict(c, c.write(), nil)
}

// NotSent settles a dispatched intent the bytes of whose last attempt, as this process knows, never left. It ends as by
// Discard: what an earlier attempt may have done is not undone by it.
func (o *Op) NotSent(reason, rule string) error {
	c := o.change(o.log.ledger.Now())
	if e := (Ending{End: ledger.AttemptNotSent, Reason: reason, Rule: rule}); mutant.On("discard-behind-unknown") {
		c.end(e)
		c.step(stepRelease, ledger.Event{Reason: reason, Rule: rule})
	} else {
		c.endAttempt(e)
	}
	c.giveUp("not sent", rule)
	return o.strict(c, c.write(), nil)
}

// giveUp settles by what the attempts so far may have done: an intent is created only while none of them can have had an
// effect, and stays dispatched behind one that may (semantics 2).
func (c *change) giveUp(reason, rule string) {
	if c.st.State == ledger.Dispatched {
		c.require(!c.running, "discard beside an attempt")
		c.fail(reason, rule)
		return
	}
	c.step(stepDiscard, ledger.Event{Reason: reason, Rule: rule})
	c.st.Outcome = ledger.OutcomeDiscarded
}

// Note adds lines to the history without moving the intent: a duplicate seen, a delivery.
func (o *Op) Note(e ledger.Event) {
	c := &change{now: o.log.ledger.Now()}
	c.add(e)
	o.log.ledger.Enqueue(&ledger.Write{ID: o.head.ID, Append: true, Relaxed: true, Events: c.w.Events})
}

// Cache adds rows by which other requests find the answer of a settled success, once what they are found by is known.
// ledger.ErrNotFound says that its answer is not kept any more. Nobody waits for it but the caller.
func (g *Log) Cache(id string, rows ...ledger.Cached) error {
	w := &ledger.Write{ID: id, Append: true, Relaxed: true, Cached: rows}
	<-g.ledger.Enqueue(w)
	return w.Err
}

// Shelve says where an intent stands while it is worked on here, "" where in no lane; the next move overrules it, and one that
// gave the intent out of hand before it is not overruled. Nobody waits for it.
func (o *Op) Shelve(lane, reason, rule string) {
	c := &change{now: o.log.ledger.Now()}
	c.add(ledger.Event{Kind: "note", Reason: reason, Rule: rule})
	o.log.ledger.Enqueue(&ledger.Write{ID: o.head.ID, Append: true, Relaxed: true, Shelve: true,
		Status: ledger.Status{Lane: lane, LeaseOwner: o.log.owner}, Events: c.w.Events})
}

// Evidence keeps what came too late to be state: the answer of an attempt whose lease was lost.
func (o *Op) Evidence(e Ending, body *ledger.Body) error {
	c := o.change(o.log.ledger.Now())
	c.w.Events = nil // what is untold is for the next move
	c.evidence(e)
	w := &ledger.Write{ID: o.head.ID, Append: true, Events: c.w.Events}
	if body != nil {
		late := *body
		late.Kind = ledger.BodyLate
		w.Bodies = []ledger.Body{late}
	}
	<-o.log.ledger.Enqueue(w)
	return w.Err
}

// Resolve ends unknown by evidence or a person (semantics 8), named in by.
func (o *Op) Resolve(outcome ledger.Outcome, by, reason string, evidence json.RawMessage, keepUntil time.Time) error {
	if outcome != ledger.OutcomeSuccess && outcome != ledger.OutcomeFailed {
		return errors.New("intent: an unknown outcome is resolved as success or failed")
	}
	c := o.change(o.log.ledger.Now())
	c.step(stepResolve, ledger.Event{Actor: by, Reason: reason, Rule: "semantics 8", Evidence: evidence})
	c.step(stepSettle, ledger.Event{Actor: by})
	c.st.Outcome = outcome
	w := c.write()
	if outcome == ledger.OutcomeSuccess {
		w.Claim, w.ClaimUntil = ledger.ClaimKeep, keepUntil
	}
	return o.commit(c, w, nil)
}
