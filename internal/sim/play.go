package sim

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"strings"
	"time"
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

func endCut(how How) string { return "cut:" + string(how) }

// cutHere cuts the call if its cut stands at this point.
func (x *exchange) cutHere(p Point) bool {
	if c := x.st.Cut; c != nil && c.At == p {
		x.cut(c, nil)
		return true
	}
	return false
}

func (x *exchange) cutAtEvent(i int, rep *reply) bool {
	c := x.st.Cut
	if c == nil || c.At != AtEvent || min(c.N, len(rep.pieces)) != i {
		return false
	}
	var next []byte
	if i < len(rep.pieces) {
		next = rep.pieces[i]
	}
	x.cut(c, next)
	return true
}

// cutIn sends a part of the piece and cuts if the cut's byte lies inside it or at its end.
func (x *exchange) cutIn(piece []byte) bool {
	c := x.st.Cut
	if c == nil || c.At != AtByte || x.out.bytes+int64(len(piece)) < int64(c.N) {
		return false
	}
	n := int64(c.N) - x.out.bytes
	if n > 0 && !x.write(piece[:n], false) {
		return true
	}
	x.cut(c, piece[n:])
	return true
}

// cut ends the call in the manner of c; rest is what would have come next.
func (x *exchange) cut(c *Cut, rest []byte) {
	switch c.How {
	case Stall:
		x.stall(c)
		return
	case Clean:
		x.out.end = endCut(Clean)
		return // the handler returns and net/http writes the last chunk
	case Torn:
		x.out.end = endCut(Torn)
		conn := x.hijack()
		x.finish()
		if len(rest) == 0 {
			rest = []byte("data: ")
		}
		_, _ = fmt.Fprintf(conn, "%x\r\n%s", len(rest), rest[:len(rest)/2])
		closeConn(conn, Fin)
		return
	}
	x.drop(endCut(c.How), c.How)
}

// stall says nothing more until the caller leaves, the bound is reached, or the simulator ends.
func (x *exchange) stall(c *Cut) {
	x.flushSent()
	if c.StallMS > 0 {
		if x.sleep(c.StallMS, true) {
			x.drop(endCut(Stall), Reset)
		}
		return
	}
	select {
	case <-x.r.Context().Done():
	case <-x.s.ctx.Done():
	}
	x.alive(true)
}

func (x *exchange) flushSent() {
	if x.out.status != 0 {
		x.flush()
	}
}

// drop ends the connection without ending the answer.
func (x *exchange) drop(end string, how How) {
	x.out.end = end
	conn := x.hijack()
	x.finish()
	closeConn(conn, how)
}

// hijack takes the connection. A writer that has none to give ends by the panic that net/http and its test servers
// understand as "cut".
func (x *exchange) hijack() net.Conn {
	conn, _, err := http.NewResponseController(x.w).Hijack()
	if err != nil {
		panic(http.ErrAbortHandler)
	}
	return conn
}

func closeConn(conn net.Conn, how How) {
	if tcp, ok := conn.(*net.TCPConn); ok && how == Reset {
		_ = tcp.SetLinger(0) // RST instead of FIN
	}
	_ = conn.Close()
}

// lingering bounds how long the rest of a body is read after a FIN.
const lingering = time.Second

// readSome reads up to n bytes and returns how many there were.
func readSome(r io.Reader, n int) int64 {
	got, _ := io.CopyN(io.Discard, r, int64(n)) // an early end is the caller's business
	return got
}

// cutAtArrival reads the agreed part of the body, none by default, and cuts.
func (x *exchange) cutAtArrival() {
	c := x.st.Cut
	if c.N > 0 {
		n := readSome(x.r.Body, c.N)
		x.s.record.update(func() {
			x.call.BodySize = n
			for _, counts := range x.s.record.of(x.call) {
				counts.BytesIn += n
			}
		})
	}
	if c.How == Reset {
		x.cut(c, nil)
		return
	}
	// A FIN beside unread bytes would become a reset, and net/http does not watch a caller whose body is unread: in
	// both cases the rest is read and thrown away.
	x.out.end = endCut(c.How)
	conn := x.hijack()
	x.finish()
	defer conn.Close()
	defer context.AfterFunc(x.s.ctx, func() { _ = conn.Close() })()
	if tcp, ok := conn.(*net.TCPConn); ok && c.How == Fin {
		_ = tcp.CloseWrite()
		_ = tcp.SetReadDeadline(time.Now().Add(lingering))
	} else if c.StallMS > 0 {
		_ = conn.SetReadDeadline(time.Now().Add(ms(c.StallMS)))
	}
	readSome(conn, maxBody)
}

// sendRaw answers with bytes that need not be HTTP.
func (x *exchange) sendRaw() {
	x.out.end, x.out.bytes = "cut:raw", int64(len(x.st.Raw))
	conn := x.hijack()
	x.finish()
	_, _ = conn.Write([]byte(x.st.Raw))
	closeConn(conn, Fin)
}

// reply plays a recorded failure with its own headers.
func (f *failure) reply() (*reply, error) {
	body, err := f.bytes()
	if err != nil {
		return nil, fmt.Errorf("sim: signal %s: body: %w", f.ID, err)
	}
	h := http.Header{}
	for name, v := range f.Headers {
		h.Set(name, v)
	}
	rep := &reply{status: f.Status, header: h, pieces: [][]byte{body}, exact: true}
	rep.chunked = strings.EqualFold(h.Get("Transfer-Encoding"), "chunked")
	h.Del("Transfer-Encoding") // net/http says it
	return rep, nil
}

// reply plays a recorded stream byte for byte.
func (r *recorded) reply() (*reply, error) {
	pieces, err := r.pieces()
	if err != nil {
		return nil, err
	}
	rep := streamed(r.ContentType, 0, pieces...)
	rep.events = len(r.Splits) == 0
	return rep, nil
}

// expand turns a recorded failure without an answer into the cut that its caller would see.
func (c *corpus) expand(st Step) Step {
	f := c.signal(st.Signal)
	if f == nil || f.Status != 0 || f.Transport == nil || st.Cut != nil || st.Raw != "" {
		return st
	}
	at := AtRequest
	if st.succeeds() {
		at = AtEffect
	}
	switch err := strings.ToLower(f.Transport.Error); {
	case strings.HasPrefix(err, "417"):
		st.Status = http.StatusExpectationFailed
	case strings.Contains(err, "malformed"):
		st.Raw = plainRaw(f.Transport.Bytes)
	case f.Transport.Bytes > 0:
		st.Size = max(st.Size, f.Transport.Bytes*2)
		st.Cut = &Cut{At: AtByte, N: f.Transport.Bytes, How: Fin}
		if strings.Contains(err, "timeout") {
			st.Cut.How = Stall
		}
	case strings.Contains(err, "timeout"), strings.Contains(err, "deadline"), strings.Contains(err, "cancel"):
		st.Cut = &Cut{At: at, How: Stall}
	case strings.Contains(err, "eof"):
		st.Cut = &Cut{At: at, How: Fin}
	default:
		st.Cut = &Cut{At: at, How: Reset}
	}
	return st
}

func plainRaw(n int) string {
	return strings.Repeat("\x15\x03not http ", n/11+1)[:n]
}
