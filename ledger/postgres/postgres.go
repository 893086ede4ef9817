// Package postgres is the ledger of many replicas: one Postgres, which any number of engines write to at once, each in batches that are one
// transaction.
package postgres

import (
	"context"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/holdfast-ai/holdfast/ledger"
)

// Config opens a ledger. The zero value of a field is its documented default; URL is required.
type Config struct {
	// URL is the database, as libpq has it: postgres://user@host:5432/database?sslmode=verify-full. Several hosts may stand in it for a
	// fail-over; the one that takes writes is used. search_path in it names the schema that holds the tables; default "holdfast".
	URL string
	// Env is stamped into a new store and must match an old one's. Empty: "default" for a new store, no check for an old one.
	Env string
	// ReadOnly opens a store that is there, to read only; every write is refused.
	ReadOnly bool

	// Readers bounds the connections that read at the same time. Default 8.
	Readers int
	// Writers is the number of connections that write. Default 2: one works while the other's commit reaches the disk.
	Writers int
	// QueueBytes bounds the writes that wait; beyond it Enqueue answers ErrUnavailable. Default 256 MiB.
	QueueBytes int64
	// ConnectTimeout bounds one attempt to connect. Default 3 s.
	ConnectTimeout time.Duration
	// CommitTimeout bounds one transaction of the writer, and one read without a deadline of its own. What was sent and not confirmed by then is
	// looked up before anybody is told. Default 5 s.
	CommitTimeout time.Duration

	// Logger hears of a database that is away, of a clock that is far off, of commits whose outcome was lost. Default: none.
	Logger *slog.Logger
}

const (
	defaultSchema         = "holdfast"
	defaultEnv            = "default"
	defaultReaders        = 8
	defaultWriters        = 2
	defaultQueueBytes     = 256 << 20
	defaultConnectTimeout = 3 * time.Second
	defaultCommitTimeout  = 5 * time.Second
)

func (c Config) withDefaults() Config {
	if c.Readers <= 0 {
		c.Readers = defaultReaders
	}
	if c.Writers <= 0 {
		c.Writers = defaultWriters
	}
	if c.QueueBytes <= 0 {
		c.QueueBytes = defaultQueueBytes
	}
	if c.ConnectTimeout <= 0 {
		c.ConnectTimeout = defaultConnectTimeout
	}
	if c.CommitTimeout <= 0 {
		c.CommitTimeout = defaultCommitTimeout
	}
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	return c
}

// Ledger is an open store. It implements ledger.Ledger.
type Ledger struct {
	cfg     Config
	conf    *pgx.ConnConfig // of every connection; copied for each
	schema  string
	where   string        // host and database, for messages; no credentials
	read    *pgxpool.Pool // every read, and the small writes of inTx
	mono    func() time.Duration
	clock   *clock
	queue   queue
	gets    getter
	sweep   sweepState
	notices *notices
	health  atomic.Pointer[failure] // nil while healthy

	ctx       context.Context // ends when the ledger is closed and nothing waits any more
	cancel    context.CancelFunc
	workers   sync.WaitGroup
	closeOnce sync.Once
	closed    chan struct{} // closed by Close
}

var _ ledger.Notifier = (*Ledger)(nil)

// Now is ledger time (semantics 11): the database's clock, in whole microseconds, UTC.
func (l *Ledger) Now() time.Time { return l.clock.now() }

// OpenReadOnly opens a store that is there, to read only.
func OpenReadOnly(ctx context.Context, url string) (*Ledger, error) {
	return Open(ctx, Config{URL: url, ReadOnly: true})
}

// Close commits what is queued, ends the writers and gives the connections back. Later writes get ErrClosed. It waits for a database that does not answer
// as long as for one commit.
func (l *Ledger) Close() error {
	l.closeOnce.Do(func() {
		l.queue.close()
		close(l.closed)
		patience := time.AfterFunc(l.cfg.CommitTimeout, l.cancel)
		defer patience.Stop()
		l.workers.Wait()
		l.refuseWaiting(ledger.ErrClosed)
		l.release()
	})
	return nil
}

// release gives back whatever Open acquired.
func (l *Ledger) release() {
	l.cancel()
	l.workers.Wait()
	if l.read != nil {
		l.read.Close()
	}
}
