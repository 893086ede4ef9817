package sqlite

import (
	"context"
	"sync"

	"github.com/ncruces/go-sqlite3"

	"github.com/holdfast-ai/holdfast/ledger"
)

const (
	sweepBatch = 500
	// sweepScan bounds the rows of claim and derived that one Sweep looks at: they have no index by time, which
	// would cost every call more than this costs the sweep.
	sweepScan = 20_000
	// laneDeadLetter is the word of interface.md §3.
	laneDeadLetter = "dead_letter"
)

// sweepState remembers how far the scans of the tables without an index by time have come.
type sweepState struct {
	mu              sync.Mutex
	claims, derived scan
}

// scan is a walk through a table in key order, a stretch at a time.
type scan struct{ after string }

// Sweep implements ledger.Ledger. It removes expired claims and derived keys, then bodies, then whole intents, a
// batch of each; more says that another call would find work.
func (l *Ledger) Sweep(ctx context.Context, p ledger.Retention) (s ledger.Swept, more bool, err error) {
	if p.Batch <= 0 {
		p.Batch = sweepBatch
	}
	l.sweep.mu.Lock()
	defer l.sweep.mu.Unlock()
	steps := []func() (int64, bool, error){
		func() (int64, bool, error) {
			n, left, err := l.sweepKeys(ctx, &l.sweep.claims, p, "claim", "key", "until <> 0 AND until <= ?1")
			s.Claims += n
			return n, left, err
		},
		func() (int64, bool, error) {
			n, left, err := l.sweepKeys(ctx, &l.sweep.derived, p, "derived", "derived_key", "until <= ?1")
			s.Derived += n
			return n, left, err
		},
		func() (int64, bool, error) {
			n, left, err := l.sweepBodies(ctx, p)
			s.Bodies += n
			return n, left, err
		},
		func() (int64, bool, error) {
			n, left, err := l.sweepIntents(ctx, p)
			s.Intents += n
			return n, left, err
		},
	}
	for _, step := range steps {
		_, left, err := step()
		if err != nil {
			return s, true, err
		}
		more = more || left
	}
	return s, more, nil
}

// sweepKeys walks a stretch of a table of keys and deletes what has expired by the condition dead.
func (l *Ledger) sweepKeys(ctx context.Context, at *scan, p ledger.Retention, table, key, dead string) (n int64, left bool, err error) {
	var keys []string
	seen, last := 0, ""
	err = l.read.with(ctx, func(r *reader) error {
		query := `SELECT ` + key + `, ` + dead + ` FROM ` + table + ` WHERE ` + key + ` > ?2 ORDER BY ` + key + ` LIMIT ?3`
		return r.each(query, []any{p.Now, at.after, sweepScan}, func(st *sqlite3.Stmt) error {
			if len(keys) >= p.Batch {
				return nil
			}
			seen++
			last = st.ColumnText(0)
			if st.ColumnBool(1) {
				keys = append(keys, last)
			}
			return nil
		})
	})
	if err != nil {
		return 0, false, err
	}
	if left = seen == sweepScan || len(keys) >= p.Batch; left {
		at.after = last
	} else {
		at.after = ""
	}
	if len(keys) == 0 {
		return 0, left, nil
	}
	// The condition is asked again: the key may have been taken over since it was read.
	err = l.inWriter(ctx, func(s *session) error {
		n = 0
		st, _, err := s.conn.Prepare(`DELETE FROM ` + table + ` WHERE ` + dead + ` AND ` + key + ` = ?2`)
		if err != nil {
			return err
		}
		defer st.Close()
		for _, k := range keys {
			if err := run(st, p.Now, k); err != nil {
				return err
			}
			n += s.conn.Changes()
		}
		return nil
	})
	return n, left, err
}

// settledRow is what the sweep needs to know of a result.
type settledRow struct {
	seq    int64
	intent string
}

func (l *Ledger) settledRows(ctx context.Context, query string, args ...any) (rows []settledRow, err error) {
	err = l.read.with(ctx, func(r *reader) error {
		return r.each(query, args, func(st *sqlite3.Stmt) error {
			rows = append(rows, settledRow{st.ColumnInt64(0), st.ColumnText(1)})
			return nil
		})
	})
	return rows, err
}

// sweepBodies removes the bodies of intents whose claim ended long enough ago; those that were settled out of
// the dead letter are kept as long as the dead letter is.
func (l *Ledger) sweepBodies(ctx context.Context, p ledger.Retention) (n int64, left bool, err error) {
	if p.Answers <= 0 {
		return 0, false, nil
	}
	rows, err := l.settledRows(ctx, `SELECT seq, intent FROM result WHERE keep_from IS NOT NULL AND keep_from <= ?
		AND (lane IS NOT ? OR settled_at <= ?) ORDER BY keep_from LIMIT ?`,
		p.Now.Add(-p.Answers), laneDeadLetter, p.Now.Add(-max(p.Answers, p.DeadLetter)), p.Batch)
	if err != nil || len(rows) == 0 {
		return 0, false, err
	}
	err = l.eachSettled(ctx, rows, func(c *sqlite3.Conn, row settledRow, st []*sqlite3.Stmt) error {
		if err := run(st[0], row.intent); err != nil {
			return err
		}
		n += c.Changes()
		return run(st[1], row.seq)
	}, func() { n = 0 }, `DELETE FROM body WHERE intent = ?`, `UPDATE result SET keep_from = NULL WHERE seq = ?`)
	return n, len(rows) == p.Batch, err
}

