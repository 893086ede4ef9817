package sqlite

import (
	"bytes"
	"context"
	"slices"
	"sync"

	"github.com/ncruces/go-sqlite3"

	"github.com/holdfast-ai/holdfast/ledger"
	"github.com/holdfast-ai/holdfast/ledger/internal/stored"
)

const (
	sweepBatch = 500
	// sweepScan bounds the rows of derived that one Sweep looks at: it has no index by time, which would cost
	// every call more than this costs the sweep.
	sweepScan = 20_000
	// sweepWindow is how many batches of intents, oldest first by creation, are looked at to find those that
	// were settled first: the two orders differ only for what stayed unsettled long.
	sweepWindow = 4
	// laneDeadLetter is the word of interface.md §3.
	laneDeadLetter = "dead_letter"
)

// sweepState remembers how far the scan of derived has come.
type sweepState struct {
	mu      sync.Mutex
	derived []byte
}

// Sweep implements ledger.Ledger. It removes expired claims and derived keys, then bodies, then whole intents, a
// batch of each, with rows of the index over answers before what they lead to; more says that another call would find work.
func (l *Ledger) Sweep(ctx context.Context, p ledger.Retention) (s ledger.Swept, more bool, err error) {
	if p.Batch <= 0 {
		p.Batch = sweepBatch
	}
	l.sweep.mu.Lock()
	defer l.sweep.mu.Unlock()
	for _, step := range []struct {
		removed *int64
		run     func(context.Context, ledger.Retention) (int64, bool, error)
	}{
		{&s.Claims, l.sweepClaims},
		{&s.Derived, l.sweepDerived},
		{&s.Cached, l.sweepCached},
		{&s.Bodies, l.sweepBodies},
		{&s.Intents, l.sweepIntents},
	} {
		n, left, err := step.run(ctx, p)
		if err != nil {
			return s, true, err
		}
		*step.removed += n
		more = more || left
	}
	return s, more, nil
}

// claimKeyOf is the key that intent i claimed.
const claimKeyOf = `iif(typeof(i.claimed) = 'text', i.claimed, i.idempotency_key)`

// settledRow is what the sweep needs to know of a settled intent.
type settledRow struct {
	seq       int64
	key       []byte // digest of the key it claimed, or was derived under
	settledAt int64
}

// settledRows runs a query for seq, claimed key and settled_at.
func (l *Ledger) settledRows(ctx context.Context, query string, args ...any) (rows []settledRow, err error) {
	err = l.read.with(ctx, func(r *reader) error {
		return r.each(query, args, func(st *sqlite3.Stmt) error {
			rows = append(rows, settledRow{st.ColumnInt64(0), stored.Digest(st.ColumnText(1)), st.ColumnInt64(2)})
			return nil
		})
	})
	return rows, err
}

// change is one statement of a sweep; it is given the row's seq, and its key where it says so.
type change struct {
	sql    string
	keyed  bool
	count  bool // its changes are what the sweep reports
	forget bool // it removes intents, of which the writer may remember some
}

// eachSettled runs changes for every row, and then, which may be nil, in one transaction of the writer.
func (l *Ledger) eachSettled(ctx context.Context, rows []settledRow, then func(*session) error, changes ...change) (n int64, err error) {
	if len(rows) == 0 && then == nil {
		return 0, nil
	}
	err = l.inWriter(ctx, func(s *session) error {
		n = 0 // the transaction may run again
		for _, c := range changes {
			st, _, err := s.conn.Prepare(c.sql)
			if err != nil {
				return err
			}
			if c.forget {
				s.recent.forget()
			}
			removed, err := s.runEach(st, rows, c)
			if err != nil {
				return err
			}
			n += removed
		}
		if then != nil {
			return then(s)
		}
		return nil
	})
	return n, err
}

func (s *session) runEach(st *sqlite3.Stmt, rows []settledRow, c change) (n int64, err error) {
	defer st.Close()
	for _, row := range rows {
		if c.keyed {
			err = run(st, row.seq, row.key)
		} else {
			err = run(st, row.seq)
		}
		if err != nil {
			return n, err
		}
		if c.count {
			n += s.conn.Changes()
		}
	}
	return n, nil
}

