package mcp

import (
	"context"
	"encoding/json"
	"errors"
	"strconv"
	"time"

	"github.com/tidwall/gjson"
)

// fromClient takes one message of the client's. It returns when the message is on its way, so that messages of
// one client are not overtaken by later ones; what comes of a request goes to its sink.
func (s *session) fromClient(m *message, h head, to sink) {
	switch {
	case m.isResponse():
		s.answerServer(m, h)
	case m.isNotification():
		s.noticeServer(m, h)
	default:
		s.request(m, h, to)
	}
}

// answerServer passes on the client's answer to a request of the server's.
func (s *session) answerServer(m *message, h head) {
	id, err := strconv.ParseInt(string(m.id), 10, 64)
	if err != nil {
		return
	}
	s.mu.Lock()
	a, ok := s.asks[id]
	delete(s.asks, id)
	if ok {
		a.conn.heard = time.Now()
	}
	ok = ok && a.conn == s.conn && !a.conn.dead
	s.mu.Unlock()
	if ok { // else whoever asked is gone
		s.tell(a.conn, outgoing{raw: m.withID(a.id), header: h.mcp})
	}
}

func (s *session) noticeServer(m *message, h head) {
	if m.method == "notifications/cancelled" {
		s.cancel(m, h)
		return
	}
	c, err := s.connected()
	if err != nil {
		s.p.logger.Warn("a notification did not reach the MCP server", "server", s.srv.name, "method", m.method, "error", err)
		return
	}
	s.tell(c, outgoing{raw: m.raw, method: m.method, header: h.mcp, modern: modernVersion(m.params)})
	if m.method == "notifications/initialized" {
		s.mu.Lock()
		s.greeting.ready = true
		s.mu.Unlock()
		c.link.listen()
		s.p.opened(s)
	}
}

// cancel forwards a cancellation, and changes no state (semantics 40). A call that others wait for too only loses this one of
// them.
func (s *session) cancel(m *message, h head) {
	t := gjson.GetBytes(m.params, "requestId")
	s.mu.Lock()
	r, w := s.cancelledLocked(t.Raw)
	s.mu.Unlock()
	if w != nil {
		if r = w.leave(); r == nil {
			return
		}
	}
	if r == nil || t.Index <= 0 {
		return
	}
	at := m.paramsAt + t.Index
	s.tell(r.conn, outgoing{raw: splice(m.raw, at, at+len(t.Raw), number(r.id)), method: m.method, header: h.mcp, modern: modernVersion(m.params)})
}

// cancelledLocked finds the latest request of that id: a plain one, which is forgotten, or a call of a write tool.
func (s *session) cancelledLocked(id string) (r *pending, w *waiter) {
	for _, p := range s.pending {
		if p.client != nil && string(p.client) == id && (r == nil || p.id > r.id) {
			r = p
		}
	}
	for c := range s.calls {
		if string(c.id) == id && (w == nil || c.n > w.n) {
			w = c
		}
	}
	if r != nil && (w == nil || r.id > w.n) {
		s.takeLocked(r.id)
		if r.to != nil {
			r.to.drop()
		}
		return r, nil
	}
	return nil, w
}

func (s *session) request(m *message, h head, to sink) {
	if h.version == "" {
		h.version = modernVersion(m.params)
	}
	if meta := ownMeta(m); meta != nil {
		s.introduce(meta)
	}
	if m.method == "tools/call" && !s.srv.bare {
		s.callTool(m, h, to)
		return
	}
	s.forward(&pending{client: m.id, m: m, name: nameOf(m), head: h, to: to, read: reads[m.method]})
}

// introduce remembers what a client of MCP 2026-07-28 says of itself: a request of the proxy's own must say it, too.
func (s *session) introduce(meta json.RawMessage) {
	s.mu.Lock()
	first := s.greeting.meta == nil
	s.greeting.meta = meta
	s.mu.Unlock()
	if first {
		s.p.opened(s)
	}
}

// nameOf is what Mcp-Name bears for a message.
func nameOf(m *message) string {
	switch m.method {
	case "tools/call", "prompts/get":
		return gjson.GetBytes(m.params, "name").String()
	case "resources/read":
		return gjson.GetBytes(m.params, "uri").String()
	}
	return ""
}

