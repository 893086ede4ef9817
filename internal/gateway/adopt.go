package gateway

import (
	"context"
	"crypto/sha256"
	"maps"
	"slices"
	"time"

	"github.com/holdfast-ai/holdfast/fallback"
	"github.com/holdfast-ai/holdfast/internal/mutant"
	"github.com/holdfast-ai/holdfast/internal/policy"
	"github.com/holdfast-ai/holdfast/ledger"
)

// settledTwin is the age from which an open predecessor is looked at closely: younger ones are a vote, several
// identical questions at once (semantics 20).
const settledTwin = 250 * time.Millisecond

// retries says that the call goes by derive: retries.
func (c *call) retries() bool {
	return c.key != "" && !c.claimed && c.wf.Idempotency.Derive == policy.DeriveRetries
}

// isRetry says that the request itself says so.
func (c *call) isRetry() bool { return c.count > 0 || c.resume }

// adopt looks for the one operation that this request repeats because its answer never arrived. Without such
// evidence it is a new operation, however equal.
func (c *call) adopt() *Error {
	b := &c.g.sightings
	if c.fresh {
		c.abandonDrains(b.list(c.key))
		if c.g.fleet() {
			c.freshElsewhere()
		}
		return c.firstSight()
	}
	if !c.g.fleet() {
		c.recall()
	}
	who := c.who()
	list := b.list(c.key)
	for _, s := range list {
		if h := s.heldFor(who); h != nil {
			return c.answerHeld(s, h)
		}
	}
	if c.resume {
		if list = c.begun(list); resumable(list, who) > 1 || c.severalSeen() {
			return errStreamLost
		}
	}
	if s := c.predecessor(list, who); s != nil {
		return c.adopted(s)
	}
	if c.g.fleet() {
		if found, refusal := c.adoptElsewhere(); found {
			return refusal
		}
	}
	if c.resume {
		return errStreamLost
	}
	if s := c.watchOpen(list, who); s != nil {
		return c.adopted(s)
	}
	return c.firstSight()
}

// begun leaves out the running executions that have shown nobody anything yet: whoever resumes behind an event has
// seen the beginning of another.
func (c *call) begun(list []*sighting) []*sighting {
	if c.after == 0 || mutant.On("resume-other-execution") {
		return list
	}
	return slices.DeleteFunc(slices.Clone(list), func(s *sighting) bool {
		s.mu.Lock()
		defer s.mu.Unlock()
		return s.e != nil && !s.e.rec.shown()
	})
}

// resumable counts the executions that a request could mean by the number of an event. Of several identical ones
// nothing says which it saw the beginning of, and its rest is never taken from another (semantics 26).
func resumable(list []*sighting, who [32]byte) (n int) {
	for _, s := range list {
		s.mu.Lock()
		if s.who == who && (s.e != nil || s.answer != nil || s.record != nil && s.record.Answer != nil) {
			n++
		}
		s.mu.Unlock()
	}
	return n
}

// who separates callers by credential; users are separate by the fingerprint.
func (c *call) who() [32]byte { return sha256.Sum256([]byte(c.g.guard.Credential(c.r))) }

// firstSight makes the call an operation of its own.
func (c *call) firstSight() *Error {
	c.exec, c.leader = c.g.newExecution(c), true
	c.exec.inherited = c.inherited
	return nil
}

// enter notes a new operation, once it has its intent.
func (c *call) enter() {
	e := c.exec
	s := &sighting{book: &c.g.sightings, key: c.key, id: e.opID(), who: c.who(), born: e.began, ends: e.began.Add(c.wf.Idempotency.Window),
		grace: c.wf.DeliveryGrace, e: e, clients: 1, count: c.count, gone: make(chan struct{})}
	c.seen, c.turn, e.seen = s, s.turn, s
	c.g.sightings.add(s, c.recalled)
}

// predecessor adopts the one operation that the evidence names: one that is known to be lost, else one whose loss is
// not known here yet, the try right before this one first.
func (c *call) predecessor(list []*sighting, who [32]byte) *sighting {
	for _, want := range [...]ledger.Delivery{ledger.DeliveryLost, ledger.DeliverySent, ledger.DeliveryOpen} {
		for _, before := range [...]bool{true, false} {
			for _, s := range list {
				if c.take(s, who, want, before) {
					return s
				}
			}
		}
	}
	return nil
}

// take adopts s if the evidence allows it. Under s's lock only one request can; before asks that s's client counted
// one try less.
func (c *call) take(s *sighting, who [32]byte, want ledger.Delivery, before bool) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.delivery != want || s.who != who || before && s.count != c.count-1 || c.g.ledger.Now().After(s.ends) {
		return false
	}
	if !c.repeats(s) {
		return false
	}
	if mutant.On("adopt-without-cas") {
		return true
	}
	s.delivery = ledger.DeliveryOpen
	s.gone = make(chan struct{})
	s.clients++
	s.turn++
	s.count, c.turn = c.count, s.turn
	return true
}

