package gateway

import (
	"net/http"
	"time"
)

const (
	// writePatience bounds how long a client may take to accept a piece that is ready for it.
	writePatience = 60 * time.Second
	writePiece    = 256 << 10
)

// patient is a client's side of an answer. A client that accepts nothing for writePatience loses its connection, so
// that it holds neither memory nor a goroutine for ever; a slow one that reads on keeps it.
//
// The last bytes of an answer stay in net/http's buffer until the handler has returned. So nobody has the whole answer, and
// hangs up, before it counts as sent; and where the end of the body stands behind them, both leave in one write.
type patient struct {
	http.ResponseWriter
	armed   time.Time
	last    bool // what is written is the end of the answer
	chunked bool // the end of the body is told behind it
	waiting int  // bytes in net/http's buffers, the head left out
	headOut bool
}

// lastPiece fits net/http's buffers together with the end of the body and its trailers.
const lastPiece = 1 << 10

// FlushError is http.ResponseController's.
func (p *patient) FlushError() error {
	p.waiting, p.headOut = 0, true
	return http.NewResponseController(p.ResponseWriter).Flush()
}

func (p *patient) Write(b []byte) (int, error) {
	if !p.last || len(b)+p.waiting <= lastPiece && (p.headOut || !p.chunked) {
		return p.write(b)
	}
	front := max(0, len(b)-lastPiece)
	n, err := p.write(b[:front])
	if err == nil && p.chunked {
		err = p.FlushError()
	}
	if err != nil {
		return n, err
	}
	m, err := p.write(b[front:])
	return n + m, err
}

// disarm takes back the deadline that the answer before left on this connection.
func disarm(w http.ResponseWriter) {
	_ = http.NewResponseController(w).SetWriteDeadline(time.Time{}) // a writer that knows no deadlines never sets one
}

func (p *patient) Unwrap() http.ResponseWriter { return p.ResponseWriter }

func (p *patient) write(b []byte) (written int, err error) {
	for {
		piece := b[written:min(written+writePiece, len(b))]
		if now := time.Now(); now.Sub(p.armed) > writePatience/4 {
			p.armed = now
			_ = http.NewResponseController(p.ResponseWriter).SetWriteDeadline(now.Add(writePatience))
		}
		n, err := p.ResponseWriter.Write(piece)
		if written += n; err != nil || written == len(b) {
			p.waiting += written
			return written, err
		}
	}
}
