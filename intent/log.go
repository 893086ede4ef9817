package intent

import (
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/holdfast-ai/holdfast/internal/mutant"
	"github.com/holdfast-ai/holdfast/ledger"
)

// Sentinels that callers branch on, beside those of package ledger that pass through.
var (
	// ErrCommitWait says that the store took longer than Config.CommitWait: the caller is refused, the write
	// stays pending (semantics 9). It is a ledger.ErrUnavailable.
	ErrCommitWait = fmt.Errorf("intent: the store did not confirm in time: %w", ledger.ErrUnavailable)
	// ErrHeld says that what was asked for needs evidence or a person first.
	ErrHeld = errors.New("intent: outcome unknown, held for evidence or a person")
	// ErrAged says that a job's time was over before its attempt was on record: release it, and Expire ends it.
	ErrAged = errors.New("intent: its max_queue_age is over, nothing of it is sent any more")
)

// LaneAdmission is where a call waits that a client waits for; it leaves when it is sent.
const LaneAdmission = "interactive_admission"

// LaneStream is where a stream stands that is gone on with although nothing of it is being sent to anybody: it broke
// before anything was visible, or it is finished for a client that left and may come back.
const LaneStream = "stream_recovery"

// Config makes a Log. Zero durations mean the documented defaults.
type Config struct {
	Ledger ledger.Ledger
	// CommitWait bounds how long a caller waits for durability. Default 2 s.
	CommitWait time.Duration
	// Beat is the interval of the owner's heartbeat; its lease lasts three of them. Default 5 s.
	Beat time.Duration
	// Info is what each heartbeat says of this engine to the others (ledger.Owner.Info). Nil: nothing.
	Info func() []byte
	// Observe is told of every durable change of state; it must not block. Nil: nobody listens.
	Observe func(Change)
	Logger  *slog.Logger
	// Lane says where a job goes whose max_queue_age is over, or with "" that it is given up. Nil: to the dead letter.
	Lane func(r *ledger.Record) string
	// Exclusive says that the ledger admits one engine at a time, so that every other owner is dead.
	Exclusive bool
}

// Change is one durable change of an intent, for telemetry.
type Change struct {
	Head     *ledger.Intent
	From, To ledger.State
	Outcome  ledger.Outcome
}

// Log is the log of operations of one engine. It is safe for concurrent use.
type Log struct {
	ledger  ledger.Ledger
	owner   string
	wait    time.Duration
	beat    time.Duration
	observe func(Change)
	logger  *slog.Logger
	ids     ids
	pending sync.WaitGroup // writes whose callers no longer wait
	stopped chan struct{}
	timers  sync.Pool // of *time.Timer, stopped
	settler *settler
	alone   bool
	lane    func(*ledger.Record) string
	info    func() []byte
	patrol  *patrol
	called  atomic.Pointer[func(*ledger.Record)] // see OnCallback
	refused sync.Map                             // ids, see Refused
	freed   atomic.Pointer[func(*ledger.Record)] // see OnFreed
	heart   *heart
	fleet   fleet

	mu       sync.Mutex
	insisted map[string]int // by job, its moves that the store has not taken yet
}

// New returns a Log that writes as a new owner. Call Recover before the first Begin, and Run beside it.
func New(c Config) *Log {
	g := &Log{ledger: c.Ledger, wait: c.CommitWait, beat: c.Beat, observe: c.Observe, logger: c.Logger}
	if g.wait <= 0 {
		g.wait = 2 * time.Second
	}
	if g.beat <= 0 {
		g.beat = mutant.Beat(5 * time.Second)
	}
	if g.observe == nil {
		g.observe = func(Change) {}
	}
	if g.logger == nil {
		g.logger = slog.New(slog.DiscardHandler)
	}
	if g.lane = c.Lane; g.lane == nil {
		g.lane = func(*ledger.Record) string { return LaneDead }
	}
	if g.info = c.Info; g.info == nil {
		g.info = func() []byte { return nil }
	}
	g.owner, g.alone = g.ids.next(g.ledger.Now()), c.Exclusive
	g.stopped, g.settler, g.patrol, g.insisted = make(chan struct{}), newSettler(), newPatrol(), map[string]int{}
	g.heart = newHeart()
	g.pending.Go(g.settler.run)
	return g
}

// Close waits for what is still being written, at most CommitWait for a store that is away, and gives up what
// cannot be: recovery finds it. Beside other engines it ends this owner's leases at once, unless something was given up. No method may be
// called afterwards.
func (g *Log) Close() {
	g.settler.close()
	written := make(chan struct{})
	go func() {
		g.pending.Wait()
		close(written)
	}()
	timer := time.NewTimer(g.wait)
	defer timer.Stop()
	select {
	case <-written:
		close(g.stopped)
		g.resign()
	case <-timer.C:
		close(g.stopped)
		<-written
	}
}

