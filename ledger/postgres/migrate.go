package postgres

import (
	"context"
	"database/sql"
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/stdlib"
	"github.com/pressly/goose/v3"

	"github.com/holdfast-ai/holdfast/ledger"
)

//go:embed migrations/*.sql
var migrationFiles embed.FS

// migrateLock is the advisory lock under which one replica at a time looks at the schema. Any number would do; it has to stay this one.
const migrateLock = 0x686f6c6466617374

// migrateTimeout bounds the wait for another replica's migration, and a migration.
const migrateTimeout = 10 * time.Minute

// SchemaVersion is the newest schema that this program knows.
func SchemaVersion() int64 {
	entries, err := fs.ReadDir(migrationFiles, "migrations")
	if err != nil || len(entries) == 0 {
		panic("postgres: built without its migrations")
	}
	number, _, _ := strings.Cut(entries[len(entries)-1].Name(), "_")
	v, err := strconv.ParseInt(number, 10, 64)
	if err != nil {
		panic("postgres: a migration's name does not begin with its number")
	}
	return v
}

// prepare makes the database fit for use: schema and env.
func (l *Ledger) prepare(ctx context.Context) (err error) {
	c, err := l.connect(ctx)
	if err != nil {
		return l.unavailable(err)
	}
	defer func() { _ = c.Close(context.WithoutCancel(ctx)) }() // what it did is committed
	version, err := l.schemaOf(ctx, c)
	if err != nil {
		return l.unavailable(err)
	}
	if l.cfg.ReadOnly || version > SchemaVersion() {
		if err := l.accept(version); err != nil {
			return err
		}
		return l.acceptEnv(ctx, c)
	}
	// One lock for everything that is made once. It is the connection's, and is free when that ends.
	if _, err := c.Exec(ctx, `SELECT set_config('statement_timeout', $1, false), set_config('lock_timeout', $1, false)`, millis(migrateTimeout)); err != nil {
		return l.unavailable(err)
	}
	if _, err := c.Exec(ctx, `SELECT pg_advisory_lock($1)`, int64(migrateLock)); err != nil {
		return l.unavailable(err)
	}
	if version, err = l.schemaOf(ctx, c); err != nil {
		return l.unavailable(err)
	}
	if version != SchemaVersion() {
		if err := l.migrate(ctx, c, version); err != nil {
			return err
		}
	}
	if err := l.stamp(ctx, c); err != nil {
		return l.unavailable(err)
	}
	return l.acceptEnv(ctx, c)
}

// schemaOf reads the store's schema version; 0 for an empty database.
func (l *Ledger) schemaOf(ctx context.Context, c *pgx.Conn) (version int64, err error) {
	var has bool
	err = c.QueryRow(ctx, `SELECT to_regclass('goose_db_version') IS NOT NULL`).Scan(&has)
	if err != nil || !has {
		return 0, err
	}
	err = c.QueryRow(ctx, `SELECT coalesce(max(version_id), 0) FROM goose_db_version WHERE is_applied`).Scan(&version)
	return version, err
}

// accept holds a store that is not to be migrated to the schema that this program knows.
func (l *Ledger) accept(version int64) error {
	switch newest := SchemaVersion(); {
	case version > newest:
		return fmt.Errorf("%w: %s has version %d, this program knows %d; use the newer program",
			ledger.ErrNewerSchema, l.where, version, newest)
	case version < newest:
		return fmt.Errorf("%w: %s has schema version %d, not %d; run `holdfast store migrate` first",
			ledger.ErrUnavailable, l.where, version, newest)
	}
	return nil
}

// migrate brings the schema to the newest version. It goes through database/sql, which goose wants; nothing else does.
func (l *Ledger) migrate(ctx context.Context, c *pgx.Conn, version int64) error {
	if version > SchemaVersion() {
		return l.accept(version)
	}
	if _, err := c.Exec(ctx, `CREATE SCHEMA IF NOT EXISTS `+pgx.Identifier{l.schema}.Sanitize()); err != nil {
		return l.unavailable(fmt.Errorf("making the schema %q: %w; grant CREATE on the database, or make the schema for this user", l.schema, err))
	}
	conf := l.conf.Copy()
	conf.RuntimeParams["statement_timeout"], conf.RuntimeParams["lock_timeout"] = millis(migrateTimeout), millis(migrateTimeout)
	db := stdlib.OpenDB(*conf)
	err := l.up(ctx, db)
	return errors.Join(err, db.Close())
}

func (l *Ledger) up(ctx context.Context, db *sql.DB) error {
	sources, err := fs.Sub(migrationFiles, "migrations")
	if err != nil {
		return fmt.Errorf("postgres: migrations: %w", err)
	}
	p, err := goose.NewProvider(goose.DialectPostgres, db, sources, goose.WithDisableGlobalRegistry(true))
	if err != nil {
		return fmt.Errorf("postgres: migrations: %w", err)
	}
	if _, err := p.Up(ctx); err != nil {
		return fmt.Errorf("%w: migrating %s: %w; it is unchanged from the last finished step", ledger.ErrUnavailable, l.where, err)
	}
	return nil
}

// stamp writes what a new store is marked with, once.
func (l *Ledger) stamp(ctx context.Context, c *pgx.Conn) error {
	env := l.cfg.Env
	if env == "" {
		env = defaultEnv
	}
	return pgx.BeginFunc(ctx, c, func(tx pgx.Tx) error {
		_, err := tx.Exec(ctx, `INSERT INTO meta (name, value) VALUES ('env', $1), ('created', to_char(now() AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS"Z"'))
			ON CONFLICT (name) DO NOTHING`, env)
		for _, name := range []string{"salt", "hmac"} {
			if err == nil {
				_, err = makeSecret(ctx, tx, name)
			}
		}
		return err
	})
}

func (l *Ledger) acceptEnv(ctx context.Context, c *pgx.Conn) error {
	var env string
	if err := c.QueryRow(ctx, `SELECT value FROM meta WHERE name = 'env'`).Scan(&env); err != nil {
		return l.unavailable(err)
	}
	if l.cfg.Env != "" && env != l.cfg.Env {
		return fmt.Errorf("%w: %s belongs to %q, the configuration says %q; set env, or give this env its own store",
			ledger.ErrForeignEnv, l.where, env, l.cfg.Env)
	}
	return nil
}
