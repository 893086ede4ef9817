package gateway

import (
	"context"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/holdfast-ai/holdfast/internal/mutant"
	"github.com/holdfast-ai/holdfast/ledger"
)

// answer gives this client the recording from its first byte, at the client's own pace.
func (c *call) answer() *Error {
	if c.cur != nil {
		return c.answerFrom(c.cur)
	}
	e := c.exec
	cur := e.rec.attach()
	if cur == nil {
		return &Error{Code: CodeInFlight, Message: "the first request with this key still runs, and its answer is too large to be kept",
			Intent: e.opID()}
	}
	return c.answerFrom(cur)
}

func (c *call) answerFrom(cur *cursor) *Error {
	e := c.exec
	defer cur.detach()
	ctx := c.r.Context() // the execution's own bounds are enough for its first client
	if !c.leader {
		var stop context.CancelFunc
		ctx, stop = c.patience()
		defer stop()
	}
	h, end, err := c.firstOf(cur, ctx)
	if err != nil {
		return c.gone(e, ctx)
	}
	if h == nil {
		return c.ended(end)
	}
	mutant.Point("answer.before")
	if h.failed && excusedStatus(h.status) && c.lastResort(CodeAllTiersFailed) {
		return nil
	}
	c.source, c.status = "tier", h.status
	c.done = true
	if c.bridging && !c.fits(h.status, h.contentType()) {
		c.lateAnswer(cur, h)
		return nil
	}
	if c.resume && !c.bridging && !c.reaches(cur.rec, h) {
		c.done = false
		return errStreamLost
	}
	c.headers(h)
	if c.whole = c.pump(cur, h); !c.whole {
		panic(http.ErrAbortHandler) // a client that closed its side only would take the end for the answer's (semantics 24)
	}
	c.delivered()
	return nil
}

// delivered is the far side of an answer: a crash there finds it with the client, out of every buffer.
func (c *call) delivered() {
	if mutant.Crashes("answer.after") {
		_ = http.NewResponseController(c.w).Flush()
		mutant.Point("answer.after")
	}
}

// ended answers an execution that ended without an answer.
func (c *call) ended(end *ending) *Error {
	if end.again {
		c.again = true
		return nil
	}
	if end.fail == nil {
		panic(http.ErrAbortHandler)
	}
	fail := *end.fail
	return &fail
}

// gone ends this client's wait, not the operation.
func (c *call) gone(e *execution, ctx context.Context) *Error {
	if c.r.Context().Err() != nil {
		c.done = true
		c.status = 499
		return nil
	}
	return c.waited(e, ctx)
}

// headers begins the answer.
func (c *call) headers(h *head) {
	out := c.w.Header()
	if c.bridging {
		c.operation(out) // as trailers
		if !h.failed {
			c.degraded(out)
		}
		if c.replay {
			c.replayOf(out, h)
		}
		return
	}
	if c.replay {
		for _, name := range replayed {
			if v := h.header[name]; v != nil {
				out[name] = v
			}
		}
		c.replayOf(out, h)
	} else {
		for name, v := range h.header {
			if !hopByHop[name] && !ours(name) && name != "Content-Length" && name != "X-Should-Retry" {
				out[name] = v
			}
		}
	}
	c.operation(out)
	if h.failed {
		c.failedHeaders(out, h)
	} else {
		c.degraded(out)
	}
	if h.unrecorded {
		c.set(out, "Holdfast-Recorded", "no")
	}
	if h.stream {
		c.set(out, "Trailer", "Holdfast-Stored")
		c.set(out, "X-Accel-Buffering", "no")
	} else {
		if h.pending {
			c.set(out, "Holdfast-Stored", "pending")
		}
		c.set(out, "Content-Length", strconv.FormatInt(c.exec.rec.length(), 10))
	}
	c.w.WriteHeader(h.status)
}

// replayOf says that the answer was made before, and when: a stream has no date until it has ended.
func (c *call) replayOf(out http.Header, h *head) {
	c.set(out, "Idempotency-Replayed", "true")
	if e := c.exec; !h.stream || e.over() {
		if s := e.answered; s != nil {
			c.set(out, "Holdfast-Original-Date", s.at.UTC().Format(time.RFC3339))
		}
	}
}

// failedHeaders say of the provider's own error what may be done about it.
func (c *call) failedHeaders(out http.Header, h *head) {
	c.set(out, "X-Should-Retry", "false")
	safe := safeYes
	if h.unknown && c.effect == ledger.EffectExternal {
		safe = safeAfter
		if c.tool != nil {
			c.set(out, "Holdfast-Error", string(CodeOutcomeUnknown))
		}
	}
	c.set(out, "Holdfast-Safe-To-Retry", safe)
}

// operation writes what every answer says of its operation.
func (c *call) operation(out http.Header) {
	e := c.exec
	if id := e.opID(); id != "" {
		c.set(out, "Holdfast-Intent", id)
	}
	source := e.source()
	if c.replay {
		if source != "" {
			c.set(out, "Holdfast-Original-Source", source)
		}
		source = "replay"
	}
	if source != "" {
		c.set(out, "Holdfast-Source", source)
	}
	c.set(out, "Holdfast-Attempts", strconv.Itoa(e.attempts()))
	e.tiered(out)
	if e.spec.Model != "" {
		c.set(out, "Holdfast-Requested-Model", plainName(e.spec.Model))
		c.set(out, "Holdfast-Served-Model", e.servedModel())
	}
}

