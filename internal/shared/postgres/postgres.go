// Package postgres keeps shared state in a schema of a Postgres database, holdfast_shared: each step is one function there.
package postgres

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/holdfast-ai/holdfast/internal/shared"
)

// Config says where the store is.
type Config struct {
	// URL is postgres://user:password@host:port/database?….
	URL string
	// Env is a part of every key: environments never meet.
	Env string
	// MaxConns bounds the connections; 8.
	MaxConns int32
}

//go:embed schema.sql
var schema string

// Parameters are those that an address may have.
var Parameters = []string{"application_name", "channel_binding", "connect_timeout", "sslcert", "sslkey", "sslmode", "sslnegotiation", "sslpassword",
	"sslrootcert", "sslsni", "target_session_attrs"}

func options(c Config) (*pgxpool.Config, error) {
	u, err := url.Parse(c.URL)
	if err != nil {
		return nil, errors.New("it is no address; write postgres://USER@HOST:PORT/DATABASE")
	}
	for name := range u.Query() {
		if !slices.Contains(Parameters, name) {
			return nil, fmt.Errorf("the parameter %q of its address is not known; there are %v", name, Parameters)
		}
	}
	p, err := pgxpool.ParseConfig(c.URL)
	if err != nil {
		return nil, err
	}
	p.MaxConns, p.MinIdleConns = c.MaxConns, 1
	if p.MaxConns <= 0 {
		p.MaxConns = 8
	}
	p.MaxConnIdleTime, p.HealthCheckPeriod = 5*time.Minute, 5*time.Second
	if p.ConnConfig.ConnectTimeout == 0 {
		p.ConnConfig.ConnectTimeout = 2 * time.Second
	}
	// Nothing of it is worth waiting for a disk, and no step may stand in the way of others for long.
	for name, value := range map[string]string{"synchronous_commit": "off", "statement_timeout": "2000", "application_name": "holdfast-shared"} {
		if _, said := p.ConnConfig.RuntimeParams[name]; !said {
			p.ConnConfig.RuntimeParams[name] = value
		}
	}
	return p, nil
}

// Driver is a pool of connections. It implements shared.Driver.
type Driver struct {
	pool *pgxpool.Pool
	env  string
}

// Open connects and makes the schema where it is missing. Any number of processes may do so at once.
func Open(ctx context.Context, c Config) (*Driver, error) {
	p, err := options(c)
	if err != nil {
		return nil, fmt.Errorf("postgres: %w", err)
	}
	pool, err := pgxpool.NewWithConfig(context.WithoutCancel(ctx), p)
	if err != nil {
		return nil, fmt.Errorf("postgres: %w", err)
	}
	if err := migrate(ctx, pool); err != nil {
		pool.Close()
		return nil, fmt.Errorf("postgres: %w", err)
	}
	return &Driver{pool: pool, env: c.Env}, nil
}

// migrate makes the schema, one process after the other.
func migrate(ctx context.Context, pool *pgxpool.Pool) error {
	return pgx.BeginFunc(ctx, pool, func(tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, "SELECT pg_advisory_xact_lock(1752131187)"); err != nil {
			return err
		}
		_, err := tx.Exec(ctx, schema)
		var pg *pgconn.PgError
		if errors.As(err, &pg) && pg.Code == "42501" { // insufficient_privilege
			return fmt.Errorf("the schema holdfast_shared cannot be made (%s): GRANT CREATE ON DATABASE to this user", pg.Message)
		}
		return err
	})
}

// Close implements shared.Driver.
func (d *Driver) Close() { d.pool.Close() }

func fault(err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("postgres: %w", err)
}

// Changed implements shared.Driver.
func (d *Driver) Changed(ctx context.Context, since time.Time) ([]shared.Register, time.Time, error) {
	if since.IsZero() {
		since = time.Unix(0, 0)
	}
	rows, err := d.pool.Query(ctx, `SELECT clock_timestamp(), '', 0::bigint, ''::bytea
		UNION ALL (SELECT changed, key, version, value FROM holdfast_shared.register
		WHERE env = $1 AND changed >= $2 AND (expires IS NULL OR expires > clock_timestamp()) ORDER BY changed)`, d.env, since)
	if err != nil {
		return nil, time.Time{}, fault(err)
	}
	var all []shared.Register
	var now, at time.Time
	var r shared.Register
	_, err = pgx.ForEachRow(rows, []any{&at, &r.Key, &r.Version, &r.Value}, func() error {
		if r.Key == "" {
			now = at
			return nil
		}
		all = append(all, shared.Register{Key: r.Key, Version: r.Version, Value: slices.Clone(r.Value)})
		return nil
	})
	return all, now, fault(err)
}

// Swap implements shared.Driver.
func (d *Driver) Swap(ctx context.Context, next shared.Register, ttl time.Duration) (shared.Register, bool, error) {
	now, ok := shared.Register{Key: next.Key}, false
	value := next.Value
	if value == nil {
		value = []byte{}
	}
	err := d.pool.QueryRow(ctx, "SELECT ok, version, value FROM holdfast_shared.swap_1($1, $2, $3, $4, $5)", d.env, next.Key, int64(next.Version),
		value, ttl.Milliseconds()).Scan(&ok, &now.Version, &now.Value)
	return now, ok, fault(err)
}

// Lease implements shared.Driver.
func (d *Driver) Lease(ctx context.Context, key, holder string, c shared.Claim) (g shared.Grant, err error) {
	var ok bool
	err = d.pool.QueryRow(ctx, "SELECT ok, held, batch, holders, wanted FROM holdfast_shared.lease_1($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12)",
		d.env, key, holder, int64(c.Seq), c.Hold.All, c.Hold.Batch, c.Want.All, c.Want.Batch, c.Limit.All, c.Limit.Batch,
		c.TTL.Milliseconds(), c.UnmetTTL.Milliseconds()).Scan(&ok, &g.All, &g.Batch, &g.Holders, &g.Wanted)
	if err == nil && !ok {
		return g, shared.ErrStale
	}
	return g, fault(err)
}

// Spend implements shared.Driver.
func (d *Driver) Spend(ctx context.Context, key string, s shared.Spending) (total int64, ok bool, err error) {
	err = d.pool.QueryRow(ctx, "SELECT ok, total FROM holdfast_shared.spend_1($1, $2, $3, $4, $5, $6)", d.env, key, s.Amount, s.Floor, s.Limit,
		s.TTL.Milliseconds()).Scan(&ok, &total)
	return total, ok, fault(err)
}
