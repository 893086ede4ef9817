package upstream

import (
	"io"
	"net/http"
)

// Read implements Body.
func (x *exchange) Read(p []byte) (int, error) {
	if !x.state.CompareAndSwap(idle, reading) {
		if x.state.Load() == finished {
			return 0, x.err
		}
		return 0, newError(x.ctx, PhaseBody, All, ErrClosed)
	}
	n, err := x.read(p)
	if err == nil && x.state.CompareAndSwap(reading, idle) {
		return n, nil
	}
	if x.state.Load() == closing {
		err = ErrClosed
	}
	x.end(err == io.EOF)
	if x.err = err; err != io.EOF {
		x.err = newError(x.ctx, PhaseBody, x.written.sent, err)
	}
	x.state.Store(finished)
	return n, x.err
}

// read takes all that lies buffered before it waits, and reports the end together with the last bytes if it knows it.
func (x *exchange) read(p []byte) (n int, err error) {
	for len(p) > 0 {
		skip, ready, err := x.decoder.advance(x.source.bytes())
		x.source.r += skip
		switch {
		case err != nil:
			return n, err
		case ready > 0 && n < len(p):
			taken := copy(p[n:], x.source.bytes()[:ready])
			x.source.r += taken
			x.decoder.left -= int64(taken)
			n += taken
		case n > 0:
			return n, nil
		default:
			if n, err = x.wait(p); err != nil {
				return n, x.ending(err)
			}
		}
	}
	return n, nil
}

// wait reads from the connection: straight into p where that spares a copy, else into the buffer.
func (x *exchange) wait(p []byte) (int, error) {
	direct := x.decoder.stage == atData && x.source.err == nil && len(p) >= smallBuffer && x.decoder.left >= smallBuffer
	if !direct {
		return 0, x.source.fill()
	}
	n, err := x.source.read(p[:min(int64(len(p)), x.decoder.left)])
	x.decoder.left -= int64(n)
	return n, err
}

// ending says what the end of the connection means for the body.
func (x *exchange) ending(err error) error {
	if err == io.EOF && x.decoder.kind != untilClose {
		return io.ErrUnexpectedEOF
	}
	return err
}

// Close implements Body. Before the end of the body it closes the connection, which tells the provider to stop.
func (x *exchange) Close() error {
	for {
		switch x.state.Load() {
		case idle:
			if !x.state.CompareAndSwap(idle, closed) {
				continue
			}
			// What ended the stream for its reader may stand just before the end of the body.
			skip, _, err := x.decoder.advance(x.source.bytes())
			x.source.r += skip
			x.end(err == io.EOF)
			return nil
		case reading:
			if x.state.CompareAndSwap(reading, closing) {
				return x.conn.Close()
			}
		default:
			return nil
		}
	}
}

// Buffered implements Body.
func (x *exchange) Buffered() int {
	if !x.state.CompareAndSwap(idle, reading) {
		return 0
	}
	skip, ready, _ := x.decoder.advance(x.source.bytes())
	x.source.r += skip
	if !x.state.CompareAndSwap(reading, idle) {
		x.end(false)
		x.state.Store(closed)
		return 0
	}
	return ready
}

// Trailer implements Body.
func (x *exchange) Trailer() http.Header { return x.decoder.trailer }
