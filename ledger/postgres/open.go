package postgres

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net"
	"strconv"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/holdfast-ai/holdfast/ledger"
)

const (
	// keepAlive and keepAliveCount find a peer that is gone without a word within half a minute; CommitTimeout finds it sooner where
	// something waits.
	keepAlive      = 10 * time.Second
	keepAliveCount = 3
	// idleInTransaction ends what a replica that hangs in the middle of a transaction would hold for ever: locks on claims.
	idleInTransaction = 10 * time.Second
)

// Open connects to the store, makes or migrates its schema, and starts the writers. Replicas may do so at the same time.
// ErrForeignEnv, ErrNewerSchema, ErrUnavailable.
func Open(ctx context.Context, cfg Config) (_ *Ledger, err error) {
	l, err := cfg.withDefaults().unopened()
	if err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			l.release()
		}
	}()
	if err = l.prepare(ctx); err != nil {
		return nil, err
	}
	if l.read, err = l.newPool(); err != nil {
		return nil, l.unavailable(err)
	}
	if err = l.startClock(ctx); err != nil {
		return nil, err
	}
	l.notices = newNotices(l)
	l.workers.Go(l.keepTime)
	if !l.cfg.ReadOnly {
		l.startWriters()
		l.workers.Go(l.notices.send)
	}
	return l, nil
}

// unopened is a ledger that has not looked at its database. It is released, where it is not opened.
func (c Config) unopened() (*Ledger, error) {
	conf, err := c.connection()
	if err != nil {
		return nil, err
	}
	l := &Ledger{cfg: c, conf: conf, schema: conf.RuntimeParams["search_path"], closed: make(chan struct{}),
		where: net.JoinHostPort(conf.Host, strconv.Itoa(int(conf.Port))) + "/" + conf.Database}
	l.ctx, l.cancel = context.WithCancel(context.Background())
	return l, nil
}

// connection is how every connection of the ledger is made. The error of an address that cannot be read says nothing of its password.
func (c Config) connection() (*pgx.ConnConfig, error) {
	if c.URL == "" {
		return nil, errors.New("postgres: no address for the store; set it to postgres://user@host/database")
	}
	conf, err := pgx.ParseConfig(c.URL)
	if err != nil {
		return nil, fmt.Errorf("postgres: the store's address cannot be used: %w", err)
	}
	conf.ConnectTimeout = c.ConnectTimeout
	dialer := &net.Dialer{KeepAliveConfig: net.KeepAliveConfig{Enable: true, Idle: keepAlive, Interval: keepAlive, Count: keepAliveCount}}
	conf.DialFunc = dialer.DialContext
	params := conf.RuntimeParams
	setDefault(params, "application_name", "holdfast")
	setDefault(params, "search_path", defaultSchema)
	setDefault(params, "statement_timeout", millis(c.CommitTimeout))
	setDefault(params, "lock_timeout", millis(c.CommitTimeout))
	setDefault(params, "idle_in_transaction_session_timeout", millis(idleInTransaction))
	if c.ReadOnly {
		params["default_transaction_read_only"] = "on"
	} else if conf.ValidateConnect == nil && len(conf.Fallbacks) > 0 {
		conf.ValidateConnect = pgconn.ValidateConnectTargetSessionAttrsReadWrite
	}
	return conf, nil
}

func setDefault(params map[string]string, name, value string) {
	if _, has := params[name]; !has {
		params[name] = value
	}
}

func millis(d time.Duration) string { return strconv.FormatInt(d.Milliseconds(), 10) }

// connect makes a connection of its own, outside the pool.
func (l *Ledger) connect(ctx context.Context) (*pgx.Conn, error) {
	return pgx.ConnectConfig(ctx, l.conf.Copy())
}

func (l *Ledger) newPool() (*pgxpool.Pool, error) {
	conf, err := pgxpool.ParseConfig(l.cfg.URL)
	if err != nil {
		return nil, err
	}
	conf.ConnConfig = l.conf.Copy()
	conf.MaxConns = int32(min(l.cfg.Readers, 1<<16))
	conf.MinConns, conf.MinIdleConns = 0, 0
	return pgxpool.NewWithConfig(l.ctx, conf)
}

// unavailable wraps a native error for callers that branch on the port's sentinels.
func (l *Ledger) unavailable(err error) error {
	switch {
	case err == nil, errors.Is(err, ledger.ErrUnavailable), errors.Is(err, ledger.ErrNotFound), errors.Is(err, ledger.ErrClosed):
		return err
	case l.isClosed():
		return ledger.ErrClosed
	}
	return fmt.Errorf("%w: %s: %w", ledger.ErrUnavailable, l.where, err)
}

func (l *Ledger) isClosed() bool {
	select {
	case <-l.closed:
		return true
	default:
		return false
	}
}

// bounded gives a caller's context a deadline where it has none: a server that is frozen answers nobody.
func (l *Ledger) bounded(ctx context.Context) (context.Context, context.CancelFunc) {
	if _, has := ctx.Deadline(); has {
		return ctx, func() {}
	}
	return context.WithTimeout(ctx, l.cfg.CommitTimeout+l.cfg.ConnectTimeout)
}

// rows runs a read and hands each of its rows to scan. The error is one of the port's.
func (l *Ledger) rows(ctx context.Context, scan func(pgx.Rows) error, query string, args ...any) error {
	if l.isClosed() {
		return ledger.ErrClosed
	}
	ctx, cancel := l.bounded(ctx)
	defer cancel()
	rows, err := l.read.Query(ctx, query, args...)
	if err != nil {
		return l.unavailable(err)
	}
	defer rows.Close()
	for rows.Next() {
		if err := scan(rows); err != nil {
			return err
		}
	}
	return l.unavailable(rows.Err())
}

// inTx runs fn in a transaction of its own, beside the writers, and again where two such got in each other's way. fn must be fit to run twice.
func (l *Ledger) inTx(ctx context.Context, fn func(context.Context, pgx.Tx) error) error {
	switch {
	case l.isClosed():
		return ledger.ErrClosed
	case l.cfg.ReadOnly:
		return fmt.Errorf("%w: opened read-only", ledger.ErrUnavailable)
	}
	ctx, cancel := l.bounded(ctx)
	defer cancel()
	for {
		err := pgx.BeginFunc(ctx, l.read, func(tx pgx.Tx) error { return fn(ctx, tx) })
		if err == nil || !collided(err) || ctx.Err() != nil {
			var native *pgconn.PgError
			if errors.As(err, &native) && native.Code == readOnlyServer {
				l.read.Reset() // another server takes writes now, or will
			}
			return l.unavailable(err)
		}
	}
}

// collided says that a transaction was undone for another's sake and may run again.
func collided(err error) bool {
	var native *pgconn.PgError
	return errors.As(err, &native) && (native.Code == "40001" || native.Code == "40P01")
}

// makeSecret returns the secret of that name, making it first if it is not there.
func makeSecret(ctx context.Context, tx pgx.Tx, name string) (v []byte, err error) {
	fresh := make([]byte, 32)
	if _, err := rand.Read(fresh); err != nil {
		return nil, err
	}
	if _, err := tx.Exec(ctx, `INSERT INTO secret (name, value) VALUES ($1, $2) ON CONFLICT (name) DO NOTHING`, name, fresh); err != nil {
		return nil, err
	}
	err = tx.QueryRow(ctx, `SELECT value FROM secret WHERE name = $1`, name).Scan(&v)
	return v, err
}
