// Package queue hands waiting jobs to workers in the order that their policy names.
//
// A job is an intent with a lane. What is kept here is a schedule: it is read from the log, and can be read again at any
// time. Who works on a job is decided by the log alone, by a compare-and-set (semantics 6).
package queue

import (
	"context"
	"encoding/json"
	"log/slog"
	"sync"
	"time"

	"github.com/holdfast-ai/holdfast/intent"
	"github.com/holdfast-ai/holdfast/internal/pause"
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
	// Provider and Route are what it goes to: no more than a share of the workers is for one of them (see Config.Workers). Empty:
	// those of the job's head.
	Provider, Route string
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
	// Spent says that its attempts are used up, so that another way is all that is left to it (Config.Elsewhere).
	Spent bool
	// Request and Header are the bodies that it was submitted with, where they are still at hand; nil: the log has them.
	Request, Header *ledger.Body
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
	// Whose the job is, and what it is on record with beside what it asks for, must not matter to it. Its word is good for half
	// a minute at most, or until Reopen.
	Barred func(*ledger.Intent) (wait time.Duration, probe bool)
	// Elsewhere reports whether a job like this one may go another way than that which Barred is about, where it would end otherwise: behind
	// LastCall, and with its attempts used up (Job.Spent). Nil: never.
	Elsewhere func(*ledger.Intent) bool
	// Takes says which jobs are this queue's, by their head. No two queues of one Log take the same job. Nil: all.
	Takes func(*ledger.Intent) bool
	// Others is given what a sweep of the log finds that is not this queue's, for the queue that it feeds. Nil: nobody.
	Others func(*ledger.Record)
	// Fed says that another queue's sweeps feed this one, by Enter: the log is read once.
	Fed bool
	// As is what a job counts as in the schedule whose generation began by a person's word (intent.Life.Said): its head, changed in
	// what Rules and Barred go by. Nil: it is as it is on record.
	As func(head ledger.Intent, said json.RawMessage) ledger.Intent
	// Workers is how many jobs are worked on at a time. Default 64. Of four or more, one route has at most three times as
	// many as it leaves, and one provider leaves a sixteenth: what hangs holds up its like alone.
	Workers int
	Logger  *slog.Logger
}

// DefaultWorkers is Config.Workers where it says nothing.
const DefaultWorkers = 64

const (
	// page is how many are read at a time.
	page = 500
	// mostKnown bounds the schedule; what is beyond stays in the log and is read when there is room. A way may have half of what
	// is free of it, so that one which leads nowhere keeps no other out.
	mostKnown = 1 << 18
	// mostFresh bounds the jobs whose record is kept from their submission to their first worker.
	mostFresh = 10_000
	// mostKept and mostKeptBytes bound the bodies that are kept as long: of one job, and of all.
	mostKept      = 64 << 10
	mostKeptBytes = 4 << 20
	// storeWait is the wait where the store is away.
	storeWait = time.Second
)

// Queue is the schedule of the waiting jobs, with the workers that do them. It is safe for concurrent use.
type Queue struct {
	Config
	nudge chan struct{}
	most  int // mostKnown

	mu      sync.Mutex
	lines   map[lineKey]*line
	ways    map[wayKey]*way
	gates   map[string]*gate
	open    ranked[*way]
	alarms  ranked[*alarm]
	freed   []*gate
	crowded map[*gate]bool // before which lines stand for their share
	rings   time.Time      // when Run looks at the clock

	known   map[string]*entry    // waiting here, or in a worker's hands
	hands   map[string]time.Time // since when a worker has it, in ledger time
	waiting int
	ready   int // of them, those whose time has come
	kept    int // bytes of bodies
	strays  map[string]stray
	seen    census    // by lane, as the log was last read
	sweeps  uint64    // that were begun
	hunger  bool      // jobs that were left in the log have room now
	starved bool      // ways were left no room at all
	hungry  time.Time // when it may be read again for that
	working int
	idle    chan struct{}
	running context.Context // of Run; nil: nobody works
	hearing
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
	if c.Elsewhere == nil {
		c.Elsewhere = func(*ledger.Intent) bool { return false }
	}
	if c.Takes == nil {
		c.Takes = func(*ledger.Intent) bool { return true }
	}
	if c.Others == nil {
		c.Others = func(*ledger.Record) {}
	}
	return &Queue{Config: c, nudge: make(chan struct{}, 1), most: mostKnown, lines: map[lineKey]*line{}, ways: map[wayKey]*way{},
		gates: map[string]*gate{}, open: openWays(), alarms: ranked[*alarm]{less: func(a, b *alarm) bool { return a.at < b.at },
			place: func(a *alarm) *int { return &a.pos }}, crowded: map[*gate]bool{}, strays: map[string]stray{}, known: map[string]*entry{}, hands: map[string]time.Time{}}
}