// eachSettled runs fn over rows in one transaction of the writer, with statements prepared for it. begin runs
// first, and again if the transaction has to be repeated.
func (l *Ledger) eachSettled(ctx context.Context, rows []settledRow,
	fn func(*sqlite3.Conn, settledRow, []*sqlite3.Stmt) error, begin func(), queries ...string) error {
	return l.inWriter(ctx, func(s *session) error {
		begin()
		var stmts []*sqlite3.Stmt
		defer func() {
			for _, st := range stmts {
				_ = st.Close()
			}
		}()
		for _, q := range queries {
			st, _, err := s.conn.Prepare(q)
			if err != nil {
				return err
			}
			stmts = append(stmts, st)
		}
		for _, row := range rows {
			if err := fn(s.conn, row, stmts); err != nil {
				return err
			}
		}
		return nil
	})
}

// sweepIntents removes whole settled intents: those past their age, then the oldest settled ones while the file
// holds more than it may. A claim that still replays keeps its intent from ageing out, but not from the bound.
func (l *Ledger) sweepIntents(ctx context.Context, p ledger.Retention) (n int64, left bool, err error) {
	rows, err := l.agedIntents(ctx, p)
	if err != nil {
		return 0, false, err
	}
	if len(rows) == 0 {
		rows, err = l.surplusIntents(ctx, p)
	}
	if err != nil || len(rows) == 0 {
		return 0, false, err
	}
	err = l.eachSettled(ctx, rows, func(c *sqlite3.Conn, row settledRow, st []*sqlite3.Stmt) error {
		for _, s := range st {
			if err := run(s, row.intent); err != nil {
				return err
			}
		}
		n += c.Changes()
		return nil
	}, func() { n = 0 },
		`DELETE FROM body WHERE intent = ?`,
		`DELETE FROM event WHERE intent = ?`,
		`DELETE FROM claim WHERE until <> 0 AND intent = ?1 AND key = (SELECT iif(typeof(claimed) = 'text', claimed,
			idempotency_key) FROM intent WHERE id = ?1)`,
		`DELETE FROM derived WHERE derived_key = (SELECT idempotency_key FROM intent WHERE id = ?1) AND intent = ?1`,
		`DELETE FROM result WHERE intent = ?`,
		`DELETE FROM intent WHERE id = ?`)
	return n, len(rows) == p.Batch, err
}

func (l *Ledger) agedIntents(ctx context.Context, p ledger.Retention) ([]settledRow, error) {
	if p.Rows <= 0 {
		return nil, nil
	}
	// The rows are in the order of settling, so that the walk ends at the first young one.
	var rows []settledRow
	young := micros(p.Now.Add(-p.Rows))
	dead := micros(p.Now.Add(-max(p.Rows, p.DeadLetter)))
	err := l.read.with(ctx, func(r *reader) error {
		st, err := r.prepared(`SELECT seq, intent, settled_at, coalesce(claim_until, 0), lane IS ? FROM result ORDER BY seq`)
		if err != nil {
			return err
		}
		defer st.Reset()
		if err := st.BindText(1, laneDeadLetter); err != nil {
			return err
		}
		for len(rows) < p.Batch && st.Step() {
			at := st.ColumnInt64(2)
			if at > young {
				break
			}
			if st.ColumnInt64(3) > micros(p.Now) || st.ColumnBool(4) && at > dead {
				continue
			}
			rows = append(rows, settledRow{st.ColumnInt64(0), st.ColumnText(1)})
		}
		return st.Err()
	})
	return rows, err
}

func (l *Ledger) surplusIntents(ctx context.Context, p ledger.Retention) ([]settledRow, error) {
	if p.MaxBytes <= 0 {
		return nil, nil
	}
	used, err := l.usedBytes(ctx)
	if err != nil || used <= p.MaxBytes {
		return nil, err
	}
	return l.settledRows(ctx, `SELECT seq, intent FROM result ORDER BY seq LIMIT ?`, p.Batch)
}

// usedBytes is the size of the pages in use: a page that was freed is used again before the file grows.
func (l *Ledger) usedBytes(ctx context.Context) (used int64, err error) {
	err = l.read.with(ctx, func(r *reader) error {
		return r.each(`SELECT (SELECT page_count FROM pragma_page_count) - (SELECT freelist_count FROM pragma_freelist_count),
			(SELECT page_size FROM pragma_page_size)`, nil, func(st *sqlite3.Stmt) error {
			used = st.ColumnInt64(0) * st.ColumnInt64(1)
			return nil
		})
	})
	return used, err
}
