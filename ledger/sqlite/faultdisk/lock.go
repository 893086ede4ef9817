package faultdisk

import (
	"path/filepath"

	"github.com/ncruces/go-sqlite3"
	"github.com/ncruces/go-sqlite3/vfs"
)

func baseName(name string) string { return filepath.Base(name) }

// locks are SQLite's locks on one file.
type locks struct {
	shared   int
	reserved bool
	pending  bool
}

// Lock implements vfs.File, by the rules of sqlite.org/lockingv3.html.
func (h *handle) Lock(to vfs.LockLevel) error {
	h.disk.mu.Lock()
	defer h.disk.mu.Unlock()
	if h.lock >= to {
		return nil
	}
	l := &h.file.locks
	switch to {
	case vfs.LOCK_SHARED:
		if l.pending {
			return sqlite3.BUSY
		}
		l.shared++
	case vfs.LOCK_RESERVED:
		if l.reserved {
			return sqlite3.BUSY
		}
		l.reserved = true
	case vfs.LOCK_EXCLUSIVE:
		if l.pending && h.lock < vfs.LOCK_PENDING || l.reserved && h.lock < vfs.LOCK_RESERVED {
			return sqlite3.BUSY
		}
		l.reserved, l.pending = true, true
		h.lock = vfs.LOCK_PENDING
		if l.shared > 1 {
			return sqlite3.BUSY
		}
	}
	h.lock = to
	return nil
}

// Unlock implements vfs.File.
func (h *handle) Unlock(to vfs.LockLevel) error {
	h.disk.mu.Lock()
	defer h.disk.mu.Unlock()
	if h.lock <= to || h.disk.boot != h.boot {
		return nil
	}
	l := &h.file.locks
	if h.lock >= vfs.LOCK_RESERVED {
		l.reserved = false
	}
	if h.lock >= vfs.LOCK_PENDING {
		l.pending = false
	}
	if to < vfs.LOCK_SHARED {
		l.shared--
	}
	h.lock = to
	return nil
}

// CheckReservedLock implements vfs.File.
func (h *handle) CheckReservedLock() (bool, error) {
	h.disk.mu.Lock()
	defer h.disk.mu.Unlock()
	return h.file.locks.reserved, nil
}

// LockState implements vfs.FileLockState.
func (h *handle) LockState() vfs.LockLevel { return h.lock }
