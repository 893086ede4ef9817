// Package faultdisk is a disk in memory that forgets what was not synced, tears what it was writing, fails and
// stalls on command: a file layer for tests of what sqlite promises.
package faultdisk

import (
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"sync"

	"github.com/ncruces/go-sqlite3"
	"github.com/ncruces/go-sqlite3/vfs"
)

// Sector is the unit that a power cut writes whole or not at all.
const Sector = 512

// Kind is what an operation does.
type Kind string

// The operations that can fail.
const (
	Open     Kind = "open"
	Read     Kind = "read"
	Write    Kind = "write"
	Sync     Kind = "sync"
	Truncate Kind = "truncate"
)

// Op is one operation on one file, as the fault hook sees it.
type Op struct {
	Kind Kind
	File string // base name
	Off  int64
	Len  int
}

// Disk holds files. It implements vfs.VFS; the shared memory of SQLite's log lives in real files, which a power
// cut leaves behind and the next boot does not look at.
type Disk struct {
	shmDir string

	mu    sync.Mutex
	files map[string]*file
	boot  int
	off   bool
	fault func(Op) error
}

var _ vfs.VFS = (*Disk)(nil)

// New returns an empty disk that is switched on. Its shared memory goes to dir, a temporary folder.
func New(dir string) *Disk { return &Disk{shmDir: dir, files: map[string]*file{}} }

// Clone returns a copy of a disk on which nothing is open.
func (d *Disk) Clone(dir string) *Disk {
	d.mu.Lock()
	defer d.mu.Unlock()
	c := New(dir)
	for name, f := range d.files {
		c.files[name] = &file{name: name, now: slices.Clone(f.now), safe: slices.Clone(f.safe), dirty: slices.Clone(f.dirty)}
	}
	return c
}

// SetFault installs a hook that is asked before every operation and may block or fail it; nil removes it. A sync
// that fails leaves what it should have written readable, and forgets to write it ever after: so do kernels.
func (d *Disk) SetFault(hook func(Op) error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.fault = hook
}

// Cut takes the power away: every handle is dead, and of what was not synced each sector survives or does not.
func (d *Disk) Cut(rng *rand.Rand) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.off {
		return
	}
	d.off = true
	for _, f := range d.files {
		f.cut(rng)
	}
}

// Boot switches the disk on again.
func (d *Disk) Boot() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.off = false
	d.boot++
	d.fault = nil
	for _, f := range d.files {
		f.locks = locks{}
	}
}

// Corrupt changes the content of a file beneath everybody, and makes that durable.
func (d *Disk) Corrupt(name string, change func(content []byte) []byte) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if f := d.files[name]; f != nil {
		f.now = change(slices.Clone(f.now))
		f.safe, f.dirty = slices.Clone(f.now), nil
	}
}

// Content returns a copy of what a file shows.
func (d *Disk) Content(name string) []byte {
	d.mu.Lock()
	defer d.mu.Unlock()
	if f := d.files[name]; f != nil {
		return slices.Clone(f.now)
	}
	return nil
}

// ask lets the hook decide about op; d.mu is not held, so that a stalled sync stalls only its caller.
func (d *Disk) ask(op Op) error {
	d.mu.Lock()
	hook, off := d.fault, d.off
	d.mu.Unlock()
	if off {
		return sqlite3.IOERR
	}
	if hook == nil {
		return nil
	}
	return hook(op)
}

// Open implements vfs.VFS.
func (d *Disk) Open(name string, flags vfs.OpenFlag) (vfs.File, vfs.OpenFlag, error) {
	if err := d.ask(Op{Kind: Open, File: filepath.Base(name)}); err != nil {
		return nil, flags, vfs.SystemError(err, sqlite3.CANTOPEN)
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	f := d.files[name]
	if f == nil {
		if flags&vfs.OPEN_CREATE == 0 {
			return nil, flags, sqlite3.CANTOPEN
		}
		f = &file{name: name}
		d.files[name] = f
	}
	h := &handle{disk: d, file: f, boot: d.boot}
	if flags&vfs.OPEN_MAIN_DB != 0 {
		shm := filepath.Join(d.shmDir, fmt.Sprintf("%s-%d-shm", filepath.Base(name), d.boot))
		h.shm = vfs.NewSharedMemory(shm, flags)
	}
	return h, flags, nil
}

// Delete implements vfs.VFS.
func (d *Disk) Delete(name string, _ bool) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	switch {
	case d.off:
		return sqlite3.IOERR_DELETE
	case d.files[name] == nil:
		return sqlite3.IOERR_DELETE_NOENT
	}
	delete(d.files, name)
	return nil
}

// Access implements vfs.VFS.
func (d *Disk) Access(name string, _ vfs.AccessFlag) (bool, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.files[name] != nil, nil
}

// FullPathname implements vfs.VFS.
func (d *Disk) FullPathname(name string) (string, error) { return name, nil }

// Kill ends every handle as the death of its process does: what was written is there, synced or not.
func (d *Disk) Kill() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.off = true
}
