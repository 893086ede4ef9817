package sqlite

import (
	"errors"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"sync/atomic"

	"github.com/ncruces/go-sqlite3"
	"github.com/ncruces/go-sqlite3/vfs"

	"github.com/holdfast-ai/holdfast/internal/mutant"
)

// files is the file layer of one ledger. It adds three things to the disk beneath: files are private to their
// owner (semantics 45); what one commit appends to the write-ahead log goes out as one write; and after a failed
// write or sync of the log nothing is written or synced again until the handles were closed and reopened.
type files struct {
	name     string // under which SQLite knows this layer
	path     string // absolute
	base     vfs.VFS
	private  bool // files are the operating system's, to be created 0600
	gather   bool
	readOnly bool
	hook     func(point string)

	torn   int64 // bytes of an unfinished write that were found at start
	broken atomic.Pointer[failure]
	walEnd atomic.Int64 // length of the log as last written
}

func newFiles(cfg Config) (*files, error) {
	path, err := filepath.Abs(cfg.Path)
	if err != nil {
		return nil, fmt.Errorf("sqlite: %w", err)
	}
	f := &files{path: path, base: cfg.Disk, hook: cfg.Hook, readOnly: cfg.ReadOnly, gather: true}
	if f.base == nil {
		f.base, f.private = vfs.Find(""), true
	}
	if mutant.On("normal-sync") {
		f.gather = false // without a sync per commit nothing would mark its end
	}
	f.name = fmt.Sprintf("holdfast-%p", f)
	vfs.Register(f.name, f)
	return f, nil
}

func (f *files) close() { vfs.Unregister(f.name) }

// uri is the file's name for SQLite. The pragmas hold for every connection, the migrations' too: ncruces comes
// up with synchronous=NORMAL, under which a power cut loses acknowledged commits.
func (f *files) uri(pragmas ...string) string {
	q := url.Values{"vfs": {f.name}}
	for _, p := range append([]string{"busy_timeout(10000)", "trusted_schema(0)", "temp_store(2)"}, pragmas...) {
		q.Add("_pragma", p)
	}
	return (&url.URL{Scheme: "file", OmitHost: true, Path: filepath.ToSlash(f.path), RawQuery: q.Encode()}).String()
}

func (f *files) openWriter() (*sqlite3.Conn, error) {
	// The writer's cache holds the claims that are looked up at random and the right edge of every tree. With 400,000 live
	// claims more of it saves no measurable time, for what is beyond comes from the kernel's; all of it is this process's memory.
	sync := "synchronous(FULL)"
	if mutant.On("normal-sync") {
		sync = "synchronous(NORMAL)"
	}
	return sqlite3.OpenFlags(f.uri(sync, "wal_autocheckpoint(0)", "cache_size(-6000)"),
		sqlite3.OPEN_READWRITE|sqlite3.OPEN_CREATE|sqlite3.OPEN_URI)
}

func (f *files) openReader() (*sqlite3.Conn, error) {
	return sqlite3.OpenFlags(f.uri("query_only(1)", "cache_size(-2000)"), sqlite3.OPEN_READONLY|sqlite3.OPEN_URI)
}

// heal forgets a failure; the handles that suffered it must be closed.
func (f *files) heal() { f.broken.Store(nil) }

// touch creates a file with mode 0600 before SQLite does with a wider one, and narrows an old one.
func (f *files) touch(name string) error {
	if !f.private {
		return nil
	}
	h, err := os.OpenFile(name, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return err
	}
	defer h.Close()
	if st, err := h.Stat(); err == nil && st.Mode().Perm()&0o077 != 0 {
		return h.Chmod(0o600)
	}
	return nil
}

// OpenFilename implements vfs.VFSFilename.
func (f *files) OpenFilename(name *vfs.Filename, flags vfs.OpenFlag) (vfs.File, vfs.OpenFlag, error) {
	const log = vfs.OPEN_WAL | vfs.OPEN_MAIN_DB | vfs.OPEN_MAIN_JOURNAL
	if path := name.String(); path != "" && flags&log != 0 && !f.readOnly {
		names := []string{path}
		if flags&vfs.OPEN_MAIN_DB != 0 {
			names = append(names, path+"-shm")
		}
		for _, n := range names {
			if err := f.touch(n); err != nil && flags&vfs.OPEN_CREATE != 0 {
				return nil, flags, vfs.SystemError(err, sqlite3.CANTOPEN)
			}
		}
	}
	file, flags, err := f.open(name, flags)
	if err != nil || flags&vfs.OPEN_WAL == 0 {
		return file, flags, err
	}
	return &walFile{File: file, files: f, dirty: -1}, flags, nil
}

func (f *files) open(name *vfs.Filename, flags vfs.OpenFlag) (vfs.File, vfs.OpenFlag, error) {
	if b, ok := f.base.(vfs.VFSFilename); ok {
		return b.OpenFilename(name, flags)
	}
	return f.base.Open(name.String(), flags)
}

// Open implements vfs.VFS; SQLite uses OpenFilename.
func (f *files) Open(name string, flags vfs.OpenFlag) (vfs.File, vfs.OpenFlag, error) {
	return f.base.Open(name, flags)
}

