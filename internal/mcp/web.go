package mcp

import (
	"bytes"
	"fmt"
	"strconv"
	"strings"
	"sync"

	"github.com/holdfast-ai/holdfast/internal/budget"
)

// web is what one HTTP client reads: a stream for each of its POSTs, and one for what it did not ask for.
type web struct {
	mu      sync.Mutex
	next    int
	own     *stream         // what the client did not ask for
	streams map[int]*stream // that can be gone on with
	order   []int
	closed  bool
	mem     *budget.Bytes
}

// Bounds of what is kept for a client whose connection broke.
const (
	keepStreams = 64
	keepEvents  = 1024
	keepBytes   = 8 << 20
)

func newWeb(mem *budget.Bytes) *web {
	w := &web{streams: map[int]*stream{}, mem: mem}
	w.own = w.open(0)
	return w
}

// open begins a stream that ends with that many answers; with none it ends with its session.
func (w *web) open(answers int) *stream {
	w.mu.Lock()
	defer w.mu.Unlock()
	st := &stream{n: w.next, left: answers, endless: answers == 0, mem: w.mem, news: make(chan struct{}, 1)}
	w.next++
	if w.closed {
		st.close()
	}
	w.streams[st.n] = st
	if !st.endless {
		w.order = append(w.order, st.n)
	}
	if len(w.order) > keepStreams {
		w.forgetOldest()
	}
	return st
}

// forgetOldest makes the oldest stream that has ended one that cannot be gone on with.
func (w *web) forgetOldest() {
	for i, n := range w.order {
		if st := w.streams[n]; st.ended() {
			st.free()
			delete(w.streams, n)
			w.order = append(w.order[:i], w.order[i+1:]...)
			return
		}
	}
}

// forget drops a stream whose client has had everything.
func (w *web) forget(st *stream) {
	w.mu.Lock()
	defer w.mu.Unlock()
	st.free()
	delete(w.streams, st.n)
	for i, n := range w.order {
		if n == st.n {
			w.order = append(w.order[:i], w.order[i+1:]...)
			return
		}
	}
}

// resume finds the stream of an event id, and how many of its events the client has had.
func (w *web) resume(id string) (st *stream, seen int64, ok bool) {
	a, b, found := strings.Cut(id, "-")
	n, err := strconv.Atoi(a)
	seen, err2 := strconv.ParseInt(b, 10, 64)
	if !found || err != nil || err2 != nil || seen < 0 {
		return nil, 0, false
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	st = w.streams[n]
	return st, seen, st != nil
}

// unasked is where messages go that belong to no request: the client's own stream, or where it reads now.
func (w *web) unasked() sink {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.own.read() {
		return w.own
	}
	for i := len(w.order) - 1; i >= 0; i-- {
		if st := w.streams[w.order[i]]; st.read() && !st.ended() {
			return st
		}
	}
	return w.own // it keeps them for the client's next GET
}

// watched says whether the client reads anything now.
func (w *web) watched() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, st := range w.streams {
		if st.read() {
			return true
		}
	}
	return false
}

func (w *web) close() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.closed = true
	for _, st := range w.streams {
		st.close()
	}
}

// stream is what one HTTP exchange reads, kept so that a client whose connection broke can go on behind the last event that it
// had. It never blocks who writes: what a client does not fetch within the bounds is dropped, oldest first.
type stream struct {
	n       int
	endless bool
	mem     *budget.Bytes
	news    chan struct{} // a token while there may be something new

	mu      sync.Mutex
	events  [][]byte
	first   int64 // ordinal of events[0], from 1
	bytes   int
	left    int // answers to come
	closed  bool
	readers int
	reader  int64 // the latest one; a newer reader takes the stream over
	wrote   int64 // ordinal of the last event that was written to a client
	refusal *sendError
	plain   bool // the only thing in it is the answer
	freed   bool // its events no longer count: the session is over, or they are forgotten
}

func (st *stream) put(raw []byte) {
	st.mu.Lock()
	st.add(raw)
	st.plain = false
	st.mu.Unlock()
	st.wake()
}

