package sqlite

import (
	"errors"
	"os"

	"golang.org/x/sys/windows"
)

// tryLock takes an exclusive lock on f that ends with the process or f's close. It covers a byte far behind the
// content, because a lock there would keep others from reading who holds it.
func tryLock(f *os.File) (ok bool, err error) {
	at := &windows.Overlapped{OffsetHigh: 1}
	err = windows.LockFileEx(windows.Handle(f.Fd()),
		windows.LOCKFILE_EXCLUSIVE_LOCK|windows.LOCKFILE_FAIL_IMMEDIATELY, 0, 1, 0, at)
	if errors.Is(err, windows.ERROR_LOCK_VIOLATION) {
		return false, nil
	}
	return err == nil, err
}

// links is not asked on Windows, where hard links to a store are hardly made by accident.
func links(string) uint64 { return 0 }
