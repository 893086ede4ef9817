// Package sqlite is the embedded ledger: one SQLite file, one engine, one writer that commits whatever waits as
// one synced transaction.
package sqlite

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/ncruces/go-sqlite3/vfs"

	"github.com/holdfast-ai/holdfast/ledger"
)

// Config opens a ledger. The zero value of a field is its documented default; Path is required.
type Config struct {
	// Path is the database file; it is created with mode 0600. Beside it live -wal, -shm and .lock.
	Path string
	// Env is stamped into a new file and must match an old one's. Empty: "default" for a new file, no check
	// for an old one.
	Env string
	// ReadOnly opens the file beside a running engine, without its lock; every write is refused.
	ReadOnly bool

	// Readers bounds the connections that read at the same time. Default 4.
	Readers int
	// QueueBytes bounds the writes that wait for the disk; beyond it Enqueue answers ErrUnavailable.
	// Default 256 MiB. A single write that is larger passes when it waits alone.
	QueueBytes int64
	// CheckpointPages is the length of the write-ahead log, in pages, at which it is copied back. Default 4000.
	CheckpointPages int

	// Logger hears of a broken disk, of a wall clock that is far off, of a log repaired at start. Default: none.
	Logger *slog.Logger
	// Hook, when set, is called by the writer at named points of every commit: "commit.before" (nothing
	// written), "commit.write" (about to write the log), "commit.sync" (written, not synced), "commit.synced"
	// (durable, not yet visible), "commit.after" (visible, nobody told). A crash rig ends the process there.
	Hook func(point string)
	// Disk, when set, is used in place of the operating system's files, and the engine's lock is not taken.
	Disk vfs.VFS

	// Wall and Mono are the clocks beneath ledger time. Default: time.Now, read as wall and as monotonic.
	Wall func() time.Time
	Mono func() time.Duration
}

const (
	defaultEnv        = "default"
	defaultReaders    = 4
	defaultQueueBytes = 256 << 20
	defaultCheckpoint = 4000
	// A log this many times longer than CheckpointPages makes the writer itself wait for the copy, or steady
	// traffic would never let the log restart.
	checkpointPatience = 4
)

func (c Config) withDefaults() Config {
	if c.Readers <= 0 {
		c.Readers = defaultReaders
	}
	if c.QueueBytes <= 0 {
		c.QueueBytes = defaultQueueBytes
	}
	if c.CheckpointPages <= 0 {
		c.CheckpointPages = defaultCheckpoint
	}
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	if c.Hook == nil {
		c.Hook = func(string) {}
	}
	return c
}

// Ledger is an open store. It implements ledger.Ledger.
type Ledger struct {
	cfg   Config
	files *files // the file layer, registered with SQLite for the life of the ledger
	lock  *engineLock
	clock *clock
	read  *pool
	queue queue
	ckpt  checkpointer

	health atomic.Pointer[failure] // nil while healthy
	sweep  sweepState

	checkpoint chan struct{}
	stop       chan struct{}
	workers    sync.WaitGroup
	closeOnce  sync.Once
	closeErr   error

	session *session // the writer's connections; only the writer's goroutine touches it
	watch   *watch   // likewise; nil when the files are not the operating system's
}

var (
	_ ledger.Ledger    = (*Ledger)(nil)
	_ ledger.KeyFilter = (*Ledger)(nil)
)

// failure boxes an error for an atomic pointer.
type failure struct{ err error }

// Open opens or creates the store, brings its schema up to date, makes what a crash left behind durable, and
// starts the writer. ErrLocked, ErrForeignEnv, ErrNewerSchema, ErrUnavailable.
func Open(ctx context.Context, cfg Config) (_ *Ledger, err error) {
	if cfg.Path == "" {
		return nil, errors.New("sqlite: no path for the store; set it to a file name")
	}
	cfg = cfg.withDefaults()
	l := &Ledger{cfg: cfg, checkpoint: make(chan struct{}, 1), stop: make(chan struct{})}
	defer func() {
		if err != nil {
			l.release()
		}
	}()
	if !cfg.ReadOnly && cfg.Disk == nil {
		if l.lock, err = lockEngine(cfg.Path); err != nil {
			return nil, err
		}
	}
	if l.files, err = newFiles(cfg); err != nil {
		return nil, err
	}
	if err = l.files.prepare(ctx, cfg); err != nil {
		return nil, err
	}
	l.queue.init(cfg.QueueBytes)
	l.read = newPool(l.files, cfg.Readers)
	if l.clock, err = l.startClock(ctx); err != nil {
		return nil, err
	}
	if !cfg.ReadOnly {
		return l, l.startWriter(ctx)
	}
	return l, nil
}

// OpenReadOnly opens the store beside a running engine, to read only.
func OpenReadOnly(ctx context.Context, path string) (*Ledger, error) {
	return Open(ctx, Config{Path: path, ReadOnly: true})
}

// Close commits what is queued, ends the writer and releases the file. Later writes get ErrClosed.
func (l *Ledger) Close() error {
	l.closeOnce.Do(func() {
		l.queue.close()
		close(l.stop)
		l.workers.Wait()
		l.closeErr = l.release()
	})
	return l.closeErr
}

// release gives back whatever Open acquired, in an order that lets the last connection fold the log away.
func (l *Ledger) release() error {
	var err error
	if l.read != nil {
		l.read.close()
	}
	if l.session != nil {
		err = l.session.close()
	}
	if l.files != nil {
		l.files.close()
	}
	if l.lock != nil {
		err = errors.Join(err, l.lock.release())
	}
	return err
}

// Healthy is nil while the last commit or probe succeeded.
func (l *Ledger) Healthy() error {
	if f := l.health.Load(); f != nil {
		return f.err
	}
	return nil
}

// TornBytes is how much of an unfinished write the log held when the store was opened: it was dropped, and never
// acknowledged to anybody.
func (l *Ledger) TornBytes() int64 { return l.files.torn }

// Now is ledger time (semantics 11), in whole microseconds, UTC.
func (l *Ledger) Now() time.Time { return l.clock.now() }

// ClockOffset is how far the wall clock is ahead of ledger time, negative when it is behind.
func (l *Ledger) ClockOffset() time.Duration { return l.clock.offset() }
