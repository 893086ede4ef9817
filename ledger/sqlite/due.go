package sqlite

import (
	"context"
	"slices"
	"time"

	"github.com/ncruces/go-sqlite3"

	"github.com/holdfast-ai/holdfast/internal/mutant"
	"github.com/holdfast-ai/holdfast/ledger"
	"github.com/holdfast-ai/holdfast/ledger/internal/stored"
)

// dueList is a row of the table due on its way through the sweep.
type dueList struct {
	dueAt
	first int64 // with dueAt its key
	seqs  []int64
	stay  []int64 // those that it goes on holding
}

// duty is what the sweep does with intents that are due.
type duty struct {
	kind    int64
	until   int64                   // what is due by then
	column  string                  // of result: the exact time, NULL when there is nothing left to do
	ready   func(r dueRow) int64    // when the row may be worked on
	changes []change                // made for each that is
	after   func(dueRow) (at int64) // when it is due next, for the bodies; nil: never
}

type dueRow struct {
	settledRow
	due    int64
	lane   string
	cached int64 // until when the index over answers leads to it; 0: it does not
}

// sweepClaims removes claims whose time has come, unless they were taken over, and makes their bodies due.
func (l *Ledger) sweepClaims(ctx context.Context, p ledger.Retention) (int64, bool, error) {
	return l.sweepDue(ctx, p.Batch, &duty{
		kind: dueClaims, until: stored.Micros(p.Now), column: "claim_due",
		ready: func(r dueRow) int64 { return r.due },
		changes: []change{
			{sql: `DELETE FROM claim WHERE seq = ? AND key = ?`, keyed: true, count: true},
			{sql: `UPDATE result SET claim_due = NULL, body_due = claim_until WHERE seq = ?`},
		},
		after: func(r dueRow) int64 { return r.due },
	})
}

// sweepBodies removes the bodies of intents whose claim ended long enough ago; those that were settled out of
// the dead letter are kept as long as the dead letter is.
func (l *Ledger) sweepBodies(ctx context.Context, p ledger.Retention) (int64, bool, error) {
	if p.Answers <= 0 {
		return 0, false, nil
	}
	longer := (max(p.Answers, p.DeadLetter) - p.Answers) / time.Microsecond
	return l.sweepDue(ctx, p.Batch, &duty{
		kind: dueBodies, until: stored.Micros(p.Now.Add(-p.Answers)), column: "body_due",
		ready: func(r dueRow) int64 {
			ready := max(r.due, r.cached-p.Answers.Microseconds())
			if mutant.On("sweep-forgets-the-cache") {
				ready = r.due
			}
			if r.lane == laneDeadLetter {
				return max(ready, r.settledAt+int64(longer))
			}
			return ready
		},
		changes: []change{
			{sql: deleteCached}, // written since this row was read
			{sql: deleteBodies, count: true},
			{sql: `UPDATE result SET body_due = NULL WHERE seq = ?`},
			// An update in place would leave the answer's room empty for as long as the row lives. A row that moves
			// away and back leaves its page to be merged with its neighbours.
			{sql: `UPDATE result SET seq = -seq, body_type = NULL, body_packed = NULL, body_size = NULL,
				body_digest = NULL, body_data = NULL WHERE seq = ? AND body_data IS NOT NULL`, count: true},
			{sql: `UPDATE result SET seq = -seq WHERE seq = -?`},
		},
	})
}

// sweepDue works on a batch of what is due. more says that another call would find work.
func (l *Ledger) sweepDue(ctx context.Context, batch int, d *duty) (n int64, more bool, err error) {
	lists, err := l.dueLists(ctx, d, batch)
	if err != nil || len(lists) == 0 {
		return 0, false, err
	}
	var rows []dueRow
	next := map[dueAt][]int64{}
	looked, changed := 0, false
	for i := range lists {
		list := &lists[i]
		asked := min(len(list.seqs), batch-looked)
		looked += asked
		found, err := l.dueRows(ctx, d, list.seqs[:asked])
		if err != nil {
			return 0, false, err
		}
		rows = d.sort(list, found, rows, next)
		list.stay = append(list.stay, list.seqs[asked:]...)
		changed = changed || len(list.stay) < len(list.seqs)
	}
	if !changed {
		return 0, false, nil // their second has begun, and they are due later in it
	}
	n, err = l.eachSettled(ctx, settledOf(rows), func(s *session) error { return s.relist(lists, next) }, d.changes...)
	return n, looked == batch, err
}

