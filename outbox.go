package holdfast

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/holdfast-ai/holdfast/intent"
	"github.com/holdfast-ai/holdfast/internal/pause"
	"github.com/holdfast-ai/holdfast/internal/policy"
	"github.com/holdfast-ai/holdfast/ledger"
)

// Handler does operations of one name that DoTx wrote. Its errors mean what those of a function under [Do] mean.
type Handler func(ctx context.Context, arguments json.RawMessage) (any, error)

// Handle registers the handler for operations of this name. It comes before [Engine.Outbox]: what an earlier process
// left is taken up there.
func (e *Engine) Handle(name string, h Handler) {
	e.handling.Lock()
	defer e.handling.Unlock()
	if e.handlers == nil {
		e.handlers = map[string]Handler{}
	}
	e.handlers[name] = h
}

func (e *Engine) handler(name string) Handler {
	e.handling.Lock()
	defer e.handling.Unlock()
	return e.handlers[name]
}

func (e *Engine) handled() []string {
	e.handling.Lock()
	defer e.handling.Unlock()
	names := make([]string, 0, len(e.handlers))
	for n := range e.handlers {
		names = append(names, n)
	}
	slices.Sort(names)
	return names
}

// OutboxConfig says how an Outbox works. Zero values mean the defaults.
type OutboxConfig struct {
	// Every is how often the table is looked at. Default 200 ms.
	Every time.Duration
	// Workers is how many operations are done at a time. Default 16.
	Workers int
}

// Outbox hands the rows of holdfast_outbox over to the log and does them. The order of the steps is what makes it once:
// the intent, with its claim and arguments, is durable; then the row is deleted; then it is dispatched. Whatever dies
// between two steps finds the next one to be done, and a row that is there stands for nothing that was begun.
type Outbox struct {
	e     *Engine
	db    *sql.DB
	every time.Duration
	nudge chan struct{}
	slots chan struct{}
	stop  context.CancelFunc
	all   sync.WaitGroup // the loop and the workers

	returned atomic.Bool // evidence gave work back

	mu      sync.Mutex
	in      map[string]bool // rows in hand
	trouble string          // said last
}

// outboxProvider marks intents that this engine works on by itself: no caller takes them over.
const outboxProvider = "outbox"

// outboxPage is how many rows are read at a time.
const outboxPage = 100

// Outbox begins to do what DoTx wrote and writes into db. An engine has one, and Stop ends it. [MigrateOutbox] comes
// before it. Rows that no handler here or elsewhere does are spoken of in the log.
func (e *Engine) Outbox(db *sql.DB, c OutboxConfig) (*Outbox, error) {
	if e.functions == nil {
		return nil, refusal(ErrDraining, "the engine is not running: Start comes first")
	}
	if e.outbox != nil {
		return nil, refusal(ErrInvalid, "this engine has an outbox already")
	}
	if err := migrated(db); err != nil {
		return nil, err
	}
	ctx, stop := context.WithCancel(context.Background())
	o := e.newOutbox(db, c)
	o.stop = stop
	e.handling.Lock()
	e.outbox = o
	e.handling.Unlock()
	o.all.Go(func() { o.run(ctx) })
	return o, nil
}

func (e *Engine) newOutbox(db *sql.DB, c OutboxConfig) *Outbox {
	if c.Every <= 0 {
		c.Every = 200 * time.Millisecond
	}
	if c.Workers <= 0 {
		c.Workers = 16
	}
	return &Outbox{e: e, db: db, every: c.Every, nudge: make(chan struct{}, 1), slots: make(chan struct{}, c.Workers), in: map[string]bool{}}
}

// Notify has the table looked at now: for callers who have just committed. It never blocks.
func (o *Outbox) Notify() {
	select {
	case o.nudge <- struct{}{}:
	default:
	}
}

func (o *Outbox) run(ctx context.Context) {
	ticker := time.NewTicker(o.every)
	defer ticker.Stop()
	resumed, spoken := false, time.Now().Add(orphanAge-orphanEvery)
	for {
		if o.returned.CompareAndSwap(true, false) {
			resumed = false
		}
		if !resumed {
			resumed = o.say(o.resume(ctx))
		}
		o.say(o.pass(ctx))
		if now := time.Now(); now.Sub(spoken) >= orphanEvery {
			spoken = now
			resumed = resumed && o.e.log.Alone() // others that share the log may have died
			o.say(o.sayOrphans(ctx, now))
		}
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		case <-o.nudge:
		}
	}
}

// say logs trouble when it begins or changes, not with every look.
func (o *Outbox) say(err error) (fine bool) {
	text := ""
	if err != nil && !errors.Is(err, context.Canceled) {
		text = err.Error()
	}
	o.mu.Lock()
	news := text != o.trouble
	o.trouble = text
	o.mu.Unlock()
	if news && text != "" {
		o.e.logger.Warn("the outbox is in trouble; it goes on trying", "error", text)
	}
	return err == nil
}

// resume takes up what an earlier process handed over and did not finish, by semantics 7.
func (o *Outbox) resume(ctx context.Context) error {
	for after := ""; ; {
		records, err := o.e.ledger.Open(ctx, after, outboxPage)
		if err != nil {
			return err
		}
		for _, r := range records {
			after = r.ID
			if r.Provider != outboxProvider || r.LeaseOwner != "" || r.State != ledger.Created && (r.State != ledger.Dispatched || r.Hold) {
				continue
			}
			if err := o.spawn(ctx, rowOf(r), func() { o.takeUp(ctx, r) }); err != nil {
				return err
			}
		}
		if len(records) < outboxPage {
			return nil
		}
	}
}

