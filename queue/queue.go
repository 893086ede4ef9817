// Package queue hands waiting jobs to workers in the order that their policy names.
//
// A job is an intent with a lane. What is kept here is a schedule: it is read from the log, and can be read again at any
// time. Who works on a job is decided by the log alone, by a compare-and-set (semantics 6).
package queue

import (
	"context"
	"encoding/json"
	"log/slog"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/holdfast-ai/holdfast/bulkhead"
	"github.com/holdfast-ai/holdfast/intent"
	"github.com/holdfast-ai/holdfast/internal/mutant"
	"github.com/holdfast-ai/holdfast/ledger"
)

// Rules are what a policy says of a job.
type Rules struct {
	// Order is release_order: ready_at, priority, created_at, expires_at, attempt.
	Order []string
	// Key is what its concurrency key comes to: jobs with the same one share Limit. Empty: none is counted.
	Key string
	// Limit is how many jobs of one Key are worked on at a time; 0: as many as there are workers.
	Limit int
	// MaxAttempts bounds the attempts of a generation, and apart from them its crashes (semantics 10).
	MaxAttempts int
	// Review and Dead are the conditions of owner_review.enter_when and dead_letter.enter_when.
	Review, Dead []string
}

// Rest is how a worker left a job.
type Rest struct {
	// Wait is the time until the job is worth another look, where the worker left it leased because nothing could be
	// sent; Reason and Rule say why.
	Wait   time.Duration
	Reason string
	Rule   string
	// Condition is the policy's word for why, where it has one: it decides which lane the job goes to, if any.
	Condition string
	// Impossible says that it can never be sent as things stand: a person looks after it.
	Impossible bool
}

// Job is a leased job in a worker's hands.
type Job struct {
	Op *intent.Op
	// Life says what of its attempts and crashes belongs to earlier generations.
	Life intent.Life
	// Rules are those that it was taken by.
	Rules Rules
}

// Config makes a Queue. Ledger, Log, Rules and Work are needed.
type Config struct {
	Ledger ledger.Ledger
	Log    *intent.Log
	// Rules is the policy of a job, a pure function of its head.
	Rules func(*ledger.Intent) Rules
	// Work does a leased job: when it returns, the job has ended, is back in its lane or parked, or is still leased with
	// nothing on its way; then Rest says what follows.
	Work func(ctx context.Context, j *Job) Rest
	// Barred is how long no job like this one may be started, because of its route or its bulkhead; 0: one may. With probe
	// what becomes of the first behind it says whether others may follow. It takes nothing. Nil: never.
	Barred func(*ledger.Intent) (wait time.Duration, probe bool)
	// As is what a job counts as in the schedule whose generation began by a person's word (intent.Life.Said): its head, changed in
	// what Rules and Barred go by. Nil: it is as it is on record.
	As func(head ledger.Intent, said json.RawMessage) ledger.Intent
	// Takes says which jobs are this queue's, by their head. Nil: all.
	Takes func(*ledger.Intent) bool
	// Others is given what a sweep of the log finds that is not this queue's, for the queue that it feeds. Nil: nobody.
	Others func(*ledger.Record)
	// Fed says that another queue's sweeps feed this one, by Enter: the log is read once.
	Fed bool
	// Workers is how many jobs are worked on at a time. Default 64.
	Workers int
	Logger  *slog.Logger
}

// DefaultWorkers is Config.Workers where it says nothing.
const DefaultWorkers = 64

const (
	// sweepEvery is how often the log is read for jobs that nobody announced: found by state, not by their lease.
	sweepEvery = 30 * time.Second
	// page is how many are read at a time.
	page = 500
	// mostKnown bounds the schedule; what is beyond stays in the log and is read when there is room.
	mostKnown = 1 << 18
	// mostFresh bounds the jobs whose record is kept from their submission to their first worker.
	mostFresh = 10_000
	// storeWait is the wait where the store is away.
	storeWait = time.Second
)

// Queue is the schedule of the waiting jobs, with the workers that do them. It is safe for concurrent use.
type Queue struct {
	Config
	nudge chan struct{}
	group *bulkhead.Group

	mu      sync.Mutex
	lines   map[lineKey]*line
	known   map[string]bool      // waiting here, or in a worker's hands; true: somebody has had it looked at meanwhile
	hands   map[string]time.Time // since when a worker has it, in ledger time
	seen    census               // by lane, as the log was last read
	working int
	last    int  // of those, jobs that the next crash gives up: one at most
	partial bool // the log has more than is known
	idle    chan struct{}
}

