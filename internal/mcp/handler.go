package mcp

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"net/http"
	"strings"
	"time"
)

// Handler serves /mcp/{server} as streamable HTTP (MCP 2025-03-26, 2025-06-18, 2025-11-25, and the requests without a session of
// 2026-07-28). identify says whose request it is, or why it is nobody's; the listener checks Host and Origin.
func (p *Proxy) Handler(identify func(*http.Request) (Caller, error)) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		who, err := identify(r)
		if err != nil {
			refuse(w, http.StatusUnauthorized, "unauthorized", err.Error())
			return
		}
		name := strings.TrimSuffix(strings.TrimPrefix(r.URL.Path, "/mcp/"), "/")
		srv := p.server(name)
		if srv == nil {
			refuse(w, http.StatusNotFound, "not_found", p.noServer(name))
			return
		}
		p.serve(w, r, srv, who)
	})
}

func (p *Proxy) serve(w http.ResponseWriter, r *http.Request, srv *server, who Caller) {
	x := &exchange{p: p, w: w, r: r, srv: srv, who: who}
	switch r.Method {
	case http.MethodPost:
		x.post()
	case http.MethodGet:
		x.get()
	case http.MethodDelete:
		x.delete()
	default:
		w.Header().Set("Allow", "GET, POST, DELETE")
		refuse(w, http.StatusMethodNotAllowed, "invalid_request", "an MCP endpoint takes POST, GET and DELETE")
	}
}

// refuse answers with a JSON-RPC error that belongs to no request.
func refuse(w http.ResponseWriter, status int, code, text string) {
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Holdfast-Error", code)
	w.WriteHeader(status)
	_, _ = w.Write(failure(nil, codeInvalidRequest, text)) // a client that has gone reads nothing
}

// exchange is one HTTP request of a client's.
type exchange struct {
	p       *Proxy
	w       http.ResponseWriter
	r       *http.Request
	srv     *server
	who     Caller
	session *session
	modern  bool // without a session (2026-07-28)
}

const sessionHeader = "Mcp-Session-Id"

// find takes the session that the request names. One of another caller's is none.
func (x *exchange) find() bool {
	id := x.r.Header.Get(sessionHeader)
	if id == "" {
		refuse(x.w, http.StatusBadRequest, "invalid_request", "Mcp-Session-Id is missing; begin with initialize")
		return false
	}
	x.p.mu.Lock()
	s := x.p.sessions[id]
	x.p.mu.Unlock()
	if s == nil || s.web == nil || s.srv.name != x.srv.name || s.caller.Tenant != x.who.Tenant || strings.HasPrefix(id, loose) {
		refuse(x.w, http.StatusNotFound, "not_found", "there is no such session; begin again with initialize")
		return false
	}
	x.session = s
	s.renew(x.who.Authorization)
	return true
}

// loose begins the ids of sessions that clients without one share, each caller its own.
const loose = "loose-"

func (x *exchange) delete() {
	if x.find() {
		x.p.begin(func() {
			x.session.settle(context.Background())
			x.p.end(x.session)
		})
		x.w.WriteHeader(http.StatusNoContent)
	}
}

func (x *exchange) post() {
	held, room := x.holdBody()
	if !room {
		x.shed()
		return
	}
	in := &charged{r: x.r.Body, mem: x.p.memory, held: held}
	defer func() { x.p.memory.Give(in.held) }()
	rc := http.NewResponseController(x.w)
	_ = rc.SetReadDeadline(time.Now().Add(readWait)) // where there are none, there is nothing to set
	body, err := readAll(in, x.p.limits().MaxRequestBytes)
	_ = rc.SetReadDeadline(time.Time{})
	if errors.Is(err, errMemory) {
		x.shed()
		return
	}
	if errors.Is(err, errTooLarge) {
		refuse(x.w, http.StatusRequestEntityTooLarge, "request_too_large", err.Error())
		return
	}
	if err != nil {
		refuse(x.w, http.StatusBadRequest, "invalid_request", "the body broke off")
		return
	}
	each, err := batch(body, x.p.depth())
	if err != nil {
		refuse(x.w, http.StatusBadRequest, "invalid_request", err.Error())
		return
	}
	first := each[0]
	begins := first.method == "initialize" && first.isRequest()
	switch {
	case begins && len(each) == 1:
		if !x.begin() {
			return
		}
	case x.r.Header.Get(sessionHeader) == "" && x.isModern(first):
		if !x.share() {
			return
		}
	case !x.find():
		return
	}
	x.hand(each, begins)
}

