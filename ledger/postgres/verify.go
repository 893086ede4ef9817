package postgres

import (
	"context"
	"fmt"
	"io"
	"strings"

	"github.com/jackc/pgx/v5"

	"github.com/holdfast-ai/holdfast/ledger"
	"github.com/holdfast-ai/holdfast/ledger/internal/export"
	"github.com/holdfast-ai/holdfast/ledger/internal/stored"
	"github.com/holdfast-ai/holdfast/ledger/internal/verify"
)

// Violation is one row that breaks an invariant of the log.
type Violation = verify.Violation

// Verify re-checks every invariant of the store at url and returns the rows that break one. It reads beside running replicas, as of one moment, and
// changes nothing. An error means that the store could not be read, not that it is wrong.
func Verify(ctx context.Context, url string) ([]Violation, error) {
	l, err := OpenReadOnly(ctx, url)
	if err != nil {
		return nil, err
	}
	defer l.Close()
	c, err := l.connectLong(ctx)
	if err != nil {
		return nil, err
	}
	defer func() { _ = c.Close(context.WithoutCancel(ctx)) }() // it has only read
	v := &verifier{now: stored.Micros(l.Now())}
	// One snapshot for all checks: the replicas beside us go on writing.
	err = pgx.BeginTxFunc(ctx, c, pgx.TxOptions{IsoLevel: pgx.RepeatableRead, AccessMode: pgx.ReadOnly}, func(tx pgx.Tx) error { return v.run(ctx, tx) })
	return v.Found, l.unavailable(err)
}

// connectLong makes a connection for statements that may take as long as they need.
func (l *Ledger) connectLong(ctx context.Context) (*pgx.Conn, error) {
	c, err := l.connect(ctx)
	if err == nil {
		_, err = c.Exec(ctx, `SELECT set_config('statement_timeout', '0', false), set_config('idle_in_transaction_session_timeout', '0', false)`)
	}
	return c, l.unavailable(err)
}

// Export writes every intent of the store at url, newest first, as a line of JSON with its history: no bodies, and none of the store's secrets. It reads
// beside running replicas.
func Export(ctx context.Context, url string, to io.Writer) error {
	l, err := OpenReadOnly(ctx, url)
	if err != nil {
		return err
	}
	defer l.Close()
	return export.Write(ctx, l, to)
}

type verifier struct {
	verify.Report
	now int64
}

func (v *verifier) run(ctx context.Context, tx pgx.Tx) error {
	for _, c := range checks {
		var args []any
		if strings.Contains(c.sql, "$1") {
			args = append(args, v.now)
		}
		err := each(ctx, tx, func(r *columnReader) error {
			v.Add(c.rule, r.text(), r.text())
			return nil
		}, c.sql, args...)
		if err != nil {
			return fmt.Errorf("check %s: %w", c.rule, err)
		}
	}
	for _, f := range []func(context.Context, pgx.Tx) error{v.bodies, v.histories} {
		if err := f(ctx, tx); err != nil {
			return err
		}
	}
	return nil
}

// each hands every row of a query to f.
func each(ctx context.Context, tx pgx.Tx, f func(*columnReader) error, query string, args ...any) error {
	rows, err := tx.Query(ctx, query, append([]any{binaryRows}, args...)...)
	if err != nil {
		return err
	}
	defer rows.Close()
	for rows.Next() {
		if err := f(&columnReader{values: rows.RawValues()}); err != nil {
			return err
		}
	}
	return rows.Err()
}

// bodies unpacks every body and holds it to its digest.
func (v *verifier) bodies(ctx context.Context, tx pgx.Tx) error {
	return each(ctx, tx, func(r *columnReader) error {
		id, kind := r.id(), r.int()
		if _, err := stored.Unpack(r.packed()); err != nil {
			v.Add("body", id, fmt.Sprintf("kind %d: %v", kind, err))
		}
		return nil
	}, `SELECT id, kind, `+bodyColumns+` FROM body UNION ALL SELECT id, 2::smallint, `+inlineColumns+` FROM result WHERE body_data IS NOT NULL`)
}

// histories reads every intent's events, in order, against its status, which comes with the first of them.
func (v *verifier) histories(ctx context.Context, tx pgx.Tx) error {
	h, at := &verify.History{Orphan: true}, ""
	err := each(ctx, tx, func(r *columnReader) error {
		if id := r.id(); id != at {
			h.Judge(&v.Report)
			at = id
			h = &verify.History{Orphan: true} // unless it has a head: another check reports it
		}
		version, n := r.int(), r.int()
		if events := r.raw(); version == 1 && n == 0 {
			h.Orphan = false
			h.Status = verify.Status{ID: at, State: ledger.State(r.int()), Attempt: int(r.int()), Billed: int(r.int()), Heir: r.bool(),
				Version: r.int(), Outcome: ledger.Outcome(r.int()), Waits: r.bool()}
			h.Read(&v.Report, version, n, events)
		} else {
			h.Read(&v.Report, version, n, events)
		}
		return nil
	}, `SELECT i.id, 1::bigint, 0::bigint, i.events, coalesce(o.state, r.state), coalesce(o.attempt, r.attempt), coalesce(o.billed_maybe, r.billed_maybe),
			i.parent_id IS NOT NULL, coalesce(o.version, r.version), coalesce(o.outcome, r.outcome), o.ready_at IS NOT NULL
		FROM intent i LEFT JOIN open o ON o.id = i.id LEFT JOIN result r ON r.id = i.id
		UNION ALL SELECT id, version, n, events, NULL, NULL, NULL, NULL, NULL, NULL, NULL FROM event
		UNION ALL SELECT id, version, 0, events, NULL, NULL, NULL, NULL, NULL, NULL, NULL FROM result WHERE events IS NOT NULL
		ORDER BY 1, 2, 3`)
	h.Judge(&v.Report)
	return err
}
