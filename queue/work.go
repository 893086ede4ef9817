package queue

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime/debug"
	"time"

	"github.com/holdfast-ai/holdfast/decision"
	"github.com/holdfast-ai/holdfast/intent"
	"github.com/holdfast-ai/holdfast/internal/mutant"
	"github.com/holdfast-ai/holdfast/ledger"
)

// work does jobs, one after the other, as long as there are any, and puts back into the schedule what is not done.
func (q *Queue) work(ctx context.Context, e *entry, h hands) {
	for e != nil {
		back := q.do(ctx, e, h)
		if q.put(e, h, back) {
			q.Look(ctx, e.id)
		}
		e, h = q.another()
	}
}

// another is the next job of a worker that has done one; nil where it has to go.
func (q *Queue) another() (*entry, hands) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.released()
	e, h, _ := q.next()
	q.hire() // what was waited for may let more pass than one
	if e == nil {
		q.left()
	}
	if now := q.Ledger.Now(); now.Add(q.quiet(now)).Before(q.rings) { // Run has to look at the clock sooner
		q.wake()
	}
	return e, h
}

// left notes that a worker has gone.
func (q *Queue) left() {
	if q.working == 0 && q.idle != nil {
		close(q.idle)
		q.idle = nil
	}
}

// put takes a job out of the worker's hands, and reports whether it has to be looked at once more.
func (q *Queue) put(e *entry, h hands, back *ledger.Record) (looked bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	looked = e.looked
	delete(q.known, e.id)
	delete(q.hands, e.id)
	q.discount(e)
	if back != nil {
		again := entryOf(back)
		again.sweep, looked = q.sweeps, false
		q.known[e.id] = again
		q.push(q.lineOf(&back.Intent, back.Crashes), again)
	}
	q.giveBack(h)
	return looked
}

// do works on a job and returns it where it then waits for a worker again, nil where it does not.
func (q *Queue) do(ctx context.Context, e *entry, h hands) *ledger.Record {
	j := &Job{Life: intent.Life{Generation: 1}, Rules: h.rules}
	if f := e.fresh; f != nil {
		j.Op, j.Request, j.Header = f.op, f.request, f.header
	} else {
		r, err := q.Ledger.Get(ctx, e.id)
		switch {
		case errors.Is(err, ledger.ErrNotFound):
			return nil
		case err != nil:
			return q.unread(e, h.line)
		}
		j.Op = q.Log.Load(r).Patient()
	}
	op := j.Op
	switch leased, err := q.lease(ctx, j, e.fresh != nil); {
	case errors.Is(err, ledger.ErrUnavailable):
		return q.unread(e, h.line)
	case err != nil || !leased:
		return nil // somebody else has it, it was cancelled, or its time is over
	}
	if j.Spent = q.exhausted(j); j.Spent && (q.crashed(j) || !q.Elsewhere(op.Head()) || mutant.On("used-up-is-the-end")) {
		q.settle(j, decision.MaxAttemptsExhausted, "lanes.background_retry.max_attempts", fmt.Sprintf("%d attempts were made and %d workers died with it",
			op.Status().Attempt-j.Life.Attempts, op.Status().Crashes-j.Life.Crashes))
		return nil
	}
	q.finish(j, q.run(ctx, j))
	st := op.Status()
	if !q.waits(op.Head(), &st) {
		return nil
	}
	back := &ledger.Record{Intent: *op.Head(), Status: st}
	if q.As != nil && j.Life.Said != nil {
		back.Intent = q.As(back.Intent, j.Life.Said)
	}
	return back
}

// unread is a job of which nothing is known but what the schedule knew: the store is away.
func (q *Queue) unread(e *entry, l *line) *ledger.Record {
	r := &ledger.Record{Intent: l.head}
	r.ID, r.JobID, r.State, r.Lane = e.id, e.id, ledger.Created, intent.LaneBackground
	r.CreatedAt, r.Attempt, r.Crashes = time.UnixMicro(e.created), e.attempt, e.crashes
	r.ReadyAt = q.Ledger.Now().Add(storeWait)
	if e.expires < 1<<63-1 {
		r.ExpiresAt = time.UnixMicro(e.expires)
	}
	for word, p := range priorities {
		if p == e.priority {
			r.Priority = word
		}
	}
	return r
}