func (x *exchange) shed() {
	x.w.Header().Set("Retry-After", "5")
	refuse(x.w, http.StatusServiceUnavailable, "shed", errMemory.Error())
}

// isModern says that a message belongs to no session, which MCP has known since 2026-07-28.
func (x *exchange) isModern(m *message) bool {
	x.modern = modernVersion(m.params) != "" || x.r.Header.Get("Mcp-Protocol-Version") >= "2026-07-28"
	return x.modern
}

func (x *exchange) begin() bool {
	s, err := x.p.open(x.srv, x.who, newWeb(x.p.memory))
	return x.opened(s, err)
}

// share finds the session that all of a caller's requests without one have in common.
func (x *exchange) share() bool {
	sum := sha256.Sum256([]byte(x.srv.name + "\n" + x.who.Tenant + "\n" + x.who.Owner + "\n" + x.who.Authorization + x.who.scope))
	s, err := x.p.openAs(x.srv, x.who, loose+hex.EncodeToString(sum[:16]), newWeb(x.p.memory))
	return x.opened(s, err)
}

func (x *exchange) opened(s *session, err error) bool {
	if err != nil {
		x.w.Header().Set("Retry-After", "5")
		refuse(x.w, http.StatusServiceUnavailable, "shed", err.Error())
		return false
	}
	x.session = s
	return true
}

// hand gives the messages to the session and the client what comes back.
func (x *exchange) hand(each []*message, begins bool) {
	s, requests := x.session, 0
	for _, m := range each {
		if m.isRequest() {
			requests++
		}
	}
	h := head{mcp: x.mcpHeader(), version: ""}
	if requests == 0 {
		for _, m := range each {
			s.fromClient(m, h, nil)
		}
		x.w.WriteHeader(http.StatusAccepted)
		return
	}
	st := s.web.open(requests)
	for _, m := range each {
		s.p.begin(func() { s.fromClient(m, h, st) })
	}
	x.answer(st, begins, each)
}

// mcpHeader are the headers by which MCP 2026-07-28 mirrors a message.
func (x *exchange) mcpHeader() http.Header {
	if !x.modern {
		return nil
	}
	h := http.Header{}
	for name, values := range x.r.Header {
		if strings.HasPrefix(name, "Mcp-") && name != sessionHeader {
			h[name] = values
		}
	}
	return h
}

// get is the stream for what the client did not ask for, or one that broke off and is gone on with.
func (x *exchange) get() {
	if !strings.Contains(x.r.Header.Get("Accept"), "text/event-stream") {
		refuse(x.w, http.StatusNotAcceptable, "invalid_request", "a GET is for text/event-stream")
		return
	}
	if x.r.Header.Get(sessionHeader) == "" {
		x.w.Header().Set("Allow", "POST")
		refuse(x.w, http.StatusMethodNotAllowed, "invalid_request", "without a session there is nothing to GET")
		return
	}
	if !x.find() {
		return
	}
	st, seen := x.session.web.own, int64(0)
	if last := x.r.Header.Get("Last-Event-ID"); last != "" {
		var ok bool
		if st, seen, ok = x.session.web.resume(last); !ok {
			st, seen = x.session.web.own, 0
		}
	} else {
		seen = st.had()
	}
	reader := st.enter()
	x.events(st, reader, seen, nil)
	st.exit()
	if x.who.attached {
		x.p.begin(x.session.unattached)
	}
}

// attachedWait is how long the other end of an attached session may be away: its process has been killed then, and
// nobody says DELETE.
const attachedWait = 5 * time.Second

func (s *session) unattached() {
	timer := time.NewTimer(attachedWait)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-s.p.halted:
		return
	}
	if !s.web.watched() {
		s.settle(context.Background())
		s.p.end(s)
	}
}
