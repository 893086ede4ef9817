package postgres

import (
	"context"
	"encoding/binary"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/holdfast-ai/holdfast/ledger"
	"github.com/holdfast-ai/holdfast/ledger/internal/stored"
)

const (
	listDefault = 100
	listMax     = 1000
)

// where collects conditions and their arguments; a condition's %d stands for the number of its argument.
type where struct {
	conds []string
	args  []any
}

func (w *where) and(cond string, args ...any) {
	numbers := make([]any, len(args))
	for i := range args {
		numbers[i] = len(w.args) + 1 + i
	}
	w.conds = append(w.conds, fmt.Sprintf(cond, numbers...))
	w.args = append(w.args, args...)
}

// limit closes the query.
func (w *where) limit(n int) string {
	if n <= 0 {
		n = listDefault
	}
	w.args = append(w.args, min(n, listMax))
	return fmt.Sprintf(" LIMIT $%d", len(w.args))
}

func (w *where) String() string {
	if len(w.conds) == 0 {
		return ""
	}
	return " WHERE " + strings.Join(w.conds, " AND ")
}

// small turns a list of small words into what Postgres takes.
func small[T ~uint8](values []T) []int16 {
	out := make([]int16, len(values))
	for i, v := range values {
		out[i] = int16(v)
	}
	return out
}

// List implements ledger.Ledger.
func (l *Ledger) List(ctx context.Context, f ledger.Filter) ([]*ledger.Record, error) {
	query, args, ok := listQuery(f)
	if !ok {
		return nil, nil
	}
	return l.records(ctx, query, args...)
}

// listQuery is false where nothing can be found.
func listQuery(f ledger.Filter) (query string, args []any, ok bool) {
	w := &where{}
	from, status, id := fromAny, "coalesce(o.%[1]s, r.%[1]s)", "i.id"
	if f.Unsettled || len(f.States) > 0 && !slices.Contains(f.States, ledger.Settled) {
		from, status, id = fromOpen, "o.%[1]s", "o.id"
	}
	column := func(name string) string { return fmt.Sprintf(status, name) }
	if len(f.States) == 1 && f.States[0] == ledger.Unknown {
		w.and("o.state = 3") // in this spelling the partial index serves
	} else if len(f.States) > 0 {
		w.and(column("state")+" = ANY($%d::smallint[])", small(f.States))
	}
	if len(f.Outcomes) > 0 {
		w.and(column("outcome")+" = ANY($%d::smallint[])", small(f.Outcomes))
	}
	for _, c := range [][2]string{{"i.workflow", f.Workflow}, {"i.tenant", f.Tenant}, {"i.idempotency_key", f.Key}, {column("lane"), f.Lane}} {
		if c[1] != "" {
			w.and(c[0]+" = $%d", clean(c[1]))
		}
	}
	if f.Jobs {
		w.and("i.job_id IS NOT NULL")
	}
	if !f.OlderThan.IsZero() {
		w.and("i.created_at < $%d", stored.Micros(f.OlderThan))
	}
	if !f.NewerThan.IsZero() {
		// An id begins with its time: behind it the walk ends.
		w.and("i.created_at > $%d AND "+id+" >= $%d", stored.Micros(f.NewerThan), [16]byte(firstID(f.NewerThan)))
	}
	if f.Before != "" {
		before, ok := parseID(f.Before)
		if !ok {
			return "", nil, false
		}
		w.and(id+" < $%d", [16]byte(before))
	}
	query = selectRecord + from + w.String() + " ORDER BY " + id + " DESC"
	return query + w.limit(f.Limit), w.args, true
}

// firstID is the least id that can be made at t.
func firstID(t time.Time) (id uuid) {
	binary.BigEndian.PutUint64(id[:], uint64(max(t.UnixMilli(), 0))<<16)
	return id
}

var openQuery = selectRecord + fromOpen + `WHERE o.id > $1 ORDER BY o.id LIMIT $2`

// Open implements ledger.Ledger. What is no id begins at the first.
func (l *Ledger) Open(ctx context.Context, after string, limit int) ([]*ledger.Record, error) {
	at, _ := parseID(after)
	return l.records(ctx, openQuery, [16]byte(at), limit)
}

var dueQuery = selectRecord + fromOpen + `WHERE o.expires_at IS NOT NULL AND o.expires_at <= $1
	AND o.lease_owner IS NULL AND o.state < 3 ORDER BY o.expires_at LIMIT $2`

// Due implements ledger.Ledger.
func (l *Ledger) Due(ctx context.Context, now time.Time, limit int) ([]*ledger.Record, error) {
	return l.records(ctx, dueQuery, stored.Micros(now), limit)
}

// Counts implements ledger.Ledger.
func (l *Ledger) Counts(ctx context.Context) (map[ledger.State]int64, error) {
	counts := map[ledger.State]int64{}
	err := l.rows(ctx, func(r pgx.Rows) error {
		c := columnReader{values: r.RawValues()}
		counts[ledger.State(c.int())] = c.int()
		return nil
	}, `SELECT state, count(*) FROM open GROUP BY state`, binaryRows)
	return counts, err
}
