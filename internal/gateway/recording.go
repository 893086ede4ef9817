package gateway

import (
	"bytes"
	"context"
	"net/http"
	"sync"

	"github.com/holdfast-ai/holdfast/internal/budget"
)

// Sizes of recording blocks: most answers fit the first, streams of megabytes take few of the second.
const (
	smallBlock = 4 << 10
	largeBlock = 32 << 10
	// dropWindow is how far the upstream may run ahead of the slowest client once nothing is kept.
	dropWindow = 1 << 20
)

var (
	smallBlocks = sync.Pool{New: func() any { return new([smallBlock]byte) }}
	largeBlocks = sync.Pool{New: func() any { return new([largeBlock]byte) }}
)

// head is what an answer begins with.
type head struct {
	status int
	header http.Header
	stream bool // forwarded as it comes; else whole, with its length

	failed     bool // an error in the provider's own words
	unknown    bool // … whose effect may have happened
	unrecorded bool // the answer was too large to keep
	pending    bool // complete, not yet durable
}

// ending is how a recording ended for the clients that read it.
type ending struct {
	fail   *Error // nothing was visible: answer this instead
	tail   []byte // bytes of ours behind the visible ones: one structured error
	abort  bool   // the format has no way to say it: break the connection, never end it cleanly (semantics 24)
	reveal *head  // the provider's own error, whole in the recording: shown once it is on record
	whole  bool   // all of the recording is visible with it: its last bytes and its end are one
	again  bool   // another execution holds the key: look it up again
}

// recording is one answer as it comes in. One writer appends; any number of clients read, each at its own
// pace, so that a slow client holds up neither the upstream nor the others. Bytes become readable when the
// writer says so: that is how status, head and lead-in are held before the boundary, half an event never
// leaves, and the completing event waits for durability.
type recording struct {
	mem *budget.Bytes

	mu      sync.Mutex
	head    *head
	blocks  [][]byte
	size    int64
	visible int64
	kept    int64 // bytes of mem that the blocks hold
	end     *ending
	unsaved bool // complete, not yet durable
	dropped bool // nothing is kept behind the slowest client
	first   int  // first block still held
	cursors []*cursor
	room    chan struct{} // the writer waits here while dropped
}

func newRecording(mem *budget.Bytes) *recording {
	return &recording{mem: mem, room: make(chan struct{}, 1)}
}

// space returns a place to read the next bytes into. ok is false when no memory is left for a further block.
func (r *recording) space() (p []byte, ok bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if n := len(r.blocks); n > 0 {
		if b := r.blocks[n-1]; len(b) < cap(b) {
			return b[len(b):cap(b)], true
		}
	}
	var block []byte
	if len(r.blocks) == 0 {
		block = smallBlocks.Get().(*[smallBlock]byte)[:0]
	} else {
		block = largeBlocks.Get().(*[largeBlock]byte)[:0]
	}
	ok = r.mem.Take(cap(block))
	if !ok && !r.dropped {
		putBlock(block)
		return nil, false
	}
	if ok {
		r.kept += int64(cap(block))
	}
	r.blocks = append(r.blocks, block)
	return block[:cap(block)], true
}

// wrote says that n bytes were read into the last space.
func (r *recording) wrote(n int) {
	r.mu.Lock()
	last := len(r.blocks) - 1
	r.blocks[last] = r.blocks[last][:len(r.blocks[last])+n]
	r.size += int64(n)
	r.mu.Unlock()
}

// open lets clients have the head. Only the first call counts.
func (r *recording) open(h *head) {
	r.mu.Lock()
	if r.head == nil {
		r.head = h
		r.wake()
	}
	r.mu.Unlock()
}

// replace puts body in the place of what was recorded, before any of it is visible.
func (r *recording) replace(body []byte) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.size == int64(len(body)) && len(r.blocks) == 1 {
		copy(r.blocks[0], body)
		return
	}
	for _, b := range r.blocks {
		putBlock(b)
	}
	// Counted without asking for room: it is here already, and what comes next is refused for it.
	r.mem.Hold(len(body) - int(r.kept))
	// A copy: blocks of the pools' sizes go back there, while body may be kept for replay.
	r.blocks, r.size, r.kept = [][]byte{bytes.Clone(body)}, int64(len(body)), int64(len(body))
}

