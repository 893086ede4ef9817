package postgres

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/holdfast-ai/holdfast/ledger"
	"github.com/holdfast-ai/holdfast/ledger/internal/stored"
)

const (
	// The first and the longest pause between two attempts to connect. Meanwhile writes are refused at once.
	reconnectFirst = 50 * time.Millisecond
	reconnectMax   = time.Second
	// collisions is how often a transaction runs again that was undone for another's sake, before its writes are taken apart.
	collisions = 5
	// claimRounds bounds how often a claim is tried whose holder was gone when somebody looked.
	claimRounds = 100
)

// writer commits batches on a connection of its own.
type writer struct {
	l       *Ledger
	session *session // nil: there is none
	pause   time.Duration
	retryAt time.Time
	down    error // why there is no session; until retryAt nobody looks again
	enc     encoder
}

func (l *Ledger) startWriters() {
	l.queue.init(l.cfg.QueueBytes, l.cfg.Writers)
	for range l.cfg.Writers {
		w := &writer{l: l}
		l.workers.Go(w.run)
	}
}

// run commits what waits, until the ledger is closed and nothing does.
func (w *writer) run() {
	defer w.leave()
	for {
		select {
		case <-w.l.queue.wake:
			w.drain()
		case <-w.l.closed:
			w.drain()
			return
		}
	}
}

// drain commits batches until nothing is due.
func (w *writer) drain() {
	items := make([]*item, 0, batchItems)
	for {
		w.l.queue.gather()
		items = w.l.queue.take(items[:0])
		if len(items) == 0 {
			return
		}
		w.attempt(items, 0)
		w.l.queue.settled(items)
		w.l.notices.tell(items)
		for _, it := range items {
			it.tell()
		}
		clear(items)
	}
}

// attempt brings every item to its verdict. Items that fail by their own fault are found by halving, so that the others are written.
func (w *writer) attempt(items []*item, round int) {
	for try := 0; ; try++ {
		err := w.transact(items)
		switch {
		case err == nil:
			w.judge(items, round)
			return
		case collided(err) && try < collisions, errors.Is(err, errNotSent) && try == 0:
			continue
		case len(items) > 1 && (collided(err) || ownFault(err)):
			half := len(items) / 2
			w.attempt(items[:half], round)
			w.attempt(items[half:], round)
			return
		}
		w.fail(items, err)
		return
	}
}

func (w *writer) fail(items []*item, err error) {
	verdict := err
	switch {
	case duplicate(err): // the id exists: the same write was queued before and was durable after all
		verdict = ledger.ErrStale
	case ownFault(err), errors.Is(err, ledger.ErrClosed):
	default:
		verdict = w.l.unavailable(err)
		w.l.sick(err)
	}
	for _, it := range items {
		it.verdict = verdict
	}
}

// ownFault tells a write that Postgres rejects from a database that does not work: classes 21 to 23 (cardinality, data, constraint) and 54
// (limits) of its error codes.
func ownFault(err error) bool {
	var native *pgconn.PgError
	if !errors.As(err, &native) || len(native.Code) != 5 {
		return false
	}
	switch native.Code[:2] {
	case "21", "22", "23", "54":
		return native.Code != fenced
	}
	return false
}

func duplicate(err error) bool {
	var native *pgconn.PgError
	return errors.As(err, &native) && native.Code == "23505"
}

// judge gives every item of a transaction that is durable its verdict.
func (w *writer) judge(items []*item, round int) {
	w.l.well()
	var claims []*item
	for _, it := range items {
		switch {
		case it.applied:
			it.verdict = nil
		case it.w.Append:
			it.verdict = ledger.ErrNotFound
		case it.w.Insert == nil:
			it.verdict = ledger.ErrStale
		case it.leader != nil && it.leader.applied:
			it.verdict, it.holder = ledger.ErrClaimed, it.leader.w.Insert.ID
		default:
			it.verdict = ledger.ErrClaimed
			claims = append(claims, it)
		}
	}
	if len(claims) == 0 {
		return
	}
	found, err := w.holders(claims)
	switch {
	case err != nil:
		w.fail(claims, err)
	case !found && round < claimRounds:
		w.again(items, round)
	}
}

// again has what was refused tried once more, in its order: a claim is gone which was in the way a moment ago. What is refused left nothing behind.
func (w *writer) again(items []*item, round int) {
	var refused []*item
	for _, it := range items {
		if it.verdict != nil {
			refused = append(refused, it)
		}
	}
	w.attempt(refused, round+1)
}

