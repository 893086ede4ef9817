package intent

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/holdfast-ai/holdfast/internal/mutant"
	"github.com/holdfast-ai/holdfast/ledger"
)

// Found is what a reconciler's read showed of an effect.
type Found uint8

const (
	CannotTell   Found = iota // the read failed, or its answer says neither
	Happened                  // the effect took place
	DidNotHappen              // the far side knows nothing of it
)

var foundWords = [...]string{CannotTell: "cannot_tell", Happened: "happened", DidNotHappen: "did_not_happen"}

func (f Found) String() string { return foundWords[min(f, DidNotHappen)] }

// Finding is one read-only look at the far side.
type Finding struct {
	Found  Found
	Reason string // in words; it holds no secret and no text of the far side's
	// Evidence says, as JSON, what was read and how: kept with every check.
	Evidence json.RawMessage
	// Read is what the far side said, kept with the check that ends the unknown; nil: nothing of it is kept.
	Read []byte
	// Answer is the far side's own answer to the operation, where it can be had; Body belongs to it. They are replayed
	// to whoever asks again.
	Answer *ledger.Answer
	Body   *ledger.Body
}

// ErrNotNow is returned by a Reconciler that could not look at all, because what it looks through is not there. It counts
// as no check: the far side is looked at when Log.Reconsider is called, and tried again each Plan.Every.
var ErrNotNow = errors.New("the far side cannot be looked at now")

// A Reconciler finds out, without changing anything, whether the effect of an operation took place. Check is called
// once for each due check and never twice at a time for one operation; ctx bounds it. An error other than ErrNotNow is
// the same as CannotTell, and is logged; the Finding's Reason beside it is what the history says of it. It is safe for concurrent use.
type Reconciler interface {
	Check(ctx context.Context, r *ledger.Record) (Finding, error)
}

// Plan is how the outcome of one operation is found out.
type Plan struct {
	Reconciler Reconciler
	Name       string // of the reconciler, as the history names it, e.g. "reconciler get"
	Batch      bool   // no check at the moment the outcome becomes unknown
	Every      time.Duration
	Quiet      time.Duration // a read that began sooner after the attempt's end proves no absence (semantics 8)
	Attempts   int           // checks, then a person is asked
	Keep       time.Duration // how long a success holds its key from now on
	// Wanted says that the work is still asked for though nobody waits for an answer: a job, a row of an outbox. It is
	// done again when it did not happen; anything else ends there, and its key is free (semantics 8).
	Wanted bool
}

// checkKind and alertKind are the history's lines of reconciliation.
const (
	checkKind = "check"
	alertKind = "alert"
)

// checked is the evidence of a check's line.
type checked struct {
	Check    int             `json:"check"`
	Found    string          `json:"found"` // what follows from it
	Read     string          `json:"read"`  // what the read said by itself
	Began    time.Time       `json:"began"`
	Evidence json.RawMessage `json:"evidence,omitempty"`
}

// standing is what the history says of the checks of an unknown operation: all of the schedule that there is, so that
// a restart changes nothing of it.
type standing struct {
	since   time.Time // it became unknown
	ended   time.Time // its last attempt
	status  int       // HTTP status with which that attempt ended
	checks  int
	last    time.Time // when the last check began
	absent  bool      // a trusted read found no effect
	pending bool      // … and it was the last check: a second one is due
	alerted bool
}

func standingOf(events []ledger.Event) standing {
	var s standing
	for i := range events {
		e := &events[i]
		switch {
		case e.Kind == "attempt_end":
			s.ended, s.status = e.At, e.Status
		case e.Kind == "transition" && e.To == ledger.Unknown && e.From != ledger.Unknown:
			s = standing{since: e.At, ended: s.ended, status: s.status}
		case e.Kind == alertKind:
			s.alerted = true
		case e.Kind == checkKind:
			s.checked(e)
		}
	}
	if s.ended.IsZero() {
		s.ended = s.since
	}
	return s
}

func (s *standing) checked(e *ledger.Event) {
	var c checked
	if json.Unmarshal(e.Evidence, &c) != nil || c.Began.IsZero() {
		c.Began = e.At
	}
	s.checks++
	s.last = c.Began
	s.pending = c.Found == foundWords[DidNotHappen]
	s.absent = s.absent || s.pending
}

// firstBackoff is the wait after the first check; it doubles up to Plan.Every.
const firstBackoff = 5 * time.Second

// next is when the next check is due. It is false when a person is to be asked. What is left of the checks is kept for
// the time in which an absence counts: two of them.
func (s *standing) next(p *Plan) (time.Time, bool) {
	switch {
	case s.alerted, s.checks >= p.Attempts && !s.pending:
		return time.Time{}, false
	case s.checks == 0 && !p.Batch:
		return s.since, true
	case s.checks == 0:
		return s.since.Add(p.Every), true
	}
	wait := p.Every
	if !p.Batch && !s.pending {
		wait = min(firstBackoff<<min(s.checks-1, 20), p.Every)
	}
	at := s.last.Add(wait)
	if quiet := s.ended.Add(p.Quiet); p.Attempts-s.checks <= 2 && at.Before(quiet) {
		at = quiet
	}
	return at, true
}

