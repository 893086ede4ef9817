package postgres

import (
	"context"
	"errors"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/holdfast-ai/holdfast/ledger"
	"github.com/holdfast-ai/holdfast/ledger/internal/stored"
)

// Beat implements ledger.Ledger. One that lands late does not shorten a newer one, on which its owner relies already; one whose end has come ends all.
func (l *Ledger) Beat(ctx context.Context, o ledger.Owner) error {
	return l.exec(ctx, `INSERT INTO owner AS w (owner, until, info) VALUES ($1, $2, $3)
		ON CONFLICT (owner) DO UPDATE SET until = CASE WHEN excluded.until <= $4 THEN excluded.until ELSE greatest(w.until, excluded.until) END,
		info = CASE WHEN excluded.until <= $4 OR excluded.until >= w.until THEN excluded.info ELSE w.info END`,
		o.ID, stored.Micros(o.Until), o.Info, stored.Micros(l.Now()))
}

// exec runs one statement in a transaction of its own.
func (l *Ledger) exec(ctx context.Context, sql string, args ...any) error {
	return l.inTx(ctx, func(ctx context.Context, tx pgx.Tx) error {
		_, err := tx.Exec(ctx, sql, args...)
		return err
	})
}

// Owners implements ledger.Ledger.
func (l *Ledger) Owners(ctx context.Context) (out []ledger.Owner, err error) {
	err = l.rows(ctx, func(r pgx.Rows) error {
		var o ledger.Owner
		var until int64
		err := r.Scan(&o.ID, &until, &o.Info)
		o.Until = stored.FromMicros(until)
		out = append(out, o)
		return err
	}, `SELECT owner, until, info FROM owner ORDER BY owner COLLATE "C"`)
	return out, err
}

// Cooldown implements ledger.Ledger.
func (l *Ledger) Cooldown(ctx context.Context, route string, until time.Time, reason string) (time.Time, error) {
	var now int64
	err := l.inTx(ctx, func(ctx context.Context, tx pgx.Tx) error {
		return tx.QueryRow(ctx, `INSERT INTO cooldown AS c (route, until, reason) VALUES ($1, $2, $3)
			ON CONFLICT (route) DO UPDATE SET reason = CASE WHEN excluded.until > c.until THEN excluded.reason ELSE c.reason END,
			until = greatest(c.until, excluded.until) RETURNING until`, clean(route), stored.Micros(until), clean(reason)).Scan(&now)
	})
	return stored.FromMicros(now), err
}

// ClearCooldown implements ledger.Ledger.
func (l *Ledger) ClearCooldown(ctx context.Context, route string) error {
	return l.exec(ctx, `DELETE FROM cooldown WHERE route = $1`, clean(route))
}

// Cooldowns implements ledger.Ledger.
func (l *Ledger) Cooldowns(ctx context.Context) (map[string]time.Time, error) {
	out := map[string]time.Time{}
	err := l.rows(ctx, func(r pgx.Rows) error {
		var route string
		var until int64
		err := r.Scan(&route, &until)
		out[route] = stored.FromMicros(until)
		return err
	}, `SELECT route, until FROM cooldown WHERE until > $1`, stored.Micros(l.Now()))
	return out, err
}

// PutPolicy implements ledger.Ledger.
func (l *Ledger) PutPolicy(ctx context.Context, revision string, text []byte) error {
	return l.exec(ctx, `INSERT INTO policy (revision, text, first_at) VALUES ($1, $2, $3) ON CONFLICT (revision) DO NOTHING`,
		clean(revision), append([]byte{}, text...), stored.Micros(l.Now()))
}

// Secret implements ledger.Ledger.
func (l *Ledger) Secret(ctx context.Context, name string) (secret []byte, err error) {
	err = l.rows(ctx, func(r pgx.Rows) error { return r.Scan(&secret) }, `SELECT value FROM secret WHERE name = $1`, name)
	if err != nil || secret != nil {
		return secret, err
	}
	err = l.inTx(ctx, func(ctx context.Context, tx pgx.Tx) error {
		secret, err = makeSecret(ctx, tx, name)
		return err
	})
	return secret, err
}

// Note implements ledger.Noter.
func (l *Ledger) Note(ctx context.Context, name, was, value string) (now string, err error) {
	name = "note." + name
	if was != value {
		put, args := `UPDATE meta SET value = $3 WHERE name = $1 AND value = $2`, []any{name, was, value}
		if was == "" {
			put, args = `INSERT INTO meta (name, value) VALUES ($1, $2) ON CONFLICT (name) DO NOTHING`, []any{name, value}
		}
		if err := l.exec(ctx, put, args...); err != nil {
			return "", err
		}
	}
	err = l.rows(ctx, func(r pgx.Rows) error { return r.Scan(&now) }, `SELECT value FROM meta WHERE name = $1`, name)
	return now, err
}

// Env is the environment that the store is stamped with; it is part of every key in it.
func (l *Ledger) Env(ctx context.Context) (env string, err error) {
	err = l.rows(ctx, func(r pgx.Rows) error { return r.Scan(&env) }, `SELECT value FROM meta WHERE name = 'env'`)
	if err == nil && env == "" {
		err = l.unavailable(errors.New("the store has no env"))
	}
	return env, err
}