// pass looks at every row once.
func (o *Outbox) pass(ctx context.Context) error {
	names := o.e.handled()
	if len(names) == 0 {
		return nil
	}
	for after := ""; ; {
		page, err := rows(ctx, o.db, names, after, outboxPage)
		if err != nil {
			return err
		}
		for i := range page {
			r := &page[i]
			after = r.id
			if err := o.spawn(ctx, r.id, func() { o.take(ctx, r) }); err != nil {
				return err
			}
		}
		if len(page) < outboxPage {
			return nil
		}
	}
}

// spawn gives a row to a worker, once, and waits for one to be free.
func (o *Outbox) spawn(ctx context.Context, id string, work func()) error {
	o.mu.Lock()
	busy := o.in[id]
	o.in[id] = true
	o.mu.Unlock()
	if busy {
		return nil
	}
	done := func() {
		o.mu.Lock()
		delete(o.in, id)
		o.mu.Unlock()
	}
	select {
	case o.slots <- struct{}{}:
	case <-ctx.Done():
		done()
		return ctx.Err()
	}
	o.all.Go(func() {
		defer func() { <-o.slots; done() }()
		work()
	})
	return nil
}

// take hands one row over and does it.
func (o *Outbox) take(ctx context.Context, r *outboxRow) {
	op := r.operation()
	q, err := o.e.functions.request(&op)
	if err == nil && q.rule.Effect == policy.Read {
		err = refusal(ErrInvalid, "the workflow's effect is read: there is nothing to do once")
	}
	if err != nil {
		o.refuse(ctx, r.id, err)
		return
	}
	q.head.Provider, q.head.Trigger, q.head.MaxAttempts = outboxProvider, rowKey(r.id), q.rule.Lanes.BackgroundRetry.MaxAttempts
	in, err := o.begin(ctx, q, r)
	if err != nil {
		o.refuse(ctx, r.id, err)
		return
	}
	if in.gone && o.remove(ctx, r.id) && in.op != nil {
		o.work(ctx, in.op, q, r.arguments)
	}
}

// handed is what became of a row: gone says that the log has it.
type handed struct {
	gone bool
	op   *intent.Op // to be done now
}

// begin writes the row's intent down, or finds the one that has its key. An error refuses the row for good.
func (o *Outbox) begin(ctx context.Context, q *request, r *outboxRow) (handed, error) {
	holder, err := o.e.ledger.Holder(ctx, q.head.Key)
	if err == nil {
		return o.seen(q, holder)
	}
	if !errors.Is(err, ledger.ErrNotFound) {
		o.say(err)
		return handed{}, nil
	}
	op, err := o.e.log.Begin(intent.Begin{Head: q.head, Claim: true, Visibility: ledger.VisBackground, Lane: "background_retry",
		Request: &ledger.Body{Kind: ledger.BodyRequest, ContentType: typeJSON, Data: r.arguments}})
	if err != nil { // the next look finds what has become of it
		if !errors.Is(err, ledger.ErrClaimed) {
			o.say(err)
		}
		return handed{}, nil
	}
	return handed{gone: true, op: op}, nil
}

// seen judges a row whose key is claimed. What still runs may yet fail and free the key: then the row is wanted.
func (o *Outbox) seen(q *request, r *ledger.Record) (handed, error) {
	switch {
	case r.Fingerprint != q.head.Fingerprint:
		return handed{}, q.reused(r.ID)
	case r.Trigger == q.head.Trigger && r.State == ledger.Created && r.Provider == outboxProvider:
		return handed{gone: true, op: o.e.log.Load(r)}, nil
	case r.Trigger == q.head.Trigger:
		return handed{gone: true}, nil
	case r.State == ledger.Settled || r.State == ledger.Unknown:
		q.duplicate(r, strings.ToLower(r.State.String()))
		return handed{gone: true}, nil
	}
	return handed{}, nil
}

// refuse marks a row that can never become an operation; a person looks after it.
func (o *Outbox) refuse(ctx context.Context, id string, why error) {
	o.e.logger.Error("a row of holdfast_outbox is refused; mend it and set refused to NULL", "row", id, "error", why)
	o.insist(ctx, func() error {
		_, err := o.db.ExecContext(ctx, `UPDATE holdfast_outbox SET refused = ? WHERE id = ?`, why.Error(), id)
		return err
	})
}

// remove deletes the row, and says whether it is gone for certain.
func (o *Outbox) remove(ctx context.Context, id string) bool {
	return o.insist(ctx, func() error {
		_, err := o.db.ExecContext(ctx, `DELETE FROM holdfast_outbox WHERE id = ?`, id)
		return err
	})
}

// insist does what can be done twice until it succeeds, or ctx ends.
func (o *Outbox) insist(ctx context.Context, do func() error) bool {
	for wait := 10 * time.Millisecond; ; wait = min(2*wait, time.Second) {
		if o.say(do()) {
			return true
		}
		if !pause.For(ctx, wait) {
			return false
		}
	}
}