// Owner is this engine's id in leases.
func (g *Log) Owner() string { return g.owner }

// CommitWait is how long a caller waits for durability.
func (g *Log) CommitWait() time.Duration { return g.wait }

// Attempt names an upstream call before its first byte leaves.
type Attempt struct {
	Route string // provider/model/endpoint/credential
	Tier  string
	Model string // as sent
	// Trigger is what made it follow another one: "retry: 503 overloaded_error"; empty for a first attempt.
	Trigger string
}

// Begin asks for a new intent.
type Begin struct {
	Head ledger.Intent // ID and CreatedAt are filled in
	// Claim takes Head.Key as a claim; without it no other request can be refused by this one.
	Claim bool
	// DerivedUntil, when set, indexes Head.Key without a claim (derive: retries).
	DerivedUntil time.Time
	// Attempt, when set, is dispatched in the same commit; without it the intent is created only.
	Attempt    *Attempt
	Lane       string
	ReadyAt    time.Time // of an intent that waits for its first attempt
	Visibility ledger.Visibility
	ExpiresAt  time.Time
	Request    *ledger.Body // kept for jobs and tools
	// Job makes the intent a job: it has a job_id, its own id, and belongs to nobody until a worker leases it. Leased says
	// that one of this process's workers has it from the beginning.
	Job    bool
	Leased bool
	Header *ledger.Body // of a job: what goes with its request
	Sent   *ledger.Body // what the first attempt sends, where that differs from Request
}

// DuplicateError says who holds the claim that a Begin asked for. It is a ledger.ErrClaimed.
type DuplicateError struct{ Holder string }

func (e *DuplicateError) Error() string { return "intent: key is held by " + e.Holder }
func (e *DuplicateError) Unwrap() error { return ledger.ErrClaimed }

// Begin makes a new intent durable, with its claim and its first attempt where asked for, in one commit.
// Errors: *DuplicateError; ledger.ErrUnavailable (ErrCommitWait among them): then nothing may be sent.
func (g *Log) Begin(b Begin) (*Op, error) {
	if err := g.fence(); err != nil {
		return nil, err
	}
	now := g.ledger.Now()
	o := &Op{log: g, head: b.Head}
	o.head.ID, o.head.CreatedAt = g.ids.next(now), now
	c := o.change(now)
	*c.st = ledger.Status{Outcome: ledger.OutcomePending, Lane: b.Lane, Visibility: b.Visibility,
		ReadyAt: b.ReadyAt, ExpiresAt: b.ExpiresAt, LeaseOwner: g.owner}
	if b.Job {
		o.head.JobID = o.head.ID
	}
	leased := b.Leased && !mutant.On("leased-in-memory")
	if (b.Job || Parked(b.Lane)) && !leased {
		c.st.LeaseOwner = "" // nobody's
	}
	c.step(stepCreate, ledger.Event{Reason: b.Head.Trigger})
	if leased {
		c.lease()
	}
	if b.Attempt != nil {
		c.dispatch(stepDispatch, b.Attempt)
	}
	w := c.write()
	w.ID, w.Insert = "", &o.head
	if b.Claim {
		w.ClaimKey, o.claim = b.Head.Key, b.Head.Key
	} else if !b.DerivedUntil.IsZero() {
		w.DerivedKey, w.DerivedUntil = b.Head.Key, b.DerivedUntil
	}
	for _, body := range [...]*ledger.Body{b.Request, b.Sent, b.Header} {
		if body != nil {
			w.Bodies = append(w.Bodies, *body)
		}
	}
	err := o.commit(c, w, func() { o.lateBegin(b.Job) })
	if errors.Is(err, ledger.ErrClaimed) {
		return nil, &DuplicateError{Holder: w.Holder}
	}
	if err != nil {
		return nil, err
	}
	return o, nil
}

// Refused reports whether an intent is one whose Begin returned ErrCommitWait and which is not taken back yet: whoever finds it
// on record must neither promise nor do anything of it. Ask before the intent is read, where the answer is to fit what is read.
func (g *Log) Refused(id string) bool {
	_, refused := g.refused.Load(id)
	return refused && !mutant.On("late-job-acknowledged")
}

// lateBegin ends an intent whose commit came after its caller was refused (semantics 9). A job was not begun either: its
// submitter was told so. It stays Refused until that is on record, however long the store takes.
func (o *Op) lateBegin(job bool) {
	if !job {
		o.neverSent()
		return
	}
	if st := o.Status(); endOf(&st) == "" {
		o.head.Callback = "" // its end would be told to somebody who has heard of no such job
	}
	c := o.change(o.log.ledger.Now())
	c.giveUp(cameLate, "semantics 9")
	c.st.LeaseOwner = ""
	w, err := c.write(), c.err
	if err == nil {
		err = o.insist(c, w)
	}
	o.tidy(err)
}