// repeats weighs the evidence that c is s again; s.mu is held.
func (c *call) repeats(s *sighting) bool {
	switch {
	case s.delivery == ledger.DeliveryLost:
		// After a definite failure that was lost the request simply runs again.
		return !s.failed || s.unknown || s.record != nil || c.isRetry()
	case s.delivery != ledger.DeliveryOpen && s.delivery != ledger.DeliverySent:
		return false
	case c.count > s.count || c.resume:
		// The request says that an earlier try failed: the end of that one's connection is only not known here yet. A
		// try is one that counted less: beside one that counted as much this is a twin, and has a predecessor of its own.
		return true
	}
	return s.failed && s.unknown && s.clients == 0 && (s.last == nil || !s.last.over(time.Now()))
}

// watchOpen holds a newcomer for adopt_grace beside the oldest predecessor that is still open: if that one's
// connection ends meanwhile, this request is its retry (semantics 20).
func (c *call) watchOpen(list []*sighting, who [32]byte) *sighting {
	now := c.g.ledger.Now()
	for _, s := range list {
		s.mu.Lock()
		gone, open := s.gone, s.delivery == ledger.DeliveryOpen && s.who == who && now.Sub(s.born) > settledTwin && !s.failed
		s.mu.Unlock()
		if !open {
			continue
		}
		timer := time.NewTimer(c.wf.AdoptGrace)
		defer timer.Stop()
		select {
		case <-gone:
			if c.take(s, who, ledger.DeliveryLost, false) {
				return s
			}
			return nil
		case <-timer.C:
			return nil
		case <-c.r.Context().Done():
			return nil
		}
	}
	return nil
}

// adopted answers with the predecessor's answer: attached while it runs, replayed when it is there; where none
// was kept the operation runs again, as its successor.
func (c *call) adopted(s *sighting) *Error {
	c.g.observer.Duplicate(c.wf.Name, "adopted")
	c.seen = s
	s.mu.Lock()
	e, answer, record, spilled := s.e, s.answer, s.record, s.spilled
	attempts, last, byTier := s.attempts, s.last, s.byTier
	s.mu.Unlock()
	switch {
	case e != nil && e.tryHold():
		c.exec, c.replay = e, true
		c.attend()
		e.noteAdoption(c)
		return nil
	case answer != nil:
		c.noteAdoption(s)
		return c.replayStored(answer)
	case spilled:
		return c.adoptSpilled(s)
	case record != nil:
		return c.adoptRecord(s, record)
	}
	if c.resume && !mutant.On("resume-other-execution") {
		return errStreamLost
	}
	if c.course.several() && byTier != nil {
		c.course.tries = maps.Clone(byTier)
	}
	if last != nil && (!last.over(time.Now()) || mutant.On("old-error-for-ever")) && attempts >= c.g.nests[c.wf.Name].decide.MaxAttempts && c.exhausted() && !mutant.On("adoption-starts-anew") {
		c.noteHeld(s, "semantics 37")
		return c.sayAgain(last)
	}
	c.parent, c.seen, c.inherited = s.id, nil, attempts
	c.g.sightings.remove(s) // its successor takes its place
	return c.firstSight()
}

// exhausted says that no tier has an attempt left, of an operation whose attempts are as many as one tier may have.
func (c *call) exhausted() bool {
	if !c.course.several() {
		return true
	}
	d := c.start(false)
	return d.Action != fallback.Next
}

// adoptSpilled adopts an answer of this process that is only on record by now.
func (c *call) adoptSpilled(s *sighting) *Error {
	ctx, stop := context.WithTimeout(context.Background(), c.g.policy.Limits.CommitWait)
	defer stop()
	r, err := c.g.ledger.Get(ctx, s.id)
	if err != nil {
		return c.storeAway(err)
	}
	return c.adoptRecord(s, r)
}

// adoptRecord adopts what an earlier process left in the ledger.
func (c *call) adoptRecord(s *sighting, r *ledger.Record) *Error {
	ctx, stop := context.WithTimeout(context.Background(), c.g.policy.Limits.CommitWait)
	defer stop()
	if r.State == ledger.Settled && r.Answer != nil {
		answer, err := c.g.load(ctx, r)
		if err != nil {
			return c.storeAway(err)
		}
		if answer.reason == "" {
			s.recalled(answer)
			c.noteAdoption(s)
			return c.replayStored(answer)
		}
	}
	if r.State == ledger.Unknown {
		return unknownError(r.ID)
	}
	if c.resume {
		return errStreamLost
	}
	if r.State != ledger.Settled { // it goes on; what is settled has a successor
		c.waiting = r
		c.goesOn(r)
	} else {
		c.remembers(r)
		c.inherited += r.Attempt
	}
	c.parent, c.seen = r.ID, nil
	c.g.sightings.remove(s)
	return c.firstSight()
}