// Look has a job looked at that has come into its lane by another way, or left it: by evidence, or a person's word.
func (q *Queue) Look(ctx context.Context, id string) {
	q.mu.Lock()
	e := q.known[id]
	if e != nil && e.line == nil { // the worker that has just parked it may not have put it down yet
		e.looked = true
		q.mu.Unlock()
		return
	}
	q.mu.Unlock()
	r, err := q.Ledger.Get(ctx, id)
	if err != nil {
		return // the next sweep finds it
	}
	q.mu.Lock()
	if e != nil && q.known[id] == e && e.line != nil { // its place is that of before
		q.remove(e)
	}
	q.mu.Unlock()
	if q.waits(&r.Intent, &r.Status) {
		q.as(ctx, r)
		q.add(r)
	}
}

// waits reports whether a job waits for one of this queue's workers. What its submitter was refused waits for nobody (semantics 9).
func (q *Queue) waits(head *ledger.Intent, st *ledger.Status) bool {
	return head.JobID != "" && st.LeaseOwner == "" && !intent.Parked(st.Lane) &&
		(st.State == ledger.Created || st.State == ledger.Dispatched && !head.Hold) && q.Takes(head) && !q.Log.Refused(head.ID)
}

// Enter puts a job that has just been written down into the schedule, or one that was found in the log.
func (q *Queue) Enter(r *ledger.Record) {
	q.spot(r)
	q.add(r)
}

// add puts a job that waits into the schedule.
func (q *Queue) add(r *ledger.Record) { q.enter(r, nil) }

// enter puts r into the schedule, as e where it has just been submitted. What finds no room stays in the log, and what comes
// behind it, too: a sweep reads them in their order.
func (q *Queue) enter(r *ledger.Record, e *entry) {
	if !q.waits(&r.Intent, &r.Status) {
		return
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	if known := q.known[r.ID]; known != nil {
		if known.sweep = q.sweeps; known.line == nil || !known.over(q.Ledger.Now()) {
			return
		}
		q.remove(known) // its time was over, and a person has sent it again
	}
	submitted := e != nil
	if !submitted {
		e = entryOf(r)
		q.doubt(r, e)
	}
	if e.over(q.Ledger.Now()) {
		return
	}
	l := q.lineOf(&r.Intent, r.Crashes)
	if w := l.way; w.partial && (submitted || w.refused == q.sweeps) || !q.room(w) {
		q.refuse(l)
		return
	}
	switch {
	case e.fresh == nil:
	case len(q.known) < mostFresh:
		q.keep(e)
	default:
		e.fresh = nil
	}
	e.sweep = q.sweeps
	q.known[r.ID] = e
	q.push(l, e)
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
	if err := q.Log.Alive(ctx); err != nil && ctx.Err() == nil {
		q.Logger.Warn("heartbeat not written", "error", err)
	}
	defer q.listen()()
	for !q.sweep(ctx) {
		if !pause.For(ctx, storeWait) {
			return nil
		}
	}
	q.mu.Lock()
	q.running = ctx // not before: of half a schedule the wrong jobs would go first
	q.mu.Unlock()
	defer q.rest()
	sweep := time.NewTicker(sweepEvery)
	defer sweep.Stop()
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		timer.Reset(q.fill())
		select {
		case <-ctx.Done():
			return nil
		case <-q.nudge:
		case <-timer.C:
		case <-sweep.C:
			q.sweep(ctx)
		}
		q.peek(ctx)
		if q.starves() {
			q.sweep(ctx)
		}
	}
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