// sort tells the rows of a list that are ready, which it adds to rows, from those that stay or are due another time.
// A seq without a row is forgotten: its intent was removed, or somebody was here before.
func (d *duty) sort(list *dueList, found, rows []dueRow, next map[dueAt][]int64) []dueRow {
	for _, r := range found {
		switch at := d.ready(r); {
		case at <= d.until:
			rows = append(rows, r)
			if d.after != nil {
				key := dueAt{dueBodies, dueSecond(d.after(r))}
				next[key] = append(next[key], r.seq)
			}
		case dueSecond(at) == dueSecond(list.at):
			list.stay = append(list.stay, r.seq)
		default:
			key := dueAt{d.kind, dueSecond(at)}
			next[key] = append(next[key], r.seq)
		}
	}
	return rows
}

func settledOf(rows []dueRow) []settledRow {
	out := make([]settledRow, len(rows))
	for i, r := range rows {
		out[i] = r.settledRow
	}
	return out
}

// dueLists reads the earliest lists that hold at least enough intents together.
func (l *Ledger) dueLists(ctx context.Context, d *duty, enough int) (lists []dueList, err error) {
	err = l.read.with(ctx, func(r *reader) error {
		st, err := r.prepared(`SELECT at, seq, more FROM due WHERE kind = ? AND at <= ? ORDER BY at, seq`)
		if err != nil {
			return err
		}
		defer st.Reset()
		if err := bindAll(st, d.kind, d.until); err != nil {
			return err
		}
		for n := 0; n < enough && st.Step(); {
			list := dueList{dueAt: dueAt{d.kind, st.ColumnInt64(0)}, first: st.ColumnInt64(1)}
			list.seqs, _ = readSeqs(list.first, st.ColumnRawBlob(2)) // verify tells a damaged one
			n += len(list.seqs)
			lists = append(lists, list)
		}
		return st.Err()
	})
	return lists, err
}

// dueRows reads those of seqs that have something left to do.
func (l *Ledger) dueRows(ctx context.Context, d *duty, seqs []int64) (rows []dueRow, err error) {
	err = l.read.with(ctx, func(r *reader) error {
		for _, seq := range seqs {
			err := r.each(`SELECT `+claimKeyOf+`, r.settled_at, r.`+d.column+`, r.lane, `+cachedUntil+` FROM result r
				JOIN intent i ON i.seq = r.seq WHERE r.seq = ? AND r.`+d.column+` IS NOT NULL`, []any{seq}, func(st *sqlite3.Stmt) error {
				rows = append(rows, dueRow{settledRow{seq, stored.Digest(st.ColumnText(0)), st.ColumnInt64(1)}, st.ColumnInt64(2), st.ColumnText(3), st.ColumnInt64(4)})
				return nil
			})
			if err != nil {
				return err
			}
		}
		return nil
	})
	return rows, err
}

// relist writes what is left of lists, and the lists of another time.
func (s *session) relist(lists []dueList, next map[dueAt][]int64) error {
	for _, list := range lists {
		if len(list.stay) == len(list.seqs) {
			continue
		}
		if err := execOnce(s.conn, `DELETE FROM due WHERE kind = ? AND at = ? AND seq = ?`, list.kind, list.at, list.first); err != nil {
			return err
		}
		if len(list.stay) > 0 {
			if err := s.listDue(list.kind, list.at, list.stay); err != nil {
				return err
			}
		}
	}
	for at, seqs := range next {
		slices.Sort(seqs)
		if err := s.listDue(at.kind, at.at, seqs); err != nil {
			return err
		}
	}
	return nil
}
