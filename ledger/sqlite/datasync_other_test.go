//go:build !linux

package sqlite

import (
	"os"
	"time"
)

// datasync is the sync that SQLite uses, so that the reference row pays what the ledger pays.
func datasync(f *os.File) error { return f.Sync() }

// cpuTime is not measured here.
func cpuTime() time.Duration { return 0 }
