package sqlite

import (
	"context"
	"fmt"

	"github.com/ncruces/go-sqlite3"

	"github.com/holdfast-ai/holdfast/ledger"
)

// Violation is one row that breaks an invariant of the log.
type Violation struct {
	Rule   string `json:"rule"`   // the invariant's name
	Intent string `json:"intent"` // id of the intent, or what else names the row
	Detail string `json:"detail"`
}

// String is the violation as a line for people.
func (v Violation) String() string { return v.Rule + ": " + v.Intent + ": " + v.Detail }

// verifyMax bounds the violations that are returned: a file that is broken throughout is told by its first ones.
const verifyMax = 1000

// Verify re-checks every invariant of the store at path and returns the rows that break one. It reads beside a
// running engine and changes nothing. An error means that the store could not be read, not that it is wrong.
func Verify(ctx context.Context, path string) ([]Violation, error) {
	return verify(ctx, Config{Path: path})
}

func verify(ctx context.Context, cfg Config) ([]Violation, error) {
	cfg.ReadOnly = true
	l, err := Open(ctx, cfg)
	if err != nil {
		return nil, err
	}
	defer l.Close()
	v := &verifier{l: l}
	err = l.read.with(ctx, func(r *reader) error {
		if err := r.conn.CreateFunction("digest", 1, sqlite3.DETERMINISTIC|sqlite3.DIRECTONLY, sqlDigest); err != nil {
			return err
		}
		// One snapshot for all checks: the engine beside us goes on writing.
		if err := r.conn.Exec(`BEGIN`); err != nil {
			return err
		}
		defer r.conn.Exec(`ROLLBACK`)
		return v.run(r)
	})
	return v.found, err
}

type verifier struct {
	l     *Ledger
	found []Violation
}

func (v *verifier) report(rule, id, detail string) {
	if len(v.found) < verifyMax {
		v.found = append(v.found, Violation{rule, id, detail})
	}
}

// check is an invariant as a query for the rows that break it: a name for the row, and what is wrong with it.
type check struct{ rule, sql string }

var checks = []check{
	{"integrity", `SELECT 'file', integrity_check FROM pragma_integrity_check WHERE integrity_check <> 'ok'`},
	{"one_status", `SELECT i.id, iif(r.seq IS NULL, 'has no status: neither open nor settled', 'is open and settled at once')
		FROM intent i LEFT JOIN open o ON o.seq = i.seq LEFT JOIN result r ON r.seq = i.seq
		WHERE (o.seq IS NULL) = (r.seq IS NULL)`},
	{"one_status", `SELECT 'seq ' || o.seq, 'is open without a head' FROM open o LEFT JOIN intent i ON i.seq = o.seq
		WHERE i.seq IS NULL`},
	{"one_status", `SELECT 'seq ' || r.seq, 'is settled without a head' FROM result r LEFT JOIN intent i ON i.seq = r.seq
		WHERE i.seq IS NULL`},
	{"state", `SELECT i.id, 'is open in state ' || o.state FROM open o JOIN intent i ON i.seq = o.seq
		WHERE o.state NOT BETWEEN 1 AND 4`},
	{"state", `SELECT i.id, 'is settled in state ' || r.state FROM result r JOIN intent i ON i.seq = r.seq WHERE r.state <> 5`},
	{"outcome", `SELECT i.id, 'is settled, and its outcome is pending' FROM result r JOIN intent i ON i.seq = r.seq
		WHERE coalesce(r.outcome, 0) NOT BETWEEN 2 AND 5`},
	{"version", `SELECT i.id, 'event of version ' || e.version || ' beyond version ' || coalesce(o.version, r.version)
		FROM event e JOIN intent i ON i.seq = e.seq LEFT JOIN open o ON o.seq = i.seq LEFT JOIN result r ON r.seq = i.seq
		WHERE e.version > coalesce(o.version, r.version) OR e.version < 1 OR (e.n = 0 AND e.version < 2)`},
	{"event", `SELECT 'seq ' || e.seq, 'events without a head' FROM event e LEFT JOIN intent i ON i.seq = e.seq
		WHERE i.seq IS NULL`},
	{"claim", `SELECT 'claim ' || hex(c.key), 'is held by no intent' FROM claim c LEFT JOIN intent i ON i.seq = c.seq WHERE i.seq IS NULL`},
	{"claim", `SELECT i.id, 'holds ' || ` + claimKeyOf + ` || ' although it is settled and released' FROM claim c JOIN intent i ON i.seq = c.seq
		JOIN result r ON r.seq = c.seq WHERE r.claim_until IS NULL`},
	{"claim", `SELECT i.id, 'is unsettled and does not hold the key it claimed' FROM open o JOIN intent i ON i.seq = o.seq
		LEFT JOIN claim c ON c.key = digest(` + claimKeyOf + `) WHERE i.claimed IS NOT NULL AND c.seq IS NOT o.seq`},
	{"claim", `SELECT i.id, 'has lost a key that it still replays' FROM result r JOIN intent i ON i.seq = r.seq
		LEFT JOIN claim c ON c.key = digest(` + claimKeyOf + `) WHERE r.claim_until > ?1 AND c.seq IS NOT r.seq`},
	{"body", `SELECT 'slot ' || slot, 'a body without a head' FROM body b LEFT JOIN intent i ON i.seq = b.slot / 8
		WHERE i.seq IS NULL`},
	{"body", `SELECT i.id, 'its answer has lost its body' FROM result r JOIN intent i ON i.seq = r.seq
		LEFT JOIN body b ON b.slot = 8 * r.seq + 2
		WHERE r.answer_body AND b.slot IS NULL AND r.body_data IS NULL AND r.claim_due IS NOT NULL`},
	{"derived", `SELECT 'derived ' || hex(d.key), 'a derived key without a head' FROM derived d LEFT JOIN intent i ON i.seq = d.seq
		WHERE i.seq IS NULL`},
	{"cooldown", `SELECT route, 'a cool-down without an end' FROM cooldown WHERE until <= 0`},
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
			v.report(c.rule, st.ColumnText(0), st.ColumnText(1))
		}
		if err == nil {
			err = st.Err()
		}
		st.Close()
		if err != nil {
			return fmt.Errorf("check %s: %w", c.rule, err)
		}
	}
	if err := v.bodies(r); err != nil {
		return err
	}
	return v.histories(r)
}

