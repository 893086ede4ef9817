package postgres

import (
	"context"
	"crypto/rand"
	"encoding/base64"
	"encoding/hex"
	"strings"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/holdfast-ai/holdfast/ledger"
)

const (
	// noticeMax is what Postgres takes as a payload, less some.
	noticeMax = 7900
	// noticeIDs bounds the ids that wait to be told; beyond them everybody is told to look.
	noticeIDs = 8192
	// noticePing is how long nothing is heard before the connection that listens is tried.
	noticePing = 30 * time.Second
)

// A payload is the origin, which its own listener skips, then a letter for what it says, then for ids one after the other.
const (
	originSize  = 8
	saysMoved   = 'm'
	saysReady   = 'r'
	saysAll     = 'a'
	encodedUUID = 22
)

var idCode = base64.RawURLEncoding

// notices tells other processes of what this one wrote, and listens to what they say.
//
// They are sent behind the commit, from one connection and many at once: NOTIFY holds a lock of the whole database from its commit's beginning to its end,
// in which the disk is waited for when something else was written. A transaction with notices alone waits for no disk. What is lost when a process ends
// between the two is what whoever waits finds by looking now and then.
type notices struct {
	l       *Ledger
	channel string
	origin  string

	mu     sync.Mutex
	moved  []uuid
	ready  bool
	all    bool
	wake   chan struct{} // capacity 1
	heard  map[int]func(ledger.Notice)
	next   int
	listen sync.Once

	calls sync.RWMutex // held while somebody is told, so that nobody is when his stop has returned
}

func newNotices(l *Ledger) *notices {
	var b [originSize / 2]byte
	_, _ = rand.Read(b[:]) // it never fails
	return &notices{l: l, channel: "holdfast." + l.schema, origin: hex.EncodeToString(b[:]), wake: make(chan struct{}, 1),
		heard: map[int]func(ledger.Notice){}}
}

// tell queues what others may wait for among items that were written.
func (n *notices) tell(items []*item) {
	n.mu.Lock()
	defer n.mu.Unlock()
	some := false
	for _, it := range items {
		if it.verdict != nil {
			continue
		}
		moved, ready := it.news()
		if moved {
			n.moved = append(n.moved, it.id)
		}
		n.ready = n.ready || ready
		some = some || moved || ready
	}
	if !some {
		return
	}
	if len(n.moved) > noticeIDs {
		n.moved, n.all = nil, true
	}
	select {
	case n.wake <- struct{}{}:
	default:
	}
}

// news says what of a write somebody may wait for: that an intent is settled, unknown or in nobody's hands, and that a job waits.
func (it *item) news() (moved, ready bool) {
	w := it.w
	if it.beside != nil && it.beside.w.Insert.JobID != "" {
		ready = true
	}
	switch s := &w.Status; {
	case w.Append, w.Lease:
		return false, ready
	case w.Settle, s.State == ledger.Unknown:
		return w.Insert == nil, ready
	case s.LeaseOwner != "":
		return false, ready
	case w.Insert != nil:
		return false, ready || w.Insert.JobID != ""
	}
	return true, true
}

// send tells what is queued until the ledger is closed.
func (n *notices) send() {
	for {
		select {
		case <-n.wake:
		case <-n.l.closed:
			return
		}
		for _, payload := range n.payloads() {
			ctx, cancel := context.WithTimeout(n.l.ctx, n.l.cfg.ConnectTimeout)
			_, err := n.l.read.Exec(ctx, `SELECT pg_notify($1, $2)`, n.channel, payload)
			cancel()
			if err != nil && !n.l.isClosed() {
				n.l.cfg.Logger.Debug("other replicas were not told of what was written; they find it by looking", "error", err)
			}
		}
	}
}

// payloads takes what is queued.
func (n *notices) payloads() (out []string) {
	n.mu.Lock()
	moved, ready, all := n.moved, n.ready, n.all
	n.moved, n.ready, n.all = nil, false, false
	n.mu.Unlock()
	if all || len(moved)*encodedUUID > 4*noticeMax {
		return []string{n.origin + string(saysAll)}
	}
	const most = (noticeMax - originSize - 1) / encodedUUID
	for len(moved) > 0 {
		some := moved[:min(len(moved), most)]
		moved = moved[len(some):]
		b := append(make([]byte, 0, noticeMax), n.origin...)
		b = append(b, saysMoved)
		for _, id := range some {
			b = idCode.AppendEncode(b, id[:])
		}
		out = append(out, string(b))
	}
	if ready {
		out = append(out, n.origin+string(saysReady))
	}
	return out
}

