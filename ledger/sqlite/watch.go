package sqlite

import (
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/ncruces/go-sqlite3"

	"github.com/holdfast-ai/holdfast/internal/mutant"
	"github.com/holdfast-ai/holdfast/ledger"
)

// watchEvery bounds how long commits may go to a file that nobody will find.
const watchEvery = time.Second

// errGone says that a file under the engine is not there any more, or is another one.
var errGone = errors.New("is no longer the file that this engine opened")

// watch knows the store's files as they were opened. On Unix a file that is deleted or moved goes on taking writes
// through the handles that are open, and whoever opens the store next finds none of them.
type watch struct {
	path string // of the database, links followed
	db   os.FileInfo
	log  os.FileInfo
	next time.Duration // monotonic time of the next look

	gone bool // the log or the lock was missed, and not every connection to it is closed yet
}

// remember takes down which files are open. The log exists as long as any connection does.
func (w *watch) remember(path string) error {
	w.path = resolved(path)
	var err error
	if w.db, err = os.Stat(w.path); err != nil {
		return err
	}
	w.log, err = os.Stat(w.path + "-wal")
	return err
}

func isStill(path string, was os.FileInfo) error {
	is, err := os.Stat(path)
	switch {
	case errors.Is(err, os.ErrNotExist) || err == nil && !os.SameFile(is, was):
		return fmt.Errorf("%s %w", path, errGone)
	case err != nil:
		return err
	}
	return nil
}

// lookAfterFiles refuses to commit once a file was deleted, moved or replaced. Memory and fault disks have none.
func (l *Ledger) lookAfterFiles() error {
	now := l.clock.mono()
	if l.watch == nil || now < l.watch.next || mutant.On("blind-to-deletion") {
		return nil
	}
	l.watch.next = now + watchEvery
	err := isStill(l.watch.path, l.watch.db)
	if err == nil {
		err = errors.Join(isStill(l.watch.path+"-wal", l.watch.log), l.lock.intact())
		if err != nil {
			l.rescue()
		}
	}
	if err != nil {
		l.watch.gone = true
		l.broke(err)
	}
	return err
}

// rescue copies what the log holds into the database, which is still in its place: through the open handle the log
// can be read although its name is gone.
func (l *Ledger) rescue() {
	if _, _, err := l.session.conn.WALCheckpoint("", sqlite3.CHECKPOINT_FULL); err != nil {
		l.cfg.Logger.Error("the log was deleted under the engine, and not all of it could be copied into the store",
			"path", l.files.path, "error", err, "next_step", "run `holdfast store verify`; compare with a backup")
	}
}

// regain makes sure that the files to be opened again are the store's, and that no connection still uses others.
func (l *Ledger) regain() error {
	if l.watch == nil || !l.watch.gone {
		return nil
	}
	if err := isStill(l.watch.path, l.watch.db); err != nil {
		return fmt.Errorf("%w: %w; put the store back, or stop the engine and start it on a restored one", ledger.ErrUnavailable, err)
	}
	l.read.drop()
	if err := l.lock.regain(l.cfg.Path); err != nil {
		return err
	}
	l.files.walEnd.Store(0)
	return nil
}

// rewatch begins to watch the files that were opened.
func (l *Ledger) rewatch() error {
	if l.lock == nil {
		return nil
	}
	w := &watch{}
	if err := w.remember(l.cfg.Path); err != nil {
		return unavailable(err)
	}
	l.watch = w
	return nil
}
