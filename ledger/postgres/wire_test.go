package postgres

import (
	"bytes"
	"net"
	"net/url"
	"sync"
	"testing"
)

// wire stands between a ledger and its server. It does what a network does.
type wire struct {
	listener net.Listener
	server   string
	url      string

	mu      sync.Mutex
	frozen  chan struct{} // not nil: nothing passes until it is closed
	cut     func(fromServer bool, b []byte) bool
	late    bool // what is cut on its way to the server arrives when the connection is gone and release is closed
	release chan struct{}
	arrived chan struct{} // closed when the server has answered that
	conns   []net.Conn
	ends    sync.WaitGroup
}

func newWire(t *testing.T, store string) *wire {
	t.Helper()
	u, err := url.Parse(store)
	if err != nil {
		t.Fatal(err)
	}
	w := &wire{server: u.Host}
	if w.listener, err = net.Listen("tcp", "127.0.0.1:0"); err != nil {
		t.Fatal(err)
	}
	u.Host = w.listener.Addr().String()
	w.url = u.String()
	w.ends.Go(w.accept)
	t.Cleanup(func() {
		w.thaw()
		_ = w.listener.Close() // it ends what accepts
		w.mu.Lock()
		for _, c := range w.conns {
			_ = c.Close() // likewise
		}
		w.mu.Unlock()
		w.ends.Wait()
	})
	return w
}

func (w *wire) accept() {
	for {
		client, err := w.listener.Accept()
		if err != nil {
			return
		}
		server, err := net.Dial("tcp", w.server)
		if err != nil {
			_ = client.Close() // as if nobody had listened
			continue
		}
		w.mu.Lock()
		w.conns = append(w.conns, client, server)
		w.mu.Unlock()
		w.ends.Go(func() { w.carry(client, server, false) })
		w.ends.Go(func() { w.carry(server, client, true) })
	}
}

func (w *wire) carry(from, to net.Conn, fromServer bool) {
	defer func() { _, _ = from.Close(), to.Close() }() // whichever is still open
	b := make([]byte, 64<<10)
	for {
		n, err := from.Read(b)
		if err != nil {
			return
		}
		w.mu.Lock()
		frozen, cut, late, release := w.frozen, w.cut, w.late, w.release
		w.mu.Unlock()
		if frozen != nil {
			<-frozen
		}
		if cut != nil && cut(fromServer, b[:n]) {
			if late {
				_ = from.Close() // the client hears nothing more; what it said is still on its way
				<-release
				_, _ = to.Write(b[:n])
				<-w.arrived
			}
			return
		}
		if _, err := to.Write(b[:n]); err != nil {
			if late && fromServer {
				close(w.arrived)
			}
			return
		}
	}
}

func (w *wire) freeze() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.frozen = make(chan struct{})
}

func (w *wire) thaw() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.frozen != nil {
		close(w.frozen)
		w.frozen = nil
	}
}

// once has the next packet for which is says so cut its connection.
func (w *wire) once(is func(fromServer bool, b []byte) bool) {
	var did sync.Once
	w.mu.Lock()
	defer w.mu.Unlock()
	w.cut = func(fromServer bool, b []byte) (now bool) {
		if is(fromServer, b) {
			did.Do(func() { now = true })
		}
		return now
	}
}

// aCommit is the server's answer to a transaction that it committed.
func aCommit(fromServer bool, b []byte) bool {
	return fromServer && bytes.Contains(b, []byte("COMMIT\x00"))
}

// aBatch is a transaction on its way to the server, as the writers send it.
func aBatch(fromServer bool, b []byte) bool {
	return !fromServer && len(b) > 0 && b[0] == 'B' && bytes.Contains(b, note)
}

var note = []byte("a note of this test")
