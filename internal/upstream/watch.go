package upstream

import (
	"context"
	"crypto/tls"
	"net"
	"net/http/httptrace"
	"sync/atomic"
)

// meter counts what was handed to the kernel on one connection.
type meter struct {
	net.Conn
	written atomic.Int64
	held    atomic.Bool // nothing more may leave
}

// Write counts before it writes: the answer can be here before Write returns, and must never look like one to nothing.
func (m *meter) Write(p []byte) (int, error) {
	if m.held.Load() {
		return 0, net.ErrClosed
	}
	m.written.Add(int64(len(p)))
	n, err := m.Conn.Write(p)
	if n < len(p) {
		m.written.Add(int64(n - len(p)))
	}
	return n, err
}

// watch follows one request through net/http. Hooks may run in other goroutines, also after RoundTrip returned.
type watch struct {
	sending func() error // Request.Sending
	held    atomic.Pointer[heldBack]
	shared  atomic.Bool             // the connection carries other requests too
	head    atomic.Bool             // net/http has written the head
	cancel  context.CancelCauseFunc // ends what Sending holds back; nil where nothing can
	stage   atomic.Int32
	reused  atomic.Bool
	meter   atomic.Pointer[meter]
	before  atomic.Int64 // the meter's count when the request got its connection
}

const (
	stageDial int32 = iota
	stageTLS
	stageWrite
	stageHead
)

func (w *watch) attach(ctx context.Context) context.Context {
	return httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{
		TLSHandshakeStart: func() { w.reach(stageTLS) },
		GotConn:           w.gotConn,
		WroteHeaders:      func() { w.head.Store(true) },
		WroteRequest: func(info httptrace.WroteRequestInfo) {
			if info.Err == nil {
				w.reach(stageHead)
			}
		},
	})
}

// reach only moves forward: a dial that this request began may still go on while it already uses another connection.
func (w *watch) reach(stage int32) {
	for at := w.stage.Load(); at < stage; at = w.stage.Load() {
		if w.stage.CompareAndSwap(at, stage) {
			return
		}
	}
}

func (w *watch) gotConn(info httptrace.GotConnInfo) {
	if m := meterOf(info.Conn); m != nil {
		w.before.Store(m.written.Load())
		w.meter.Store(m)
	}
	w.reused.Store(info.Reused)
	w.reach(stageWrite)
	if w.sending == nil {
		return
	}
	if err := w.sending(); err != nil {
		w.hold(info.Conn, err)
	}
}

// hold has nothing of a request leave on the connection that it has just got. On HTTP/2, whose connections carry others too, a
// cancelled request writes no head; on HTTP/1 the connection itself lets nothing through.
func (w *watch) hold(conn net.Conn, err error) {
	w.held.Store(&heldBack{err})
	w.cancel(err)
	if c, ok := conn.(*tls.Conn); ok && c.ConnectionState().NegotiatedProtocol == "h2" {
		w.shared.Store(true)
		return
	}
	if m := w.meter.Load(); m != nil {
		m.held.Store(true)
	}
}

// unsent says that nothing left of a request that was held back.
func (w *watch) unsent() bool { return w.sent() == None || w.shared.Load() && !w.head.Load() }

// end lets go of what only Sending needed.
func (w *watch) end() {
	if w.cancel != nil {
		w.cancel(nil)
	}
}

// meterOf finds the metered connection below one layer of TLS, or two with an https proxy.
func meterOf(conn net.Conn) *meter {
	for {
		switch c := conn.(type) {
		case *meter:
			return c
		case *tls.Conn:
			conn = c.NetConn()
		default:
			return nil
		}
	}
}

// sent errs towards more: on HTTP/2 the count moves with the other requests of the connection too.
func (w *watch) sent() Sent {
	stage := w.stage.Load()
	if stage < stageWrite {
		return None
	}
	if m := w.meter.Load(); m != nil && m.written.Load() == w.before.Load() {
		return None
	}
	if stage == stageHead {
		return All
	}
	return Partial
}

func (w *watch) phaseName() string {
	return [...]string{PhaseDial, PhaseTLS, PhaseWrite, PhaseHead}[w.stage.Load()]
}
