package sqlite

import (
	"context"
	"slices"
	"strings"
	"time"

	"github.com/ncruces/go-sqlite3"

	"github.com/holdfast-ai/holdfast/ledger"
	"github.com/holdfast-ai/holdfast/ledger/internal/stored"
)

const (
	listDefault = 100
	listMax     = 1000
)

// where collects conditions and their arguments.
type where struct {
	conds []string
	args  []any
}

func (w *where) and(cond string, args ...any) {
	w.conds = append(w.conds, cond)
	w.args = append(w.args, args...)
}

func (w *where) String() string {
	if len(w.conds) == 0 {
		return ""
	}
	return " WHERE " + strings.Join(w.conds, " AND ")
}

// oneOf adds column IN (…) over small integers.
func oneOf[T ~uint8](w *where, column string, values []T) {
	if len(values) == 0 {
		return
	}
	args := make([]any, len(values))
	for i, v := range values {
		args[i] = int(v)
	}
	w.and(column+" IN ("+marks(len(values))+")", args...)
}

// List implements ledger.Ledger.
func (l *Ledger) List(ctx context.Context, f ledger.Filter) ([]*ledger.Record, error) {
	query, args := listQuery(f)
	return l.records(ctx, query, args...)
}

func listQuery(f ledger.Filter) (string, []any) {
	w := &where{}
	from, status, seq := fromAny, "coalesce(o.%, r.%)", "i.seq"
	if f.Unsettled || len(f.States) > 0 && !slices.Contains(f.States, ledger.Settled) {
		from, status, seq = fromOpen, "o.%", "o.seq"
	}
	column := func(name string) string { return strings.ReplaceAll(status, "%", name) }
	if len(f.States) == 1 && f.States[0] == ledger.Unknown {
		w.and("o.state = 3") // in this spelling the partial index serves
	} else {
		oneOf(w, column("state"), f.States)
	}
	oneOf(w, column("outcome"), f.Outcomes)
	for _, c := range [][2]string{{"i.workflow", f.Workflow}, {"i.tenant", f.Tenant}, {"i.idempotency_key", f.Key}} {
		if c[1] != "" {
			w.and(c[0]+" = ?", c[1])
		}
	}
	if f.Lane != "" {
		w.and(column("lane")+" = ?", f.Lane)
	}
	if f.Jobs {
		w.and("i.job_id IS NOT NULL")
	}
	if !f.OlderThan.IsZero() {
		w.and("i.created_at < ?", stored.Micros(f.OlderThan))
	}
	if !f.NewerThan.IsZero() {
		w.and("i.created_at > ?", stored.Micros(f.NewerThan))
		w.and(seq+" >= ?", f.NewerThan.UnixMilli()<<12) // a place begins with its id's time: behind it the walk ends
	}
	if f.Before != "" {
		place := placeOf(f.Before)
		w.and(seq+" < coalesce((SELECT seq FROM intent WHERE seq >= ? AND seq < ? AND id = ? LIMIT 1), ?)",
			place, place+probes, f.Before, place)
	}
	limit := f.Limit
	if limit <= 0 {
		limit = listDefault
	}
	w.args = append(w.args, min(limit, listMax))
	return selectRecord + from + w.String() + " ORDER BY " + seq + " DESC LIMIT ?", w.args
}

// Open implements ledger.Ledger.
func (l *Ledger) Open(ctx context.Context, after string, limit int) ([]*ledger.Record, error) {
	return l.records(ctx, selectRecord+fromOpen+`WHERE o.seq > coalesce(`+seqOf+`, ?1 - 1) ORDER BY o.seq LIMIT ?3`,
		byID(after, limit)...)
}

var dueQuery = selectRecord + fromOpen + `WHERE o.expires_at IS NOT NULL AND o.expires_at <= ?
	AND o.lease_owner IS NULL AND o.state < 3 ORDER BY o.expires_at LIMIT ?`

// Due implements ledger.Ledger.
func (l *Ledger) Due(ctx context.Context, now time.Time, limit int) ([]*ledger.Record, error) {
	return l.records(ctx, dueQuery, now, limit)
}

// Counts implements ledger.Ledger.
func (l *Ledger) Counts(ctx context.Context) (map[ledger.State]int64, error) {
	counts := map[ledger.State]int64{}
	err := l.read.with(ctx, func(r *reader) error {
		return r.each(`SELECT state, count(*) FROM open GROUP BY state`, nil, func(st *sqlite3.Stmt) error {
			counts[ledger.State(st.ColumnInt(0))] = st.ColumnInt64(1)
			return nil
		})
	})
	return counts, err
}