// holders finds out whose the claims are that were refused. It is false where one is nobody's any more.
func (w *writer) holders(claims []*item) (found bool, err error) {
	if w.session == nil {
		return false, errNotSent
	}
	ctx, cancel := context.WithTimeout(w.l.ctx, w.l.cfg.CommitTimeout)
	defer cancel()
	keys := make([][]byte, len(claims))
	for i, it := range claims {
		keys[i] = it.claim
	}
	rows, err := w.session.conn.Query(ctx, `SELECT key, id FROM claim WHERE key = ANY($1) AND (until IS NULL OR until > $2)`, keys, stored.Micros(w.l.Now()))
	if err != nil {
		return false, err
	}
	defer rows.Close()
	held := map[[16]byte]string{}
	for rows.Next() {
		var key []byte
		var id [16]byte
		if err := rows.Scan(&key, &id); err != nil {
			return false, err
		}
		held[[16]byte(key)] = uuid(id).String()
	}
	found = true
	for _, it := range claims {
		it.holder = held[[16]byte(it.claim)]
		found = found && it.holder != ""
	}
	return found, rows.Err()
}

// errNotSent says that nothing of a transaction reached the server, or that it is known to have been undone there with its connection.
var errNotSent = errors.New("the connection was lost before the transaction was committed")

// transact runs items in one transaction and marks those that apply. When it returns an error, nothing of it is durable, or the ledger was closed
// before that could be found out.
func (w *writer) transact(items []*item) error {
	if err := w.connected(); err != nil {
		return err
	}
	s := w.session
	s.batch++
	ctx, cancel := context.WithTimeout(context.Background(), w.l.cfg.CommitTimeout+commitGrace)
	defer cancel()
	batch, statements, err := w.statements(ctx, items)
	if err != nil {
		w.session = nil
		w.hangUp(s)
		return fmt.Errorf("%w: %w", errNotSent, err)
	}
	err = receive(s.conn.PgConn().ExecBatch(ctx, batch), statements, items)
	if err == nil {
		return nil
	}
	var native *pgconn.PgError
	if errors.As(err, &native) && native.SeverityUnlocalized == "ERROR" && !s.conn.IsClosed() {
		if native.Code == fenced { // its row is gone, and it commits nothing any more; nothing of this is durable
			w.session = nil
			w.hangUp(s)
			return fmt.Errorf("%w: %w", errNotSent, err)
		}
		if _, e := s.conn.PgConn().Exec(ctx, "rollback").ReadAll(); e == nil && native.Code != readOnlyServer {
			return err
		} else if e == nil {
			w.session = nil // another server takes writes now, or will
			w.hangUp(s)
			return err
		}
	}
	w.session = nil
	w.hangUp(s)
	if pgconn.SafeToRetry(err) {
		return fmt.Errorf("%w: %w", errNotSent, err)
	}
	return w.resolve(s, items, err)
}

// readOnlyServer is what a server says of a write that has become a standby.
const readOnlyServer = "25006"

// commitGrace is what the server's own limit is given to tell that it has been reached.
const commitGrace = time.Second

// statements is the transaction for items; count is the number of its statements, with those that begin and end it.
func (w *writer) statements(ctx context.Context, items []*item) (batch *pgconn.Batch, count int, err error) {
	s, now := w.session, stored.Micros(w.l.Now())
	batch = &pgconn.Batch{}
	if err := s.add(ctx, batch, "BEGIN"); err != nil {
		return nil, 0, err
	}
	count = 2
	w.enc.types = s.types
	for _, wave := range plan(items) {
		for v, of := range wave {
			if len(of) == 0 {
				continue
			}
			n, err := w.add(ctx, batch, verb(v), of, now)
			if err != nil {
				return nil, 0, err
			}
			count += n
		}
	}
	return batch, count, s.add(ctx, batch, "COMMIT")
}

// add appends the statement of a verb, behind the locks that it needs.
func (w *writer) add(ctx context.Context, batch *pgconn.Batch, v verb, items []*item, now int64) (n int, err error) {
	s, e := w.session, &w.enc
	e.encode(v, items)
	if e.locks.n > 0 {
		n++
		if err := s.add(ctx, batch, lockResults, e.locks.param()); err != nil {
			return 0, err
		}
	}
	params := [][]byte{number(s.slot), number(s.batch), e.input.param(), number(now)}
	for _, p := range []struct {
		has  parts
		rows *rows
	}{{withBodies, &e.bodies}, {withCached, &e.cached}, {withBeside, &e.beside}} {
		if e.has&p.has != 0 {
			params = append(params, p.rows.param())
		}
	}
	return n + 1, s.add(ctx, batch, s.sql(v, e.has), params...)
}

func number(v int64) []byte { return binary.BigEndian.AppendUint64(nil, uint64(v)) }

// receive reads the results of a transaction. It returns nil only where the server has said that it is committed.
func receive(results *pgconn.MultiResultReader, statements int, items []*item) error {
	committed := false
	for n := 1; results.NextResult(); n++ {
		r := results.ResultReader()
		for r.NextRow() {
			if v := r.Values(); len(v) == 2 && len(v[0]) == 4 {
				items[binary.BigEndian.Uint32(v[0])].applied = true
			}
		}
		tag, err := r.Close()
		if err == nil && n == statements {
			committed = tag.String() == "COMMIT"
		}
	}
	err := results.Close()
	if err == nil && !committed {
		err = errors.New("the server did not confirm the commit")
	}
	return err
}