// New returns a Queue without workers: Run has them.
func New(c Config) *Queue {
	if c.Workers <= 0 {
		c.Workers = DefaultWorkers
	}
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	if c.Barred == nil {
		c.Barred = func(*ledger.Intent) (time.Duration, bool) { return 0, false }
	}
	if c.Takes == nil {
		c.Takes = func(*ledger.Intent) bool { return true }
	}
	if c.Others == nil {
		c.Others = func(*ledger.Record) {}
	}
	return &Queue{Config: c, nudge: make(chan struct{}, 1), group: bulkhead.NewGroup(mostKnown), lines: map[lineKey]*line{}, known: map[string]bool{},
		hands: map[string]time.Time{}}
}

// Submit writes a job down, with its claim in the same commit, and has it worked on; in a lane that only a person leaves, it
// waits there. Where its key is held the error is an *intent.DuplicateError.
func (q *Queue) Submit(b intent.Begin) (*intent.Op, error) {
	if b.Job, b.Visibility = true, ledger.VisBackground; !intent.Parked(b.Lane) {
		b.Lane = intent.LaneBackground
	}
	op, err := q.Log.Begin(b)
	if err != nil {
		return nil, err
	}
	q.enter(&ledger.Record{Intent: *op.Head(), Status: op.Status()}, true)
	return op, nil
}

// Look has a job looked at that has come into its lane by another way: by evidence, or a person's word.
func (q *Queue) Look(ctx context.Context, id string) {
	q.mu.Lock()
	_, known := q.known[id]
	if known { // the worker that has just parked it may not have put it down yet
		q.known[id] = true
	}
	q.mu.Unlock()
	if known {
		return
	}
	r, err := q.Ledger.Get(ctx, id)
	if err != nil {
		return // the next sweep finds it
	}
	q.as(ctx, r)
	q.add(r)
}

// ready reports whether r is a job that waits for one of this queue's workers.
func (q *Queue) ready(r *ledger.Record) bool {
	return waits(r) && q.Takes(&r.Intent)
}

// waits reports whether r is a job that waits for a worker.
func waits(r *ledger.Record) bool {
	return r.JobID != "" && r.LeaseOwner == "" && !intent.Parked(r.Lane) &&
		(r.State == ledger.Created || r.State == ledger.Dispatched && !r.Hold)
}

// Enter puts a job that has just been written down into the schedule, or one that was found in the log.
func (q *Queue) Enter(r *ledger.Record) { q.enter(r, false) }

// add puts a job that waits into the schedule.
func (q *Queue) add(r *ledger.Record) { q.enter(r, false) }

func (q *Queue) enter(r *ledger.Record, fresh bool) {
	if !q.ready(r) {
		return
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	_, known := q.known[r.ID]
	switch {
	case known:
		return
	case len(q.known) >= mostKnown:
		q.partial = true
		return
	}
	q.known[r.ID] = false
	e := entryOf(r)
	if fresh && len(q.known) < mostFresh {
		e.fresh = r
	}
	q.lineOf(r).push(e)
	q.wake()
}

func (q *Queue) wake() {
	select {
	case q.nudge <- struct{}{}:
	default:
	}
}

// Run gives jobs to workers until ctx ends, and returns when no worker has one. A worker is not interrupted: the caller
// ends what takes too long.
func (q *Queue) Run(ctx context.Context) error {
	defer q.rest()
	sweep := time.NewTicker(sweepEvery)
	defer sweep.Stop()
	timer := time.NewTimer(0)
	defer timer.Stop()
	q.Log.Alive(ctx)
	q.sweep(ctx)
	for {
		timer.Reset(q.fill(ctx))
		select {
		case <-ctx.Done():
			return nil
		case <-q.nudge:
		case <-timer.C:
		case <-sweep.C:
			q.sweep(ctx)
		}
		if q.hungry() {
			q.sweep(ctx)
		}
	}
}

// hungry reports whether jobs that were left in the log have room now.
func (q *Queue) hungry() bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.partial && len(q.known) < mostKnown/2
}

