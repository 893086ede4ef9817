package holdfast

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	_ "github.com/ncruces/go-sqlite3/driver"

	"github.com/holdfast-ai/holdfast/ledger"
)

// orders is the database of somebody's own.
func orders(t *testing.T) *sql.DB {
	t.Helper()
	db, err := sql.Open("sqlite3", "file:"+filepath.ToSlash(filepath.Join(t.TempDir(), "orders.db"))+"?_pragma=journal_mode(wal)&_pragma=busy_timeout(10000)")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.Close() })
	for range 2 { // it may be there
		if err := MigrateOutbox(t.Context(), db); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := db.ExecContext(t.Context(), `CREATE TABLE orders (id TEXT PRIMARY KEY)`); err != nil {
		t.Fatal(err)
	}
	return db
}

// place writes an order and its confirmation in one transaction.
func place(t *testing.T, db *sql.DB, order string, commit bool, change ...func(*Operation)) string {
	t.Helper()
	tx, err := db.BeginTx(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer tx.Rollback() //nolint:errcheck // after Commit it does nothing
	if _, err := tx.ExecContext(t.Context(), `INSERT INTO orders (id) VALUES (?)`, order); err != nil {
		t.Fatal(err)
	}
	op := Operation{Name: "confirm", Workflow: "refund", Arguments: map[string]string{"order": order}}
	for _, c := range change {
		c(&op)
	}
	id, err := DoTx(t.Context(), tx, op)
	if err != nil {
		t.Fatal(err)
	}
	if commit {
		if err := tx.Commit(); err != nil {
			t.Fatal(err)
		}
	}
	return id
}

func count(t *testing.T, db *sql.DB, where string) int {
	t.Helper()
	var n int
	if err := db.QueryRowContext(context.Background(), `SELECT count(*) FROM holdfast_outbox WHERE `+where).Scan(&n); err != nil {
		t.Fatal(err)
	}
	return n
}

// tally counts what a handler did, by order.
type tally struct {
	mu   sync.Mutex
	done map[string]int
	fail func(order string, attempt int) error
}

func (c *tally) handle(ctx context.Context, arguments json.RawMessage) (any, error) {
	var a struct{ Order string }
	if err := json.Unmarshal(arguments, &a); err != nil {
		return nil, err
	}
	at, _ := AttemptFrom(ctx)
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.done == nil {
		c.done = map[string]int{}
	}
	c.done[a.Order]++
	if c.fail != nil {
		return nil, c.fail(a.Order, at.Number)
	}
	return "confirmed " + a.Order, nil
}

func (c *tally) of(order string) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.done[order]
}

func (s *shop) serveOutbox(db *sql.DB, h Handler) *Outbox {
	s.t.Helper()
	s.Handle("confirm", h)
	o, err := s.Outbox(db, OutboxConfig{Every: 5 * time.Millisecond})
	if err != nil {
		s.t.Fatal(err)
	}
	return o
}

// settled waits until every operation of the outbox has an end. The rows are read first: an operation is in the log
// before its row goes, so what is no longer a row is counted there. The other way round it could be in neither.
func (s *shop) settled(db *sql.DB) {
	s.t.Helper()
	eventually(s.t, func() bool {
		if count(s.t, db, `refused IS NULL`) != 0 {
			return false
		}
		n, err := s.ledger.Counts(context.Background())
		return err == nil && n[ledger.Created]+n[ledger.Dispatched] == 0
	})
}

func TestDoTxCommitsWithItsTransaction(t *testing.T) {
	s, db, c := open(t), orders(t), &tally{}
	for i := range 20 {
		place(t, db, fmt.Sprint(i), i%2 == 0)
	}
	o := s.serveOutbox(db, c.handle)
	place(t, db, "late", true)
	o.Notify()
	s.settled(db)
	for i := range 20 {
		if got, want := c.of(fmt.Sprint(i)), 1-i%2; got != want {
			t.Errorf("order %d was confirmed %d times, want %d", i, got, want)
		}
	}
	if c.of("late") != 1 {
		t.Error("a row that came later was not done")
	}
	if _, err := s.Outbox(db, OutboxConfig{}); !errors.Is(err, ErrInvalid) {
		t.Errorf("a second outbox: %v", err)
	}
}

