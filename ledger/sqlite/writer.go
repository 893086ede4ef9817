package sqlite

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/ncruces/go-sqlite3"

	"github.com/holdfast-ai/holdfast/internal/mutant"
	"github.com/holdfast-ai/holdfast/ledger"
	"github.com/holdfast-ai/holdfast/ledger/internal/stored"
)

const (
	// The first and the longest wait before a broken file is opened again.
	reopenFirst = 50 * time.Millisecond
	reopenMax   = 5 * time.Second
)

func (l *Ledger) startWriter(ctx context.Context) error {
	c, err := l.files.openWriter()
	if err != nil {
		return unavailable(err)
	}
	if err := walMode(c); err != nil {
		return errors.Join(err, c.Close())
	}
	if l.session, err = newSession(c); err != nil {
		return errors.Join(unavailable(err), c.Close())
	}
	if err := l.rewatch(); err != nil {
		return err
	}
	l.workers.Go(l.write)
	l.workers.Go(l.checkpoints)
	return nil
}

// write is the one writer. It commits what waits, and while the file is broken it answers at once and tries,
// with growing pauses, to open it again.
func (l *Ledger) write() {
	defer func() { l.finish() }()
	pause, retry := reopenFirst, newStoppedTimer()
	for {
		select {
		case <-l.queue.wake:
		case <-retry.C:
			if err := l.reopen(); err != nil {
				l.health.Store(&failure{err})
				pause = min(2*pause, reopenMax)
				retry.Reset(pause)
				continue
			}
			pause = reopenFirst
		case <-l.stop:
			return
		}
		wasUp := l.session != nil
		l.drain()
		if wasUp && l.session == nil {
			retry.Reset(pause)
		}
	}
}

func newStoppedTimer() *time.Timer {
	t := time.NewTimer(time.Hour)
	t.Stop()
	return t
}

// drain commits batches until nothing is due.
func (l *Ledger) drain() {
	for {
		l.queue.gather()
		b := l.queue.take()
		if b == nil {
			return
		}
		l.commit(b)
		l.noticeLog()
	}
}

// finish commits the rest before the ledger closes and remembers the time.
func (l *Ledger) finish() {
	l.drain()
	if l.session == nil {
		return
	}
	if err := l.saveStamp(l.session); err != nil {
		l.cfg.Logger.Warn("could not store the last stamp", "error", err)
	}
}

// commit makes b one transaction, with what comes while that is written, and tells the waiters.
func (l *Ledger) commit(b *batch) {
	all := []*batch{b}
	err := l.errDown()
	if err == nil {
		err = l.lookAfterFiles()
	}
	if err == nil {
		l.cfg.Hook("commit.before")
		all, err = l.transact(b)
	}
	if err != nil {
		err = unavailable(err)
	} else {
		l.cfg.Hook("commit.after")
	}
	for _, b := range all {
		for _, it := range b.items {
			verdict := it.refused
			if err != nil {
				verdict = err
			}
			it.tell(verdict)
		}
		l.queue.settled(b)
		close(b.done)
	}
}

// tell writes the outcome where the waiter of it looks.
func (it *item) tell(verdict error) {
	switch {
	case it.fn != nil:
		it.err = verdict
	case mutant.On("ack-early"): // told already
	default:
		it.w.Err = verdict
		if !errors.Is(verdict, ledger.ErrClaimed) {
			it.w.Holder = "" // of a run that was undone
		}
	}
}

// errDown is why nothing can be committed now.
func (l *Ledger) errDown() error {
	if l.session != nil {
		return nil
	}
	return l.Healthy()
}

// transact runs b's items in one transaction, and with them, once they are written, those that have come meanwhile: they
// would wait for a sync of their own. All whose fate it decides are returned. An item that fails by its own fault is taken
// out, with what it did undone, and the others run again; a fault of the file fails them all.
func (l *Ledger) transact(b *batch) ([]*batch, error) {
	s, all := l.session, []*batch{b}
	s.now = l.clock.now()
	s.batch++
	out := make(map[*item]error, 0)
	for {
		err := s.begin.Exec()
		var bad *item
		s.forget()
		for i := 0; i < len(all) && err == nil; i++ {
			if bad, err = s.applyAll(all[i].items, out); err == nil && len(all) == 1 {
				if more := l.queue.board(b); more != nil {
					all = append(all, more)
				}
			}
		}
		if err == nil {
			err = s.commit.Exec()
			if err == nil {
				for it, verdict := range out {
					it.refused = verdict
				}
				l.health.Store(nil)
				return all, nil
			}
			bad = nil
		}
		if bad == nil || !ownFault(err) {
			l.broke(err)
			return all, err
		}
		switch {
		case errors.Is(err, errTaken) && bad.shift+1 < probes:
			bad.shift++
		case errors.Is(err, errRefused):
			out[bad.whole()] = bad.refused
		default:
			out[bad.whole()] = err
		}
		if err := s.rollback.Exec(); err != nil {
			l.broke(err)
			return all, err
		}
	}
}

