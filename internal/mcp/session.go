package mcp

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/tidwall/gjson"
)

// session is one client and its own connection to one server: ids and streams of two sessions never meet. A
// server that restarts, or forgets the session, gets a new connection that is greeted like the first.
type session struct {
	p      *Proxy
	srv    *server
	id     string
	scope  string // of keys that come without a template (semantics 41): id, unless another process names it
	caller Caller
	home   sink // where a stdio client reads; nil for one over HTTP
	web    *web // where one over HTTP does

	dialing sync.Mutex // held while a connection is made, by whoever needs one

	mu       sync.Mutex
	conn     *conn
	old      []*conn // their sessions are gone, their streams may not be
	failures int     // connections that ended soon after they began, in a row
	pending  map[int64]*pending
	tokens   map[string]*pending // progress tokens on their way, as the server knows them
	asks     map[int64]ask       // what the server asked the client
	calls    map[*waiter]struct{}
	tasks    map[string]*flight
	late     []int64 // calls given up whose answer would still be evidence
	greeting greeting
	closed   bool
	used     time.Time

	work sync.WaitGroup
}

// greeting is what a new connection must be told to be where the last one was.
type greeting struct {
	hello json.RawMessage // params of initialize
	said  bool            // the server has answered it
	ready bool            // the client said notifications/initialized
	meta  json.RawMessage // what a client without a session says of itself in each request (2026-07-28)
	level json.RawMessage // params of the last logging/setLevel
	subs  map[string]json.RawMessage
}

// sink is where a client reads what is said to it.
type sink interface {
	put(raw []byte)                 // a message on the way to the answer
	answer(raw []byte)              // the answer
	drop()                          // no answer will come, and none is waited for
	refuse(id []byte, e *sendError) // the server's own refusal in HTTP's words
}

// pending is a request on its way to the server.
type pending struct {
	id     int64
	conn   *conn
	client json.RawMessage // the client's id; nil: a request of the proxy's own
	m      *message
	name   string
	head   head
	token  string          // progress token towards the server
	was    json.RawMessage // as the client wrote it, where it had to be changed
	to     sink
	done   func(reply)
	resent bool
	read   bool // may be sent again, since it changes nothing
	charge int  // bytes of it that count as memory
}

// reply is what became of a request: its answer, or why there is none.
type reply struct {
	msg  *message // as it is shown and kept
	came *message // as it came, where that is something else
	fail *sendError
	// status is the HTTP status under which an error came in msg, 0 for a good one or none.
	status int
	size   int // bytes of msg that its flight has counted as memory
}

// ask is a request of the server's to the client.
type ask struct {
	conn *conn
	id   json.RawMessage
}

// Bounds of what a session may have on its way, from either side.
const (
	maxAsks    = 1024
	maxPending = 4096
)

var errBusy = errors.New("too many requests of this session are on their way")

func newSession(p *Proxy, srv *server, id string, caller Caller) *session {
	scope := id
	if caller.scope != "" {
		scope = caller.scope
	}
	return &session{p: p, srv: srv, id: id, scope: scope, caller: caller, pending: map[int64]*pending{}, tokens: map[string]*pending{}, asks: map[int64]ask{},
		calls: map[*waiter]struct{}{}, tasks: map[string]*flight{}, used: time.Now()}
}

// begin counts work of the session's, unless it is over.
func (s *session) begin(f func()) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return false
	}
	s.work.Go(f)
	return true
}

// register enters a request and gives it an id and, where its progress token is taken, another token.
func (s *session) register(c *conn, r *pending) (outgoing, error) {
	raw, method, params := r.m.raw, r.m.method, r.m.params
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return outgoing{}, errClosed
	}
	if len(s.pending) >= maxPending {
		return outgoing{}, errBusy
	}
	if !s.p.memory.Take(len(raw)) {
		return outgoing{}, errMemory
	}
	r.charge = len(raw)
	r.id, r.conn = s.p.next(), c
	s.pending[r.id] = r
	s.used = time.Now()
	if t := gjson.GetBytes(params, "_meta.progressToken"); t.Exists() && t.Index > 0 {
		r.token = t.Raw
		if s.tokens[r.token] != nil {
			r.token, r.was = fmt.Sprintf(`"holdfast-%d"`, r.id), json.RawMessage(t.Raw)
			at := r.m.paramsAt + t.Index
			changed, err := parse(splice(raw, at, at+len(t.Raw), []byte(r.token)), s.p.depth())
			if err != nil { // it was a message before, and a text stands where a value stood
				return outgoing{}, err
			}
			r.m = changed
		}
		s.tokens[r.token] = r
	}
	return outgoing{raw: r.m.withID(number(r.id)), id: r.id, method: method, name: r.name, header: r.head.mcp, modern: r.head.version}, nil
}

