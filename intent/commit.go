package intent

import (
	"context"
	"errors"
	"time"

	"github.com/holdfast-ai/holdfast/internal/mutant"
	"github.com/holdfast-ai/holdfast/ledger"
)

// commit makes c durable through w and waits for it, at most CommitWait. When w lands only after its caller was
// refused, late runs (semantics 9). o's status moves only when w has landed.
func (o *Op) commit(c *change, w *ledger.Write, late func()) error {
	if c.err != nil {
		return c.err
	}
	mutant.Point("commit.before")
	done := o.log.ledger.Enqueue(w)
	err := o.await(c, w, done, late)
	mutant.Point("commit.after")
	return err
}

func (o *Op) await(c *change, w *ledger.Write, done <-chan struct{}, late func()) error {
	if o.patient {
		<-done
		return o.landed(c, w)
	}
	timer := o.log.timer()
	select {
	case <-done:
		timer.Stop()
		o.log.timers.Put(timer)
		return o.landed(c, w)
	case <-timer.C:
		o.log.timers.Put(timer)
	}
	begins := w.Insert != nil
	if begins && o.refuse(done) {
		return o.landed(c, w)
	}
	o.log.pending.Go(func() {
		<-done
		if o.landed(c, w) == nil && late != nil {
			late()
		}
		if begins {
			o.log.refused.Delete(o.head.ID)
		}
	})
	return ErrCommitWait
}

// refuse has a new intent Refused, unless it has landed in this moment. It looks for that behind its mark: who is told of the
// intent by a later write, and so after done, finds the mark.
func (o *Op) refuse(done <-chan struct{}) (landed bool) {
	o.log.refused.Store(o.head.ID, nil)
	select {
	case <-done:
		o.log.refused.Delete(o.head.ID)
		return true
	default:
		return false
	}
}

const cameLate = "the commit came after the caller was refused"

// neverSent ends an intent whose first commit came after its caller was refused.
func (o *Op) neverSent() {
	if o.Status().State == ledger.Created {
		o.tidy(o.Discard("not sent: "+cameLate, "semantics 9"))
		return
	}
	o.tidy(o.NotSent(cameLate, "semantics 9"))
}

// lateDispatch marks an attempt whose commit came after its caller was refused as never sent: a first one ends
// the intent, a further one returns it to where it waited (semantics 9).
func (o *Op) lateDispatch() {
	if o.head.JobID != "" {
		o.tidy(o.EndAttempt(Ending{End: ledger.AttemptNotSent, Reason: cameLate, Rule: "semantics 9", ReadyAt: o.log.ledger.Now(), Free: true}))
		return
	}
	if o.Status().Attempt == 1 {
		o.neverSent()
		return
	}
	c := o.change(o.log.ledger.Now())
	c.endAttempt(Ending{End: ledger.AttemptNotSent, Reason: cameLate, Rule: "semantics 9"})
	c.st.LeaseOwner, c.st.ReadyAt = "", c.now
	o.tidy(o.strict(c, c.write(), nil))
}

// handBack gives up the lease of an intent that was put to wait after its caller was refused: nobody works on it, and
// the next request with its key goes on from there.
func (o *Op) handBack() {
	c := o.change(o.log.ledger.Now())
	c.require(!c.running, "hand back beside an attempt")
	c.step(stepContinue, ledger.Event{Reason: cameLate, Rule: "semantics 9"})
	c.st.LeaseOwner, c.st.LeaseUntil = "", time.Time{}
	o.tidy(o.strict(c, c.write(), nil))
}

// tidy says that a late commit stands as it landed. Whoever has moved the intent meanwhile knew of it, and what only takes
// its time goes on.
func (o *Op) tidy(err error) {
	if err != nil && !errors.Is(err, ledger.ErrStale) && !errors.Is(err, ErrCommitWait) {
		o.log.logger.Warn("a commit that came late could not be taken back; recovery goes by what it says", "intent", o.head.ID, "error", err)
	}
}

// timer takes one that was used before: every commit needs one and hardly any fires. A stopped one sends
// nothing (Go 1.23).
func (g *Log) timer() *time.Timer {
	t, ok := g.timers.Get().(*time.Timer)
	if !ok {
		return time.NewTimer(g.wait)
	}
	t.Reset(g.wait)
	return t
}

// landed takes over the status that w made durable.
func (o *Op) landed(c *change, w *ledger.Write) error {
	if w.Err != nil {
		return w.Err
	}
	o.mu.Lock()
	from := o.st.State
	o.st, o.running, o.untold = *c.st, c.running, c.untold
	o.mu.Unlock()
	if from != c.st.State {
		switch ledger.Unknown {
		case c.st.State:
			o.log.patrol.lost(o.head.ID)
		case from:
			o.log.patrol.found(o.head.ID)
		}
		o.log.observe(Change{Head: &o.head, From: from, To: c.st.State, Outcome: c.st.Outcome})
	}
	switch {
	case c.split != nil:
		if <-o.log.ledger.Enqueue(c.split); c.split.Err == nil {
			o.log.told(c.split)
		}
	case w.Beside != nil:
		o.log.told(w.Beside)
	}
	return nil
}

// persist makes c durable however long the store is away: the effect exists, so the record must follow
// (a result is never given up while the process lives). done, which may be nil, is told the end: nil, or
// ledger.ErrStale when another owner has moved the intent meanwhile.
func (o *Op) persist(c *change, w *ledger.Write, done func(error)) {
	if o.head.JobID != "" {
		o.log.insisting(o.head.ID, 1)
	}
	o.log.pending.Go(func() {
		err := o.insist(c, w)
		if o.head.JobID != "" {
			o.log.insisting(o.head.ID, -1)
		}
		if done != nil {
			done(err)
		}
	})
}

