package sqlite

import (
	"bytes"
	"errors"
	"io"
	"os"

	"github.com/ncruces/go-sqlite3/vfs"
)

// The write-ahead log's layout (sqlite.org/fileformat2.html#the_write_ahead_log): a header of 32 bytes, then
// frames of a 24-byte head and a page. Header and frames of one round of the log carry the same two salts.
const (
	walHeader   = 32
	walSaltAt   = 16
	frameSaltAt = 8
)

// logReader is the log, read beside SQLite's own handles.
type logReader interface {
	io.ReaderAt
	io.Closer
}

// tornBytes counts what stands in the log behind its last valid frame and belongs to the same round: a write that
// was under way when the machine stopped. It was never acknowledged and SQLite does not read it; the operator is
// told how much it was (BR-076). What an earlier round left behind does not count, nor the zeros ahead of the log.
func (f *files) tornBytes(validFrames int) int64 {
	log, size := f.openLog()
	if log == nil {
		return 0
	}
	defer log.Close()
	var salt, got [8]byte
	if _, err := log.ReadAt(salt[:], walSaltAt); err != nil {
		return 0
	}
	start := walHeader + int64(max(validFrames, 0))*frame
	end := start
	for at := start; at < size; at += frame {
		// Of a torn write any sector may be missing, the first too: what follows it tells.
		n, err := log.ReadAt(got[:], at+frameSaltAt)
		if err != nil && !errors.Is(err, io.EOF) {
			break
		}
		if bytes.HasPrefix(salt[:], got[:n]) {
			end = min(at+frame, size)
		}
	}
	return end - start
}

func (f *files) openLog() (logReader, int64) {
	if f.private {
		h, err := os.Open(f.path + "-wal")
		if err != nil {
			return nil, 0
		}
		st, err := h.Stat()
		if err != nil {
			h.Close()
			return nil, 0
		}
		return h, st.Size()
	}
	h, _, err := f.base.Open(f.path+"-wal", vfs.OPEN_READONLY|vfs.OPEN_WAL)
	if err != nil {
		return nil, 0
	}
	size, _ := h.Size()
	return h, size
}
