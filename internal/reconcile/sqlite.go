package reconcile

import (
	"database/sql"
	"errors"
	"fmt"
	"net/url"
	"path/filepath"
	"strings"

	"github.com/ncruces/go-sqlite3"
	"github.com/ncruces/go-sqlite3/driver"
)

func openSQLite(path string) (*sql.DB, error) {
	path, err := filepath.Abs(path)
	if err != nil {
		return nil, err
	}
	name := url.URL{Scheme: "file", OmitHost: true, Path: filepath.ToSlash(path),
		RawQuery: "mode=ro&_pragma=busy_timeout(2000)&_pragma=query_only(1)"}
	db, err := driver.Open(name.String())
	if err != nil {
		return nil, err
	}
	db.SetMaxOpenConns(2)
	return db, nil
}

// plainSQLite is an error in SQLite's words for its kind. Its further words may hold a value that was asked for; the name of a
// table that is missing is the query's own.
func plainSQLite(err error) error {
	var code sqlite3.ErrorCode
	if !errors.As(err, &code) {
		return errRead
	}
	what := strings.TrimPrefix(code.Error(), "sqlite3: ")
	const missing = "no such table: "
	if _, table, found := strings.Cut(err.Error(), missing); found {
		return fmt.Errorf("%s: %s%s", what, missing, table)
	}
	return errors.New(what)
}

var errRead = errors.New("the driver refuses the query, or cannot open the database")