// sweepDerived walks a stretch of the derived keys and deletes those past their window.
func (l *Ledger) sweepDerived(ctx context.Context, p ledger.Retention) (n int64, left bool, err error) {
	var dead []settledRow
	seen, last := 0, []byte{}
	err = l.read.with(ctx, func(r *reader) error {
		return r.each(`SELECT key, seq, until <= ?1 FROM derived WHERE key > ?2
			ORDER BY key LIMIT ?3`, []any{p.Now, append([]byte{}, l.sweep.derived...), sweepScan}, func(st *sqlite3.Stmt) error {
			// A key may have many rows: the walk stops only between keys.
			if key := st.ColumnBlob(0, nil); len(dead) < p.Batch || bytes.Equal(key, last) {
				seen++
				last = key
				if st.ColumnBool(2) {
					dead = append(dead, settledRow{seq: st.ColumnInt64(1), key: key})
				}
			}
			return nil
		})
	})
	if err != nil {
		return 0, false, err
	}
	left = seen == sweepScan || len(dead) >= p.Batch
	l.sweep.derived = nil
	if left {
		l.sweep.derived = last
	}
	n, err = l.eachSettled(ctx, dead, nil,
		change{sql: `DELETE FROM derived WHERE seq = ? AND key = ?`, keyed: true, count: true})
	return n, left, err
}

const deleteBodies = `DELETE FROM body WHERE slot BETWEEN 8 * ?1 AND 8 * ?1 + 7`

// sweepIntents removes whole settled intents: those past their age, else the oldest settled ones while the file
// holds more than it may. A claim that still replays keeps its intent from ageing out, but not from the bound.
func (l *Ledger) sweepIntents(ctx context.Context, p ledger.Retention) (int64, bool, error) {
	rows, err := l.agedIntents(ctx, p)
	if err == nil && len(rows) == 0 {
		rows, err = l.surplusIntents(ctx, p)
	}
	if err != nil {
		return 0, false, err
	}
	n, err := l.eachSettled(ctx, rows, nil,
		change{sql: deleteBodies},
		change{sql: deleteCached},
		change{sql: `DELETE FROM event WHERE seq = ?`},
		change{sql: `DELETE FROM claim WHERE seq = ? AND key = ?`, keyed: true},
		change{sql: `DELETE FROM derived WHERE seq = ? AND key = ?`, keyed: true},
		change{sql: `DELETE FROM result WHERE seq = ?`},
		change{sql: `DELETE FROM intent WHERE seq = ?`, count: true, forget: true})
	return n, len(rows) == p.Batch, err
}

// agedIntents returns a batch of the intents past their age. Nothing is settled before it is created, so that the
// walk in order of insertion ends at the first young one.
func (l *Ledger) agedIntents(ctx context.Context, p ledger.Retention) (rows []settledRow, err error) {
	if p.Rows <= 0 {
		return nil, nil
	}
	young, now := stored.Micros(p.Now.Add(-p.Rows)), stored.Micros(p.Now)
	dead := stored.Micros(p.Now.Add(-max(p.Rows, p.DeadLetter)))
	err = l.read.with(ctx, func(r *reader) error {
		st, err := r.prepared(`SELECT i.seq, ` + claimKeyOf + `, i.created_at, r.settled_at, r.claim_until, r.lane, ` + cachedUntil + `
			FROM intent i LEFT JOIN result r ON r.seq = i.seq ORDER BY i.seq`)
		if err != nil {
			return err
		}
		defer st.Reset()
		for len(rows) < p.Batch && st.Step() && st.ColumnInt64(2) <= young {
			settled, at := st.ColumnType(3) != sqlite3.NULL, st.ColumnInt64(3)
			if !settled || at > young || st.ColumnInt64(4) > now || st.ColumnInt64(6) > now || at > dead && st.ColumnText(5) == laneDeadLetter {
				continue
			}
			rows = append(rows, settledRow{st.ColumnInt64(0), stored.Digest(st.ColumnText(1)), at})
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
	rows, err := l.settledRows(ctx, `SELECT r.seq, `+claimKeyOf+`, r.settled_at FROM result r
		CROSS JOIN intent i ON i.seq = r.seq ORDER BY r.seq LIMIT ?`, sweepWindow*p.Batch)
	slices.SortFunc(rows, func(a, b settledRow) int { return int(a.settledAt - b.settledAt) })
	return rows[:min(len(rows), p.Batch)], err
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
