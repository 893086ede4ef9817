package sqlite

import (
	"errors"
	"sync"

	"github.com/ncruces/go-sqlite3"
)

// frame is the length of one page in the log: a header of 24 bytes and the page.
const frame = 24 + 4096

// checkpointer copies the log back into the database on a connection of its own, so that no commit waits for it.
type checkpointer struct {
	mu   sync.Mutex
	conn *sqlite3.Conn

	told int64 // length of the log at the last notice; the writer's
}

// noticeLog asks for a checkpoint when the log has grown by another share, and waits for it when steady traffic
// has kept the log from ever being copied whole. The waiters of the last batch have been told already.
func (l *Ledger) noticeLog() {
	pages, share := l.files.walEnd.Load()/frame, int64(l.cfg.CheckpointPages)
	if pages < l.ckpt.told {
		l.ckpt.told = 0
	}
	if pages < l.ckpt.told+share || l.session == nil {
		return
	}
	l.ckpt.told = pages
	if pages >= checkpointPatience*share {
		l.ckpt.told = 0
		l.runCheckpoint()
		return
	}
	select {
	case l.checkpoint <- struct{}{}:
	default:
	}
}

// checkpoints is the worker that copies the log back.
func (l *Ledger) checkpoints() {
	defer l.ckpt.drop()
	for {
		select {
		case <-l.checkpoint:
			l.runCheckpoint()
		case <-l.stop:
			return
		}
	}
}

func (l *Ledger) runCheckpoint() {
	l.ckpt.mu.Lock()
	defer l.ckpt.mu.Unlock()
	if l.files.broken.Load() != nil {
		return
	}
	if l.ckpt.conn == nil {
		c, err := l.files.openWriter()
		if err != nil {
			l.cfg.Logger.Warn("cannot open the store to copy its log back", "error", err)
			return
		}
		l.ckpt.conn = c
	}
	// Passive: it waits for nobody. A failure loses nothing, because the log keeps what was not copied and the
	// next run copies it again from the start.
	_, _, err := l.ckpt.conn.WALCheckpoint("", sqlite3.CHECKPOINT_PASSIVE)
	if err != nil && !errors.Is(err, sqlite3.BUSY) {
		l.cfg.Logger.Warn("copying the log back failed; it grows until that works", "error", err)
		l.ckpt.close()
	}
}

// drop closes the connection; the next run opens another.
func (c *checkpointer) drop() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.close()
}

func (c *checkpointer) close() {
	if c.conn != nil {
		_ = c.conn.Close()
		c.conn = nil
	}
}
