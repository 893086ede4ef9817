package reconcile

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

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
	s         *Set
	conf      *policy.Reconcile
	db        *sql.DB
	postgres  bool
	arguments []*template // $1, $2, …; none: $1 is the key
	text      string      // conf.SQL, as the database takes it
	unasked   bool        // it has no $1
}

func (s *Set) newSQL(r *policy.Reconcile) (intent.Reconciler, error) {
	q := &query{s: s, conf: r, postgres: r.DSN.Scheme() != "sqlite", text: r.SQL, unasked: len(r.Placeholders()) == 0}
	if !q.postgres {
		q.text = policy.NumberPlaceholders(r.SQL)
	}
	for _, a := range r.Arguments {
		t, err := parseTemplate(a.Value)
		if err != nil {
			return nil, fmt.Errorf("arguments.%s: %w", a.Name, err)
		}
		q.arguments = append(q.arguments, t)
	}
	var err error
	if q.postgres {
		q.db, err = openPostgres(r.DSN.Reveal())
	} else {
		q.db, err = openSQLite(r.DSN.Path())
	}
	if err != nil {
		return nil, fmt.Errorf("dsn: %w", err)
	}
	s.close = append(s.close, q.db.Close)
	return q, nil
}

// Check implements intent.Reconciler.
func (q *query) Check(ctx context.Context, r *ledger.Record) (intent.Finding, error) {
	e := readEvidence{SQL: q.conf.SQL}
	values, err := q.values(ctx, r)
	if err != nil {
		return cannotTell(err.Error(), e), nil
	}
	found, err := q.rows(ctx, values)
	var read []byte
	if err == nil {
		read, err = json.Marshal(found)
	}
	if err == nil && len(read) > maxRead {
		err = errTooMuch
	}
	if err != nil {
		err = q.plain(err)
		return intent.Finding{Reason: "the database could not be read: " + err.Error(), Evidence: encode(e)}, err
	}
	n := len(found)
	e.Rows, e.Bytes, e.SHA256 = &n, len(read), digest(read)
	a := answer{plain: true}
	a.Result, a.Fault = policy.Document(read) // as expressions see every other answer
	a.Body = a.Result
	f := intent.Finding{Evidence: encode(e), Read: read}
	f.Found, f.Reason = judge(q.conf, a)
	if f.Found == intent.Happened && r.Provider == toolProvider {
		f.Answer, f.Body = answerOf(answer{Answer: policy.Answer{Headers: map[string]string{"content-type": "application/json"}}}, read)
	}
	return f, nil
}

// plain is an error of the database that may stand in the history.
func (q *query) plain(err error) error {
	switch {
	case errors.Is(err, errTooMuch), errors.Is(err, errNames), errors.Is(err, context.DeadlineExceeded):
		return err
	case q.postgres:
		return plainPostgres(err)
	}
	return plainSQLite(err)
}

// values are what the query is asked with, as text: a database reads it as the type that it needs.
func (q *query) values(ctx context.Context, r *ledger.Record) ([]any, error) {
	if q.unasked {
		return nil, nil // a database refuses values that are not used
	}
	key := q.s.outbound(r)
	if len(q.arguments) == 0 {
		v, err := value("key", key, nil)
		return []any{v}, err
	}
	asked := q.s.arguments(ctx, r)
	var out []any
	for _, t := range q.arguments {
		v, err := t.words(key, asked)
		if err != nil {
			return nil, err
		}
		out = append(out, v)
	}
	return out, nil
}

var (
	errTooMuch = errors.New("the query gives more than 100 rows, or a value of more than 64 KiB: narrow it")
	errNames   = errors.New("two columns of the query have one name: give them names of their own (AS)")
)

// rows runs the query in a transaction that cannot write.
func (q *query) rows(ctx context.Context, values []any) ([]map[string]any, error) {
	tx, err := q.db.BeginTx(ctx, &sql.TxOptions{ReadOnly: true})
	if err != nil {
		return nil, err
	}
	defer func() { _ = tx.Rollback() }()
	if q.postgres {
		if err := boundPostgres(ctx, tx); err != nil {
			return nil, err
		}
	}
	rows, err := tx.QueryContext(ctx, q.text, values...)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	names, err := rows.Columns()
	if err != nil {
		return nil, err
	}
	if distinct := slices.Compact(slices.Sorted(slices.Values(names))); len(distinct) != len(names) {
		return nil, errNames
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
