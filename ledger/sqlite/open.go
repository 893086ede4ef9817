package sqlite

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"time"

	"github.com/ncruces/go-sqlite3"

	"github.com/holdfast-ai/holdfast/internal/mutant"
	"github.com/holdfast-ai/holdfast/ledger"
	"github.com/holdfast-ai/holdfast/ledger/internal/stored"
)

// unavailable wraps a native error for callers that branch on the port's sentinels.
func unavailable(err error) error {
	if err == nil || errors.Is(err, ledger.ErrUnavailable) {
		return err
	}
	return fmt.Errorf("%w: %w", ledger.ErrUnavailable, err)
}

// prepare makes the file fit for use: schema, env, journal mode, and nothing pending in the log.
func (f *files) prepare(ctx context.Context, cfg Config) error {
	if f.readOnly {
		c, err := f.openReader()
		if err != nil {
			return unavailable(fmt.Errorf("cannot open %s: %w", f.path, err))
		}
		defer c.Close()
		return f.accept(ctx, c, cfg)
	}
	c, err := f.openWriter()
	if err != nil {
		return unavailable(fmt.Errorf("cannot open %s: %w", f.path, err))
	}
	defer c.Close()
	if err := f.accept(ctx, c, cfg); err != nil {
		return err
	}
	if err := stamp(c, cfg.Env); err != nil {
		return unavailable(err)
	}
	return unavailable(f.recover(c, cfg))
}

// recover makes what a crash left in the log durable, and says what it had to drop.
func (f *files) recover(c *sqlite3.Conn, cfg Config) error {
	valid, _, err := c.WALCheckpoint("", sqlite3.CHECKPOINT_PASSIVE)
	if err != nil {
		return err
	}
	if f.torn = f.tornBytes(valid); f.torn > 0 {
		cfg.Logger.Warn("the log ended in an unfinished write; it was never acknowledged and is dropped",
			"path", f.path, "bytes", f.torn)
	}
	busy, err := settleLog(c)
	if busy {
		// Somebody reads beside us. What the log holds is synced by the log's next writer at the latest.
		cfg.Logger.Info("the log could not be folded into the store at start: a reader holds it", "path", f.path)
	}
	return err
}

// accept checks schema and env, migrating an older schema.
func (f *files) accept(ctx context.Context, c *sqlite3.Conn, cfg Config) error {
	version, err := schemaOf(c)
	if err != nil {
		return unavailable(fmt.Errorf("%s cannot be read: %w", f.path, err))
	}
	if err := f.migrate(ctx, version); err != nil {
		return err
	}
	if !f.readOnly {
		if err := walMode(c); err != nil {
			return err
		}
	}
	env, err := metaText(c, "env")
	if err != nil {
		return unavailable(err)
	}
	if env != "" && cfg.Env != "" && env != cfg.Env {
		return fmt.Errorf("%w: %s belongs to %q, the configuration says %q; set env, or give this env its own store",
			ledger.ErrForeignEnv, f.path, env, cfg.Env)
	}
	return nil
}

// walMode sets the journal mode and the sync level and reads both back: a store that would not survive a power
// cut is refused.
func walMode(c *sqlite3.Conn) error {
	mode, err := pragma(c, "journal_mode=WAL")
	if err != nil {
		return unavailable(err)
	}
	if mode != "wal" {
		return fmt.Errorf("%w: journal_mode is %q, not wal; the store needs a local file system", ledger.ErrUnavailable, mode)
	}
	level, err := pragma(c, "synchronous")
	if err != nil {
		return unavailable(err)
	}
	const full = "2"
	if level != full && !mutant.On("normal-sync") {
		return fmt.Errorf("%w: synchronous is %s, not FULL; a power cut would lose acknowledged writes",
			ledger.ErrUnavailable, level)
	}
	return nil
}

func pragma(c *sqlite3.Conn, p string) (v string, err error) {
	err = readOnce(c, func(st *sqlite3.Stmt) { v = st.ColumnText(0) }, "PRAGMA "+p)
	return v, err
}

