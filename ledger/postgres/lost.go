package postgres

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/holdfast-ai/holdfast/internal/mutant"
	"github.com/holdfast-ai/holdfast/ledger"
)

// fenced is what a transaction fails with whose writer's row is gone: division by zero, in fence.
const fenced = "22012"

// resolve finds out what became of a transaction whose commit nobody confirmed, and marks what applied when it did commit. The writer's row says so:
// each transaction writes its number there. Taking the row away waits for a transaction that is still running, and fails one that still lies in some
// buffer; then there is nothing left that could change.
//
// It goes on for as long as the database is away, and the writes of that transaction wait; all others are refused.
func (w *writer) resolve(lost *session, items []*item, cause error) error {
	w.l.sick(cause)
	w.l.cfg.Logger.Warn("a connection was lost while it committed; what became of the commit is looked up", "store", w.l.where, "error", cause)
	var seen verdict
	for pause := reconnectFirst; ; pause = min(2*pause, reconnectMax) {
		w.down = nil
		err := w.connected()
		if err == nil {
			var committed bool
			if committed, err = w.look(lost, items, &seen); err == nil {
				if committed {
					return nil
				}
				return fmt.Errorf("%w: %w", errNotSent, cause)
			}
			w.hangUp(w.session)
			w.session = nil
		}
		w.l.refuseWaiting(err)
		select {
		case <-w.l.ctx.Done():
			return fmt.Errorf("%w before it was known what became of a commit: %w", ledger.ErrClosed, cause)
		case <-time.After(pause):
		}
	}
}

// verdict is what a lost session's row said when it was read last, behind its lock.
type verdict struct {
	read    bool
	batch   int64
	applied []int32
}

// look takes the row of a lost session away and reads what it says. It is read before it is taken, and that kept: when the answer to the taking is lost
// as well, the row may be gone, which then is no news.
func (w *writer) look(lost *session, items []*item, seen *verdict) (committed bool, err error) {
	ctx, cancel := context.WithTimeout(w.l.ctx, w.l.cfg.CommitTimeout+commitGrace)
	defer cancel()
	if err := w.take(ctx, lost.slot, seen); err != nil {
		return false, err
	}
	if !seen.read || seen.batch != lost.batch || mutant.On("unknown-commit-is-none") {
		return false, nil // a server that has not the row of the session has nothing that came after it either
	}
	for _, it := range items {
		it.applied = false
	}
	for _, n := range seen.applied {
		items[n].applied = true
	}
	return true, nil
}

// take reads the row of a session into seen, and deletes it. Where there is none, seen stays.
func (w *writer) take(ctx context.Context, slot int64, seen *verdict) error {
	return pgx.BeginFunc(ctx, w.session.conn, func(tx pgx.Tx) error {
		var v verdict
		err := tx.QueryRow(ctx, `SELECT batch, applied FROM writer WHERE id = $1 FOR UPDATE`, slot).Scan(&v.batch, &v.applied)
		if errors.Is(err, pgx.ErrNoRows) {
			return nil
		} else if err != nil {
			return err
		}
		v.read = true
		*seen = v
		_, err = tx.Exec(ctx, `DELETE FROM writer WHERE id = $1`, slot)
		return err
	})
}

// hangUp gives up a connection without waiting for it.
func (w *writer) hangUp(s *session) {
	if s != nil {
		w.l.workers.Go(s.close)
	}
}

// leave gives the connection back, and with it the writer's row.
func (w *writer) leave() {
	s := w.session
	if s == nil || s.conn.IsClosed() {
		return
	}
	ctx, cancel := context.WithTimeout(w.l.ctx, time.Second)
	defer cancel()
	_, _ = s.conn.Exec(ctx, `DELETE FROM writer WHERE id = $1`, s.slot) // else a later session does
	s.close()
}

// refuseWaiting answers those whose writes nobody has sent.
func (l *Ledger) refuseWaiting(cause error) {
	err := l.unavailable(cause)
	for _, it := range l.queue.rest() {
		it.verdict = err
		it.tell()
	}
}

// failure boxes an error for an atomic pointer.
type failure struct{ err error }

func (l *Ledger) sick(err error) { l.health.Store(&failure{l.unavailable(err)}) }
func (l *Ledger) well()          { l.health.Store(nil) }

// Healthy is nil while the last commit or probe succeeded.
func (l *Ledger) Healthy() error {
	if f := l.health.Load(); f != nil {
		return f.err
	}
	return nil
}
