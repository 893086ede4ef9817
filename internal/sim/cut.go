package sim

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"time"
)

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

// endCut is how the call log names a cut.
func endCut(how How) string { return "cut:" + string(how) }