// TestDoTxIsTheSameOperation: Do with the key, the name and the arguments of a row gets the row's result.
func TestDoTxIsTheSameOperation(t *testing.T) {
	s, db, c := open(t), orders(t), &tally{}
	s.serveOutbox(db, c.handle)
	keyed := func(op *Operation) { op.Key = "confirm:17" }
	place(t, db, "17", true, keyed)
	s.settled(db)
	v, err := Do(t.Context(), s.Engine, Operation{Key: "confirm:17", Name: "confirm", Workflow: "refund", Arguments: map[string]string{"order": "17"}},
		func(context.Context) (any, error) { t.Error("ran again"); return "", nil })
	if err != nil || v != "confirmed 17" {
		t.Errorf("%v %v", v, err)
	}
	place(t, db, "17 once more", true, keyed, func(op *Operation) { op.Arguments = map[string]string{"order": "17"} })
	place(t, db, "18", true, keyed)
	eventually(t, func() bool {
		return count(t, db, `refused LIKE '%key_reused%'`) == 1 && count(t, db, `refused IS NULL`) == 0
	})
	if c.of("17") != 1 || c.of("18") != 0 {
		t.Errorf("one key: %v", c.done)
	}
}

// TestOutboxSurvivesACrashBetweenItsSteps stops between any two of: written down, row deleted, dispatched, done. The
// state of each crash is made by doing the steps before it, and closing without a word.
func TestOutboxSurvivesACrashBetweenItsSteps(t *testing.T) {
	for _, c := range []struct {
		name  string
		steps int
		times int // the handler ran, after the restart
		state ledger.State
	}{
		{"before anything", 0, 1, ledger.Settled},
		{"the intent is written", 1, 1, ledger.Settled},
		{"the row is deleted", 2, 1, ledger.Settled},
		{"it was dispatched", 3, 0, ledger.Unknown},
	} {
		t.Run(c.name, func(t *testing.T) {
			s, db, done := open(t), orders(t), &tally{}
			place(t, db, "17", true)
			s.Handle("confirm", done.handle)
			s.takeSteps(db, c.steps)
			s.up = false
			if err := s.close(); err != nil {
				t.Fatal(err)
			}
			s.start()
			s.serveOutbox(db, done.handle)
			s.settled(db)
			all, err := s.ledger.List(t.Context(), ledger.Filter{})
			if err != nil || len(all) != 1 || all[0].State != c.state || done.of("17") != c.times {
				t.Fatalf("ran %d times, %d intents, %v; want %d times, one intent, %v", done.of("17"), len(all), err, c.times, c.state)
			}
		})
	}
}

func (s *shop) takeSteps(db *sql.DB, n int) {
	s.t.Helper()
	if n == 0 {
		return
	}
	ctx := context.Background()
	page, err := rows(ctx, db, s.handled(), "", 10)
	if err != nil || len(page) != 1 {
		s.t.Fatalf("%d rows, %v", len(page), err)
	}
	o := s.newOutbox(db, OutboxConfig{})
	op := page[0].operation()
	q, err := s.functions.request(&op)
	if err != nil {
		s.t.Fatal(err)
	}
	q.head.Provider, q.head.Trigger, q.head.MaxAttempts = outboxProvider, rowKey(page[0].id), 5
	in, err := o.begin(ctx, q, &page[0])
	if err != nil || in.op == nil {
		s.t.Fatalf("%+v %v", in, err)
	}
	if n > 1 && !o.remove(ctx, page[0].id) {
		s.t.Fatal("the row is not removed")
	}
	if n > 2 {
		if err := in.op.Dispatch(*attemptOf(&q.head)); err != nil {
			s.t.Fatal(err)
		}
	}
}

