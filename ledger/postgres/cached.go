package postgres

import (
	"context"

	"github.com/jackc/pgx/v5"

	"github.com/holdfast-ai/holdfast/ledger"
)

// cachedUntil is the end of the last row that leads to the result r, NULL where there is none.
const cachedUntil = `(SELECT max(c.expires_at) FROM cached c WHERE c.id = r.id)`

// Cached implements ledger.Ledger.
func (l *Ledger) Cached(ctx context.Context, f ledger.CachedFilter) (rows []ledger.Cached, err error) {
	query, args, ok := cachedQuery(f)
	if !ok {
		return nil, nil
	}
	err = l.rows(ctx, func(r pgx.Rows) error {
		c := columnReader{values: r.RawValues()}
		row := ledger.Cached{CachedRef: ledger.CachedRef{Intent: c.id(), Kind: ledger.CachedKind(c.int())}, Tenant: c.text(), Workflow: c.text()}
		copy(row.Partition[:], c.raw())
		row.Data, row.ExpiresAt, row.SettledAt = c.bytes(), c.time(), c.time()
		rows = append(rows, row)
		return nil
	}, query, append([]any{binaryRows}, args...)...)
	return rows, err
}

func cachedQuery(f ledger.CachedFilter) (query string, args []any, ok bool) {
	w := &where{}
	if f.Tenant != "" {
		w.and("i.tenant = $%d", clean(f.Tenant))
	}
	if f.Workflow != "" {
		w.and("i.workflow = $%d", clean(f.Workflow))
	}
	if f.Intent != "" {
		id, ok := parseID(f.Intent)
		if !ok {
			return "", nil, false
		}
		w.and("c.id = $%d", [16]byte(id))
	}
	if b := f.Before; b.Intent != "" {
		id, ok := parseID(b.Intent)
		if !ok {
			return "", nil, false
		}
		w.and("(c.id, c.kind) < ($%d, $%d::smallint)", [16]byte(id), int16(b.Kind))
	}
	query = `SELECT c.id, c.kind, i.tenant, i.workflow, c.partition, c.data, c.expires_at, r.settled_at FROM cached c
		JOIN intent i ON i.id = c.id LEFT JOIN result r ON r.id = c.id` + w.String() + ` ORDER BY c.id DESC, c.kind DESC`
	return query + w.limit(f.Limit), w.args, true
}

// Uncache implements ledger.Ledger.
func (l *Ledger) Uncache(ctx context.Context, rows []ledger.CachedRef) error {
	ids, kinds := make([][16]byte, 0, len(rows)), make([]int16, 0, len(rows))
	for _, r := range rows {
		if id, ok := parseID(r.Intent); ok {
			ids, kinds = append(ids, id), append(kinds, int16(r.Kind))
		}
	}
	if len(ids) == 0 {
		return nil
	}
	return l.exec(ctx, `DELETE FROM cached c USING unnest($1::uuid[], $2::smallint[]) AS gone (id, kind) WHERE c.id = gone.id AND c.kind = gone.kind`,
		ids, kinds)
}
