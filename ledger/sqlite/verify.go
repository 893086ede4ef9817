package sqlite

import (
	"context"
	"fmt"

	"github.com/ncruces/go-sqlite3"

	"github.com/holdfast-ai/holdfast/ledger"
	"github.com/holdfast-ai/holdfast/ledger/internal/stored"
	"github.com/holdfast-ai/holdfast/ledger/internal/verify"
)

// Violation is one row that breaks an invariant of the log.
type Violation = verify.Violation

// Verify re-checks every invariant of the store at path and returns the rows that break one. It reads beside a
// running engine and changes nothing. An error means that the store could not be read, not that it is wrong.
func Verify(ctx context.Context, path string) ([]Violation, error) {
	return check(ctx, Config{Path: path})
}

func check(ctx context.Context, cfg Config) ([]Violation, error) {
	cfg.ReadOnly = true
	l, err := Open(ctx, cfg)
	if err != nil {
		return nil, err
	}
	defer l.Close()
	v := &verifier{l: l}
	err = l.read.with(ctx, func(r *reader) error {
		for name, f := range map[string]sqlite3.ScalarFunction{"digest": sqlDigest, "place": sqlPlace} {
			if err := r.conn.CreateFunction(name, 1, sqlite3.DETERMINISTIC|sqlite3.DIRECTONLY, f); err != nil {
				return err
			}
		}
		// One snapshot for all checks: the engine beside us goes on writing.
		if err := r.conn.Exec(`BEGIN`); err != nil {
			return err
		}
		defer r.conn.Exec(`ROLLBACK`)
		return v.run(r)
	})
	return v.Found, err
}

type verifier struct {
	verify.Report
	l *Ledger
}

func (v *verifier) run(r *reader) error {
	now := v.l.Now()
	for _, c := range checks {
		st, _, err := r.conn.Prepare(c.sql)
		if err != nil {
			return fmt.Errorf("check %s: %w", c.rule, err)
		}
		if st.BindCount() > 0 {
			err = bindAll(st, now)
		}
		for err == nil && st.Step() {
			v.Add(c.rule, st.ColumnText(0), st.ColumnText(1))
		}
		if err == nil {
			err = st.Err()
		}
		st.Close()
		if err != nil {
			return fmt.Errorf("check %s: %w", c.rule, err)
		}
	}
	for _, f := range []func(*reader) error{v.bodies, v.due, v.histories} {
		if err := f(r); err != nil {
			return err
		}
	}
	return nil
}

// due reads the lists of the sweep: whatever has something left to do is on one.
func (v *verifier) due(r *reader) error {
	listed := map[int64]map[int64]bool{dueClaims: {}, dueBodies: {}}
	err := r.each(`SELECT kind, at, seq, more FROM due`, nil, func(st *sqlite3.Stmt) error {
		seqs, ok := readSeqs(st.ColumnInt64(2), st.ColumnRawBlob(3))
		kind := listed[st.ColumnInt64(0)]
		if !ok || kind == nil {
			v.Add("due", fmt.Sprintf("list of %s", stored.FromMicros(st.ColumnInt64(1))), "cannot be read")
			return nil
		}
		for _, seq := range seqs {
			kind[seq] = true
		}
		return nil
	})
	if err != nil {
		return err
	}
	return r.each(`SELECT i.id, r.seq, r.claim_due IS NOT NULL, r.body_due IS NOT NULL FROM result r JOIN intent i ON i.seq = r.seq
		WHERE r.claim_due IS NOT NULL OR r.body_due IS NOT NULL`, nil, func(st *sqlite3.Stmt) error {
		seq := st.ColumnInt64(1)
		if st.ColumnBool(2) && !listed[dueClaims][seq] {
			v.Add("due", st.ColumnText(0), "its claim will end, and no sweep will find it")
		}
		if st.ColumnBool(3) && !listed[dueBodies][seq] {
			v.Add("due", st.ColumnText(0), "its bodies will be due, and no sweep will find them")
		}
		return nil
	})
}

// bodies unpacks every body and holds it to its digest.
func (v *verifier) bodies(r *reader) error {
	return r.each(`SELECT slot, `+bodyColumns+` FROM body
		UNION ALL SELECT 8 * seq + 2, `+inlineColumns+` FROM result WHERE body_data IS NOT NULL`, nil, func(st *sqlite3.Stmt) error {
		p := stored.Packed{ContentType: st.ColumnText(1), Packed: st.ColumnBool(2), Size: st.ColumnInt(3),
			Digest: st.ColumnInt64(4), Data: st.ColumnRawBlob(5)}
		if _, err := stored.Unpack(p); err != nil {
			slot := st.ColumnInt64(0)
			v.Add("body", fmt.Sprintf("seq %d, kind %d", slot>>3, slot&7), err.Error())
		}
		return nil
	})
}

// histories reads every intent's events, in order, against its status. The three sources are each in the order of
// their keys, so that SQLite merges them and sorts nothing.
func (v *verifier) histories(r *reader) error {
	h, at := &verify.History{Orphan: true}, int64(0)
	err := r.each(`SELECT seq, 1, 0, events FROM intent UNION ALL SELECT seq, version, n, events FROM event
		UNION ALL SELECT seq, version, 0, events FROM result ORDER BY 1, 2, 3`, nil, func(st *sqlite3.Stmt) error {
		if seq := st.ColumnInt64(0); seq != at {
			h.Judge(&v.Report)
			var err error
			if h, err = startHistory(r, seq); err != nil {
				return err
			}
			at = seq
		}
		h.Read(&v.Report, st.ColumnInt64(1), st.ColumnInt64(2), st.ColumnRawText(3))
		return nil
	})
	h.Judge(&v.Report)
	return err
}

// startHistory reads what the status of an intent says.
func startHistory(r *reader, seq int64) (*verify.History, error) {
	h := &verify.History{Orphan: true}
	err := r.each(`SELECT i.id, coalesce(o.state, r.state), coalesce(o.attempt, r.attempt, 0),
			coalesce(o.billed_maybe, r.billed_maybe, 0), i.parent_id IS NOT NULL,
			coalesce(o.version, r.version), coalesce(o.outcome, r.outcome, 0), o.ready_at IS NOT NULL
		FROM intent i LEFT JOIN open o ON o.seq = i.seq LEFT JOIN result r ON r.seq = i.seq WHERE i.seq = ?`,
		[]any{seq}, func(st *sqlite3.Stmt) error {
			h.Orphan = false // else another check reports it
			h.Status = verify.Status{ID: st.ColumnText(0), State: ledger.State(st.ColumnInt(1)), Attempt: st.ColumnInt(2),
				Billed: st.ColumnInt(3), Heir: st.ColumnBool(4), Version: st.ColumnInt64(5), Outcome: ledger.Outcome(st.ColumnInt(6)),
				Waits: st.ColumnBool(7)}
			return nil
		})
	return h, err
}
