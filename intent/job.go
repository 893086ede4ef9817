package intent

import (
	"encoding/json"
	"errors"
	"time"

	"github.com/holdfast-ai/holdfast/internal/mutant"
	"github.com/holdfast-ai/holdfast/ledger"
)

// Lanes in which a job stands (interface.md §3).
const (
	// LaneBackground is where a job waits for a worker.
	LaneBackground = "background_retry"
	// LaneReview is where an intent waits for its owner.
	LaneReview = "owner_review"
	// LaneDead is where a job is that was given up; a person sends it back or discards it.
	LaneDead = "dead_letter"
)

// Parked reports whether a lane is one that only a person leaves.
func Parked(lane string) bool { return lane == LaneReview || lane == LaneDead }

// Lease takes a job of which nothing is on its way in this owner's hands, before anything of it is touched: a job that
// kills its worker is found leased, and its crash is counted (semantics 10). ledger.ErrStale says that somebody else
// has it.
func (o *Op) Lease() error {
	if err := o.log.fence(); err != nil {
		return err
	}
	c := o.change(o.log.ledger.Now())
	c.require(!c.running && o.head.JobID != "" && c.st.LeaseOwner == "" && !Parked(c.st.Lane), "lease")
	c.lease()
	c.st.LeaseOwner, c.st.LeaseUntil = o.log.owner, time.Time{}
	if c.st.State == ledger.Dispatched {
		c.st.ReadyAt = c.now // its presence says that the last attempt has ended
	}
	// The lease is one small write, made before every attempt of a job: its line in the history comes with the next move,
	// which leaves from the same version. A job that is taken over meanwhile moves on, and refuses this hand.
	w := &c.w
	w.ID, w.Version, w.Lease, w.Events, c.untold = o.head.ID, c.before, true, nil, w.Events
	return o.commit(c, w, func() { _ = o.Release(c.now, "the lease came after its worker had gone on", "semantics 9") })
}

func (c *change) lease() {
	c.step(stepContinue, ledger.Event{Reason: "leased by a worker", Rule: "semantics 6"})
}

// Release gives a leased job of which nothing is on its way back to its lane, to be taken at ready: neither an attempt
// nor a crash (semantics 10). It is written however long the store is away; ErrCommitWait says that it is not there yet.
func (o *Op) Release(ready time.Time, reason, rule string) error {
	return o.release(ready, reason, rule, 0)
}

// Crashed gives a leased job back whose worker failed. An attempt that is on its way ends as a dead process's would
// (semantics 2, 7): nobody knows what has become of it. What is still being written of the job goes first.
func (o *Op) Crashed(ready time.Time, reason string) error {
	o.mu.Lock()
	running := o.running
	o.mu.Unlock()
	if running && !o.log.insists(o.head.ID) {
		return o.interrupt(reason, "crash", 1, ready)
	}
	return o.release(ready, reason, "semantics 10", 1)
}

func (o *Op) release(ready time.Time, reason, rule string, crashes int) error {
	c := o.change(o.log.ledger.Now())
	switch {
	case c.st.LeaseOwner == "":
		return nil // it is back already
	case o.log.insists(o.head.ID):
		return ErrCommitWait // what is being written of it says more
	}
	c.require(!c.running, "release beside an attempt")
	c.step(stepContinue, ledger.Event{Reason: reason, Rule: rule})
	c.st.Crashes += crashes
	c.st.LeaseOwner, c.st.LeaseUntil = "", time.Time{}
	c.st.Lane, c.st.ReadyAt = LaneBackground, ready
	return o.letGo(c)
}

// letGo makes c durable, behind which nobody works on the job. It insists as Settle does: this owner lives, so nothing that
// it holds is taken from it, and a job that stayed leased would stay so until a restart.
func (o *Op) letGo(c *change) error {
	w := c.write()
	if mutant.On("release-gives-up") {
		return o.commit(c, w, nil)
	}
	return o.strict(c, w, nil)
}

