package faultdisk

import (
	"errors"
	"io"
	"math/rand/v2"
	"slices"
	"syscall"

	"github.com/ncruces/go-sqlite3"
	"github.com/ncruces/go-sqlite3/vfs"
)

// change is a write, or a truncation when data is nil.
type change struct {
	off  int64
	data []byte
}

func (c change) apply(to []byte) []byte {
	if c.data == nil {
		return resize(to, c.off)
	}
	if end := c.off + int64(len(c.data)); end > int64(len(to)) {
		to = resize(to, end)
	}
	copy(to[c.off:], c.data)
	return to
}

func resize(b []byte, size int64) []byte {
	if size <= int64(len(b)) {
		return b[:size:size]
	}
	if size <= int64(cap(b)) {
		return b[:size]
	}
	bigger := make([]byte, size, max(size, 2*int64(cap(b)))) // a log grows by many small steps
	copy(bigger, b)
	return bigger
}

// file is what the disk knows of one file.
type file struct {
	name  string
	now   []byte   // what is read
	safe  []byte   // what survives a power cut for certain
	dirty []change // what was done since the last sync
	locks locks
}

// cut decides for each change since the last sync what of it reached the disk.
func (f *file) cut(rng *rand.Rand) {
	for _, c := range f.dirty {
		switch rng.IntN(3) {
		case 0: // nothing
		case 1:
			f.safe = c.apply(f.safe)
		default:
			f.safe = tear(c, f.safe, rng)
		}
	}
	f.now, f.dirty = slices.Clone(f.safe), nil
}

// tear applies a random choice of the sectors that c covers.
func tear(c change, to []byte, rng *rand.Rand) []byte {
	if c.data == nil {
		return to
	}
	for at := int64(0); at < int64(len(c.data)); {
		end := min((c.off+at)/Sector*Sector+Sector-c.off, int64(len(c.data)))
		if rng.IntN(2) == 0 {
			to = change{c.off + at, c.data[at:end]}.apply(to)
		}
		at = end
	}
	return to
}

// handle is one open file.
type handle struct {
	disk *Disk
	file *file
	boot int
	shm  vfs.SharedMemory
	lock vfs.LockLevel
}

var (
	_ vfs.FileSharedMemory = (*handle)(nil)
	_ vfs.FileLockState    = (*handle)(nil)
)

// dead says that the power went away since the handle was opened; disk.mu is held.
func (h *handle) dead() bool { return h.disk.off || h.disk.boot != h.boot }

// native gives a fault the code that the operating system's layer would give it.
func native(err error, code sqlite3.ExtendedErrorCode) error {
	if errors.Is(err, syscall.ENOSPC) {
		return vfs.SystemError(err, sqlite3.FULL)
	}
	return vfs.SystemError(err, code)
}

func (h *handle) ask(kind Kind, off int64, n int) error {
	return h.disk.ask(Op{Kind: kind, File: baseName(h.file.name), Off: off, Len: n})
}

func (h *handle) ReadAt(p []byte, off int64) (int, error) {
	if err := h.ask(Read, off, len(p)); err != nil {
		return 0, native(err, sqlite3.IOERR_READ)
	}
	h.disk.mu.Lock()
	defer h.disk.mu.Unlock()
	if h.dead() {
		return 0, sqlite3.IOERR_READ
	}
	if off >= int64(len(h.file.now)) {
		return 0, io.EOF
	}
	n := copy(p, h.file.now[off:])
	if n < len(p) {
		return n, io.EOF
	}
	return n, nil
}

// WriteAt writes, or on a fault writes the first half: a disk that is full takes what still fits.
func (h *handle) WriteAt(p []byte, off int64) (int, error) {
	fault := h.ask(Write, off, len(p))
	h.disk.mu.Lock()
	defer h.disk.mu.Unlock()
	if h.dead() {
		return 0, sqlite3.IOERR_WRITE
	}
	n := len(p)
	if fault != nil {
		n /= 2
	}
	c := change{off, append([]byte{}, p[:n]...)}
	h.file.now = c.apply(h.file.now)
	h.file.dirty = append(h.file.dirty, c)
	if fault != nil {
		return n, native(fault, sqlite3.IOERR_WRITE)
	}
	return n, nil
}

func (h *handle) Truncate(size int64) error {
	fault := h.ask(Truncate, size, 0)
	h.disk.mu.Lock()
	defer h.disk.mu.Unlock()
	if fault != nil || h.dead() {
		return sqlite3.IOERR_TRUNCATE
	}
	c := change{off: size}
	h.file.now = c.apply(h.file.now)
	h.file.dirty = append(h.file.dirty, c)
	return nil
}

func (h *handle) Sync(vfs.SyncFlag) error {
	h.disk.mu.Lock()
	upTo := len(h.file.dirty)
	h.disk.mu.Unlock()
	fault := h.ask(Sync, 0, 0)
	h.disk.mu.Lock()
	defer h.disk.mu.Unlock()
	if h.dead() {
		return sqlite3.IOERR_FSYNC
	}
	upTo = min(upTo, len(h.file.dirty))
	for _, c := range h.file.dirty[:upTo] {
		if fault == nil {
			h.file.safe = c.apply(h.file.safe)
		}
	}
	h.file.dirty = slices.Clone(h.file.dirty[upTo:])
	if fault != nil {
		return native(fault, sqlite3.IOERR_FSYNC)
	}
	return nil
}

func (h *handle) Size() (int64, error) {
	h.disk.mu.Lock()
	defer h.disk.mu.Unlock()
	if h.dead() {
		return 0, sqlite3.IOERR_FSTAT
	}
	return int64(len(h.file.now)), nil
}

func (h *handle) Close() error {
	if h.shm != nil {
		h.shm.Close()
	}
	return h.Unlock(vfs.LOCK_NONE)
}

func (h *handle) SectorSize() int { return Sector }

// DeviceCharacteristics promises what the operating system's layer does, and no more.
func (h *handle) DeviceCharacteristics() vfs.DeviceCharacteristic {
	return vfs.IOCAP_POWERSAFE_OVERWRITE | vfs.IOCAP_SUBPAGE_READ
}

func (h *handle) SharedMemory() vfs.SharedMemory { return h.shm }
