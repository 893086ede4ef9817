package upstream

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"sync/atomic"
)

const (
	// inline is the size up to which head and body are copied into one buffer: cheaper than a vectored write.
	inline = 16 << 10
	// aside is the size of body from which a goroutine writes it, so that a provider which answers early and reads no
	// further is heard. Less fits into the kernel's buffers.
	aside = 64 << 10
)

// exchange is one request and its answer on one connection; it is the answer's body.
type exchange struct {
	response Response
	pool     *pool
	ctx      context.Context
	stop     func() bool // detaches the connection from ctx
	conn     *conn
	source   source
	decoder  decoder
	reuse    bool
	written  written
	writing  chan struct{} // closed when written is valid; nil when it already is
	state    atomic.Uint32
	err      error // what Read gives once finished
}

// written is what became of the request.
type written struct {
	sent Sent
	err  error
}

// The states of a body. Whoever leaves idle by compare-and-set owns the exchange until it puts idle back.
const (
	idle     uint32 = iota
	reading         // a Read is under way
	closing         // Close came during it: the Read cleans up
	closed          // Close came outside of it and cleaned up
	finished        // a Read came to the end, or to an error, and cleaned up
)

func (p *pool) exchange(ctx context.Context, c *conn, r *Request) (*Response, *Error) {
	x := &exchange{pool: p, ctx: ctx, conn: c, source: newSource(c.Conn, p.buffers)}
	if ctx.Done() != nil {
		x.stop = context.AfterFunc(ctx, c.abort)
	}
	x.send(r)
	if x.writing == nil && x.written.sent == None {
		return nil, x.fail(PhaseWrite, x.written.err)
	}
	// A write that failed may have an answer that says why.
	if err := x.readHead(r.Method); err != nil {
		return nil, x.fail(PhaseHead, err)
	}
	x.response.Body = x
	if _, _, err := x.decoder.advance(nil); err == io.EOF {
		x.end(true)
		x.err = io.EOF
		x.state.Store(finished)
	}
	return &x.response, nil
}

// send writes the request, a large one beside the reading of the answer.
func (x *exchange) send(r *Request) {
	if len(r.Body) < aside {
		x.written = x.write(r)
		return
	}
	x.writing = make(chan struct{})
	go func() {
		defer close(x.writing)
		x.written = x.write(r)
	}()
}

func (x *exchange) write(r *Request) written {
	buffer := x.pool.buffers.heads.Get().(*[]byte)
	head, body := appendHead((*buffer)[:0], r), r.Body
	if len(head)+len(body) <= inline {
		head, body = append(head, body...), nil
	}
	if r.Sending != nil {
		if err := r.Sending(); err != nil {
			x.pool.buffers.heads.Put(buffer)
			_ = x.conn.Close() // or who waits for the answer would wait for ever
			return written{None, &heldBack{err}}
		}
	}
	n, err := x.conn.send(head, body)
	total := int64(len(head) + len(body))
	x.pool.buffers.heads.Put(buffer)
	switch {
	case n >= total:
		return written{sent: All}
	case err == nil:
		err = io.ErrShortWrite
	}
	if n > 0 {
		return written{Partial, err}
	}
	return written{None, err}
}

// readHead skips informational answers; all heads together share one limit.
func (x *exchange) readHead(method string) error {
	limit := x.pool.config.HeaderBytes
	for {
		section, err := x.source.section(limit)
		if err != nil {
			return err
		}
		h, err := parseHead(section)
		if err != nil {
			return err
		}
		limit -= len(section)
		x.source.r += len(section)
		if h.status == http.StatusSwitchingProtocols {
			return malformed("the protocol was switched unasked")
		}
		if h.status < http.StatusOK {
			continue
		}
		x.decoder, x.reuse, err = h.framing(method)
		x.decoder.limit = x.pool.config.HeaderBytes
		x.response.Status, x.response.Header, x.response.Unframed = h.status, h.header, x.decoder.kind == untilClose
		return err
	}
}

// fail ends an exchange that has no answer.
func (x *exchange) fail(phase string, err error) *Error {
	x.end(false)
	said := errors.Is(err, ErrMalformed) || errors.Is(err, ErrTooLarge)
	if x.written.sent != All && !said {
		phase = PhaseWrite
		// What broke the write broke the reading too, unless it was end, which closed the connection.
		if cause := x.written.err; !errors.Is(cause, net.ErrClosed) && !errors.Is(cause, io.ErrClosedPipe) {
			err = cause
		}
	}
	return newError(x.ctx, phase, x.written.sent, err)
}

// end gives the connection back if another request may use it, and closes it otherwise; written is valid after it.
func (x *exchange) end(clean bool) {
	attached := x.stop == nil || x.stop() // else ctx ended and closes the connection
	keep := clean && attached && x.reuse && len(x.source.bytes()) == 0 && x.source.err == nil && x.wroteAll()
	if !keep {
		_ = x.conn.Close()
	}
	if x.writing != nil {
		<-x.writing
	}
	x.source.release()
	if keep {
		x.pool.put(x.conn)
	}
}

func (x *exchange) wroteAll() bool {
	if x.writing != nil {
		select {
		case <-x.writing:
		default:
			return false
		}
	}
	return x.written.sent == All
}