// Vouch has a job relied upon that another engine wrote down a moment ago: whoever did may have been refused, and would take it back
// (semantics 9), but not behind this move. ledger.ErrStale says that it was taken back, or has gone on, so that it is read again.
// Nothing is written where that cannot be: the log has one engine, or somebody has moved the job since.
func (o *Op) Vouch() error {
	if st := o.Status(); o.log.alone || o.head.JobID == "" || st.Version > 1 || st.LeaseOwner == o.log.owner || mutant.On("promise-without-vouch") {
		return nil
	}
	c := o.change(o.log.ledger.Now())
	if c.st.LeaseOwner != "" {
		return ledger.ErrStale // its worker is about to move it
	}
	c.step(stepContinue, ledger.Event{Reason: "a request with its key relies on it", Rule: "semantics 9"})
	return o.commit(c, c.write(), nil)
}

// Stray frees a job that this owner holds by r, as the log shows it, and that nobody works on, as the caller knows: its worker
// has failed. It leaves alone, with false, one whose next move is still being written, or that somebody has moved.
func (g *Log) Stray(r *ledger.Record) (freed bool, err error) {
	switch {
	case r.JobID == "", r.LeaseOwner != g.owner, r.State != ledger.Created && r.State != ledger.Dispatched:
		return false, nil
	case g.insists(r.ID), g.Refused(r.ID):
		return false, nil
	}
	err = g.Load(r).Patient().Crashed(g.ledger.Now(), "its worker has left it")
	if errors.Is(err, ledger.ErrStale) {
		return false, nil
	}
	return err == nil, err
}

// Parking says why an intent goes where only a person takes it from.
type Parking struct {
	Lane string
	// Ending is the end of the attempt behind which it is parked; nil where that is on record, or none was made.
	Ending *Ending
	Body   *ledger.Body // kept as evidence
	Reason string
	Rule   string // rule or policy field
}

// Park moves a job into a lane that only a person leaves. It stays intent_created where every attempt failed for
// certain; where one may have had its effect it becomes unknown (semantics 37). It keeps its claim.
func (o *Op) Park(p Parking) error {
	c := o.change(o.log.ledger.Now())
	sent := c.st.State == ledger.Dispatched
	if p.Ending != nil {
		c.end(*p.Ending)
		failed := p.Ending.End == ledger.AttemptFailed || p.Ending.End == ledger.AttemptNotSent
		if sent = !failed || c.st.BilledMaybe > 0 && !o.head.Hold; !sent {
			c.step(stepRelease, ledger.Event{Reason: p.Reason, Rule: p.Rule})
		}
	}
	c.require(!c.running, "park beside an attempt")
	e := ledger.Event{Reason: p.Reason, Rule: p.Rule}
	switch {
	case sent:
		c.lose(e)
	case p.Ending == nil:
		c.step(stepContinue, e)
	}
	c.st.Lane, c.st.ReadyAt, c.st.ExpiresAt = p.Lane, time.Time{}, time.Time{}
	c.st.LeaseOwner, c.st.LeaseUntil = "", time.Time{}
	w := c.write()
	if p.Body != nil {
		w.Bodies = []ledger.Body{*p.Body}
	}
	return o.strict(c, w, nil)
}

// GiveUp settles a job of which nothing is on its way, for good: as discarded where nothing can have happened, else as
// failed. It releases the key.
func (o *Op) GiveUp(by, reason, rule string) error {
	c := o.change(o.log.ledger.Now())
	c.require(!c.running, "give up beside an attempt")
	if c.st.State == ledger.Dispatched {
		c.fail(reason, rule)
		return o.strict(c, c.write(), nil)
	}
	c.step(stepDiscard, ledger.Event{Actor: by, Reason: reason, Rule: rule})
	c.st.Outcome, c.st.LeaseOwner = ledger.OutcomeDiscarded, ""
	w := c.write()
	w.Settle = true
	return o.strict(c, w, nil)
}

// Refuse ends a parked intent of which nothing was ever sent by its owner's word. It holds its key until then: who asks again
// hears of that word.
func (o *Op) Refuse(by, reason, rule string, until time.Time) error {
	c := o.change(o.log.ledger.Now())
	c.require(Parked(c.st.Lane) && c.st.Attempt == 0, "refuse")
	c.step(stepDiscard, ledger.Event{Actor: by, Reason: reason, Rule: rule})
	c.st.Outcome, c.st.LeaseOwner = ledger.OutcomeDiscarded, ""
	w := c.write()
	w.Claim, w.ClaimUntil = ledger.ClaimKeep, until
	return o.strict(c, w, nil)
}

