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
}

// Write counts before it writes: the answer can be here before Write returns, and must never look like one to nothing.
func (m *meter) Write(p []byte) (int, error) {
	m.written.Add(int64(len(p)))
	n, err := m.Conn.Write(p)
	if n < len(p) {
		m.written.Add(int64(n - len(p)))
	}
	return n, err
}

// watch follows one request through net/http. Hooks may run in other goroutines, also after RoundTrip returned.
type watch struct {
	sending func() // Request.Sending
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
	if w.sending != nil {
		w.sending()
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