// reset forgets what an attempt brought. Nobody has read any of it: nothing was visible.
func (r *recording) reset() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.mem.Give(int(r.kept))
	for _, b := range r.blocks {
		putBlock(b)
	}
	r.blocks, r.kept, r.size = nil, 0, 0
}

// pending says, in a trailer, that the answer is not yet durable.
func (r *recording) pending(p bool) {
	r.mu.Lock()
	r.unsaved = p
	r.mu.Unlock()
}

func (r *recording) isPending() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.unsaved
}

// length is the number of bytes of a whole answer.
func (r *recording) length() int64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.size
}

func (r *recording) visibleTo() int64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.visible
}

// shown says that a client may have seen a byte of the answer.
func (r *recording) shown() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.visible > 0
}

// show lets clients read up to offset to; it never takes back.
func (r *recording) show(to int64) {
	r.mu.Lock()
	if to > r.visible {
		r.visible = to
		r.wake()
	}
	r.mu.Unlock()
}

// showLast is show for a stream's last event, unless the stream has ended meanwhile.
func (r *recording) showLast(to int64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if to > r.visible && r.end == nil {
		r.visible = to
		r.wake()
	}
}

// cut forgets what stands behind offset to, which nobody may read yet.
func (r *recording) cut(to int64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for i := len(r.blocks) - 1; r.size > to; i-- {
		n := min(int64(len(r.blocks[i])), r.size-to)
		r.blocks[i] = r.blocks[i][:int64(len(r.blocks[i]))-n]
		r.size -= n
	}
}

// finish ends the recording. Only the first call counts.
func (r *recording) finish(e ending) {
	r.mu.Lock()
	if r.end == nil {
		if r.end = &e; e.whole {
			r.visible = r.size
		}
		r.wake()
	}
	r.mu.Unlock()
}

// drop stops keeping what every client has read: the answer is forwarded whole, but not replayed.
func (r *recording) drop() {
	r.mu.Lock()
	r.dropped = true
	r.mu.Unlock()
}

// waitRoom holds the writer of a dropped recording back until the slowest client is near.
func (r *recording) waitRoom(ctx context.Context) error {
	for {
		r.mu.Lock()
		wait := r.dropped && r.visible-r.release() > dropWindow
		r.mu.Unlock()
		if !wait {
			return nil
		}
		select {
		case <-r.room:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// release frees the blocks behind the slowest client and returns its position. r.mu is held.
func (r *recording) release() int64 {
	slowest, block := r.visible, len(r.blocks)
	for _, c := range r.cursors {
		slowest, block = min(slowest, c.pos), min(block, c.block)
	}
	for ; r.first < block && r.first < len(r.blocks)-1; r.first++ {
		n := cap(r.blocks[r.first])
		r.blocks[r.first] = nil // not pooled: a client may still be writing from it
		n = min(n, int(r.kept))
		r.kept -= int64(n)
		r.mem.Give(n)
	}
	return slowest
}

func (r *recording) wake() {
	for _, c := range r.cursors {
		select {
		case c.news <- struct{}{}:
		default:
		}
	}
}

// bytes returns the first n bytes as one slice of its own.
func (r *recording) bytes(n int64) []byte {
	r.mu.Lock()
	defer r.mu.Unlock()
	out := make([]byte, 0, n)
	for _, b := range r.blocks {
		out = append(out, b[:min(int64(len(b)), n-int64(len(out)))]...)
	}
	return out
}

// free gives the blocks back. Nobody may read the recording any more.
func (r *recording) free() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.mem.Give(int(r.kept))
	for _, b := range r.blocks {
		putBlock(b)
	}
	r.blocks, r.kept = nil, 0
}

func putBlock(b []byte) {
	switch cap(b) {
	case smallBlock:
		smallBlocks.Put((*[smallBlock]byte)(b[:smallBlock]))
	case largeBlock:
		largeBlocks.Put((*[largeBlock]byte)(b[:largeBlock]))
	}
}
