package mcp

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"time"

	"github.com/tidwall/gjson"
)

// conn is one connection of a session to its server. It receives for the session.
type conn struct {
	s     *session
	link  link
	began time.Time
	dead  bool      // under session.mu
	heard time.Time // when the client last answered the server; under session.mu
}

const (
	dialWait   = 30 * time.Second // greeting included; npx may have to download a server first
	firstWait  = 100 * time.Millisecond
	longestGap = 5 * time.Second
	steady     = 10 * time.Second // a connection that lived this long is no failure
)

// connected returns the session's connection, and makes one where there is none.
func (s *session) connected() (*conn, error) {
	s.dialing.Lock()
	defer s.dialing.Unlock()
	s.mu.Lock()
	c, closed, failures, known := s.conn, s.closed, s.failures, s.greeting
	s.mu.Unlock()
	switch {
	case closed:
		return nil, errClosed
	case c != nil && !c.dead:
		return c, nil
	}
	if failures > 0 {
		timer := time.NewTimer(min(firstWait<<min(failures-1, 10), longestGap))
		defer timer.Stop()
		select {
		case <-timer.C:
		case <-s.p.halted:
			return nil, errClosed
		}
	}
	c = &conn{s: s, began: time.Now()}
	if err := s.dial(c); err != nil {
		s.failed()
		return nil, err
	}
	if known.said {
		if err := s.greet(c, known); err != nil {
			c.fail(&sendError{sent: true, err: err})
			c.link.close()
			s.failed()
			return nil, fmt.Errorf("greet the server again: %w", err)
		}
		s.p.logger.Info("an MCP server was lost and has been greeted again", "server", s.srv.name)
	}
	return c, s.adopt(c)
}

// adopt makes c the session's connection.
func (s *session) adopt(c *conn) error {
	s.mu.Lock()
	closed := s.closed
	if !closed {
		s.conn = c
	}
	s.mu.Unlock()
	if closed {
		c.link.close()
		return errClosed
	}
	return nil
}

func (s *session) failed() {
	s.mu.Lock()
	s.failures++
	s.mu.Unlock()
}

func (s *session) dial(c *conn) error {
	limits := s.p.limits()
	if s.srv.url != "" {
		s.mu.Lock()
		who := s.caller
		s.mu.Unlock()
		c.link = dialHTTP(s.srv.client, s.srv.url, s.srv.headersFor(who), who.Authorization, limits.MaxResponseBytes, s.p.memory, c)
		return nil
	}
	l, err := startStdio(s.srv.command, limits.MaxResponseBytes, s.p.memory, s.p.stderr, c)
	if err != nil {
		return &sendError{err: err}
	}
	c.link = l
	return nil
}

// greet brings a new connection to where the last one was.
func (s *session) greet(c *conn, g greeting) error {
	ctx, stop := context.WithTimeout(context.Background(), dialWait)
	defer stop()
	got, err := s.result(ctx, c, "initialize", g.hello)
	if err != nil {
		return err
	}
	c.link.negotiated(gjson.GetBytes(got, "protocolVersion").String())
	if !g.ready {
		return nil
	}
	s.tell(c, outgoing{raw: notification("notifications/initialized", nil), method: "notifications/initialized"})
	c.link.listen()
	if g.level != nil {
		_, err = s.result(ctx, c, "logging/setLevel", g.level)
	}
	for _, params := range g.subs {
		if _, sub := s.result(ctx, c, "resources/subscribe", params); sub != nil {
			err = sub
		}
	}
	if err != nil {
		s.p.logger.Warn("an MCP server that was greeted again did not take over everything", "server", s.srv.name, "error", err)
	}
	return nil
}

// received sorts what the server says.
func (c *conn) received(raw []byte, about int64, status int) (answered bool) {
	s := c.s
	if b := bytes.TrimLeft(raw, " \t\r\n"); len(b) > 0 && b[0] == '[' { // MCP 2025-03-26
		each, err := batch(raw, s.p.depth())
		for _, m := range each {
			answered = c.received(m.raw, about, status) || answered
		}
		return answered || err != nil && c.unreadable(raw, about, err)
	}
	m, err := parse(raw, s.p.depth())
	if err != nil {
		s.p.logger.Warn("an MCP server said what is no message", "server", s.srv.name, "bytes", len(raw), "error", err)
		return c.unreadable(raw, about, err)
	}
	if m.isResponse() {
		return c.response(m, about, status)
	}
	if m, err = s.srv.shown(m); err != nil {
		s.p.logger.Warn("what an MCP server said cannot be passed on", "server", s.srv.name, "error", err)
		return false
	}
	switch {
	case m.isRequest():
		s.askClient(c, m, about)
	default:
		s.noticeClient(c, m, about)
	}
	return false
}

// unreadable ends the request whose answer cannot be read.
func (c *conn) unreadable(raw []byte, about int64, why error) bool {
	id := about
	if id == 0 {
		if n, err := strconv.ParseInt(string(tooLong(nil, raw).id()), 10, 64); err == nil {
			id = n
		}
	}
	if id == 0 {
		return false
	}
	c.unanswered(id, &sendError{sent: true, err: why})
	return true
}

func (c *conn) response(m *message, about int64, status int) bool {
	id, err := strconv.ParseInt(string(m.id), 10, 64)
	if err != nil {
		return false
	}
	c.s.mu.Lock()
	r := c.s.pending[id]
	if r != nil && r.conn == c { // an answer to another connection's question is none
		c.s.takeLocked(id)
	} else {
		r = nil
	}
	c.s.used = time.Now()
	c.s.mu.Unlock()
	if r == nil {
		return id == about
	}
	r.done(c.s.srv.answered(m, status))
	return id == about
}

