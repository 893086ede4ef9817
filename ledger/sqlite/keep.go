package sqlite

import (
	"context"
	"time"

	"github.com/holdfast-ai/holdfast/ledger"
	"github.com/holdfast-ai/holdfast/ledger/internal/stored"
	"github.com/ncruces/go-sqlite3"
)

// Beat implements ledger.Ledger. It stores ledger time as well, so that the clock's anchor is seldom old.
func (l *Ledger) Beat(ctx context.Context, o ledger.Owner) error {
	return l.inWriter(ctx, func(s *session) error {
		if err := l.saveStamp(s); err != nil {
			return err
		}
		return execOnce(s.conn, `INSERT INTO owner (owner, until, info) VALUES (?, ?, ?)
			ON CONFLICT (owner) DO UPDATE SET until = excluded.until, info = excluded.info`, o.ID, o.Until, o.Info)
	})
}

// Owners implements ledger.Ledger.
func (l *Ledger) Owners(ctx context.Context) ([]ledger.Owner, error) {
	var out []ledger.Owner
	err := l.read.with(ctx, func(r *reader) error {
		return r.each(`SELECT owner, until, info FROM owner ORDER BY owner`, nil, func(st *sqlite3.Stmt) error {
			out = append(out, ledger.Owner{ID: st.ColumnText(0), Until: stored.FromMicros(st.ColumnInt64(1)), Info: st.ColumnBlob(2, nil)})
			return nil
		})
	})
	return out, err
}

// times reads a query of names and times.
func (l *Ledger) times(ctx context.Context, query string, args ...any) (map[string]time.Time, error) {
	out := map[string]time.Time{}
	err := l.read.with(ctx, func(r *reader) error {
		return r.each(query, args, func(st *sqlite3.Stmt) error {
			out[st.ColumnText(0)] = stored.FromMicros(st.ColumnInt64(1))
			return nil
		})
	})
	return out, err
}

// Cooldown implements ledger.Ledger.
func (l *Ledger) Cooldown(ctx context.Context, route string, until time.Time, reason string) (time.Time, error) {
	var now time.Time
	err := l.inWriter(ctx, func(s *session) error {
		return readOnce(s.conn, func(st *sqlite3.Stmt) { now = stored.FromMicros(st.ColumnInt64(0)) },
			`INSERT INTO cooldown (route, until, reason) VALUES (?, ?, ?)
			ON CONFLICT (route) DO UPDATE SET reason = iif(excluded.until > until, excluded.reason, reason),
			until = max(until, excluded.until) RETURNING until`, route, until, reason)
	})
	return now, err
}

// ClearCooldown implements ledger.Ledger.
func (l *Ledger) ClearCooldown(ctx context.Context, route string) error {
	return l.inWriter(ctx, func(s *session) error {
		return execOnce(s.conn, `DELETE FROM cooldown WHERE route = ?`, route)
	})
}

// Cooldowns implements ledger.Ledger.
func (l *Ledger) Cooldowns(ctx context.Context) (map[string]time.Time, error) {
	return l.times(ctx, `SELECT route, until FROM cooldown WHERE until > ?`, l.Now())
}

// PutPolicy implements ledger.Ledger.
func (l *Ledger) PutPolicy(ctx context.Context, revision string, text []byte) error {
	if text == nil {
		text = []byte{}
	}
	return l.inWriter(ctx, func(s *session) error {
		return execOnce(s.conn, `INSERT INTO policy (revision, text, first_at) VALUES (?, ?, ?)
			ON CONFLICT (revision) DO NOTHING`, revision, text, s.now)
	})
}

// Secret implements ledger.Ledger.
func (l *Ledger) Secret(ctx context.Context, name string) ([]byte, error) {
	secret, err := l.readSecret(ctx, name)
	if err != nil || secret != nil {
		return secret, err
	}
	err = l.inWriter(ctx, func(s *session) error {
		secret, err = makeSecret(s.conn, name)
		return err
	})
	return secret, err
}

func (l *Ledger) readSecret(ctx context.Context, name string) (secret []byte, err error) {
	err = l.read.with(ctx, func(r *reader) error {
		return r.each(`SELECT value FROM secret WHERE name = ?`, []any{name}, func(st *sqlite3.Stmt) error {
			secret = st.ColumnBlob(0, nil)
			return nil
		})
	})
	return secret, err
}

// Note implements ledger.Noter.
func (l *Ledger) Note(ctx context.Context, name, was, value string) (now string, err error) {
	name = "note." + name
	if was != value {
		err = l.inWriter(ctx, func(s *session) error {
			if was == "" {
				return execOnce(s.conn, `INSERT INTO meta (name, value) VALUES (?, ?) ON CONFLICT (name) DO NOTHING`, name, value)
			}
			return execOnce(s.conn, `UPDATE meta SET value = ?3 WHERE name = ?1 AND value = ?2`, name, was, value)
		})
	}
	if err == nil {
		err = l.read.with(ctx, func(r *reader) error {
			now, err = metaText(r.conn, name)
			return err
		})
	}
	return now, err
}

// Env is the environment that the store is stamped with; it is part of every key in it.
func (l *Ledger) Env(ctx context.Context) (env string, err error) {
	err = l.read.with(ctx, func(r *reader) error {
		env, err = metaText(r.conn, "env")
		return err
	})
	return env, err
}
