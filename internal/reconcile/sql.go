package reconcile

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"path/filepath"
	"sync"

	"github.com/ncruces/go-sqlite3/driver"

	"github.com/holdfast-ai/holdfast/intent"
	"github.com/holdfast-ai/holdfast/internal/policy"
	"github.com/holdfast-ai/holdfast/ledger"
)

// rows bounds what a query is asked for, columns and cells what is kept of it.
const (
	maxRows = 100
	maxCell = 64 << 10
)

// query reads a database that the effect would show in.
type query struct {
	s    *Set
	conf *policy.Reconcile
	db   *sql.DB // nil: of a kind that this version does not read
}

func (s *Set) newSQL(r *policy.Reconcile) (intent.Reconciler, error) {
	q := &query{s: s, conf: r}
	if r.DSN.Scheme() != "sqlite" {
		return q, nil
	}
	path, err := filepath.Abs(r.DSN.Path())
	if err != nil {
		return nil, fmt.Errorf("dsn: %w", err)
	}
	name := url.URL{Scheme: "file", OmitHost: true, Path: filepath.ToSlash(path),
		RawQuery: "mode=ro&_pragma=busy_timeout(2000)&_pragma=query_only(1)"}
	if q.db, err = s.dbs.get(name.String()); err != nil {
		return nil, fmt.Errorf("dsn: %w", err)
	}
	return q, nil
}

// databases are those that are open, by name. They are few: a configuration's, and those of the ones before it.
type databases struct {
	mu   sync.Mutex
	open map[string]*sql.DB
}

func (d *databases) get(name string) (*sql.DB, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if db := d.open[name]; db != nil {
		return db, nil
	}
	db, err := driver.Open(name)
	if err != nil {
		return nil, err
	}
	db.SetMaxOpenConns(2)
	d.open[name] = db
	return db, nil
}

func (d *databases) close() error {
	d.mu.Lock()
	defer d.mu.Unlock()
	var errs []error
	for name, db := range d.open {
		errs = append(errs, db.Close())
		delete(d.open, name)
	}
	return errors.Join(errs...)
}

// Check implements intent.Reconciler.
func (q *query) Check(ctx context.Context, r *ledger.Record) (intent.Finding, error) {
	e := readEvidence{SQL: q.conf.SQL}
	if q.db == nil {
		return cannotTell("this version reads sqlite: databases only; this one is "+q.conf.DSN.Scheme(), e), nil
	}
	found, err := q.rows(ctx, q.s.outbound(r))
	if err != nil {
		return intent.Finding{Evidence: encode(e)}, err
	}
	n := len(found)
	e.Rows = &n
	read, err := json.Marshal(found)
	if err != nil {
		return intent.Finding{Evidence: encode(e)}, err
	}
	var a policy.Answer
	if err := json.Unmarshal(read, &a.Result); err != nil { // as expressions see every other answer
		return intent.Finding{Evidence: encode(e)}, err
	}
	a.Body = a.Result
	e.Bytes, e.SHA256 = len(read), digest(read)
	f := intent.Finding{Evidence: encode(e), Read: read}
	f.Found, f.Reason = judge(q.conf, a, true)
	return f, nil
}

var errTooMuch = errors.New("the query gives more than 100 rows, or a value of more than 64 KiB: narrow it")

// rows runs the query in a transaction that cannot write. $1 is the key that the far side was given.
func (q *query) rows(ctx context.Context, key string) ([]map[string]any, error) {
	tx, err := q.db.BeginTx(ctx, &sql.TxOptions{ReadOnly: true})
	if err != nil {
		return nil, err
	}
	defer func() { _ = tx.Rollback() }()
	rows, err := tx.QueryContext(ctx, q.conf.SQL, key)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	names, err := rows.Columns()
	if err != nil {
		return nil, err
	}
	all := []map[string]any{}
	for rows.Next() {
		if len(all) == maxRows {
			return nil, errTooMuch
		}
		one, err := scan(rows, names)
		if err != nil {
			return nil, err
		}
		all = append(all, one)
	}
	return all, rows.Err()
}

func scan(rows *sql.Rows, names []string) (map[string]any, error) {
	cells, to := make([]any, len(names)), make([]any, len(names))
	for i := range cells {
		to[i] = &cells[i]
	}
	if err := rows.Scan(to...); err != nil {
		return nil, err
	}
	one := make(map[string]any, len(names))
	for i, name := range names {
		v := cells[i]
		if b, ok := v.([]byte); ok {
			v = string(b)
		}
		if s, ok := v.(string); ok && len(s) > maxCell {
			return nil, errTooMuch
		}
		one[name] = v
	}
	return one, nil
}
