package postgres

import (
	"context"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/holdfast-ai/holdfast/ledger"
	"github.com/holdfast-ai/holdfast/ledger/internal/stored"
)

// sweepIntents removes whole settled intents: those past their age, else the oldest settled ones while the store holds more than it may. A claim that
// still replays keeps its intent from ageing out, but not from the bound.
func sweepIntents(ctx context.Context, tx pgx.Tx, p ledger.Retention) (int64, bool, error) {
	rows, err := agedIntents(ctx, tx, p)
	if err == nil && len(rows) == 0 {
		rows, err = surplusIntents(ctx, tx, p)
	}
	if err != nil || len(rows) == 0 {
		return 0, false, err
	}
	ids := idsOf(rows)
	for _, sql := range []string{
		`DELETE FROM cached WHERE id = ANY($1)`,
		`DELETE FROM body WHERE id = ANY($1)`,
		`DELETE FROM event WHERE id = ANY($1)`,
	} {
		if _, err := tx.Exec(ctx, sql, ids); err != nil {
			return 0, false, err
		}
	}
	if _, err := dropClaims(ctx, tx, rows); err != nil {
		return 0, false, err
	}
	keys := make([][]byte, len(rows))
	for i, r := range rows {
		keys[i] = r.key
	}
	if _, err := tx.Exec(ctx, `DELETE FROM derived d USING unnest($1::bytea[], $2::uuid[]) AS gone (key, id) WHERE d.key = gone.key AND d.id = gone.id`,
		keys, ids); err != nil {
		return 0, false, err
	}
	if _, err := tx.Exec(ctx, `DELETE FROM result WHERE id = ANY($1)`, ids); err != nil {
		return 0, false, err
	}
	tag, err := tx.Exec(ctx, `DELETE FROM intent WHERE id = ANY($1)`, ids)
	return tag.RowsAffected(), len(rows) == p.Batch, err
}

const sweptColumns = `SELECT r.id, ` + claimKeyOf + `, r.settled_at, 0, '', 0, false FROM result r JOIN intent i ON i.id = r.id `

// agedIntents returns a batch of the intents past their age. Nothing is settled before its id was made, so that the walk in the order of ids ends at the
// first young one.
func agedIntents(ctx context.Context, tx pgx.Tx, p ledger.Retention) ([]dueRow, error) {
	if p.Rows <= 0 {
		return nil, nil
	}
	young := p.Now.Add(-p.Rows)
	return dueRows(ctx, tx, agedQuery, [16]byte(firstID(young.Add(time.Millisecond))), stored.Micros(young), stored.Micros(p.Now),
		stored.Micros(p.Now.Add(-max(p.Rows, p.DeadLetter))), p.Batch)
}

const agedQuery = sweptColumns + `WHERE r.id < $1 AND r.settled_at <= $2 AND coalesce(r.claim_until, 0) <= $3
	AND coalesce(` + cachedUntil + `, 0) <= $3 AND (r.lane IS DISTINCT FROM '` + laneDeadLetter + `' OR r.settled_at <= $4)
	ORDER BY r.id LIMIT $5 FOR UPDATE OF r`

func surplusIntents(ctx context.Context, tx pgx.Tx, p ledger.Retention) ([]dueRow, error) {
	if p.MaxBytes <= 0 {
		return nil, nil
	}
	if used, err := usedBytes(ctx, tx, p.MaxBytes); err != nil || used <= p.MaxBytes {
		return nil, err
	}
	rows, err := dueRows(ctx, tx, sweptColumns+`ORDER BY r.id LIMIT $1 FOR UPDATE OF r`, sweepWindow*p.Batch)
	slices.SortStableFunc(rows, func(a, b dueRow) int { return int(a.settledAt - b.settledAt) })
	return rows[:min(len(rows), p.Batch)], err
}

// countedRows is up to how many results are counted; beyond it Postgres's own running count does.
const countedRows = 10_000

// usedBytes is what the store's rows take. The files are no measure by themselves beyond the bound: what was deleted leaves room in them that is used
// again before they grow, and a sweep that waited for them to shrink would take everything. Above the bound it is therefore the number of settled intents,
// by what those take that would go first.
func usedBytes(ctx context.Context, tx pgx.Tx, bound int64) (files int64, err error) {
	if err := tx.QueryRow(ctx, storeBytes).Scan(&files); err != nil || files <= bound {
		return files, err
	}
	var rows, each int64
	if err := tx.QueryRow(ctx, `SELECT count(*) FROM (SELECT FROM result LIMIT $1) AS few`, countedRows).Scan(&rows); err != nil {
		return 0, err
	}
	if rows == countedRows {
		var running int64
		if err := tx.QueryRow(ctx, `SELECT coalesce(sum(n_live_tup), 0)::bigint FROM pg_stat_user_tables WHERE relid IN
			(SELECT inhrelid FROM pg_inherits WHERE inhparent = 'result'::regclass)`).Scan(&running); err != nil {
			return 0, err
		}
		rows = max(rows, running)
	}
	err = tx.QueryRow(ctx, `SELECT coalesce(avg($2 + coalesce(pg_column_size(i.events), 0) + coalesce(pg_column_size(r.events), 0)
			+ coalesce(pg_column_size(r.body_data), 0) + coalesce(pg_column_size(r.answer_header), 0)
			+ coalesce((SELECT sum(pg_column_size(b.data) + $3) FROM body b WHERE b.id = r.id), 0)
			+ coalesce((SELECT sum(pg_column_size(e.events) + $3) FROM event e WHERE e.id = r.id), 0)), 0)::bigint
		FROM (SELECT * FROM result ORDER BY id LIMIT $1) AS r JOIN intent i ON i.id = r.id`, sweepBatch, headBytes, rowBytes).Scan(&each)
	return min(files, rows*each), err
}

// What a settled intent takes beside its events and bodies, and a row of a body or of events beside these: the small columns, the rows' own headers, and
// the entries in the indexes.
const (
	headBytes = 600
	rowBytes  = 100
)
