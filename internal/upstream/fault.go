package upstream

import (
	"context"
	"errors"
	"io"
	"net"
	"os"
	"strings"
)

// Sent says how much of a request may have left this process. What was handed to the kernel counts as sent.
type Sent uint8

// Amounts of a request that left. Only None allows the conclusion that the provider did nothing.
const (
	None    Sent = iota // not a byte: refused, no such host, TLS failed, an idle connection found dead
	Partial             // some bytes, not all
	All                 // every byte, or as many as anybody can tell
)

func (s Sent) String() string {
	switch s {
	case None:
		return "none"
	case Partial:
		return "partial"
	}
	return "all"
}

// Phases of an exchange in which an Error arises.
const (
	PhaseDial  = "dial"  // connecting, the name look-up included
	PhaseTLS   = "tls"   // the handshake
	PhaseWrite = "write" // checking and writing the request
	PhaseHead  = "head"  // waiting for the head of the answer
	PhaseBody  = "body"  // reading its body
)

// Kinds of error that callers may branch on, beside those of package net, crypto/tls and context. Over TLS a malformed or
// too large answer is an error of net/http, which has no kinds.
var (
	// ErrRequest is a request that cannot be sent: correct it, it never left.
	ErrRequest = errors.New("request cannot be sent")
	// ErrMalformed is an answer that is not HTTP as the RFCs have it: look at the provider, or at what stands before it.
	ErrMalformed = errors.New("malformed answer")
	// ErrTooLarge is an answer whose head or trailer is over Config.HeaderBytes.
	ErrTooLarge = errors.New("head of the answer is too large")
	// ErrClosed is a Read after Close.
	ErrClosed = errors.New("body was closed")
)

// Error is every error of Do and of Body.Read. Its message holds no header value and nothing of the query, so no
// credential, and neither does a message of what it wraps.
type Error struct {
	Sent    Sent
	Phase   string
	Timeout bool
	Err     error
}

func (e *Error) Error() string {
	return "upstream " + e.Phase + " (request sent: " + e.Sent.String() + "): " + e.Err.Error()
}

// Unwrap gives the cause; for a cancelled context it is the context's.
func (e *Error) Unwrap() error { return e.Err }

// heldBack is what Request.Sending said.
type heldBack struct{ error }

func (h *heldBack) Unwrap() error { return h.error }

func isHeldBack(err error) bool {
	var h *heldBack
	return errors.As(err, &h)
}

// newError tells the reason of a failure from its symptoms: a cancelled context comes to light as a closed connection,
// and an end where more was announced as io.EOF.
func newError(ctx context.Context, phase string, sent Sent, err error) *Error {
	if ended := ctx.Err(); ended != nil {
		timeout := errors.Is(ended, context.DeadlineExceeded)
		return &Error{Sent: sent, Phase: phase, Timeout: timeout, Err: context.Cause(ctx)}
	}
	if err == io.EOF {
		err = io.ErrUnexpectedEOF
	}
	return &Error{Sent: sent, Phase: phase, Timeout: isTimeout(err), Err: err}
}

func isTimeout(err error) bool {
	var network net.Error
	return errors.As(err, &network) && network.Timeout() ||
		errors.Is(err, context.DeadlineExceeded) || errors.Is(err, os.ErrDeadlineExceeded)
}

// shortest is the least length of a word that scrub takes for a secret: shorter ones would blot out the message.
const shortest = 6

// scrub guards against an answer that echoes a credential into an error of net/http, which quotes malformed answers.
func scrub(err error, r *Request) error {
	text := err.Error()
	clean := text
	hide := func(value string) {
		for _, word := range strings.Fields(value) {
			if len(word) >= shortest {
				clean = strings.ReplaceAll(clean, word, "[hidden]")
			}
		}
	}
	for _, values := range r.Header {
		for _, value := range values {
			hide(value)
		}
	}
	for _, values := range r.Target.Query() {
		for _, value := range values {
			hide(value)
		}
	}
	if r.Target.User != nil {
		hide(r.Target.User.String())
		password, _ := r.Target.User.Password()
		hide(password)
	}
	if clean == text {
		return err
	}
	return errors.New(clean)
}