// Revival is a person's word that sends a parked job back to its lane.
type Revival struct {
	By        string
	Reason    string
	Rule      string
	Evidence  json.RawMessage // what the person said, as the log keeps it
	ExpiresAt time.Time       // of the new generation; zero: never
	// NotExecuted says that a person vouches for it that no earlier attempt had an effect: without that nothing leaves
	// unknown.
	NotExecuted bool
}

// Revive begins a new generation of a parked intent: the same intent with the same key moves, and nothing of it is
// copied. A job goes back to its lane; what is none waits for a request with its key, which alone has it sent. Attempts and crashes go on being counted; those of the new generation begin behind its line in the history
// (Lives). ErrHeld says that its outcome is unknown and nobody vouches for it.
func (o *Op) Revive(r Revival) error {
	if mutant.On("replay-copies") {
		head := o.head
		head.Key = ""
		_, err := o.log.Begin(Begin{Head: head, Job: true, Lane: LaneBackground})
		return err
	}
	c := o.change(o.log.ledger.Now())
	c.require(Parked(c.st.Lane) && c.st.State < ledger.Confirmed, "revive")
	if c.st.State == ledger.Unknown {
		if !r.NotExecuted {
			return ErrHeld
		}
		c.step(stepReturn, ledger.Event{Actor: r.By, Reason: r.Reason, Rule: "semantics 8"})
		c.st.Outcome = ledger.OutcomePending
	}
	c.add(ledger.Event{Kind: generationKind, Actor: r.By, Attempt: c.st.Attempt, Reason: r.Reason, Rule: r.Rule,
		Evidence: generation{Crashes: c.st.Crashes, Said: r.Evidence}.text()})
	c.st.Lane, c.st.ReadyAt, c.st.ExpiresAt = LaneBackground, c.now, r.ExpiresAt
	if o.head.JobID == "" {
		c.st.Lane, c.st.ReadyAt = LaneAdmission, time.Time{}
	}
	return o.commit(c, c.write(), nil)
}

// generationKind is the history's line with which a generation begins.
const generationKind = "generation"

type generation struct {
	Crashes int             `json:"crashes"` // of those before
	Said    json.RawMessage `json:"said,omitempty"`
}

func (g generation) text() json.RawMessage {
	p, err := json.Marshal(g)
	if err != nil { // what was said is no JSON
		p, _ = json.Marshal(generation{Crashes: g.Crashes})
	}
	return p
}

// Life is what a history says of an intent's present generation.
type Life struct {
	Generation int // from 1
	// Attempts and Crashes are those of the generations before.
	Attempts, Crashes int
	Said              json.RawMessage // by whom began the generation; nil for the first
}

// LifeOf reads an intent's history.
func LifeOf(events []ledger.Event) Life {
	l := Life{Generation: 1}
	for i := range events {
		e := &events[i]
		if e.Kind != generationKind {
			continue
		}
		var g generation
		if json.Unmarshal(e.Evidence, &g) != nil {
			g = generation{}
		}
		l = Life{Generation: l.Generation + 1, Attempts: e.Attempt, Crashes: g.Crashes, Said: g.Said}
	}
	return l
}

// AttemptsByTier counts the attempts of the present generation in a history, by the tier that each was made of.
func AttemptsByTier(events []ledger.Event) map[string]int {
	n := map[string]int{}
	for i := range events {
		switch events[i].Kind {
		case "attempt":
			n[events[i].Tier]++
		case generationKind:
			clear(n)
		}
	}
	return n
}

// aged ends a job's wait when its max_queue_age is over: in a lane, or for good where the policy names none.
func (o *Op) aged(lane string) error {
	const reason, rule = "max_queue_age_exceeded: it waited until its time was over", "lanes.background_retry.max_queue_age_ms"
	if lane == "" {
		return o.GiveUp("engine", reason, rule)
	}
	return o.Park(Parking{Lane: lane, Reason: reason, Rule: rule})
}
