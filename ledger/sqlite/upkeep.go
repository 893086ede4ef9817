package sqlite

import (
	"context"
	"errors"
	"fmt"

	"github.com/ncruces/go-sqlite3"
)

// Migrate brings the store's schema to this program's version and returns the versions before and after. The
// engine must not run: it migrates by itself when it starts.
func Migrate(ctx context.Context, cfg Config) (from, to int64, err error) {
	lock, err := lockEngine(cfg.Path)
	if err != nil {
		return 0, 0, err
	}
	defer lock.release()
	cfg = cfg.withDefaults()
	f, err := newFiles(cfg)
	if err != nil {
		return 0, 0, err
	}
	defer f.close()
	c, err := f.openWriter()
	if err != nil {
		return 0, 0, unavailable(err)
	}
	from, err = schemaOf(c)
	if err := errors.Join(err, c.Close()); err != nil {
		return 0, 0, unavailable(err)
	}
	return from, SchemaVersion(), f.prepare(ctx, cfg)
}

// Compact rewrites the store without its free pages and returns its size before and after. The engine must not
// run, and the disk needs room for a second copy.
func Compact(ctx context.Context, path string) (before, after int64, err error) {
	lock, err := lockEngine(path)
	if err != nil {
		return 0, 0, err
	}
	defer lock.release()
	cfg := Config{Path: path}.withDefaults()
	f, err := newFiles(cfg)
	if err != nil {
		return 0, 0, err
	}
	defer f.close()
	if err := f.prepare(ctx, cfg); err != nil {
		return 0, 0, err
	}
	c, err := f.openWriter()
	if err != nil {
		return 0, 0, unavailable(err)
	}
	defer c.Close()
	c.SetInterrupt(ctx)
	if before, err = fileBytes(c); err != nil {
		return 0, 0, unavailable(err)
	}
	if err := c.Exec(`VACUUM`); err != nil {
		return before, before, unavailable(fmt.Errorf("rewriting %s: %w; the store is unchanged", path, err))
	}
	if _, err := settleLog(c); err != nil {
		return before, before, unavailable(err)
	}
	after, err = fileBytes(c)
	return before, after, err
}

func fileBytes(c *sqlite3.Conn) (int64, error) {
	return scalar(c, `SELECT page_count * page_size FROM pragma_page_count, pragma_page_size`)
}
