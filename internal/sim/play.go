package sim

import (
	"net/http"
	"strconv"
)

// reply is an answer ready to be sent.
type reply struct {
	status  int
	header  http.Header
	pieces  [][]byte // written and flushed one by one
	content int      // the first piece with content; FirstMS waits before it
	events  bool     // each piece is an event
	chunked bool     // no Content-Length
	exact   bool     // a recording: nothing is added to its headers
}

func plain(status int, body []byte) *reply {
	h := http.Header{}
	h.Set("Content-Type", "application/json")
	return &reply{status: status, header: h, pieces: [][]byte{body}}
}

func streamed(contentType string, content int, pieces ...[]byte) *reply {
	h := http.Header{}
	h.Set("Content-Type", contentType)
	return &reply{status: http.StatusOK, header: h, pieces: pieces, content: content, events: true, chunked: true}
}

// play sends the reply and does to it what the step says.
func (x *exchange) play(rep *reply) {
	if x.st.Body != nil {
		rep.pieces, rep.events, rep.chunked, rep.content = [][]byte{[]byte(*x.st.Body)}, false, false, 0
	}
	if rep.status == http.StatusNoContent || rep.status == http.StatusNotModified {
		rep.pieces, rep.chunked = nil, true // neither may have a body or its length
	}
	x.halve(rep)
	if !x.pauseAt(AtHead) {
		return
	}
	x.sendHead(rep)
	if x.cutHere(AtHead) {
		return
	}
	for i, piece := range rep.pieces {
		if !x.before(i, rep) {
			return
		}
		if x.cutIn(piece) || !x.write(piece, i == len(rep.pieces)-1 && x.st.Cut == nil) {
			return
		}
		if rep.events {
			x.out.events = i + 1
		}
		x.out.phase = AtEvent
	}
	if x.cutAtEvent(len(rep.pieces), rep) {
		return
	}
	x.sendEnd(rep)
}

// halve lets a cut after events, which a plain answer does not have, fall in the middle of its body.
func (x *exchange) halve(rep *reply) {
	if c := x.st.Cut; c != nil && c.At == AtEvent && !rep.events && len(rep.pieces) == 1 {
		half := *c
		half.At, half.N = AtByte, len(rep.pieces[0])/2
		x.st.Cut = &half
	}
}

// before waits before a piece and cuts in front of it; false ends the call.
func (x *exchange) before(i int, rep *reply) bool {
	if x.st.HoldN == i && !x.pauseAt(AtEvent) {
		return false
	}
	if x.cutAtEvent(i, rep) {
		return false
	}
	if i == rep.content && !x.sleep(x.st.FirstMS, true) {
		return false
	}
	return i == 0 || x.sleep(x.st.EventMS, true)
}

func (x *exchange) sendHead(rep *reply) {
	h := x.w.Header()
	for name, values := range rep.header {
		h[name] = values
	}
	if rep.exact {
		for _, name := range [...]string{"Date", "Content-Type"} {
			if _, ok := h[name]; !ok {
				h[name] = nil // net/http adds none of its own
			}
		}
	}
	if c := x.st.Cut; !rep.chunked && h.Get("Content-Length") == "" && (c == nil || c.How != Clean && c.How != Torn) {
		n := 0
		for _, p := range rep.pieces {
			n += len(p)
		}
		h.Set("Content-Length", strconv.Itoa(n))
	}
	x.w.WriteHeader(rep.status)
	x.out.status, x.out.phase = rep.status, AtHead
	if rep.chunked || x.st.Cut != nil {
		x.flush()
	}
}

// flush ignores failures: a caller that left shows in the request's context.
func (x *exchange) flush() { _ = http.NewResponseController(x.w).Flush() }

// write sends one piece, in trickles if asked. The last byte of the last piece leaves when the handler returns.
func (x *exchange) write(p []byte, last bool) bool {
	size := x.st.TrickleBytes
	if size <= 0 || size > len(p) {
		size = len(p)
	}
	for len(p) > 0 {
		n := min(size, len(p))
		if n == len(p) && last {
			return x.writeLast(p)
		}
		if !x.put(p[:n]) {
			return false
		}
		x.flush()
		if p = p[n:]; len(p) > 0 && !x.sleep(x.st.TrickleMS, true) {
			return false
		}
	}
	return x.alive(true)
}

// writeLast keeps back one byte, which net/http buffers; a long write would pass through its buffers at once.
func (x *exchange) writeLast(p []byte) bool {
	const buffered = 1 << 10 // less than net/http's buffers
	if len(p) > buffered {
		if !x.put(p[:len(p)-1]) {
			return false
		}
		p = p[len(p)-1:]
	}
	return x.put(p)
}

func (x *exchange) put(p []byte) bool {
	n, err := x.w.Write(p)
	x.out.bytes += int64(n)
	if err != nil {
		x.out.end = endPeer
	}
	return err == nil
}

// sendEnd lets net/http end the body, or ends it by hand where the connection is cut behind the last byte.
func (x *exchange) sendEnd(rep *reply) {
	x.out.phase = AtEnd
	c := x.st.Cut
	if c == nil || c.At != AtEnd {
		return
	}
	switch c.How {
	case Clean:
		return
	case Stall:
		x.stall(c)
		return
	case Torn:
		x.cut(c, nil)
		return
	}
	x.flush()
	x.out.end = endCut(c.How)
	conn := x.hijack()
	x.finish()
	if rep.chunked {
		_, _ = conn.Write([]byte("0\r\n\r\n")) // a caller that left already is cut as well
	}
	closeConn(conn, c.How)
}