func (c *conn) unanswered(id int64, why *sendError) {
	if r := c.s.take(id); r != nil {
		r.done(reply{fail: c.s.srv.refused(why)})
	}
}

// lost ends what is on its way and lets go of the link, which still runs while it says so.
func (c *conn) lost(why *sendError) {
	s := c.s
	s.mu.Lock()
	was, closed := c.dead, s.closed
	c.dead = true
	if !was && s.conn == c {
		if time.Since(c.began) < steady {
			s.failures++
		} else {
			s.failures = 0
		}
	}
	s.mu.Unlock()
	if was || closed {
		return
	}
	if !why.gone {
		c.fail(why)
		s.begin(c.link.close)
		return
	}
	// The others' answers may still be on their way, each over a stream of its own.
	s.mu.Lock()
	s.old = append(s.old, c)
	var out *conn
	if len(s.old) > maxOld {
		out, s.old = s.old[0], s.old[1:]
	}
	s.mu.Unlock()
	if out != nil {
		s.begin(out.link.close)
	}
}

// maxOld bounds the connections whose session the server has forgotten and that are still read.
const maxOld = 4

// fail ends every request on its way over c.
func (c *conn) fail(why *sendError) {
	c.s.mu.Lock()
	c.dead = true
	var all []*pending
	for id, r := range c.s.pending {
		if r.conn == c {
			all = append(all, c.s.takeLocked(id))
		}
	}
	c.s.mu.Unlock()
	for _, r := range all {
		r.done(reply{fail: c.s.srv.refused(why)})
	}
}

// askClient passes on a request of the server's, under an id of ours: another connection's server may use the same.
func (s *session) askClient(c *conn, m *message, about int64) {
	s.mu.Lock()
	full := len(s.asks) >= maxAsks
	id := s.p.next()
	if !full {
		s.asks[id] = ask{c, m.id}
	}
	to := s.toward(about, m)
	s.mu.Unlock()
	if !full && to != nil {
		to.put(m.withID(number(id)))
		return
	}
	s.mu.Lock()
	delete(s.asks, id)
	s.mu.Unlock()
	answer := failure(m.id, codeInternal, "the client cannot be asked now")
	if m.method == "ping" && !full {
		answer = result(m.id, json.RawMessage("{}"))
	}
	s.begin(func() { s.tell(c, outgoing{raw: answer}) })
}

// noticeClient passes on a notification.
func (s *session) noticeClient(c *conn, m *message, about int64) {
	raw := m.raw
	s.mu.Lock()
	to := s.toward(about, m)
	switch m.method {
	case "notifications/cancelled":
		raw = s.cancelledByServer(c, m)
	case "notifications/progress":
		if t := gjson.GetBytes(m.params, "progressToken"); t.Index > 0 {
			if r := s.tokens[t.Raw]; r != nil && r.was != nil {
				at := m.paramsAt + t.Index
				raw = splice(raw, at, at+len(t.Raw), r.was)
			}
		}
	case "notifications/tools/list_changed":
		s.srv.forget()
	}
	if t := gjson.GetBytes(m.params, subscriptionPath); t.Index > 0 {
		if r := s.pending[int64(gjson.Parse(t.Raw).Num)]; r != nil && r.client != nil && t.Raw == string(number(r.id)) {
			at := m.paramsAt + t.Index
			raw, to = splice(raw, at, at+len(t.Raw), r.client), r.to
		}
	}
	s.mu.Unlock()
	if m.method == "notifications/tasks/status" {
		s.taskStatus(m.params)
	}
	if raw != nil && to != nil {
		to.put(raw)
	}
}

// subscriptionPath is where a notification names the subscriptions/listen request that it belongs to (2026-07-28).
const subscriptionPath = `_meta.io\.modelcontextprotocol/subscriptionId`

// cancelledByServer puts our id into a cancellation of what the server asked. Nil: there is nothing to cancel.
func (s *session) cancelledByServer(c *conn, m *message) []byte {
	t := gjson.GetBytes(m.params, "requestId")
	for id, a := range s.asks {
		if a.conn == c && string(a.id) == t.Raw && t.Index > 0 {
			delete(s.asks, id)
			at := m.paramsAt + t.Index
			return splice(m.raw, at, at+len(t.Raw), number(id))
		}
	}
	return nil
}

// toward finds where the client reads a message that is no answer: with the call that it belongs to, else where all such messages
// go. Call with mu held.
func (s *session) toward(about int64, m *message) sink {
	if s.home != nil {
		return s.home
	}
	if m.method == "notifications/progress" {
		if r := s.tokens[gjson.GetBytes(m.params, "progressToken").Raw]; r != nil && r.to != nil {
			return r.to
		}
	}
	if r := s.pending[about]; r != nil && r.to != nil {
		return r.to
	}
	var only sink
	for _, r := range s.pending {
		if r.to != nil && only != nil && only != r.to {
			return s.web.unasked()
		}
		if r.to != nil {
			only = r.to
		}
	}
	if only != nil {
		return only
	}
	return s.web.unasked()
}

// head is what a client's HTTP request said beside the message.
type head struct {
	mcp     http.Header
	version string
}

// modernVersion is the protocol version that a message of 2026-07-28 and later bears itself.
func modernVersion(params json.RawMessage) string {
	return gjson.GetBytes(params, `_meta.io\.modelcontextprotocol/protocolVersion`).String()
}

var errSessionGone = errors.New("the server did not know the session any more")
