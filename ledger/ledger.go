// Package ledger is the port that the operation log stands on: one durable, atomic write at a time per
// intent, and the reads that the log needs. Drivers (ledger/sqlite, later ledger/postgres) hold no rules of
// the state machine; those are package intent's.
package ledger

import (
	"context"
	"errors"
	"time"
)

// Sentinels that callers branch on. Drivers translate their native errors to these and wrap the cause.
var (
	// ErrClaimed says that a live claim with this key exists; Write.Holder tells whose.
	ErrClaimed = errors.New("ledger: key is claimed")
	// ErrStale says that the intent's version is not the expected one: another writer moved it.
	ErrStale = errors.New("ledger: version changed")
	// ErrNotFound says that no such intent, body or row exists.
	ErrNotFound = errors.New("ledger: not found")
	// ErrUnavailable says that the store cannot be read or written now; nothing of the write is durable.
	ErrUnavailable = errors.New("ledger: store unavailable")
	// ErrForeignEnv, ErrNewerSchema and ErrLocked refuse a store at open.
	ErrForeignEnv  = errors.New("ledger: store belongs to another env")
	ErrNewerSchema = errors.New("ledger: store has a newer schema than this program")
	ErrLocked      = errors.New("ledger: another engine holds this store")
	// ErrClosed is returned after Close.
	ErrClosed = errors.New("ledger: closed")
)

// Ledger is what a driver implements. It is safe for concurrent use.
//
// Durability: when the channel of Enqueue closes with a nil Write.Err, the write has reached stable storage
// (fsync returned, or committed on the database). A failed or torn commit leaves nothing of the batch behind.
// After a failed sync a driver closes and reopens its file; it never retries the sync on the same handle.
//
// Ownership: a Write belongs to the ledger from Enqueue until its channel closes. Results of reads belong to
// the caller.
type Ledger interface {
	// Enqueue queues w and returns at once. The channel closes when the outcome is known; then w.Err is
	// nil, ErrClaimed (w.Holder set), ErrStale, ErrNotFound, ErrUnavailable or ErrClosed. Writes of one process on one
	// intent are applied in the order they were queued. One write's refusal never fails its neighbours.
	Enqueue(w *Write) <-chan struct{}

	// Get returns one intent with its present status. ErrNotFound, ErrUnavailable.
	Get(ctx context.Context, id string) (*Record, error)
	// Holder returns the intent that holds the live claim on key. ErrNotFound when none is live.
	Holder(ctx context.Context, key string) (*Record, error)
	// Derived returns intents under a derived key that are still inside their window, newest first, at
	// most limit.
	Derived(ctx context.Context, key string, limit int) ([]*Record, error)
	// History returns an intent's events in order.
	History(ctx context.Context, id string) ([]Event, error)
	// Body returns a stored body; a *Body's Data is uncompressed. ErrNotFound when none was kept or
	// retention has removed it.
	Body(ctx context.Context, id string, kind BodyKind) (*Body, error)
	// List pages through intents, newest first. A page ends when fewer than f.Limit come back; the next
	// begins after the last ID (Filter.Before).
	List(ctx context.Context, f Filter) ([]*Record, error)
	// Open returns unsettled intents in the order of their insertion, which ids follow but for neighbours made at
	// the same time, after the given id, for recovery.
	Open(ctx context.Context, after string, limit int) ([]*Record, error)
	// Due returns intents that wait for somebody to ask for them and whose ExpiresAt has come, the longest due
	// first, at most limit: those in Created or Dispatched that have no LeaseOwner. What somebody works on, and
	// what only evidence ends, is never among them, so that no number of it hides them.
	Due(ctx context.Context, now time.Time, limit int) ([]*Record, error)
	// Counts returns the number of unsettled intents per state.
	Counts(ctx context.Context) (map[State]int64, error)

	// Beat records that an owner is alive until a ledger time, and what it says of itself. Owners returns live and dead ones,
	// by their ids.
	Beat(ctx context.Context, o Owner) error
	Owners(ctx context.Context) ([]Owner, error)

	// Cooldown extends (never shortens) the time before which nobody calls route, and returns the time now
	// in force. ClearCooldown removes it. Cooldowns lists those not yet past.
	Cooldown(ctx context.Context, route string, until time.Time, reason string) (time.Time, error)
	ClearCooldown(ctx context.Context, route string) error
	Cooldowns(ctx context.Context) (map[string]time.Time, error)

	// Cached pages through the index over settled answers, newest intents first, by their ids. A page ends when fewer than
	// f.Limit come back. Rows whose time is over may be among them until the sweep has been there.
	Cached(ctx context.Context, f CachedFilter) ([]Cached, error)
	// Uncache takes rows out of the index and leaves their answers as they are. What is not there is no error.
	Uncache(ctx context.Context, rows []CachedRef) error

	// PutPolicy keeps the text of a policy revision (content hash) for the record. It is idempotent.
	PutPolicy(ctx context.Context, revision string, text []byte) error

	// Secret returns the store's own random secret of 32 bytes by name ("salt", "hmac"), made once.
	Secret(ctx context.Context, name string) ([]byte, error)

	// Sweep removes what retention no longer keeps, in small batches, and never anything unsettled. It
	// returns what it removed; more says that work is left. What answers are kept for is kept: neither age takes an answer, or its
	// intent, before the ends of its rows in the index over answers. MaxBytes does, and the rows go with it.
	Sweep(ctx context.Context, p Retention) (s Swept, more bool, err error)

	// Now is ledger time: the database's clock, or the embedded anchored clock; it never steps back.
	Now() time.Time
	// Healthy is nil while the last write or probe succeeded, else the reason.
	Healthy() error
	Close() error
}

