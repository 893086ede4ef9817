package sqlite

import (
	"context"
	"database/sql"
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"strconv"
	"strings"

	"github.com/ncruces/go-sqlite3"
	"github.com/ncruces/go-sqlite3/driver"
	"github.com/pressly/goose/v3"

	"github.com/holdfast-ai/holdfast/ledger"
)

//go:embed migrations/*.sql
var migrationFiles embed.FS

// SchemaVersion is the newest schema that this program knows.
func SchemaVersion() int64 {
	entries, err := fs.ReadDir(migrationFiles, "migrations")
	if err != nil || len(entries) == 0 {
		panic("sqlite: built without its migrations")
	}
	number, _, _ := strings.Cut(entries[len(entries)-1].Name(), "_")
	v, err := strconv.ParseInt(number, 10, 64)
	if err != nil {
		panic("sqlite: a migration's name does not begin with its number")
	}
	return v
}

// schemaOf reads the store's schema version through c; 0 for an empty file.
func schemaOf(c *sqlite3.Conn) (int64, error) {
	has, err := scalar(c, `SELECT count(*) FROM sqlite_schema WHERE name = 'goose_db_version'`)
	if err != nil || has == 0 {
		return 0, err
	}
	return scalar(c, `SELECT max(version_id) FROM goose_db_version WHERE is_applied`)
}

// migrate brings the schema from version to the newest. It goes through database/sql, which goose wants; nothing
// else does.
func (f *files) migrate(ctx context.Context, version int64) error {
	newest := SchemaVersion()
	if version > newest {
		return fmt.Errorf("%w: %s has version %d, this program knows %d; use the newer program",
			ledger.ErrNewerSchema, f.path, version, newest)
	}
	if version == newest {
		return nil
	}
	if f.readOnly {
		return fmt.Errorf("%w: %s has schema version %d, not %d; run `holdfast store migrate` first",
			ledger.ErrUnavailable, f.path, version, newest)
	}
	db, err := driver.Open(f.uri("synchronous(FULL)"))
	if err != nil {
		return unavailable(err)
	}
	err = f.up(ctx, db)
	return errors.Join(err, db.Close())
}

func (f *files) up(ctx context.Context, db *sql.DB) error {
	sources, err := fs.Sub(migrationFiles, "migrations")
	if err != nil {
		return fmt.Errorf("sqlite: migrations: %w", err)
	}
	p, err := goose.NewProvider(goose.DialectSQLite3, db, sources, goose.WithDisableGlobalRegistry(true))
	if err != nil {
		return fmt.Errorf("sqlite: migrations: %w", err)
	}
	if _, err := p.Up(ctx); err != nil {
		return fmt.Errorf("%w: migrating %s: %w; the file is unchanged from the last finished step",
			ledger.ErrUnavailable, f.path, err)
	}
	return nil
}