// reads are the requests that may be sent a second time to a server that was lost over the first.
var reads = map[string]bool{
	"ping": true, "server/discover": true, "tools/list": true, "prompts/list": true, "prompts/get": true, "resources/list": true,
	"resources/templates/list": true, "resources/read": true, "completion/complete": true, "logging/setLevel": true,
	"resources/subscribe": true, "resources/unsubscribe": true, "tasks/get": true, "tasks/list": true, "tasks/result": true,
}

// forward sends a request as it is. r.done, where it is not set, hands the answer to the client as it came.
func (s *session) forward(r *pending) {
	if r.done == nil {
		r.done = func(got reply) { s.answer(r, got) }
	}
	c, err := s.connected()
	if err != nil {
		e := asSendError(err)
		e.sent = false
		r.done(reply{fail: e})
		return
	}
	s.send(c, r)
}

// send registers r and sends it over c.
func (s *session) send(c *conn, r *pending) {
	out, err := s.register(c, r)
	if err != nil {
		r.done(reply{fail: &sendError{err: err}})
		return
	}
	if err := c.link.send(context.Background(), out); err != nil {
		c.unanswered(r.id, asSendError(err))
	}
}

// answer hands the client what became of its request.
func (s *session) answer(r *pending, got reply) {
	if got.fail != nil {
		if s.again(r, got.fail) {
			return
		}
		s.refuse(r, got.fail)
		return
	}
	s.remember(r, got)
	if r.was != nil {
		s.p.logger.Debug("a progress token was in use twice", "server", s.srv.name)
	}
	raw := got.msg.withID(r.client)
	if r.m.method == "tools/list" && got.msg.result != nil && !s.srv.bare {
		raw = result(r.client, s.srv.learn(got.msg.result))
	}
	r.to.answer(raw)
}

// again sends a request once more to a server that is back: one that changes nothing, or that the server certainly
// did not see.
func (s *session) again(r *pending, why *sendError) bool {
	may := r.read || !why.sent || why.gone
	if r.resent || !may || why.status != 0 && !why.gone || errors.Is(why, errClosed) || errors.Is(why, errTooLarge) || r.m.method == "initialize" {
		return false
	}
	r.resent = true
	return s.begin(func() { s.forward(r) })
}

// refuse tells the client that there is no answer.
func (s *session) refuse(r *pending, why *sendError) {
	s.p.logger.Info("an MCP request has no answer", "server", s.srv.name, "method", r.m.method, "error", why)
	if why.status != 0 {
		r.to.refuse(r.client, why)
		return
	}
	switch {
	case !why.sent:
		r.to.answer(failure(r.client, codeUnavailable, "the server cannot be reached, nothing was sent: "+why.Error()))
	case r.m.method == "tools/call" && !r.read:
		c := &call{s: s, m: r.m, tool: r.name}
		r.to.answer(c.said(r.client, c.unknownWords("", why.Error())))
	default:
		r.to.answer(failure(r.client, codeInternal, "the server gave no answer: "+why.Error()))
	}
}

// remember keeps what a later connection must be told, and what the server says of its tasks.
func (s *session) remember(r *pending, got reply) {
	m := got.said()
	if m.result == nil {
		return
	}
	s.mu.Lock()
	g := &s.greeting
	switch r.m.method {
	case "initialize":
		g.hello, g.said = r.m.params, true
	case "logging/setLevel":
		g.level = r.m.params
	case "resources/subscribe":
		if g.subs == nil {
			g.subs = map[string]json.RawMessage{}
		}
		if len(g.subs) < maxSubs {
			g.subs[gjson.GetBytes(r.m.params, "uri").String()] = r.m.params
		}
	case "resources/unsubscribe":
		delete(g.subs, gjson.GetBytes(r.m.params, "uri").String())
	}
	s.mu.Unlock()
	switch r.m.method {
	case "initialize":
		r.conn.link.negotiated(gjson.GetBytes(m.result, "protocolVersion").String())
	case "tasks/get", "tasks/cancel":
		s.taskStatus(m.result)
	case "tasks/result":
		s.taskResult(gjson.GetBytes(r.m.params, "taskId").String(), got)
	}
}

const maxSubs = 1024
