package replicas

import (
	"errors"
	"net"
	"sync"
	"testing"
	"time"
)

// cutter is the link between one replica and its database. Cut one way, the bytes of that way go nowhere, and nobody is told: no
// connection ends. Mended, it delivers what it kept, late, as TCP does after a network comes back, or drops those connections.
type cutter struct {
	addr     string // where the replica finds the database
	to       string
	listener net.Listener
	all      sync.WaitGroup

	mu    sync.Mutex
	cut   [2]bool // to the server, to the client
	mend  chan struct{}
	links map[*link]struct{}
}

const (
	toServer = 0
	toClient = 1
)

// link is one connection with its two ends.
type link struct{ client, server net.Conn }

func (l *link) close() { _, _ = l.client.Close(), l.server.Close() } // they may have ended

// reset ends both ends as a machine does that knows nothing of them.
func (l *link) reset() {
	for _, c := range []net.Conn{l.client, l.server} {
		if tcp, ok := c.(*net.TCPConn); ok {
			_ = tcp.SetLinger(0) // then its end is an RST
		}
	}
	l.close()
}

func newCutter(t *testing.T, to string) *cutter {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	c := &cutter{addr: l.Addr().String(), to: to, listener: l, mend: make(chan struct{}), links: map[*link]struct{}{}}
	c.all.Go(c.accept)
	t.Cleanup(func() {
		_ = l.Close()
		c.set(false, false, true)
		c.all.Wait()
	})
	return c
}

func (c *cutter) accept() {
	for {
		client, err := c.listener.Accept()
		if errors.Is(err, net.ErrClosed) {
			return
		}
		if err != nil {
			continue
		}
		c.all.Go(func() { c.carry(client) })
	}
}

func (c *cutter) carry(client net.Conn) {
	server, err := net.DialTimeout("tcp", c.to, 10*time.Second)
	if err != nil { // the database is away: that is no cut
		l := &link{client, client}
		l.reset()
		return
	}
	l := &link{client, server}
	c.mu.Lock()
	c.links[l] = struct{}{}
	c.mu.Unlock()
	var both sync.WaitGroup
	both.Go(func() { c.pump(l, toServer, client, server) })
	both.Go(func() { c.pump(l, toClient, server, client) })
	both.Wait()
	c.mu.Lock()
	delete(c.links, l)
	c.mu.Unlock()
	l.close()
}

// pump carries one way. An end that closes takes the other with it, unless that is news that cannot get through.
func (c *cutter) pump(l *link, way int, from, to net.Conn) {
	buf := make([]byte, 64<<10)
	for {
		n, err := from.Read(buf)
		c.wait(way)
		if n > 0 {
			if _, werr := to.Write(buf[:n]); werr != nil {
				err = werr
			}
		}
		if err != nil {
			l.close()
			return
		}
	}
}

// wait blocks while a way is cut.
func (c *cutter) wait(way int) {
	for {
		c.mu.Lock()
		cut, mend := c.cut[way], c.mend
		c.mu.Unlock()
		if !cut {
			return
		}
		<-mend
	}
}

// set cuts and mends; drop ends what connections there are with an RST.
func (c *cutter) set(up, down, drop bool) {
	c.mu.Lock()
	if drop {
		for l := range c.links {
			l.reset()
		}
	}
	c.cut = [2]bool{up, down}
	close(c.mend)
	c.mend = make(chan struct{})
	c.mu.Unlock()
}
