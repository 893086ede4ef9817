package reconcile

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgproto3"
	"github.com/jackc/pgx/v5/stdlib"
)

// postgresBounds hold for the transaction of one read. They are no parameters of the connection, which a pooler between (PgBouncer)
// would refuse.
const postgresBounds = "SET LOCAL statement_timeout = 10000; SET LOCAL lock_timeout = 2000; SET LOCAL idle_in_transaction_session_timeout = 30000"

const (
	postgresConnect = 5 * time.Second
	postgresIdle    = time.Minute
)

var errDSN = errors.New("it is no address of a Postgres database; write postgres://reader@host/db")

// openPostgres connects to nothing yet. No error holds the address, which holds a secret.
func openPostgres(dsn string) (*sql.DB, error) {
	c, err := pgx.ParseConfig(dsn)
	if err != nil {
		return nil, errDSN
	}
	c.ConnectTimeout = postgresConnect
	c.DefaultQueryExecMode = pgx.QueryExecModeDescribeExec // keeps no prepared statement, which a pooler may lose
	c.BuildFrontend = func(r io.Reader, w io.Writer) *pgproto3.Frontend {
		f := pgproto3.NewFrontend(r, w)
		f.SetMaxBodyLen(maxRead) // a row is one message: it is refused before it is in memory
		return f
	}
	db := stdlib.OpenDB(*c)
	db.SetMaxOpenConns(2)
	db.SetConnMaxIdleTime(postgresIdle)
	return db, nil
}

// boundPostgres sets the limits of a transaction.
func boundPostgres(ctx context.Context, tx *sql.Tx) error {
	_, err := tx.ExecContext(ctx, postgresBounds)
	return err
}

var errPostgresAway = errors.New("the database cannot be reached")

// plainPostgres is an error without what the server said and how it was reached: both may hold what is nobody's business here.
func plainPostgres(err error) error {
	var said *pgconn.PgError
	switch {
	case err == nil, errors.Is(err, errTooMuch), errors.Is(err, context.DeadlineExceeded):
		return err
	case errors.As(err, &said):
		return fmt.Errorf("the database refuses the query: SQLSTATE %s", said.Code)
	}
	var big *pgproto3.ExceededMaxBodyLenErr
	if errors.As(err, &big) {
		return errTooMuch
	}
	return errPostgresAway
}
