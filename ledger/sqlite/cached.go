package sqlite

import (
	"context"

	"github.com/ncruces/go-sqlite3"

	"github.com/holdfast-ai/holdfast/ledger"
	"github.com/holdfast-ai/holdfast/ledger/internal/stored"
)

const (
	// hasAnswer says that the result r is a success whose body is here, in its row or in one of its own.
	hasAnswer = `r.outcome = 2 AND r.answer_body AND
		(r.body_data IS NOT NULL OR EXISTS (SELECT 1 FROM body b WHERE b.slot = 8 * r.seq + 2))`
	// cachedUntil is the end of the last row that leads to the intent i, NULL where there is none.
	cachedUntil  = `(SELECT max(c.expires_at) FROM cached c WHERE c.slot BETWEEN 8 * i.seq AND 8 * i.seq + 7)`
	deleteCached = `DELETE FROM cached WHERE slot BETWEEN 8 * ?1 AND 8 * ?1 + 7`
)

// cacheKept writes the rows of an append, and refuses it where the answer that they lead to is not here.
func (s *session) cacheKept(it *item, seq int64) (bool, error) {
	if len(it.w.Cached) == 0 {
		return true, nil
	}
	kept := false
	if err := look(s.answerKept, func(*sqlite3.Stmt) { kept = true }, seq); err != nil {
		return false, err
	}
	if !kept {
		it.refused = ledger.ErrNotFound
		return false, nil
	}
	return true, s.cache(it, seq)
}

func (s *session) cache(it *item, seq int64) error {
	for i := range it.w.Cached {
		c, b := &it.w.Cached[i], binder{st: s.putCached}
		b.int(cachedSlot(seq, c.Kind))
		b.blob(c.Partition[:])
		b.blob(append([]byte{}, c.Data...)) // nothing is not NULL
		b.number(stored.Micros(c.ExpiresAt))
		if err := b.exec(); err != nil {
			return err
		}
	}
	return nil
}

func cachedSlot(seq int64, kind ledger.CachedKind) int64 { return seq<<3 | int64(kind&7) }

// Cached implements ledger.Ledger.
func (l *Ledger) Cached(ctx context.Context, f ledger.CachedFilter) (rows []ledger.Cached, err error) {
	query, args := cachedQuery(f)
	err = l.read.with(ctx, func(r *reader) error {
		return r.each(query, args, func(st *sqlite3.Stmt) error {
			c := ledger.Cached{CachedRef: ledger.CachedRef{Intent: st.ColumnText(1), Kind: ledger.CachedKind(st.ColumnInt64(0) & 7)},
				Tenant: st.ColumnText(2), Workflow: st.ColumnText(3), Data: st.ColumnBlob(5, nil), ExpiresAt: stored.FromMicros(st.ColumnInt64(6)),
				SettledAt: stored.FromMicros(st.ColumnInt64(7))}
			copy(c.Partition[:], st.ColumnRawBlob(4))
			rows = append(rows, c)
			return nil
		})
	})
	return rows, err
}

func cachedQuery(f ledger.CachedFilter) (string, []any) {
	w := &where{}
	if f.Tenant != "" {
		w.and("i.tenant = ?", f.Tenant)
	}
	if f.Workflow != "" {
		w.and("i.workflow = ?", f.Workflow)
	}
	if f.Intent != "" {
		place := placeOf(f.Intent)
		w.and("c.slot BETWEEN ? AND ? AND i.id = ?", place<<3, (place+probes)<<3, f.Intent)
	}
	if b := f.Before; b.Intent != "" {
		place := placeOf(b.Intent)
		w.and("c.slot < coalesce((SELECT 8 * seq FROM intent WHERE seq >= ? AND seq < ? AND id = ? LIMIT 1), ?) + ?",
			place, place+probes, b.Intent, place<<3, int(b.Kind&7))
	}
	limit := f.Limit
	if limit <= 0 {
		limit = listDefault
	}
	w.args = append(w.args, min(limit, listMax))
	return `SELECT c.slot, i.id, i.tenant, i.workflow, c.partition, c.data, c.expires_at, r.settled_at FROM cached c
		CROSS JOIN intent i ON i.seq = c.slot / 8 LEFT JOIN result r ON r.seq = i.seq` + w.String() + ` ORDER BY c.slot DESC LIMIT ?`, w.args
}

// Uncache implements ledger.Ledger.
func (l *Ledger) Uncache(ctx context.Context, rows []ledger.CachedRef) error {
	if len(rows) == 0 {
		return nil
	}
	return l.inWriter(ctx, func(s *session) error {
		st, _, err := s.conn.Prepare(`DELETE FROM cached WHERE slot = 8 * ` + seqOf + ` + ?3`)
		if err != nil {
			return err
		}
		defer st.Close()
		for _, r := range rows {
			if err := run(st, byID(r.Intent, int(r.Kind&7))...); err != nil {
				return err
			}
		}
		return nil
	})
}

// sweepCached removes a batch of rows whose time is over.
func (l *Ledger) sweepCached(ctx context.Context, p ledger.Retention) (n int64, more bool, err error) {
	var over int64
	err = l.read.with(ctx, func(r *reader) error {
		return r.each(`SELECT count(*) FROM (SELECT 1 FROM cached WHERE expires_at <= ? LIMIT ?)`, []any{p.Now, p.Batch}, func(st *sqlite3.Stmt) error {
			over = st.ColumnInt64(0)
			return nil
		})
	})
	if err != nil || over == 0 {
		return 0, false, err
	}
	err = l.inWriter(ctx, func(s *session) error {
		err := execOnce(s.conn, `DELETE FROM cached WHERE slot IN (SELECT slot FROM cached WHERE expires_at <= ? LIMIT ?)`, p.Now, p.Batch)
		n = s.conn.Changes()
		return err
	})
	return n, over == int64(p.Batch), err
}