// Notifier is an ability that a Ledger may have: to say soon what other processes have written.
type Notifier interface {
	// Notices has f told of them until stop is called; it must not block, and may be called by several goroutines. A notice may
	// come late, twice, or never: whoever waits reads the log now and then as well. None follows when stop has returned.
	Notices(f func(Notice)) (stop func())
}

// Notice says that another process has written something for which somebody may wait. It is a hint and no evidence: what is so
// stands in the log.
type Notice struct {
	Kind NoticeKind
	ID   string // of the intent, with NoticeMoved
}

// NoticeKind says what a Notice is about.
type NoticeKind uint8

const (
	// NoticeMoved says that an intent is somebody else's to go on with, or to answer from: settled, unknown, or nobody's.
	NoticeMoved NoticeKind = 1
	// NoticeReady says that a job waits which was not there before.
	NoticeReady NoticeKind = 2
	// NoticeAll says that notices may have been lost: whoever waits, look.
	NoticeAll NoticeKind = 3
)

// KeyFilter is an ability that a Ledger may have: to say of most derived keys, without a read each, that nothing is
// found under them.
type KeyFilter interface {
	// DerivedKeys returns a test of the keys that are inside their window now. Where it is false, Derived returns no
	// intent that was written before; where it is true, it may. It is nil when there are more than limit of them.
	DerivedKeys(ctx context.Context, limit int) (func(key string) bool, error)
}

// Parted is an ability that a Ledger over several stores has: one of them may be away, or have a late heartbeat, and the others not.
type Parted interface {
	// Holds reports whether an owner of this process has a current heartbeat where intent id is kept. It does not wait.
	Holds(owner, id string) bool
	// HealthOf is Healthy for what keeps intent id.
	HealthOf(id string) error
	// Away is how many of the stores are not healthy.
	Away() int
}

// HealthOf is nil while what keeps intent id is healthy.
func HealthOf(l Ledger, id string) error {
	if p, ok := l.(Parted); ok && id != "" {
		return p.HealthOf(id)
	}
	return l.Healthy()
}

// Noter is an ability that a Ledger may have: to keep a few short texts about the store as a whole, by name.
type Noter interface {
	// Note puts value in the place of was, where "" is nothing, and returns what stands there then. With value equal to was it only reads.
	// What it returns is durable.
	Note(ctx context.Context, name, was, value string) (now string, err error)
}