// bodies unpacks every body and holds it to its digest.
func (v *verifier) bodies(r *reader) error {
	return r.each(`SELECT slot, `+bodyColumns+` FROM body
		UNION ALL SELECT 8 * seq + 2, `+inlineColumns+` FROM result WHERE body_data IS NOT NULL`, nil, func(st *sqlite3.Stmt) error {
		p := packedBody{contentType: st.ColumnText(1), packed: st.ColumnBool(2), size: st.ColumnInt(3),
			digest: st.ColumnInt64(4), data: st.ColumnRawBlob(5)}
		if _, err := unpack(p); err != nil {
			slot := st.ColumnInt64(0)
			v.report("body", fmt.Sprintf("seq %d, kind %d", slot>>3, slot&7), err.Error())
		}
		return nil
	})
}

// histories reads every intent's events, in order, against its status. The three sources are each in the order of
// their keys, so that SQLite merges them and sorts nothing.
func (v *verifier) histories(r *reader) error {
	h := &verifyHistory{}
	err := r.each(`SELECT seq, 1, 0, events FROM intent UNION ALL SELECT seq, version, n, events FROM event
		UNION ALL SELECT seq, version, 0, events FROM result ORDER BY 1, 2, 3`, nil, func(st *sqlite3.Stmt) error {
		if seq := st.ColumnInt64(0); seq != h.seq {
			h.judge(v)
			var err error
			if h, err = startHistory(r, seq); err != nil {
				return err
			}
		}
		h.read(v, st.ColumnRawText(3))
		return nil
	})
	h.judge(v)
	return err
}

// startHistory reads what the status of an intent says.
func startHistory(r *reader, seq int64) (*verifyHistory, error) {
	h := &verifyHistory{seq: seq, orphan: true}
	err := r.each(`SELECT i.id, coalesce(o.state, r.state), coalesce(o.attempt, r.attempt, 0),
			coalesce(o.billed_maybe, r.billed_maybe, 0), i.parent_id IS NOT NULL
		FROM intent i LEFT JOIN open o ON o.seq = i.seq LEFT JOIN result r ON r.seq = i.seq WHERE i.seq = ?`,
		[]any{seq}, func(st *sqlite3.Stmt) error {
			h.orphan = false // else another check reports it
			h.id, h.state = st.ColumnText(0), ledger.State(st.ColumnInt(1))
			h.attempt, h.billed, h.heir = st.ColumnInt(2), st.ColumnInt(3), st.ColumnBool(4)
			return nil
		})
	return h, err
}
