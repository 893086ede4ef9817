package mcp

import (
	"bytes"
	"encoding/json"
	"net/http"
	"strings"
	"time"

	"github.com/tidwall/gjson"
)

const (
	jsonWait  = time.Second      // longer waits show the client that it is still heard
	keepAlive = 15 * time.Second // below the time-outs of usual balancers
	readWait  = time.Minute      // for a client to send its message
	writeWait = time.Minute      // and to read one
)

// answer writes the stream of a POST: JSON where nothing but the answer is in it and it comes soon, else events.
func (x *exchange) answer(st *stream, begins bool, each []*message) {
	reader := st.enter()
	defer st.exit()
	soon := time.NewTimer(jsonWait)
	defer soon.Stop()
	events := strings.Contains(x.r.Header.Get("Accept"), "text/event-stream")
	for late := false; ; {
		g := st.look(reader, 0)
		switch {
		case g.refusal != nil:
			x.forgetSession(begins)
			x.pass(g.refusal)
			x.session.web.forget(st)
			return
		case g.over && (g.plain || !events):
			x.plain(g, begins)
			x.session.web.forget(st)
			return
		case events && !begins && (late || len(g.events) > 0), g.over:
			if begins {
				x.w.Header().Set(sessionHeader, x.session.id)
			}
			x.events(st, reader, 0, each)
			return
		}
		select {
		case <-st.news:
		case <-soon.C:
			late = true
		case <-x.r.Context().Done():
			x.left(st, each)
			return
		}
	}
}

// plain writes a single JSON answer.
func (x *exchange) plain(g glance, begins bool) {
	if len(g.events) == 0 { // cancelled: nothing is waited for
		x.w.WriteHeader(http.StatusAccepted)
		return
	}
	raw := g.events[len(g.events)-1]
	failed := gjson.GetBytes(raw, "error")
	if begins && failed.Exists() {
		x.forgetSession(true)
	} else if begins {
		x.w.Header().Set(sessionHeader, x.session.id)
	}
	x.w.Header().Set("Content-Type", "application/json")
	if x.modern {
		x.w.WriteHeader(modernStatus(failed.Get("code").Int()))
	}
	_, _ = x.w.Write(raw) // who has gone reads nothing
}

// modernStatus is the HTTP status of a JSON-RPC error in MCP 2026-07-28.
func modernStatus(code int64) int {
	switch code {
	case codeNoMethod:
		return http.StatusNotFound
	case codeInvalidParams, -32020, -32021, -32022:
		return http.StatusBadRequest
	}
	return http.StatusOK
}

// forgetSession ends a session whose initialize was refused.
func (x *exchange) forgetSession(begins bool) {
	if begins {
		x.p.begin(func() { x.p.end(x.session) })
	}
}

// pass answers with the server's own refusal. Where to get a credential is part of it.
func (x *exchange) pass(e *sendError) {
	for _, name := range []string{"Content-Type", "Www-Authenticate", "Retry-After"} {
		if v := e.header[name]; v != nil {
			x.w.Header()[name] = v
		}
	}
	x.w.WriteHeader(e.status)
	_, _ = x.w.Write(e.body)
}

// events writes the stream from behind the events that were seen, until it ends or the client leaves.
func (x *exchange) events(st *stream, reader, seen int64, each []*message) {
	h := x.w.Header()
	h.Set("Content-Type", "text/event-stream")
	h.Set("Cache-Control", "no-cache, no-transform")
	h.Set("X-Accel-Buffering", "no")
	x.w.WriteHeader(http.StatusOK)
	out := http.NewResponseController(x.w)
	tick := time.NewTicker(keepAlive)
	defer tick.Stop()
	var b bytes.Buffer
	b.WriteString(": \n\n")
	for {
		g := st.look(reader, seen)
		for i, raw := range g.events {
			appendEvent(&b, st.n, g.first+int64(i), raw)
			seen = g.first + int64(i)
		}
		if b.Len() > 0 {
			_ = out.SetWriteDeadline(time.Now().Add(writeWait)) // where there are none, there is nothing to set
			if _, err := x.w.Write(b.Bytes()); err != nil || out.Flush() != nil {
				x.left(st, each)
				return
			}
			b.Reset()
			st.sent(seen)
		}
		if g.over || g.taken {
			return
		}
		select {
		case <-st.news:
		case <-tick.C:
			b.WriteString(": \n\n")
		case <-x.r.Context().Done():
			x.left(st, each)
			return
		}
	}
}

// left is a client that went before its answer. In a session that cancels nothing (MCP, basic/transports); without one it is
// how a request is cancelled, and the call of a write tool is waited for all the same, for its outcome.
func (x *exchange) left(st *stream, each []*message) {
	if !x.modern || st.ended() {
		return
	}
	for _, m := range each {
		if !m.isRequest() {
			continue
		}
		x.p.begin(func() { x.session.abandon(st, m) })
	}
}

// abandon cancels what a client without a session no longer waits for.
func (s *session) abandon(st *stream, m *message) {
	s.mu.Lock()
	var found *pending
	for _, r := range s.pending {
		if r.to == sink(st) && string(r.client) == string(m.id) {
			found = r
		}
	}
	if found != nil {
		s.takeLocked(found.id)
	}
	s.mu.Unlock()
	if found == nil {
		return
	}
	st.drop()
	params, err := json.Marshal(map[string]any{"requestId": found.id, "reason": "the client left"})
	if err == nil {
		s.tell(found.conn, outgoing{raw: notification("notifications/cancelled", params), method: "notifications/cancelled"})
	}
}