// whole is the write that stands or falls with it.
func (it *item) whole() *item {
	if it.of != nil {
		return it.of
	}
	return it
}

// applyAll applies every item but those that are out, and names the one that failed.
func (s *session) applyAll(items []*item, out map[*item]error) (*item, error) {
	for _, it := range items {
		if len(out) > 0 {
			if _, is := out[it]; is {
				continue
			}
		}
		if err := s.apply(it); err != nil {
			return cmp.Or(s.culprit, it), err
		}
	}
	err := s.flush()
	return s.culprit, err
}

// ownFault tells an item that SQLite rejects from a file that does not work.
func ownFault(err error) bool {
	var native *sqlite3.Error
	if !errors.As(err, &native) {
		return !errors.Is(err, sqlite3.INTERRUPT)
	}
	switch native.Code() {
	case sqlite3.CONSTRAINT, sqlite3.TOOBIG, sqlite3.MISMATCH, sqlite3.RANGE:
		return true
	}
	return false
}

// broke closes the writer's connection. What the failed transaction wrote was cut off by the file layer; the
// sync is not tried again on this handle, whose pages the kernel may have thrown away.
func (l *Ledger) broke(err error) {
	err = fmt.Errorf("%s: %w", l.files.path, err)
	l.health.Store(&failure{err})
	l.cfg.Logger.Error("the store cannot be written; it is closed and opened again until that works",
		"error", err, "next_step", "look at the disk: space, cable, file system errors")
	if e := l.session.close(); e != nil {
		l.cfg.Logger.Error("closing the broken store", "error", e)
	}
	l.session = nil
}

// reopen opens the file anew, makes everything that it shows durable, and proves with a write of its own that
// the disk takes writes again.
func (l *Ledger) reopen() error {
	l.ckpt.drop()
	if err := l.regain(); err != nil {
		return err
	}
	l.files.heal()
	c, err := l.files.openWriter()
	if err != nil {
		return unavailable(err)
	}
	s, err := l.revive(c)
	if err != nil {
		return errors.Join(unavailable(fmt.Errorf("%s: opening again: %w", l.files.path, err)), c.Close())
	}
	if err := l.rewatch(); err != nil {
		return errors.Join(err, s.close())
	}
	l.session = s
	l.health.Store(nil)
	l.cfg.Logger.Info("the store works again", "path", l.files.path)
	return nil
}

func (l *Ledger) revive(c *sqlite3.Conn) (*session, error) {
	if err := walMode(c); err != nil {
		return nil, err
	}
	busy, err := settleLog(c)
	if err != nil {
		return nil, err
	}
	if busy {
		return nil, errors.New("a reader keeps the log from being folded into the store")
	}
	s, err := newSession(c)
	if err != nil {
		return nil, err
	}
	if err := l.saveStamp(s); err != nil {
		closeStatements(c)
		return nil, err
	}
	return s, nil
}

// saveStamp stores ledger time, so that it does not step back over a restart (semantics 11).
func (l *Ledger) saveStamp(s *session) error {
	return metaPut(s.conn, "stamp", l.clock.now().Format(time.RFC3339Nano))
}

// inWriter runs fn in the writer's next transaction and waits for it to be durable.
func (l *Ledger) inWriter(ctx context.Context, fn func(*session) error) error {
	if l.cfg.ReadOnly {
		return fmt.Errorf("%w: opened read-only", ledger.ErrUnavailable)
	}
	it := &item{size: 256}
	it.fn = fn
	done, err := l.queue.put(it, false)
	if err != nil {
		return err
	}
	select {
	case <-done:
		return it.err
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// startClock anchors ledger time at the later of the wall clock and every stamp that the store still shows.
func (l *Ledger) startClock(ctx context.Context) (*clock, error) {
	var last time.Time
	err := l.read.with(ctx, func(r *reader) error {
		text, err := metaText(r.conn, "stamp")
		if err != nil {
			return err
		}
		last, _ = time.Parse(time.RFC3339Nano, text) // absent in a new store
		for _, q := range []string{
			`SELECT created_at FROM intent ORDER BY seq DESC LIMIT 1`,
			`SELECT max(updated_at) FROM open`,
			`SELECT max(settled_at) FROM (SELECT settled_at FROM result ORDER BY seq DESC LIMIT 1000)`,
		} {
			us, err := scalar(r.conn, q)
			if err != nil {
				return err
			}
			if t := stored.FromMicros(us); t.After(last) {
				last = t
			}
		}
		return nil
	})
	return newClock(l.cfg, last), err
}
