package sqlite

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/holdfast-ai/holdfast/ledger"
)

// engineLock keeps a second engine from a store: an operating system's lock on a file of its own beside it. The
// file stays behind, because removing it would let two engines lock two files of one name.
type engineLock struct{ f *os.File }

// LockPath is the file whose lock the engine of the store at path holds. It stands beside the file itself, as the
// log does, whatever links lead there: two names of one store are one engine's.
func LockPath(path string) string { return resolved(path) + ".lock" }

// resolved follows links. SQLite opens none that leads to a file which is yet to be made.
func resolved(path string) string {
	if real, err := filepath.EvalSymlinks(path); err == nil {
		return real
	}
	if folder, err := filepath.EvalSymlinks(filepath.Dir(path)); err == nil {
		return filepath.Join(folder, filepath.Base(path))
	}
	return path
}

func lockEngine(path string) (*engineLock, error) {
	if n := links(resolved(path)); n > 1 {
		return nil, fmt.Errorf("%w: %s has %d names (hard links), and each would have a log and a lock of its own; remove all names but one",
			ledger.ErrLocked, path, n)
	}
	f, err := os.OpenFile(LockPath(path), os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, fmt.Errorf("%w: cannot open the engine's lock: %w; make the folder of %s exist and writable",
			ledger.ErrUnavailable, err, path)
	}
	ok, err := tryLock(f)
	if err != nil {
		f.Close()
		return nil, fmt.Errorf("%w: cannot lock %s: %w; the store needs a file system with locks",
			ledger.ErrUnavailable, f.Name(), err)
	}
	if !ok {
		holder := lockHolder(f)
		f.Close()
		return nil, fmt.Errorf("%w: %s is in use by %s; stop it, give this one another store, or use a command that "+
			"attaches to the running engine", ledger.ErrLocked, path, holder)
	}
	if err := f.Truncate(0); err == nil {
		_, _ = f.WriteAt([]byte(strconv.Itoa(os.Getpid())+"\n"), 0)
	}
	return &engineLock{f}, nil
}

// lockHolder names the process that wrote itself into a held lock file.
func lockHolder(f *os.File) string {
	text, _ := io.ReadAll(io.LimitReader(f, 32))
	if pid := strings.TrimSpace(string(text)); pid != "" {
		return "process " + pid
	}
	return "another process"
}

func (e *engineLock) release() error { return e.f.Close() }

// intact says that a second engine would still meet this lock.
func (e *engineLock) intact() error {
	mine, err := e.f.Stat()
	if err != nil {
		return err
	}
	return isStill(e.f.Name(), mine)
}

// regain locks the file anew if it is not the one that is held. Another engine may have come in between.
func (e *engineLock) regain(path string) error {
	if e.intact() == nil {
		return nil
	}
	fresh, err := lockEngine(path)
	if err != nil {
		return err
	}
	old := e.f
	e.f = fresh.f
	return old.Close()
}