// settleLog copies the whole log into the database, syncs that and empties the log. A process that died, or a
// sync that failed, may have left frames that are readable but not on the disk; afterwards they are. busy says
// that a reader kept it from finishing.
func settleLog(c *sqlite3.Conn) (busy bool, err error) {
	_, _, err = c.WALCheckpoint("", sqlite3.CHECKPOINT_TRUNCATE)
	if errors.Is(err, sqlite3.BUSY) {
		return true, nil
	}
	return false, err
}

// stamp writes what a new store is marked with, once.
func stamp(c *sqlite3.Conn, env string) error {
	has, err := metaText(c, "env")
	if err != nil || has != "" {
		return err
	}
	if env == "" {
		env = defaultEnv
	}
	tx, err := c.BeginImmediate()
	if err != nil {
		return err
	}
	defer tx.End(&err)
	if err = metaPut(c, "env", env); err != nil {
		return err
	}
	if err = metaPut(c, "created", time.Now().UTC().Format(time.RFC3339Nano)); err != nil {
		return err
	}
	for _, name := range []string{"salt", "hmac"} {
		if _, err = makeSecret(c, name); err != nil {
			return err
		}
	}
	return nil
}

func metaText(c *sqlite3.Conn, name string) (v string, err error) {
	err = readOnce(c, func(st *sqlite3.Stmt) { v = st.ColumnText(0) }, `SELECT value FROM meta WHERE name = ?`, name)
	return v, err
}

func metaPut(c *sqlite3.Conn, name, value string) error {
	return execOnce(c, `INSERT INTO meta (name, value) VALUES (?, ?)
		ON CONFLICT (name) DO UPDATE SET value = excluded.value`, name, value)
}

// makeSecret returns the secret of that name, making it first if it is not there.
func makeSecret(c *sqlite3.Conn, name string) (v []byte, err error) {
	fresh := make([]byte, 32)
	if _, err := rand.Read(fresh); err != nil {
		return nil, err
	}
	if err := execOnce(c, `INSERT INTO secret (name, value) VALUES (?, ?) ON CONFLICT (name) DO NOTHING`,
		name, fresh); err != nil {
		return nil, err
	}
	err = readOnce(c, func(st *sqlite3.Stmt) { v = st.ColumnBlob(0, nil) }, `SELECT value FROM secret WHERE name = ?`, name)
	return v, err
}

// scalar is the number that query has for a result, 0 where it has none.
func scalar(c *sqlite3.Conn, query string) (v int64, err error) {
	err = readOnce(c, func(st *sqlite3.Stmt) { v = st.ColumnInt64(0) }, query)
	return v, err
}

// readOnce runs a query that is too rare to be kept prepared, and hands its first row to read, if there is one.
func readOnce(c *sqlite3.Conn, read func(*sqlite3.Stmt), query string, args ...any) error {
	st, _, err := c.Prepare(query)
	if err != nil {
		return err
	}
	defer st.Close()
	if err := bindAll(st, args...); err != nil {
		return err
	}
	if st.Step() {
		read(st)
	}
	return st.Err()
}

// execOnce runs a statement that is too rare to be kept prepared.
func execOnce(c *sqlite3.Conn, query string, args ...any) error {
	st, _, err := c.Prepare(query)
	if err != nil {
		return err
	}
	defer st.Close()
	if err := bindAll(st, args...); err != nil {
		return err
	}
	return st.Exec()
}

func bindAll(st *sqlite3.Stmt, args ...any) error {
	for i, a := range args {
		var err error
		switch v := a.(type) {
		case string:
			err = st.BindText(i+1, v)
		case int64:
			err = st.BindInt64(i+1, v)
		case int:
			err = st.BindInt(i+1, v)
		case []byte:
			err = st.BindBlob(i+1, v)
		case time.Time:
			err = st.BindInt64(i+1, stored.Micros(v))
		default:
			err = fmt.Errorf("sqlite: cannot bind a %T", a)
		}
		if err != nil {
			return err
		}
	}
	return nil
}