// Delete implements vfs.VFS.
func (f *files) Delete(name string, syncDir bool) error { return f.base.Delete(name, syncDir) }

// Access implements vfs.VFS.
func (f *files) Access(name string, flags vfs.AccessFlag) (bool, error) {
	return f.base.Access(name, flags)
}

// FullPathname implements vfs.VFS.
func (f *files) FullPathname(name string) (string, error) { return f.base.FullPathname(name) }

const (
	// walGather bounds what a handle holds back; a longer commit goes out in several writes.
	walGather = 1 << 20
	// walStep is how far ahead of small commits the log is filled with zeros, in whole frames. A sync inside a
	// file that has its length and its blocks already waits for no journal of the file system.
	walStep = 256 * frame
)

// walFile is a handle on the write-ahead log. SQLite writes a frame in two pieces and a commit in many frames;
// they are gathered and written when SQLite syncs, which it does before any other connection may look at them.
type walFile struct {
	vfs.File
	files *files
	buf   []byte // bytes at off, not written yet
	off   int64
	dirty int64 // start of what was written since the last successful sync, -1 for none
	size  int64 // of the file as this handle knows it, 0 before its first write
}

var errBroken = errors.New("the log is not written to again until it was reopened")

func (w *walFile) WriteAt(p []byte, off int64) (int, error) {
	if w.files.broken.Load() != nil {
		return 0, vfs.SystemError(errBroken, sqlite3.IOERR_WRITE)
	}
	if len(w.buf) > 0 && off != w.off+int64(len(w.buf)) || len(w.buf)+len(p) > walGather {
		if err := w.flush(); err != nil {
			return 0, err
		}
	}
	if len(w.buf) == 0 {
		w.off = off
	}
	w.buf = append(w.buf, p...)
	if !w.files.gather {
		return len(p), w.flush()
	}
	return len(p), nil
}

// flush writes what was gathered as one write.
func (w *walFile) flush() error {
	if len(w.buf) == 0 {
		return nil
	}
	if w.dirty < 0 || w.off < w.dirty {
		w.dirty = w.off
	}
	w.files.hook("commit.write")
	_, err := w.File.WriteAt(w.buf, w.off)
	end := w.off + int64(len(w.buf))
	w.files.walEnd.Store(end)
	if err != nil {
		w.fail(err)
		return err
	}
	if len(w.buf) < walStep/4 {
		w.growAhead(end)
	}
	w.size = max(w.size, end)
	w.buf = w.buf[:0]
	return nil
}

// growAhead fills the log with zeros behind a commit that reached its end. Zeros are no frames: SQLite stops at
// them, as it does at what an earlier round of the log left. A disk that does not take them takes the commits.
func (w *walFile) growAhead(end int64) {
	if w.size == 0 {
		w.size, _ = w.File.Size()
	}
	if end < w.size || end < walHeader+frame || !w.files.gather {
		return
	}
	to := walHeader + (end-walHeader+walStep)/frame*frame
	for zeros := make([]byte, 16*frame); end < to; {
		n, err := w.File.WriteAt(zeros[:min(int64(len(zeros)), to-end)], end)
		if err != nil {
			return
		}
		end += int64(n)
		w.size = end
	}
}

// fail closes the log to writing and cuts off what was not synced. The kernel may have dropped the pages of a
// failed sync yet still show them; a recovery that read them would build on bytes that are not there.
func (w *walFile) fail(err error) {
	if w.files.broken.CompareAndSwap(nil, &failure{err}) && w.dirty >= 0 {
		_ = w.File.Truncate(w.dirty)
	}
	w.buf = w.buf[:0]
}

func (w *walFile) Sync(flags vfs.SyncFlag) error {
	if w.files.broken.Load() != nil {
		return vfs.SystemError(errBroken, sqlite3.IOERR_FSYNC)
	}
	if err := w.flush(); err != nil {
		return err
	}
	hook := w.files.hook
	if w.dirty < 0 {
		hook = func(string) {} // a checkpoint's sync, which belongs to no commit
	}
	hook("commit.sync")
	err := w.File.Sync(flags)
	if err != nil && mutant.On("retry-sync") {
		err = w.File.Sync(flags)
	}
	if err != nil {
		w.fail(err)
		return err
	}
	w.dirty = -1
	hook("commit.synced")
	return nil
}

func (w *walFile) ReadAt(p []byte, off int64) (int, error) {
	if err := w.flush(); err != nil {
		return 0, err
	}
	return w.File.ReadAt(p, off)
}

func (w *walFile) Size() (int64, error) {
	if err := w.flush(); err != nil {
		return 0, err
	}
	return w.File.Size()
}

func (w *walFile) Truncate(size int64) error {
	if err := w.flush(); err != nil {
		return err
	}
	if size < w.files.walEnd.Load() {
		w.files.walEnd.Store(size)
	}
	w.size = size
	return w.File.Truncate(size)
}

func (w *walFile) Close() error {
	if w.files.broken.Load() == nil {
		_ = w.flush()
	}
	return w.File.Close()
}