// Write is one atomic change to one intent, with at most one new intent beside it. Either Insert is set (a new intent) or ID and Version are (a
// compare-and-set on an existing one). All parts apply together or not at all.
type Write struct {
	// Insert is the immutable head of a new intent; Status its first status (Version 1).
	Insert *Intent
	// ClaimKey, when not empty, is taken with Insert: a missing or expired claim is created or taken over,
	// a live one refuses the write with ErrClaimed.
	ClaimKey string
	// DerivedKey, when not empty, indexes Insert until DerivedUntil (derive: retries; no uniqueness).
	DerivedKey   string
	DerivedUntil time.Time

	// ID and Version name the intent to change and the version it must have; Status.Version must be
	// Version + 1. The write is refused with ErrStale when the intent has another version or is settled.
	ID      string
	Version int64

	// Append adds Events and Bodies to the intent named by ID, unsettled or settled, and changes nothing else:
	// no version is asked for or advanced. It carries late results and evidence (semantics 6). ErrNotFound
	// when there is no such intent.
	Append bool
	// Unindex, with Append, takes the intent out of the index of its derived key: its answer is known to have
	// arrived, and nobody can adopt it any more (semantics 19).
	Unindex string
	// Shelve, with Append, puts the intent into Status.Lane as long as it is unsettled and in the hands of Status.LeaseOwner,
	// without asking for a version or advancing it: where it stands for people to see, which the next move of whoever works on
	// it overrules. What nobody works on stays where it is, for that lane says who is to end it.
	Shelve bool

	// Lease gives the unsettled intent named by ID, at Version and in nobody's hands, to Status.LeaseOwner until
	// Status.LeaseUntil, with Status.ReadyAt. Nothing else of it changes, its version neither: whoever moves it next moves
	// it from this one. Status.Version is Version. ErrStale where somebody has it, or it has moved on.
	Lease bool

	Status Status
	// Settle moves the intent out of the unsettled set. Answer, when set, is what is replayed.
	Settle bool
	Answer *Answer
	// Claim says what becomes of the claim of the intent being settled: ClaimKeep until ClaimUntil, or
	// ClaimRelease. Ignored while the intent is unsettled: its claim is held.
	Claim      ClaimAction
	ClaimUntil time.Time
	// HeldKey is the claim key to act on; empty when the intent has none.
	HeldKey string

	Events []Event
	Bodies []Body
	// Cached are rows of the index over settled answers (semantics 47): with a Settle that is a success and brings BodyAnswer,
	// or with an Append to an intent that has been settled so. ErrNotFound where its answer is not kept any more, and nothing
	// of the write applies. The intent's row of the same kind is replaced. What else of Cached names an intent is ignored.
	Cached []Cached

	// Beside, when set, is an insertion that applies together with this write or not at all: what a change calls for is on
	// record when the change is. It takes no key, is not settled, and has nothing beside it; its own Err stays nil.
	Beside *Write

	// Relaxed asks for no wake-up of the writer: the write rides with the next one, 2 ms at most.
	Relaxed bool

	// Err and Holder are the outcome, valid once the channel of Enqueue has closed.
	Err    error
	Holder string // id of the intent that holds the claim, with ErrClaimed
}

// ClaimAction is what settling does to the claim.
type ClaimAction uint8

const (
	ClaimRelease ClaimAction = iota // the key may be claimed at once by a new intent
	ClaimKeep                       // the key replays until ClaimUntil
)

// Commit queues w and waits for its outcome. It ignores nothing and retries nothing: when ctx ends first, it
// returns ctx's error and the write stays queued (see semantics 9 for what callers do then).
func Commit(ctx context.Context, l Ledger, w *Write) error {
	done := l.Enqueue(w)
	select {
	case <-done:
		return w.Err
	case <-ctx.Done():
		select {
		case <-done:
			return w.Err
		default:
			return context.Cause(ctx)
		}
	}
}

// Filter selects a page of List. Zero values do not filter.
type Filter struct {
	States    []State
	Outcomes  []Outcome
	Workflow  string
	Tenant    string
	Key       string // full idempotency key, claimed or derived
	Lane      string // where it stands, or stood when it was settled
	Jobs      bool   // only jobs
	Unsettled bool   // only the unsettled ones
	OlderThan time.Time
	NewerThan time.Time
	Before    string // keyset: only ids smaller than this
	Limit     int    // default 100, at most 1000
}

// Retention is the sweep's policy, as ages at ledger time.
type Retention struct {
	Now        time.Time
	Answers    time.Duration // bodies of settled answers, counted from their claim's end
	DeadLetter time.Duration
	Rows       time.Duration // heads, results and events of settled intents
	MaxBytes   int64         // bound on the file; oldest settled first beyond it; 0: none
	Batch      int           // rows in one transaction, default 500
}

// Swept counts what one Sweep removed.
type Swept struct{ Claims, Derived, Cached, Bodies, Intents int64 }

// BodyKind names a stored body of an intent.
type BodyKind uint8

const (
	BodyRequest  BodyKind = 1 // what the caller sent
	BodyAnswer   BodyKind = 2 // the complete answer, replayed byte for byte
	BodyPartial  BodyKind = 3 // evidence: an answer that was cut
	BodyLate     BodyKind = 4 // evidence: a result that came after its lease or its state had moved on
	BodyEvidence BodyKind = 5 // what a reconciler read
	BodySent     BodyKind = 6 // what was sent, where that is not what the caller sent
	BodyHeader   BodyKind = 7 // what goes with a job's request: query and header fields, without credentials, as JSON
)

// Body is one stored body, uncompressed in memory; drivers may compress it on disk.
type Body struct {
	Kind        BodyKind
	ContentType string
	Data        []byte
}
