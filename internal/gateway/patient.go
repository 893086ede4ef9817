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
type patient struct {
	http.ResponseWriter
	armed time.Time
}

// disarm takes back the deadline that the answer before left on this connection.
func disarm(w http.ResponseWriter) {
	_ = http.NewResponseController(w).SetWriteDeadline(time.Time{}) // a writer that knows no deadlines never sets one
}

func (p *patient) Unwrap() http.ResponseWriter { return p.ResponseWriter }

func (p *patient) Write(b []byte) (written int, err error) {
	for {
		piece := b[written:min(written+writePiece, len(b))]
		if now := time.Now(); now.Sub(p.armed) > writePatience/4 {
			p.armed = now
			_ = http.NewResponseController(p.ResponseWriter).SetWriteDeadline(now.Add(writePatience))
		}
		n, err := p.ResponseWriter.Write(piece)
		if written += n; err != nil || written == len(b) {
			return written, err
		}
	}
}