// answer is one of the answers that the stream ends with.
func (st *stream) answer(raw []byte) {
	st.mu.Lock()
	st.plain = st.left == 1 && len(st.events) == 0 && st.first == 0
	st.add(raw)
	st.left--
	st.mu.Unlock()
	st.wake()
}

func (st *stream) add(raw []byte) {
	if st.first == 0 {
		st.first = 1
	}
	raw = oneLine(raw)
	st.events = append(st.events, raw)
	st.count(len(raw))
	for len(st.events) > 1 && (len(st.events) > keepEvents || st.bytes > keepBytes || st.first <= st.wrote && st.mem.Over()) {
		st.count(-len(st.events[0]))
		st.events, st.first = st.events[1:], st.first+1
	}
}

// count has n more bytes count as memory. Where that is used up, who has had an event cannot have it again.
func (st *stream) count(n int) {
	st.bytes += n
	if !st.freed {
		st.mem.Hold(n)
	}
}

// free has nothing of the stream count any more.
func (st *stream) free() {
	st.mu.Lock()
	defer st.mu.Unlock()
	if !st.freed {
		st.mem.Give(st.bytes)
		st.freed = true
	}
}

func (st *stream) drop() {
	st.mu.Lock()
	st.left--
	st.mu.Unlock()
	st.wake()
}

// refuse ends a stream of one answer with the server's own HTTP status, if the client has read nothing yet.
func (st *stream) refuse(id []byte, e *sendError) {
	st.mu.Lock()
	fresh := st.left == 1 && st.first == 0
	if fresh {
		st.refusal, st.left = e, 0
	}
	st.mu.Unlock()
	if !fresh {
		st.answer(failure(id, codeInternal, fmt.Sprintf("%s: %.1024s", e, e.body)))
		return
	}
	st.wake()
}

func (st *stream) close() {
	st.free()
	st.mu.Lock()
	st.closed = true
	st.mu.Unlock()
	st.wake()
}

func (st *stream) wake() {
	select {
	case st.news <- struct{}{}:
	default:
	}
}

func (st *stream) ended() bool {
	st.mu.Lock()
	defer st.mu.Unlock()
	return st.over()
}

func (st *stream) over() bool { return st.closed || !st.endless && st.left <= 0 }

func (st *stream) read() bool {
	st.mu.Lock()
	defer st.mu.Unlock()
	return st.readers > 0
}

// enter begins to read; the reader before ends.
func (st *stream) enter() int64 {
	st.mu.Lock()
	defer st.mu.Unlock()
	st.readers++
	st.reader++
	st.wake()
	return st.reader
}

func (st *stream) exit() {
	st.mu.Lock()
	st.readers--
	st.mu.Unlock()
	st.wake() // the token may have been taken by the one that leaves
}

// had is the last event that was written; sent takes note of one.
func (st *stream) had() int64 {
	st.mu.Lock()
	defer st.mu.Unlock()
	return st.wrote
}

func (st *stream) sent(ordinal int64) {
	st.mu.Lock()
	st.wrote = max(st.wrote, ordinal)
	st.mu.Unlock()
}

// glance is what a reader finds.
type glance struct {
	events  [][]byte
	first   int64 // ordinal of the first of events
	over    bool
	taken   bool // another reader has the stream
	refusal *sendError
	plain   bool
}

func (st *stream) look(reader, seen int64) glance {
	st.mu.Lock()
	defer st.mu.Unlock()
	g := glance{over: st.over(), taken: reader != st.reader, refusal: st.refusal, plain: st.plain, first: seen + 1}
	if skip := seen + 1 - st.first; st.first > 0 && skip < int64(len(st.events)) {
		g.events, g.first = st.events[max(skip, 0):], max(seen+1, st.first)
	}
	return g
}

// appendEvent writes a message as a server-sent event.
func appendEvent(b *bytes.Buffer, stream int, ordinal int64, raw []byte) {
	fmt.Fprintf(b, "event: message\nid: %d-%d\ndata: ", stream, ordinal)
	b.Write(raw)
	b.WriteString("\n\n")
}