// insisting counts the moves of a job that are being insisted on.
func (g *Log) insisting(id string, more int) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.insisted[id] += more; g.insisted[id] == 0 {
		delete(g.insisted, id)
	}
}

// insists reports whether a move of a job is being insisted on.
func (g *Log) insists(id string) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.insisted[id] > 0
}

// insist writes c until it has landed, or the log is closed.
func (o *Op) insist(c *change, w *ledger.Write) error {
	wait := 10 * time.Millisecond
	for {
		<-o.log.ledger.Enqueue(w)
		err := o.landed(c, w)
		if !errors.Is(err, ledger.ErrUnavailable) {
			return err
		}
		timer := time.NewTimer(wait)
		select {
		case <-timer.C:
		case <-o.log.stopped:
			timer.Stop()
			return err
		}
		wait = min(2*wait, time.Second)
	}
}

// change gathers the steps of one commit on one intent.
type change struct {
	op     *Op
	now    time.Time
	before int64          // version the intent must have
	st     *ledger.Status // of w: what the intent becomes
	err    error

	running bool           // of the attempt that was dispatched last
	untold  []ledger.Event // what the commit leaves for the next one to tell

	end0  string        // the end at which the intent stands before it
	split *ledger.Write // of the mutant "callback-lost-on-crash"

	w   ledger.Write
	few [3]ledger.Event // room for w.Events: a change is one allocation
}

func (o *Op) change(now time.Time) *change {
	c := &change{op: o, now: now}
	c.st = &c.w.Status
	if mutant.On("lease-without-fence") {
		o.overrule()
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	c.w.Status, c.before, c.running, c.end0 = o.st, o.st.Version, o.running, endOf(&o.st)
	c.w.Events = append(c.few[:0], o.untold...)
	return c
}

// overrule is a mutant: it takes the version that is on record now for its own, whoever made it.
func (o *Op) overrule() {
	if r, err := o.log.ledger.Get(context.Background(), o.head.ID); err == nil {
		o.mu.Lock()
		o.st.Version = r.Version
		o.mu.Unlock()
	}
}

// step moves the status along one arrow and writes down why.
func (c *change) step(s step, e ledger.Event) {
	if c.err != nil {
		return
	}
	to, err := next(c.st.State, s)
	if err != nil {
		c.err = err
		return
	}
	if c.st.State == ledger.Unknown && to != ledger.Unknown { // whoever looked for it need not any more
		c.st.LeaseOwner, c.st.LeaseUntil = "", time.Time{}
	}
	e.Kind, e.From, e.To = "transition", c.st.State, to
	c.st.State = to
	c.add(e)
}

func (c *change) add(e ledger.Event) {
	e.At = c.now
	if e.Actor == "" {
		e.Actor = "engine"
	}
	c.w.Events = append(c.w.Events, e)
}

// dispatch begins an attempt; the one before it must have ended, or calls could not be counted (semantics 1).
func (c *change) dispatch(s step, a *Attempt) {
	c.require(!c.running, "attempt beside another")
	c.step(s, ledger.Event{})
	c.running = true
	c.st.ReadyAt = time.Time{}                                 // whose presence says that nothing is on its way
	if c.st.Lane == LaneAdmission || c.st.Lane == LaneStream { // it waited there, and is sent
		c.st.Lane = ""
	}
	if !mutant.On("attempt-after-work") {
		c.st.Attempt++
	}
	c.st.RouteKey, c.st.Tier, c.st.ServedModel = a.Route, a.Tier, a.Model
	c.add(ledger.Event{Kind: "attempt", Attempt: c.st.Attempt, Route: a.Route, Tier: a.Tier})
}

func (c *change) require(ok bool, step string) {
	if !ok && c.err == nil {
		c.err = &IllegalStepError{Step: step, State: c.st.State}
	}
}

// end records how the running attempt ended, once.
func (c *change) end(e Ending) {
	c.require(c.running, "end of no attempt")
	c.running = false
	if mutant.On("attempt-after-work") {
		c.st.Attempt++
	}
	e.Billed = e.Billed || e.End == ledger.AttemptUnknown // semantics 2
	if e.Billed {
		c.st.BilledMaybe++
	}
	if e.Error != "" {
		c.st.LastError = e.Error
	}
	if e.Lane != "" {
		c.st.Lane = e.Lane
	}
	c.st.RetryAfter = e.RetryAfter
	c.add(ledger.Event{Kind: "attempt_end", Attempt: c.st.Attempt, End: e.End, Status: e.Status, Billed: e.Billed,
		Error: e.Error, Reason: e.Reason, Rule: e.Rule, Evidence: e.Evidence})
}

// evidence notes what came too late to be state (semantics 6).
func (c *change) evidence(e Ending) {
	c.add(ledger.Event{Kind: "evidence", Attempt: c.st.Attempt, End: e.End, Status: e.Status, Error: e.Error, Reason: e.Reason,
		Rule: "semantics 6", Evidence: e.Evidence})
}

func (c *change) write() *ledger.Write {
	c.st.Version, c.st.UpdatedAt = c.before+1, c.now
	w := &c.w
	w.ID, w.Version, w.Settle, w.HeldKey = c.op.head.ID, c.before, c.st.State == ledger.Settled, c.op.claim
	if c.st.State == ledger.Dispatched && mutant.On("no-dispatched-record") {
		other := *w
		other.Status.State, other.Status.Attempt = ledger.Created, 0
		return &other
	}
	c.tell(w)
	return w
}