// pump writes the visible bytes as they come, flushing when nothing more is ready.
// It reports whether the client was given everything.
func (c *call) pump(cur *cursor, h *head) bool {
	ctx := c.r.Context()
	c.out.chunked = h.stream || c.bridging
	rc := http.NewResponseController(c.w)
	write := func(p []byte) error { _, err := c.w.Write(p); return err }
	cutter := c.newCutter(h.contentType())
	for {
		p, more, end, err := cur.next(ctx)
		if err != nil {
			return false
		}
		if end != nil {
			c.out.last = true
			if cutter != nil && cutter.n < cutter.after {
				panic(http.ErrAbortHandler) // it ended before the event to resume behind: not the recording that was meant
			}
			if cutter != nil && cutter.rest(write) != nil {
				return false
			}
			return c.finish(cur, end)
		}
		c.out.last = cur.last
		ending := cur.last && c.receipts()
		if ending {
			c.ending.Store(true)
		}
		if cutter != nil {
			err = cutter.feed(p, write)
		} else {
			err = write(p)
		}
		if err != nil {
			return false
		}
		if h.stream && !more {
			_ = rc.Flush()
		}
		c.taken = c.taken || ending
	}
}

// finish writes what stands behind the recorded bytes. A cut that ends the body cleanly raises in no SDK, so
// that where nothing can be said the connection is broken (semantics 24).
func (c *call) finish(cur *cursor, end *ending) bool {
	if end.abort {
		panic(http.ErrAbortHandler)
	}
	if cur.rec.isPending() {
		c.set(c.w.Header(), "Holdfast-Stored", "pending")
	}
	if end.tail == nil {
		return true
	}
	_, err := c.w.Write(end.tail)
	return err == nil
}

// replayStored answers with a settled answer.
func (c *call) replayStored(s *stored) *Error {
	if c.clashes(s.fp) {
		return c.reused(s.id)
	}
	c.g.observer.Duplicate(c.wf.Name, "settled")
	if s.reason != "" {
		return &Error{Code: CodeOutcomeUnknown, Intent: s.id, Safe: safeNo,
			Message: "this operation is finished and nothing is sent again, but its answer cannot be given: " + s.reason}
	}
	out := c.w.Header()
	c.storedHeaders(out, s)
	body := s.body
	if k := c.newCutter(first(s.answer.Header["Content-Type"])); k != nil {
		var ok bool
		if body, ok = k.cut(body); !ok {
			return errStreamLost
		}
	}
	if !c.bridging {
		c.set(out, "Content-Length", strconv.Itoa(len(body)))
	}
	c.done, c.replay, c.status, c.source = true, true, s.answer.HTTPStatus, "replay"
	switch {
	case !c.bridging:
		c.w.WriteHeader(s.answer.HTTPStatus)
	case !c.fits(s.answer.HTTPStatus, first(s.answer.Header["Content-Type"])):
		c.lateRefusal(&head{status: s.answer.HTTPStatus, failed: true}, s.body)
		return nil
	}
	c.out.last, c.out.chunked = true, c.bridging
	_, err := c.w.Write(body)
	c.whole = err == nil
	c.taken = c.whole && c.receipts()
	return nil
}

// storedHeaders begin the answer that a settled one is given again by.
func (c *call) storedHeaders(out http.Header, s *stored) {
	for name, v := range s.answer.Header {
		out[name] = v
	}
	c.set(out, "Idempotency-Replayed", "true")
	c.set(out, "Holdfast-Intent", s.id)
	c.set(out, "Holdfast-Source", "replay")
	c.set(out, "Holdfast-Attempts", strconv.Itoa(s.tries))
	c.set(out, "Holdfast-Original-Date", s.at.UTC().Format(time.RFC3339))
	if s.answer.Source != "" {
		c.set(out, "Holdfast-Original-Source", s.answer.Source)
	}
	if s.model[0] != "" {
		c.set(out, "Holdfast-Requested-Model", s.model[0])
		c.set(out, "Holdfast-Served-Model", s.model[1])
		if s.answer.HTTPStatus < 300 && s.model[1] != "" && s.model[1] != s.model[0] && out["Holdfast-Fallback-Reason"] == nil {
			c.set(out, "Holdfast-Fallback-Reason", namedByProvider)
		}
	}
	if s.answer.HTTPStatus >= 400 {
		c.set(out, "X-Should-Retry", "false")
		c.set(out, "Holdfast-Safe-To-Retry", safeYes) // what is kept and given again is definite (semantics 14)
	}
}

// ours says that a header is the gateway's to set: a provider's of that name would pass for its word.
func ours(name string) bool {
	return strings.HasPrefix(name, "Holdfast-") || name == "Idempotency-Replayed"
}

// first is the first value of a header field. Where its name is known, looking it up in its canonical form is cheaper than
// http.Header.Get, which makes that form each time.
func first(values []string) string {
	if len(values) == 0 {
		return ""
	}
	return values[0]
}

func (h *head) contentType() string { return first(h.header["Content-Type"]) }