// rest waits for the workers.
func (q *Queue) rest() {
	q.mu.Lock()
	if q.working == 0 {
		q.mu.Unlock()
		return
	}
	q.idle = make(chan struct{})
	idle := q.idle
	q.mu.Unlock()
	<-idle
}

// sweep reads every job that waits from the log.
func (q *Queue) sweep(ctx context.Context) {
	q.mu.Lock()
	q.partial = false
	q.mu.Unlock()
	if q.Fed {
		return
	}
	if err := q.Log.Reclaim(ctx); err != nil && ctx.Err() == nil {
		q.Logger.Warn("leases that ran out could not be looked for; the next sweep tries again", "error", err)
	}
	found := census{}
	for after := ""; ctx.Err() == nil; {
		records, err := q.Ledger.Open(ctx, after, page)
		if err != nil {
			if ctx.Err() == nil {
				q.Logger.Warn("waiting jobs could not be read; the next sweep tries again", "error", err)
			}
			return
		}
		for _, r := range records {
			after = r.ID
			found.add(r)
			if q.Takes(&r.Intent) {
				q.as(ctx, r)
				q.add(r)
			} else {
				q.Others(r)
			}
		}
		if len(records) < page {
			q.mu.Lock()
			q.seen = found
			q.mu.Unlock()
			return
		}
	}
}

// fill gives jobs to free workers and returns how long it is until another may be due.
func (q *Queue) fill(ctx context.Context) time.Duration {
	q.mu.Lock()
	defer q.mu.Unlock()
	wait := sweepEvery
	for q.working < q.Workers && ctx.Err() == nil {
		l, next := q.choose(q.Ledger.Now())
		if l == nil {
			return min(wait, next)
		}
		e := l.pop()
		h := l.take()
		q.working++
		if l.key.last {
			q.last++
		}
		q.hands[e.id] = q.Ledger.Now()
		go q.work(context.WithoutCancel(ctx), e, h)
	}
	return wait
}

// choose is the line whose first job goes next, nil where none may; then next is how long it is until one might.
func (q *Queue) choose(now time.Time) (best *line, next time.Duration) {
	next = sweepEvery
	for _, l := range q.lines {
		if wait := l.promote(now); wait > 0 {
			next = min(next, wait)
		}
		switch {
		case len(l.ready.list) == 0:
			q.drop(l)
		case l.key.last && q.last > 0:
			// the worker that has one wakes us
		case now.Before(l.until):
			next = min(next, l.until.Sub(now))
		case !l.slots.Fits(bulkhead.Batch):
			// a worker that gives its slot back wakes us
		case best == nil || less(defaultOrder, l.ready.list[0], best.ready.list[0]):
			if wait := q.bar(l, now); wait > 0 {
				next = min(next, wait)
				continue
			}
			best = l
		}
	}
	if best != nil {
		best.pace(now, q.Workers)
	}
	return best, next
}

const (
	// probeGap is how long the first job behind a bar is ahead of the next.
	probeGap = 100 * time.Millisecond
	// maxSpread bounds the time over which those are spread that waited for the same moment; probeGap is its least.
	maxSpread = time.Second
)

// bar asks whether a line's jobs may be started, and keeps the answer.
func (q *Queue) bar(l *line, now time.Time) time.Duration {
	wait, probe := q.Barred(&l.head)
	if wait <= 0 {
		return 0
	}
	wait = Spread(wait)
	if l.until = now.Add(wait); probe {
		l.barred, l.spread = true, max(l.spread, min(max(wait/10, probeGap), maxSpread))
	}
	return wait
}

// pace says when the next of a line may follow the one that is begun now. Behind a bar the first goes alone: what becomes of
// it says whether others may follow. Those that wait then do so one after the other, for all of them waited for the same
// moment (design.md §4).
func (l *line) pace(now time.Time, workers int) {
	switch {
	case l.barred:
		l.until = now.Add(probeGap)
		l.barred, l.calm, l.spread = false, l.until.Add(l.spread), 0
	case now.Before(l.calm) && !mutant.On("release-at-once"):
		gap := l.calm.Sub(now) / time.Duration(min(len(l.ready.list), workers))
		l.until = now.Add(rand.N(2*gap + 1))
	}
}