// take removes a request whose end has come.
func (s *session) take(id int64) *pending {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.takeLocked(id)
}

func (s *session) takeLocked(id int64) *pending {
	r := s.pending[id]
	if r == nil {
		return nil
	}
	delete(s.pending, id)
	s.p.memory.Give(r.charge)
	if r.token != "" && s.tokens[r.token] == r {
		delete(s.tokens, r.token)
	}
	return r
}

// ask sends a request of the proxy's own and waits for the answer.
func (s *session) ask(ctx context.Context, c *conn, method string, params json.RawMessage) (reply, error) {
	m, err := parse(request(0, method, params), s.p.depth())
	if err != nil {
		return reply{}, err
	}
	got := make(chan reply, 1)
	r := &pending{m: m, name: nameOf(m), done: func(r reply) { got <- r }}
	r.head.version = modernVersion(params)
	out, err := s.register(c, r)
	if err != nil {
		return reply{}, err
	}
	if err := c.link.send(ctx, out); err != nil {
		c.unanswered(r.id, asSendError(err))
	}
	select {
	case r := <-got:
		if r.fail != nil {
			return reply{}, r.fail
		}
		return r, nil
	case <-ctx.Done():
		s.take(r.id)
		return reply{}, context.Cause(ctx)
	}
}

// result is ask for an answer that is no error, as it came.
func (s *session) result(ctx context.Context, c *conn, method string, params json.RawMessage) (json.RawMessage, error) {
	got, err := s.ask(ctx, c, method, params)
	if err != nil {
		return nil, err
	}
	if got.msg.error != nil {
		return nil, fmt.Errorf("the server refuses %s: %.200s", method, got.msg.error)
	}
	return got.said().result, nil
}

// tell sends a message that has no answer; a failure only loses it.
func (s *session) tell(c *conn, o outgoing) {
	ctx, stop := context.WithTimeout(context.Background(), tellWait)
	defer stop()
	if err := c.link.send(ctx, o); err != nil {
		s.p.logger.Debug("a message did not reach the MCP server", "server", s.srv.name, "method", o.method, "error", err)
		var e *sendError
		if errors.As(err, &e) && e.gone {
			c.lost(e)
		}
	}
}

const tellWait = 30 * time.Second

// close ends the session: what is on its way becomes unknown where it may have acted, the connection is closed, and every
// goroutine is waited for.
func (s *session) close() {
	s.mu.Lock()
	if s.closed {
		s.mu.Unlock()
		s.work.Wait()
		return
	}
	s.closed = true
	all := s.old
	if s.conn != nil {
		all = append(all, s.conn)
	}
	s.mu.Unlock()
	for _, c := range all {
		c.fail(&sendError{sent: true, err: errClosed})
		c.link.close()
	}
	s.mu.Lock()
	for id := range s.pending { // whose late answer would have been evidence
		s.takeLocked(id)
	}
	s.mu.Unlock()
	if s.web != nil {
		s.web.close()
	}
	s.work.Wait()
}

// busy says whether a client waits for an answer. Nobody waits for a subscription's.
func (s *session) busy() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, r := range s.pending {
		if r.client != nil && r.m.method != "subscriptions/listen" {
			return true
		}
	}
	return len(s.calls) > 0
}

// keepLate leaves a call that was given up among the pending, for the evidence that its answer would be.
func (s *session) keepLate(id int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.pending[id] == nil {
		return
	}
	if len(s.late) >= maxLate {
		s.takeLocked(s.late[0])
		s.late = s.late[1:]
	}
	s.late = append(s.late, id)
}

const maxLate = 256

// renew takes over a credential that has changed: tokens are refreshed in the middle of a session.
func (s *session) renew(authorization string) {
	s.mu.Lock()
	same, c := s.caller.Authorization == authorization, s.conn
	s.caller.Authorization = authorization
	s.mu.Unlock()
	if !same && c != nil {
		c.link.credential(authorization)
	}
}
