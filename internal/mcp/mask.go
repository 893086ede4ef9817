package mcp

import (
	"bytes"
	"errors"

	"github.com/holdfast-ai/holdfast/internal/mutant"
)

// What a server says goes on to clients, to the store and to the log without the secrets that it is sent or has in its environment
// (semantics 45). What it means is read from what came: a secret may be a word that an expression looks for.

var errUnshown = errors.New("the answer is no message once the server's secrets are taken out")

// shown is a message as others may have it: m itself where no secret is in it.
func (srv *server) shown(m *message) (*message, error) {
	if srv.hidden == nil || mutant.On("secret-from-mcp") {
		return m, nil
	}
	raw := srv.hidden.Of(m.raw)
	if bytes.Equal(raw, m.raw) {
		return m, nil
	}
	clean, err := parse(raw, srv.depth)
	if err != nil || !bytes.Equal(clean.id, m.id) || clean.method != m.method {
		return nil, errUnshown
	}
	return clean, nil
}

// answered is a request's answer, for others and as it came; status as in reply.
func (srv *server) answered(m *message, status int) reply {
	clean, err := srv.shown(m)
	if err != nil {
		return reply{fail: &sendError{sent: true, err: err}}
	}
	if clean == m || mutant.On("verdict-on-masked") {
		return reply{msg: clean, status: status}
	}
	return reply{msg: clean, came: m, status: status}
}

// refused is shown for a refusal in HTTP's words.
func (srv *server) refused(e *sendError) *sendError {
	if srv.hidden == nil || e.status == 0 || mutant.On("secret-from-mcp") {
		return e
	}
	clean := *e
	clean.header, clean.body, clean.came = srv.hidden.Header(e.header), srv.hidden.Of(e.body), e
	return &clean
}

// said is the answer as it came, nil where there is none. It is for verdicts, and for what stays in this process.
func (g reply) said() *message {
	if g.came != nil {
		return g.came
	}
	return g.msg
}

// said is the refusal as it came.
func (e *sendError) said() *sendError {
	if e.came != nil && !mutant.On("verdict-on-masked") {
		return e.came
	}
	return e
}