// TestOutboxRowComesBack is a delete that a power cut undid: the row stands for an operation that is done.
func TestOutboxRowComesBack(t *testing.T) {
	s, db, c := open(t), orders(t), &tally{}
	id := place(t, db, "17", true)
	s.serveOutbox(db, c.handle)
	s.settled(db)
	if _, err := db.ExecContext(t.Context(), `INSERT INTO holdfast_outbox (id, name, workflow, arguments, created_at)
VALUES (?, 'confirm', 'refund', '{"order":"17"}', '')`, id); err != nil {
		t.Fatal(err)
	}
	s.settled(db)
	if c.of("17") != 1 {
		t.Errorf("confirmed %d times", c.of("17"))
	}
}

// TestOutboxTriesAgain: what had no effect is tried again, what nobody knows is not.
func TestOutboxTriesAgain(t *testing.T) {
	passing := errors.New("not now")
	for name, c := range map[string]struct {
		fail    func(string, int) error
		times   int
		state   ledger.State
		outcome ledger.Outcome
	}{
		"nothing happened, twice": {func(_ string, n int) error {
			if n < 3 {
				return Definite(passing)
			}
			return nil
		}, 3, ledger.Settled, ledger.OutcomeSuccess},
		"never sent": {func(string, int) error { return NotSent(passing) }, 5, ledger.Settled, ledger.OutcomeFailed},
		"who knows":  {func(string, int) error { return passing }, 1, ledger.Unknown, ledger.OutcomeUnknown},
	} {
		t.Run(name, func(t *testing.T) {
			s, db, done := open(t), orders(t), &tally{fail: c.fail}
			place(t, db, "17", true)
			s.serveOutbox(db, done.handle)
			s.settled(db)
			all, err := s.ledger.List(t.Context(), ledger.Filter{})
			if err != nil || len(all) != 1 || all[0].State != c.state || all[0].Outcome != c.outcome || done.of("17") != c.times || all[0].Attempt != c.times {
				t.Errorf("ran %d times: %+v %v", done.of("17"), all[0].Status, err)
			}
		})
	}
}

// TestOutboxStopsInTheMiddle: a stop leaves what was not begun to the next process, and nothing is done twice.
func TestOutboxStopsInTheMiddle(t *testing.T) {
	s, db := open(t), orders(t)
	var calls atomic.Int64
	per := sync.Map{}
	handle := func(_ context.Context, arguments json.RawMessage) (any, error) {
		n, _ := per.LoadOrStore(string(arguments), new(atomic.Int64))
		n.(*atomic.Int64).Add(1)
		return calls.Add(1), nil
	}
	const total = 120
	for i := range total {
		place(t, db, fmt.Sprint(i), true)
	}
	for range 3 {
		before := calls.Load()
		s.serveOutbox(db, handle)
		eventually(t, func() bool { return calls.Load() > before+10 || calls.Load() == total })
		s.stop()
		s.start()
	}
	s.serveOutbox(db, handle)
	s.settled(db)
	per.Range(func(k, n any) bool {
		if n.(*atomic.Int64).Load() != 1 {
			t.Errorf("%s was done %d times", k, n.(*atomic.Int64).Load())
		}
		return true
	})
	if calls.Load() != total {
		t.Errorf("%d done, want %d", calls.Load(), total)
	}
}

func TestDoTxRefuses(t *testing.T) {
	db := orders(t)
	tx, err := db.BeginTx(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer tx.Rollback() //nolint:errcheck // nothing to lose
	for name, op := range map[string]Operation{"no name": {Key: "k"}, "key": {Name: "n", Key: "a b"}, "arguments": {Name: "n", Arguments: func() {}},
		"info": {Name: "n", Info: &Info{}}, "deadline": {Name: "n", Deadline: time.Second}} {
		var e *Error
		if _, err := DoTx(t.Context(), tx, op); !errors.As(err, &e) {
			t.Errorf("%s: %v", name, err)
		}
	}
}
