package mcp

import (
	"context"
	"errors"
	"fmt"
	"net/http"
)

// link is one connection to a server: a child process, or the address of a streamable HTTP server. It is safe for
// concurrent use. What comes from the server goes to its receiver.
type link interface {
	// send hands one message over. For a request it returns as soon as that is under way: the answer, or a *sendError that says that
	// there will be none, goes to the receiver. For other messages an error is returned.
	send(ctx context.Context, o outgoing) error
	// negotiated tells what the server answered to initialize, and listen that the client is ready for what the
	// server sends of its own accord.
	negotiated(version string)
	listen()
	// credential replaces the caller's own.
	credential(authorization string)
	// close ends the connection and waits for everything that belongs to it.
	close()
}

// receiver is told what comes from a link. Its methods may block the link, but must not send on it and wait.
type receiver interface {
	// received is one message; about is the request of ours whose answer's stream it came in, 0 where that is not known; status
	// is the HTTP status that is no good one, else 0. answered is true when it was that request's answer.
	received(raw []byte, about int64, status int) (answered bool)
	// unanswered says that the request will get no answer.
	unanswered(id int64, why *sendError)
	// lost says that the link is gone, and with it every request on its way.
	lost(why *sendError)
}

// outgoing is a message on its way to the server.
type outgoing struct {
	raw    []byte
	id     int64 // of a request: ours
	method string
	name   string      // what Mcp-Name bears: a tool, a prompt, a resource
	header http.Header // Mcp-* headers as the client sent them; nil: it sent none
	modern string      // protocol version that the message itself names (2026-07-28 and later)
}

// sendError says why a request has no answer, and whether the server may have seen it.
type sendError struct {
	sent   bool // it may have left
	gone   bool // the server does not know the session any more: it did nothing
	status int  // HTTP status, 0: none
	header http.Header
	body   []byte
	err    error
	came   *sendError // the same with the server's own words, where they are others
}

func (e *sendError) Error() string {
	switch {
	case e.err != nil && e.status != 0:
		return fmt.Sprintf("the server answered HTTP %d: %v", e.status, e.err)
	case e.err != nil:
		return e.err.Error()
	case e.status != 0:
		return fmt.Sprintf("the server answered HTTP %d", e.status)
	}
	return "the server gave no answer"
}

func (e *sendError) Unwrap() error { return e.err }

// asSendError takes any failure for one after which the server may have acted, unless it says otherwise.
func asSendError(err error) *sendError {
	var e *sendError
	if errors.As(err, &e) {
		return e
	}
	return &sendError{sent: true, err: err}
}

var (
	errServerEnded = errors.New("the server ended")
	errClosed      = errors.New("the session is over")
)
