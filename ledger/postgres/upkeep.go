package postgres

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/holdfast-ai/holdfast/ledger"
	"github.com/holdfast-ai/holdfast/ledger/internal/stored"
)

// Migrate brings the store's schema to this program's version, making it where there is none, and tells both versions. Replicas may run meanwhile.
// ErrForeignEnv, ErrNewerSchema, ErrUnavailable.
func Migrate(ctx context.Context, cfg Config) (from, to int64, err error) {
	cfg = cfg.withDefaults()
	l, err := cfg.unopened()
	if err != nil {
		return 0, 0, err
	}
	defer l.release()
	c, err := l.connect(ctx)
	if err != nil {
		return 0, 0, l.unavailable(err)
	}
	from, err = l.schemaOf(ctx, c)
	if e := c.Close(ctx); err == nil {
		err = e
	}
	if err != nil {
		return 0, 0, l.unavailable(err)
	}
	if from > SchemaVersion() {
		return from, from, l.accept(from)
	}
	return from, SchemaVersion(), l.prepare(ctx)
}

// Compact rewrites the store's tables without the room that deleted rows have left, and tells its bytes before and after. It holds the tables for itself:
// ErrLocked while a replica lives.
func Compact(ctx context.Context, url string) (before, after int64, err error) {
	l, err := Open(ctx, Config{URL: url, Writers: 1})
	if err != nil {
		return 0, 0, err
	}
	defer l.Close()
	if err := l.alone(ctx); err != nil {
		return 0, 0, err
	}
	c, err := l.connectLong(ctx)
	if err != nil {
		return 0, 0, err
	}
	defer func() { _ = c.Close(context.WithoutCancel(ctx)) }() // what it did is committed
	if before, err = l.size(ctx, c); err != nil {
		return 0, 0, err
	}
	rows, err := c.Query(ctx, `SELECT relname FROM pg_class WHERE relnamespace = current_schema()::regnamespace AND relkind = 'r' ORDER BY relname`)
	if err != nil {
		return before, before, l.unavailable(err)
	}
	tables, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		return before, before, l.unavailable(err)
	}
	for _, t := range tables {
		if _, err := c.Exec(ctx, `VACUUM (FULL, ANALYZE) `+pgx.Identifier{t}.Sanitize()); err != nil {
			return before, before, l.unavailable(fmt.Errorf("rewriting the table %s: %w; it is unchanged", t, err))
		}
	}
	after, err = l.size(ctx, c)
	return before, after, err
}

// alone is nil while no replica lives.
func (l *Ledger) alone(ctx context.Context) error {
	owners, err := l.Owners(ctx)
	now := l.Now()
	for _, o := range owners {
		if o.Until.After(now) {
			return fmt.Errorf("%w: %s is alive until %s", ledger.ErrLocked, o.ID, stored.FromMicros(stored.Micros(o.Until)).Format("15:04:05Z"))
		}
	}
	return err
}

// storeBytes is what the store's files take.
const storeBytes = `SELECT coalesce(sum(pg_total_relation_size(oid)), 0)::bigint FROM pg_class
	WHERE relnamespace = current_schema()::regnamespace AND relkind = 'r'`

func (l *Ledger) size(ctx context.Context, c *pgx.Conn) (n int64, err error) {
	err = c.QueryRow(ctx, storeBytes).Scan(&n)
	return n, l.unavailable(err)
}
