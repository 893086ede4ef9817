package sqlite

import (
	"os"
	"time"

	"golang.org/x/sys/unix"
)

// datasync is the sync that SQLite uses, so that the reference row pays what the ledger pays.
func datasync(f *os.File) error { return unix.Fdatasync(int(f.Fd())) }

// cpuTime is what this process has used so far: on a shared machine it says more than the wall clock.
func cpuTime() time.Duration {
	var u unix.Rusage
	_ = unix.Getrusage(unix.RUSAGE_SELF, &u)
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
