package gateway

import (
	"io"
	"net"
	"testing"
	"time"

	"github.com/holdfast-ai/holdfast/ledger"
)

// pair is a client's connection and the gateway's end of it.
func pair(t *testing.T) (client *net.TCPConn, ours *watchedConn) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	c, err := net.Dial("tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	s, err := Watch(l).Accept()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _, _ = c.Close(), s.Close() })
	return c.(*net.TCPConn), s.(*watchedConn)
}

func sentSighting() *sighting {
	s := &sighting{book: &sightings{timer: time.NewTimer(time.Hour)}, delivery: ledger.DeliverySent, gone: make(chan struct{})}
	return s
}

func say(t *testing.T, c net.Conn, text string) {
	t.Helper()
	if _, err := io.WriteString(c, text); err != nil {
		t.Fatal(err)
	}
}

func hear(t *testing.T, c net.Conn, text string) {
	t.Helper()
	p := make([]byte, len(text))
	if _, err := io.ReadFull(c, p); err != nil || string(p) != text {
		t.Fatalf("%q %v", p, err)
	}
}

// heard reads what the client sends until its end.
func heard(c net.Conn) error { _, err := c.Read(make([]byte, 16)); return err }

// What a client that closes has read is what its kernel has acknowledged; what is written after that reaches nobody, though
// the write succeeds and no reset is seen behind an orderly close.
func TestWhatACloseSays(t *testing.T) {
	tests := map[string]struct {
		play func(t *testing.T, client *net.TCPConn, ours *watchedConn)
		want ledger.Delivery
	}{
		"closed when everything was read": {func(t *testing.T, client *net.TCPConn, ours *watchedConn) {
			say(t, ours, "answer")
			hear(t, client, "answer")
			_ = client.Close()
			_ = heard(ours)
		}, ledger.DeliverySent},
		"closed before": {func(t *testing.T, client *net.TCPConn, ours *watchedConn) {
			_ = client.Close()
			say(t, ours, "answer")
			_ = heard(ours)
		}, ledger.DeliveryLost},
		"closed between the answer's pieces": {func(t *testing.T, client *net.TCPConn, ours *watchedConn) {
			say(t, ours, "ans")
			hear(t, client, "ans")
			_ = client.Close()
			say(t, ours, "wer")
			_ = heard(ours)
		}, ledger.DeliveryLost},
		"closed with some of it unread": {func(t *testing.T, client *net.TCPConn, ours *watchedConn) {
			say(t, ours, "answer")
			hear(t, client, "ans")
			_ = client.Close()
			_ = heard(ours)
		}, ledger.DeliveryLost},
		"reset when everything was read": {func(t *testing.T, client *net.TCPConn, ours *watchedConn) {
			say(t, ours, "answer")
			hear(t, client, "answer")
			_ = client.SetLinger(0)
			_ = client.Close()
			_ = heard(ours)
		}, ledger.DeliveryLost},
		"only its side closed, and the rest read": {func(t *testing.T, client *net.TCPConn, ours *watchedConn) {
			_ = client.CloseWrite()
			say(t, ours, "answer")
			hear(t, client, "answer")
			_ = heard(ours)
		}, ledger.DeliverySent},
		"closed in the midst of the next answer": {func(t *testing.T, client *net.TCPConn, ours *watchedConn) {
			say(t, ours, "answer")
			hear(t, client, "answer")
			say(t, client, "next question")
			_, _ = ours.Read(make([]byte, 16))
			_ = client.Close()
			say(t, ours, "next answer")
			_ = heard(ours)
		}, ledger.DeliverySent},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			client, ours := pair(t)
			s := sentSighting()
			if err := ours.wrote(s, 0); err != nil {
				t.Fatal(err)
			}
			test.play(t, client, ours)
			_ = ours.Close()
			if s.delivery != test.want {
				t.Errorf("delivery %v, want %v", s.delivery, test.want)
			}
		})
	}
}

// Of an answer whose end is not written yet, nobody can have hung up behind it.
func TestWroteBehindAClose(t *testing.T) {
	client, ours := pair(t)
	say(t, ours, "last event")
	hear(t, client, "last event")
	_ = client.Close()
	if err := heard(ours); err != io.EOF {
		t.Fatal(err)
	}
	if err := ours.wrote(sentSighting(), 0); err == nil {
		t.Error("taken for received")
	}
}

// A request that begins behind the end of an answer says that its client has that answer: a reset is the next one's. One
// that was sent before says nothing.
func TestWhatTheNextRequestSays(t *testing.T) {
	next := func(ours *watchedConn) { _, _ = ours.Read(make([]byte, 16)) }
	tests := map[string]struct {
		play func(t *testing.T, client *net.TCPConn, ours *watchedConn, wrote func())
		want ledger.Delivery
	}{
		"behind the answer": {func(t *testing.T, client *net.TCPConn, ours *watchedConn, wrote func()) {
			wrote()
			say(t, ours, "answer")
			hear(t, client, "answer")
			say(t, client, "b")
			next(ours)
		}, ledger.DeliverySent},
		"none": {func(t *testing.T, client *net.TCPConn, ours *watchedConn, wrote func()) {
			wrote()
			say(t, ours, "answer")
			hear(t, client, "answer")
		}, ledger.DeliveryLost},
		"before the answer": {func(t *testing.T, client *net.TCPConn, ours *watchedConn, wrote func()) {
			say(t, client, "b")
			next(ours)
			wrote()
			say(t, ours, "answer")
			hear(t, client, "answer")
			say(t, client, "b")
			next(ours)
		}, ledger.DeliveryLost},
		"behind the answer, heard since before its end": {func(t *testing.T, client *net.TCPConn, ours *watchedConn, wrote func()) {
			read := make(chan struct{})
			go func() { next(ours); close(read) }()
			wrote()
			say(t, ours, "answer")
			hear(t, client, "answer")
			say(t, client, "b")
			<-read
		}, ledger.DeliverySent},
		"before its end": {func(t *testing.T, client *net.TCPConn, ours *watchedConn, wrote func()) {
			wrote()
			say(t, client, "b")
			next(ours)
			say(t, ours, "answer")
			hear(t, client, "answer")
			say(t, client, "b")
			next(ours)
		}, ledger.DeliveryLost},
		"with the first": {func(t *testing.T, client *net.TCPConn, ours *watchedConn, wrote func()) {
			ours.heard() // without another byte
			wrote()
			say(t, ours, "answer")
			hear(t, client, "answer")
			say(t, client, "c")
			next(ours)
		}, ledger.DeliveryLost},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			client, ours := pair(t)
			s := sentSighting()
			say(t, client, "a")
			next(ours)
			ours.heard()
			test.play(t, client, ours, func() {
				if err := ours.wrote(s, 0); err != nil {
					t.Fatal(err)
				}
			})
			_ = client.SetLinger(0)
			_ = client.Close()
			_ = heard(ours)
			if s.delivery != test.want {
				t.Errorf("delivery %v, want %v", s.delivery, test.want)
			}
		})
	}
}
