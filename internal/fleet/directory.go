package fleet

import (
	"context"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/holdfast-ai/holdfast/ledger"
)

// Owners is what a Directory reads: the part of ledger.Ledger that knows who works on the store.
type Owners interface {
	Owners(ctx context.Context) ([]ledger.Owner, error)
	Now() time.Time
}

const (
	// fresh is how old a reading may be that is gone by.
	fresh = time.Second
	// readWait bounds a reading, and the wait for it of whoever asks: a store that is slow costs no more than what the last
	// reading said.
	readWait = 500 * time.Millisecond
	// again is how soon the store is read anew for an engine that the last reading did not have, or did not reach.
	again = 100 * time.Millisecond
)

// Directory knows the engines on one store, as the store had them a second ago at most, or, while it cannot be read, when it
// last could. Reads are made by whoever asks, one at a time. It is safe for concurrent use.
type Directory struct {
	store  Owners
	self   string
	logger *slog.Logger
	last   atomic.Pointer[reading]

	mu      sync.Mutex
	running chan struct{} // closes when the reading that is made now is there; nil: none is
	tried   time.Time
	closed  bool
	reads   sync.WaitGroup
	ctx     context.Context
	stop    context.CancelFunc
}

// reading is what the store said once.
type reading struct {
	at      time.Time // by this process's clock
	members []Member  // in the order of their ids
	byID    map[string]int
}

// NewDirectory returns a directory for the engine self. Nothing is read yet. Close it.
func NewDirectory(store Owners, self string, logger *slog.Logger) *Directory {
	if logger == nil {
		logger = slog.New(slog.DiscardHandler)
	}
	d := &Directory{store: store, self: self, logger: logger}
	d.ctx, d.stop = context.WithCancel(context.Background())
	d.last.Store(&reading{})
	return d
}

// Close ends a reading that is being made.
func (d *Directory) Close() {
	d.mu.Lock()
	d.closed = true
	d.mu.Unlock()
	d.stop()
	d.reads.Wait()
}

// Self is the id of this engine.
func (d *Directory) Self() string { return d.self }

// Find returns the address of a live engine: ok is false where there is none, or none by which this one could reach it.
func (d *Directory) Find(owner string) (address string, ok bool) {
	m, ok := d.Member(owner)
	return m.Address, ok && m.Address != ""
}

// Member returns a live engine.
func (d *Directory) Member(owner string) (Member, bool) {
	m, ok := d.find(owner, fresh)
	if !ok { // it may have come, or written its heartbeat, since
		m, ok = d.find(owner, again)
	}
	return m, ok
}

func (d *Directory) find(owner string, age time.Duration) (Member, bool) {
	r := d.read(age)
	i, ok := r.byID[owner]
	if !ok || !d.lives(&r.members[i]) {
		return Member{}, false
	}
	return r.members[i], true
}

// lives goes by ledger time, which runs on while the store cannot be read: a reading from before the store went away makes
// nobody immortal.
func (d *Directory) lives(m *Member) bool { return !m.Ended && !d.store.Now().After(m.Until) }

// Live returns the live engines, this one among them, in the order in which they started.
func (d *Directory) Live() []Member {
	var live []Member
	for _, m := range d.read(fresh).members {
		if d.lives(&m) {
			live = append(live, m)
		}
	}
	return live
}

// All returns every engine that the store has a row of, whatever became of it.
func (d *Directory) All() []Member { return append([]Member(nil), d.read(again).members...) }

// read returns a reading of at most that age where the store gives one in time, else the last there was.
func (d *Directory) read(age time.Duration) *reading {
	if r := d.last.Load(); !r.at.IsZero() && time.Since(r.at) < age {
		return r
	}
	done := d.refresh()
	if done == nil {
		return d.last.Load()
	}
	timer := time.NewTimer(readWait)
	defer timer.Stop()
	select {
	case <-done:
	case <-timer.C:
	}
	return d.last.Load()
}

// refresh has the store read, by a reading that is under way or a new one; nil where one was tried a moment ago.
func (d *Directory) refresh() <-chan struct{} {
	d.mu.Lock()
	defer d.mu.Unlock()
	switch {
	case d.running != nil:
		return d.running
	case d.closed || !d.tried.IsZero() && time.Since(d.tried) < again:
		return nil
	}
	done := make(chan struct{})
	d.running, d.tried = done, time.Now()
	d.reads.Go(func() {
		defer func() {
			d.mu.Lock()
			d.running = nil
			d.mu.Unlock()
			close(done)
		}()
		d.readStore()
	})
	return done
}

func (d *Directory) readStore() {
	ctx, cancel := context.WithTimeout(d.ctx, readWait)
	defer cancel()
	at := time.Now() // what is written while it is read may be missing
	owners, err := d.store.Owners(ctx)
	if err != nil {
		d.logger.Debug("the replicas of this store cannot be read; those known before are gone by", "error", err)
		return
	}
	r := &reading{at: at, byID: make(map[string]int, len(owners))}
	for i, o := range owners {
		r.members = append(r.members, MemberOf(o))
		r.byID[o.ID] = i
	}
	d.last.Store(r)
}