// judge says what follows from a read that began at began (semantics 8).
func (s *standing) judge(p *Plan, f Finding, began time.Time) (found Found, final bool, reason string) {
	switch {
	case f.Found != DidNotHappen:
		return f.Found, f.Found == Happened, f.Reason
	case s.status == 409:
		return CannotTell, false, f.Reason + "; but the far side answered 409, which says that it has the request"
	case began.Before(s.ended.Add(p.Quiet)) && !mutant.On("reconcile-without-quiet"):
		return CannotTell, false, f.Reason + "; too early for that to count: the effect may still come"
	case !s.absent:
		return DidNotHappen, mutant.On("reconcile-on-first-read"), f.Reason + "; a second read must agree"
	}
	return DidNotHappen, true, f.Reason + "; a second read agrees"
}

// event is the history's line of check number n.
func (f *Finding) event(p *Plan, n int, found Found, reason string, began time.Time) ledger.Event {
	e := ledger.Event{Kind: checkKind, Actor: p.Name, Reason: reason, Rule: "semantics 8"}
	line := checked{Check: n, Found: found.String(), Read: f.Found.String(), Began: began, Evidence: f.Evidence}
	var err error
	if e.Evidence, err = json.Marshal(line); err != nil { // the reconciler's evidence is no JSON
		line.Evidence = nil
		e.Evidence, _ = json.Marshal(line)
	}
	return e
}

// happened ends an unknown by evidence: the effect took place, and nothing may bring it about again.
func (o *Op) happened(f Finding, p *Plan, check ledger.Event) error {
	c := o.change(o.log.ledger.Now())
	c.add(check)
	c.step(stepResolve, ledger.Event{Actor: p.Name, Reason: f.Reason, Rule: "semantics 8", Evidence: f.Evidence})
	c.step(stepSettle, ledger.Event{Actor: p.Name})
	c.st.Outcome = ledger.OutcomeSuccess
	w := c.write()
	w.Claim, w.ClaimUntil, w.Bodies = ledger.ClaimKeep, c.now.Add(p.Keep), f.kept()
	if f.Answer != nil {
		w.Answer = f.Answer
		if f.Body != nil {
			answer := *f.Body
			answer.Kind = ledger.BodyAnswer
			w.Bodies = append(w.Bodies, answer)
		}
	}
	return o.commit(c, w, nil)
}

// didNotHappen ends an unknown by evidence: work that is still wanted goes back to where nothing was sent; a call
// whose caller is gone ends here, and its key is free (semantics 8). again says which.
func (o *Op) didNotHappen(f Finding, p *Plan, check ledger.Event) (again bool, err error) {
	c := o.change(o.log.ledger.Now())
	c.add(check)
	e := ledger.Event{Actor: p.Name, Reason: check.Reason, Rule: "semantics 8", Evidence: f.Evidence}
	again = o.head.JobID != "" || p.Wanted && (o.head.MaxAttempts <= 0 || c.st.Attempt < o.head.MaxAttempts)
	if again {
		c.step(stepReturn, e)
		c.st.Outcome, c.st.ReadyAt = ledger.OutcomePending, c.now
	} else {
		c.step(stepResolve, e)
		c.step(stepSettle, ledger.Event{Actor: p.Name})
		c.st.Outcome = ledger.OutcomeFailed
	}
	w := c.write()
	w.Bodies = f.kept()
	return again, o.commit(c, w, nil)
}

func (f *Finding) kept() []ledger.Body {
	if len(f.Read) == 0 {
		return nil
	}
	return []ledger.Body{{Kind: ledger.BodyEvidence, Data: f.Read}}
}

// note appends a line that moves nothing, and waits for it: the schedule stands on it.
func (g *Log) note(id string, e ledger.Event) error {
	e.At = g.ledger.Now()
	w := &ledger.Write{ID: id, Append: true, Events: []ledger.Event{e}}
	<-g.ledger.Enqueue(w)
	return w.Err
}

// Late brings the answer of an attempt that had been given up as unknown: evidence of the best kind, which ends the
// unknown as it would have ended the attempt (semantics 6, 8). What is settled meanwhile is left as it is, with the
// answer kept beside it. s.Ending.End is AttemptSuccess or AttemptFailed.
func (g *Log) Late(ctx context.Context, id string, s Settlement) error {
	r, err := g.ledger.Get(ctx, id)
	if err != nil {
		return fmt.Errorf("read the operation of a late answer: %w", err)
	}
	o := g.Load(r).Patient()
	if r.State != ledger.Unknown {
		return o.Evidence(s.Ending, s.Body)
	}
	c := o.change(g.ledger.Now())
	c.evidence(s.Ending)
	c.step(stepResolve, ledger.Event{Actor: "late answer", Reason: s.Ending.Reason, Rule: "semantics 8"})
	c.step(stepSettle, ledger.Event{Actor: "late answer"})
	c.st.Outcome = s.Outcome
	w := c.write()
	w.Answer = s.Answer
	if !s.KeepUntil.IsZero() {
		w.Claim, w.ClaimUntil = ledger.ClaimKeep, s.KeepUntil
	}
	if s.Body != nil {
		w.Bodies = []ledger.Body{*s.Body}
	}
	return o.commit(c, w, nil)
}