func (e *execution) noteAdoption(c *call) {
	e.mu.Lock()
	op := e.op
	e.mu.Unlock()
	if op != nil {
		op.Note(adoption(c))
	}
}

func (c *call) noteAdoption(s *sighting) {
	c.g.ledger.Enqueue(&ledger.Write{ID: s.id, Append: true, Relaxed: true, Events: []ledger.Event{c.stamped(adoption(c))}})
}

func (c *call) stamped(e ledger.Event) ledger.Event {
	e.At, e.Actor = c.g.ledger.Now(), "engine"
	return e
}

func adoption(c *call) ledger.Event {
	reason := "the earlier answer did not arrive"
	if c.trigger != "" {
		reason = c.trigger
	}
	return ledger.Event{Kind: "duplicate", Reason: "adopted: " + reason, Rule: "semantics 20"}
}

// heldFor is the error that the derived key answers for a time, if there is one.
func (s *sighting) heldFor(who [32]byte) *held {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.who == who && !s.hold.over(time.Now()) {
		return s.hold
	}
	return nil
}

// answerHeld gives a failure again, without a dispatch (semantics 21).
func (c *call) answerHeld(s *sighting, h *held) *Error {
	c.g.observer.Duplicate(c.wf.Name, "held")
	c.noteHeld(s, "semantics 21")
	return c.sayAgain(h)
}

func (c *call) sayAgain(h *held) *Error {
	c.earlier = h
	if h.reply != nil {
		if excusedStatus(h.reply.answer.HTTPStatus) && c.lastResort(CodeAllTiersFailed) {
			return nil
		}
		return c.replayStored(h.reply)
	}
	fail := *h.fail
	return &fail
}

func (c *call) noteHeld(s *sighting, rule string) {
	e := ledger.Event{Kind: "duplicate", Reason: "answered with the same error, nothing sent", Rule: rule}
	c.g.ledger.Enqueue(&ledger.Write{ID: s.id, Append: true, Relaxed: true, Events: []ledger.Event{c.stamped(e)}})
}

// maxHold bounds how long a derived key repeats a provider's error.
const maxHold = 10 * time.Minute

// holdFor says what the key of a failed execution answers meanwhile.
func (e *execution) holdFor(v verdict, how ending, reply *stored) *held {
	now := time.Now()
	switch {
	case how.fail != nil && how.fail.Code == CodeDeadline && e.impatient:
		return nil // this caller's own deadline says nothing to one that waits longer
	case how.fail != nil && (how.fail.Code == CodeAllTiersFailed || how.fail.Code == CodeDeadline) && !leftAlone(e.cause()):
		return &held{until: now.Add(e.wf.ErrorHold), fail: how.fail, since: now, trail: e.course.header(), met: e.hasMet()}
	case how.fail == nil && reply != nil && v.end == ledger.AttemptFailed && v.wait > 0:
		return &held{until: now.Add(min(v.wait, maxHold)), reply: reply, since: now, trail: e.course.header(), met: e.hasMet()}
	}
	return nil
}

// maxLastWord bounds what is kept in memory of each failure for the case that somebody repeats it.
const maxLastWord = 64 << 10

// lastWord is what a failed execution told its clients, for whoever repeats it when no attempt is left (semantics 37):
// as long as clients that count nothing take to retry, behind the provider's own wait. What only this caller met, by
// leaving or by its own deadline, says nothing to another.
func (e *execution) lastWord(v verdict, how ending, reply *stored) *held {
	if leftAlone(e.cause()) || how.fail == nil && reply == nil || how.fail != nil && how.fail.Code == CodeDeadline && e.impatient {
		return nil
	}
	now := time.Now()
	h := &held{until: now.Add(min(v.wait, maxHold) + max(e.wf.ErrorHold, e.wf.DeliveryGrace)), fail: how.fail, since: now, trail: e.course.header(), met: e.hasMet()}
	if how.fail != nil {
		return h
	}
	if len(reply.body) > maxLastWord {
		return nil
	}
	h.reply = reply
	return h
}

// abandonDrains cancels what nobody waits for any more: a new answer to the same question is wanted.
func (c *call) abandonDrains(list []*sighting) { c.abandonDrainsOf(list, c.who()) }

func (c *call) abandonDrainsOf(list []*sighting, who [32]byte) {
	for _, s := range list {
		s.mu.Lock()
		e, abandoned := s.e, s.who == who && s.clients == 0
		s.mu.Unlock()
		if e != nil && abandoned {
			e.stop(errClientsGone)
		}
	}
}