// Notices implements ledger.Notifier.
func (l *Ledger) Notices(f func(ledger.Notice)) (stop func()) {
	n := l.notices
	n.mu.Lock()
	id := n.next
	n.next++
	n.heard[id] = f
	n.mu.Unlock()
	n.listen.Do(func() {
		if !l.isClosed() {
			l.workers.Go(n.hear)
		}
	})
	return func() {
		n.mu.Lock()
		delete(n.heard, id)
		n.mu.Unlock()
		n.calls.Lock() // whoever is being told has been
		defer n.calls.Unlock()
	}
}

// say hands a notice to everybody.
func (n *notices) say(what ledger.Notice) {
	n.calls.RLock()
	defer n.calls.RUnlock()
	n.mu.Lock()
	all := make([]func(ledger.Notice), 0, len(n.heard))
	for _, f := range n.heard {
		all = append(all, f)
	}
	n.mu.Unlock()
	for _, f := range all {
		f(what)
	}
}

// hear listens for as long as the ledger is open, on one connection after the other.
func (n *notices) hear() {
	for pause := reconnectFirst; ; pause = min(2*pause, reconnectMax) {
		ctx, cancel := context.WithTimeout(n.l.ctx, n.l.cfg.ConnectTimeout)
		c, err := n.l.connect(ctx)
		if err == nil {
			_, err = c.Exec(ctx, `LISTEN `+pgx.Identifier{n.channel}.Sanitize())
		}
		cancel()
		if err == nil {
			pause = reconnectFirst
			n.say(ledger.Notice{Kind: ledger.NoticeAll}) // of what came before nothing was heard
			n.hearOn(c)
		}
		if c != nil {
			ctx, cancel := context.WithTimeout(context.Background(), time.Second)
			_ = c.Close(ctx) // it is given up
			cancel()
		}
		select {
		case <-n.l.closed:
			return
		case <-time.After(pause):
		}
	}
}

// hearOn passes on what comes over c, until that breaks or the ledger is closed.
func (n *notices) hearOn(c *pgx.Conn) {
	ctx, cancel := context.WithCancel(n.l.ctx)
	defer cancel()
	stop := make(chan struct{})
	defer close(stop)
	go func() {
		defer cancel()
		select {
		case <-n.l.closed:
		case <-stop:
		}
	}()
	for {
		wait, done := context.WithTimeout(ctx, noticePing)
		got, err := c.WaitForNotification(wait)
		over := wait.Err() != nil
		done()
		switch {
		case err == nil:
			n.receive(got.Payload)
		case over && ctx.Err() == nil:
			ping, done := context.WithTimeout(ctx, n.l.cfg.ConnectTimeout)
			err = c.Ping(ping)
			done()
		}
		if err != nil && (!over || ctx.Err() != nil || c.IsClosed()) {
			return
		}
	}
}

// receive reads a payload. What cannot be read, as from a newer program, makes everybody look.
func (n *notices) receive(payload string) {
	if strings.HasPrefix(payload, n.origin) {
		return
	}
	if len(payload) <= originSize {
		n.say(ledger.Notice{Kind: ledger.NoticeAll})
		return
	}
	says, ids := payload[originSize], payload[originSize+1:]
	switch {
	case says == saysReady:
		n.say(ledger.Notice{Kind: ledger.NoticeReady})
	case says == saysMoved && len(ids)%encodedUUID == 0:
		for ; len(ids) > 0; ids = ids[encodedUUID:] {
			var id uuid
			if _, err := idCode.Decode(id[:], []byte(ids[:encodedUUID])); err != nil {
				n.say(ledger.Notice{Kind: ledger.NoticeAll})
				return
			}
			n.say(ledger.Notice{Kind: ledger.NoticeMoved, ID: id.String()})
		}
	default:
		n.say(ledger.Notice{Kind: ledger.NoticeAll})
	}
}
