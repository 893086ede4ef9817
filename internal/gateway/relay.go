package gateway

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"strconv"
	"time"
)

// A relay shows a running answer to another gateway as its own clients are shown it, in frames: one byte of kind, four of length, and
// what it holds.
const (
	frameHead  = 'h' // relayedHead
	frameBytes = 'b' // what clients may read
	frameEnd   = 'e' // relayedEnd
	frameAlive = 'k' // nothing is new

	frameMax = 1 << 20
)

// relayedHead is what an answer begins with, and what its headers say of it.
type relayedHead struct {
	Status     int         `json:"status"`
	Header     http.Header `json:"header"`
	Stream     bool        `json:"stream,omitempty"`
	Failed     bool        `json:"failed,omitempty"`
	Unknown    bool        `json:"unknown,omitempty"`
	Unrecorded bool        `json:"unrecorded,omitempty"`
	Pending    bool        `json:"pending,omitempty"`

	Tier     string `json:"tier,omitempty"`
	Tries    int    `json:"tries"`
	Served   string `json:"served,omitempty"`
	Fallback string `json:"fallback,omitempty"`
	Because  string `json:"because,omitempty"`
	Left     string `json:"left,omitempty"`
}

// relayedEnd is how it ended.
type relayedEnd struct {
	Fail    *Error    `json:"fail,omitempty"`
	Tail    []byte    `json:"tail,omitempty"`
	Abort   bool      `json:"abort,omitempty"`
	Again   bool      `json:"again,omitempty"`
	Pending bool      `json:"pending,omitempty"`
	At      time.Time `json:"at"`
}

func writeFrame(w io.Writer, kind byte, p []byte) error {
	var h [5]byte
	h[0] = kind
	binary.BigEndian.PutUint32(h[1:], uint32(len(p))) //nolint:gosec // at most frameMax
	if _, err := w.Write(h[:]); err != nil {
		return err
	}
	_, err := w.Write(p)
	return err
}

var errFrame = errors.New("gateway: a peer sent what is no frame")

// readFrame reads into buf, which grows up to frameMax.
func readFrame(r io.Reader, buf []byte) (kind byte, p []byte, err error) {
	var h [5]byte
	if _, err := io.ReadFull(r, h[:]); err != nil {
		return 0, buf, err
	}
	n := binary.BigEndian.Uint32(h[1:])
	if n > frameMax {
		return 0, buf, errFrame
	}
	if cap(buf) < int(n) {
		buf = make([]byte, n)
	}
	buf = buf[:n]
	_, err = io.ReadFull(r, buf)
	return h[0], buf, err
}

// here is the execution of an intent that runs in this process, with one more client on it; nil where there is none.
func (g *Gateway) here(id, key string) *execution {
	for _, at := range [...]string{id, key} {
		if at == "" {
			continue
		}
		if e := g.registry.find(at); e != nil {
			if e.opID() == id && !e.isMirror() {
				return e
			}
			e.leave()
			e.unref()
		}
	}
	return nil
}

// serveRelay shows a running execution to another gateway, which counts as one of its clients.
func (g *edition) serveRelay(w http.ResponseWriter, r *http.Request, id string) {
	e := g.here(id, r.URL.Query().Get("key"))
	if e == nil {
		http.NotFound(w, r)
		return
	}
	defer e.unref()
	defer e.leave()
	g.showTo(w, r, e)
}

func (g *edition) showTo(w http.ResponseWriter, r *http.Request, e *execution) {
	from, _ := strconv.ParseInt(r.URL.Query().Get("from"), 10, 64)
	cur := e.rec.attach()
	if cur == nil { // its beginning is not kept
		http.NotFound(w, r)
		return
	}
	defer cur.detach()
	out := &relaying{e: e, cur: cur, skip: from, w: &patient{ResponseWriter: w}, done: r.Context().Done(), alive: time.NewTicker(peerAlive)}
	defer out.alive.Stop()
	w.Header().Set("Content-Type", "application/octet-stream")
	w.WriteHeader(http.StatusOK)
	if out.run() != nil {
		panic(http.ErrAbortHandler) // what is not whole ends in no order
	}
}

// relaying is one execution on its way to another gateway.
type relaying struct {
	e     *execution
	cur   *cursor
	skip  int64
	w     *patient
	done  <-chan struct{}
	alive *time.Ticker
}

var errNobodyThere = errors.New("the other replica has hung up")

func (o *relaying) run() error {
	if err := o.w.FlushError(); err != nil {
		return err
	}
	shown := false
	for {
		rec := o.e.rec
		if h := rec.opened(); h != nil && !shown {
			shown = true
			if err := o.head(h); err != nil {
				return err
			}
		}
		if shown {
			p, _, end := o.cur.read()
			if end != nil {
				return o.end(end)
			}
			if p != nil {
				if err := o.bytes(p); err != nil {
					return err
				}
				continue
			}
		} else if end := rec.ended(); end != nil {
			if rec.begun() {
				continue
			}
			return o.end(end)
		}
		if err := o.wait(); err != nil {
			return err
		}
	}
}

// wait flushes what was written and waits for more, with signs of life.
func (o *relaying) wait() error {
	if err := o.w.FlushError(); err != nil {
		return err
	}
	for {
		select {
		case <-o.cur.news:
			return nil
		case <-o.done:
			return errNobodyThere
		case <-o.alive.C:
			if err := writeFrame(o.w, frameAlive, nil); err != nil {
				return err
			}
			if err := o.w.FlushError(); err != nil {
				return err
			}
		}
	}
}

func (o *relaying) bytes(p []byte) error {
	n := min(o.skip, int64(len(p)))
	o.skip -= n
	if p = p[n:]; len(p) == 0 {
		return nil
	}
	return writeFrame(o.w, frameBytes, p)
}

func (o *relaying) head(h *head) error {
	e := o.e
	said := relayedHead{Status: h.status, Header: h.header, Stream: h.stream, Failed: h.failed, Unknown: h.unknown, Unrecorded: h.unrecorded,
		Pending: h.pending, Tier: e.source(), Tries: e.attempts(), Served: e.servedModel()}
	e.mu.Lock()
	said.Fallback, said.Left = e.fallback, e.left
	e.mu.Unlock()
	said.Because, _ = e.standsFor()
	return o.say(frameHead, said)
}

func (o *relaying) end(end *ending) error {
	said := relayedEnd{Fail: end.fail, Tail: end.tail, Abort: end.abort, Again: end.again, Pending: o.e.rec.isPending(), At: o.e.g.ledger.Now()}
	if said.Fail != nil {
		told := *said.Fail
		told.Err = nil // for this gateway's log only
		said.Fail = &told
	}
	if err := o.say(frameEnd, said); err != nil {
		return err
	}
	return o.w.FlushError()
}

func (o *relaying) say(kind byte, v any) error {
	p, err := json.Marshal(v)
	if err != nil {
		return err
	}
	return writeFrame(o.w, kind, p)
}

func (r *recording) ended() *ending {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.end
}