// lease takes the job in hand, unless it was from the beginning, and reads which generation of it this is.
func (q *Queue) lease(ctx context.Context, j *Job, fresh bool) (leased bool, err error) {
	st := j.Op.Status()
	switch {
	case fresh && (st.LeaseOwner != "" || mutant.On("leased-in-memory")):
		return true, nil
	case !q.waits(j.Op.Head(), &st):
		return false, nil
	case !st.ExpiresAt.IsZero() && !q.Ledger.Now().Before(st.ExpiresAt) && !mutant.On("age-ignored"):
		return false, nil // the log parks it
	}
	if !fresh || st.Attempt > 0 || st.Crashes > 0 {
		events, err := q.Ledger.History(ctx, j.Op.ID())
		if err != nil {
			return false, err
		}
		j.Life = intent.LifeOf(events)
	}
	err = j.Op.Lease()
	return err == nil, err
}

// crashed reports whether its crashes alone end it.
func (q *Queue) crashed(j *Job) bool {
	return j.Op.Status().Crashes-j.Life.Crashes >= j.Rules.MaxAttempts
}

// exhausted reports whether the generation's attempts or crashes are used up: a job that kills its workers ends, and a
// lost worker uses up no attempt (semantics 10).
func (q *Queue) exhausted(j *Job) bool {
	st, most := j.Op.Status(), j.Rules.MaxAttempts
	return most > 0 && (st.Attempt-j.Life.Attempts >= most || st.Crashes-j.Life.Crashes >= most)
}

// run lets the worker do it. What it panics with costs the job a crash, and nobody else anything.
func (q *Queue) run(ctx context.Context, j *Job) (rest Rest) {
	defer func() {
		p := recover()
		if p == nil {
			return
		}
		q.Logger.Error("panic in a worker", "intent", j.Op.ID(), "panic", fmt.Sprint(p), "stack", string(debug.Stack()))
		if st := j.Op.Status(); st.LeaseOwner != "" && (st.State == ledger.Created || st.State == ledger.Dispatched) {
			q.say(j, j.Op.Crashed(q.Ledger.Now().Add(storeWait), "its worker failed: "+short(fmt.Sprint(p))))
		}
	}()
	return q.Work(ctx, j)
}

func short(s string) string {
	if len(s) > 200 {
		return s[:200] + "…"
	}
	return s
}

// finish does what is left of a job that its worker has left leased.
func (q *Queue) finish(j *Job, rest Rest) {
	st := j.Op.Status()
	if j.Spent && st.LeaseOwner != "" && rest.Condition == decision.MaxAttemptsExhausted {
		q.settle(j, rest.Condition, rest.Rule, rest.Reason)
		return
	}
	if st.LeaseOwner == "" || st.State != ledger.Created && (st.State != ledger.Dispatched || st.ReadyAt.IsZero()) {
		return
	}
	if rest.Condition != "" && j.Rules.Lane(rest.Condition) != "" {
		q.settle(j, rest.Condition, rest.Rule, rest.Reason)
		return
	}
	if rest.Impossible {
		err := j.Op.Park(intent.Parking{Lane: intent.LaneDead, Reason: rest.Reason, Rule: rest.Rule})
		q.say(j, err)
		return
	}
	q.say(j, j.Op.Release(q.Ledger.Now().Add(Spread(rest.Wait)), rest.Reason, rest.Rule))
}

// Spread is a wait of many for the same moment: at least wait, and by chance up to a tenth more, so that they do not come in
// one instant (design.md §4).
func Spread(wait time.Duration) time.Duration {
	return wait + rand.N(min(wait/10, maxSpread)+time.Millisecond)
}

// settle ends a job for a condition: in a lane, or for good where the policy names none.
func (q *Queue) settle(j *Job, condition, rule, reason string) {
	if lane := j.Rules.Lane(condition); lane != "" {
		q.say(j, j.Op.Park(intent.Parking{Lane: lane, Reason: condition + ": " + reason, Rule: rule}))
		return
	}
	q.say(j, j.Op.GiveUp("engine", condition+": "+reason, rule))
}

func (q *Queue) say(j *Job, err error) {
	switch {
	case err == nil, errors.Is(err, ledger.ErrStale):
	case errors.Is(err, intent.ErrCommitWait):
		q.Logger.Warn("a job is not moved yet: the store is away; it is tried until that is back", "intent", j.Op.ID())
	default:
		q.Logger.Error("a job could not be moved; a sweep frees what it finds in nobody's hands", "intent", j.Op.ID(), "error", err)
	}
}
