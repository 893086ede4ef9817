package holdfast

import (
	"context"
	"database/sql"
	"errors"
	"strings"
	"time"
)

const (
	// orphanAge is how old a row is that nobody does: those of a process that lives are gone within OutboxConfig.Every.
	orphanAge = 10 * time.Second
	// orphanEvery is how often they are spoken of.
	orphanEvery = time.Minute
	// orphanNames bounds how many names are.
	orphanNames = 20
	// migratedWait bounds the look for the table: the caller may hold the only connection.
	migratedWait = 5 * time.Second
)

// migrated refuses a database without the table. One that cannot be asked may come back, and is not refused.
func migrated(db *sql.DB) error {
	ctx, cancel := context.WithTimeout(context.Background(), migratedWait)
	defer cancel()
	var n int
	err := db.QueryRowContext(ctx, `SELECT count(*) FROM sqlite_master WHERE name = 'holdfast_outbox'`).Scan(&n)
	if err == nil && n == 0 {
		return refusal(ErrInvalid, "the database has no table holdfast_outbox: call holdfast.MigrateOutbox(ctx, db) first")
	}
	return nil
}

// sayOrphans warns of rows whose name no handler has here. Another process may have one, but then they are not old.
func (o *Outbox) sayOrphans(ctx context.Context, now time.Time) (err error) {
	names := o.e.handled()
	args := []any{rowID(now.Add(-orphanAge))}
	for _, n := range names {
		args = append(args, n)
	}
	q, err := o.db.QueryContext(ctx, `SELECT name, count(*) FROM holdfast_outbox WHERE refused IS NULL AND id < ?
AND name NOT IN (`+strings.TrimPrefix(strings.Repeat(",?", len(names)), ",")+`) GROUP BY name ORDER BY name LIMIT ?`, append(args, orphanNames)...)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, q.Close()) }()
	for q.Next() {
		var name string
		var rows int
		if err := q.Scan(&name, &rows); err != nil {
			return err
		}
		o.e.logger.Warn("rows of holdfast_outbox wait for a handler that nobody has registered; call Engine.Handle with this name, or correct the name",
			"name", name, "rows", rows, "handlers", names)
	}
	return q.Err()
}
