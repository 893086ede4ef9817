package gateway

import (
	"net/http"
	"strconv"
	"time"

	"github.com/holdfast-ai/holdfast/idempotency"
	"github.com/holdfast-ai/holdfast/internal/mutant"
	"github.com/holdfast-ai/holdfast/internal/policy"
	"github.com/holdfast-ai/holdfast/internal/provider"
)

// control reads our own headers, before anything is spent on the body.
func (c *call) control() *Error {
	h := c.r.Header
	if _, ok := h["Idempotency-Key"]; ok && !c.reads() {
		c.callerKey = first(h["Idempotency-Key"])
		if err := idempotency.ValidateKey(c.callerKey); err != nil {
			return &Error{Code: CodeInvalidKey, Message: err.Error()}
		}
		if len(h["Idempotency-Key"]) > 1 {
			return errorf(CodeInvalidKey, "more than one Idempotency-Key; send one")
		}
	}
	if err := c.controlDeadline(h); err != nil {
		return err
	}
	switch c.priority = first(h["Holdfast-Priority"]); c.priority {
	case "":
		c.priority = "normal"
	case "high", "normal", "low":
	default:
		return errorf(CodeInvalidRequest, "Holdfast-Priority is high, normal or low")
	}
	if v, ok := h[examplesHeader]; ok {
		n, err := strconv.ParseUint(first(v), 10, 10)
		if err != nil {
			return errorf(CodeInvalidRequest, "%s is how many pairs at the front of the conversation are examples", examplesHeader)
		}
		c.shots = int(n)
	}
	c.wanted = first(h["Holdfast-Workflow"])
	if c.owner == "" {
		c.owner = first(h["Holdfast-Owner"])
		if len(c.owner) > 256 {
			return errorf(CodeInvalidRequest, "Holdfast-Owner has more than 256 bytes")
		}
	}
	if v := first(h["X-Stainless-Retry-Count"]); v != "" {
		if n, err := strconv.ParseUint(v, 10, 8); err == nil && n > 0 {
			c.count, c.trigger = int(n), "retry:"+strconv.FormatUint(n, 10)
		}
	}
	if err := c.resuming(); err != nil {
		return err
	}
	// A browser's EventSource says no-cache whenever it reconnects; who resumes wants no new answer (semantics 26).
	c.fresh = !c.resume && (first(h["Holdfast-Fresh"]) == "1" || first(h["Cache-Control"]) == "no-cache")
	return nil
}

// anew says that a new answer is wanted where a derived key would find an earlier one. A key of the caller's own, or one under
// derive: always, names the operation, as in a plain call. What waits for its owner is found again by the same request.
func (c *call) anew() bool { return c.fresh && !c.approves() && !mutant.On("fresh-job-adopts") }

// reads says that the call is a read, on which a key is ignored (semantics 1).
func (c *call) reads() bool {
	if c.tool != nil {
		return c.tool.wf.Effect == policy.Read
	}
	return provider.Parse(&provider.Request{Method: c.r.Method, Path: c.path, Header: c.r.Header, Wire: c.target.wire}).Read
}

// maxDeadline is where a deadline stops meaning anything: beyond a day the policy's own limits rule.
const maxDeadline = 24 * time.Hour

// announced is the time-out that an SDK says it has, 0 if it says nothing (sdk-facts: seconds).
func announced(h http.Header) time.Duration {
	for _, name := range [...]string{"X-Stainless-Timeout", "X-Stainless-Read-Timeout", "X-Server-Timeout"} {
		v := h[name]
		if len(v) == 0 {
			continue
		}
		if s, err := strconv.ParseFloat(v[0], 64); err == nil && s > 0 && s < maxDeadline.Seconds() {
			return time.Duration(s * float64(time.Second))
		}
	}
	return 0
}

// obeyAnnounced makes our own answer come before the SDK's blind retry: a plain call ends a little before the
// announced time-out. For a stream it says when to bridge (semantics 31).
func (c *call) obeyAnnounced() {
	a := announced(c.r.Header)
	if a == 0 || c.spec.Stream {
		return
	}
	limit := a - min(a/10, 2*time.Second)
	if c.deadline == 0 || limit < c.deadline {
		c.deadline = limit
	}
}

func (c *call) controlDeadline(h http.Header) *Error {
	v, ok := h["Holdfast-Deadline-Ms"]
	if !ok {
		return nil
	}
	ms, err := strconv.ParseInt(first(v), 10, 64)
	switch {
	case err != nil:
		return errorf(CodeInvalidRequest, "Holdfast-Deadline-Ms is an integer of milliseconds")
	case ms <= 0:
		return &Error{Code: CodeDeadline, Message: "the budget was exhausted on arrival; nothing was sent", Safe: safeYes}
	case ms < int64(maxDeadline/time.Millisecond):
		c.deadline = time.Duration(ms) * time.Millisecond
	}
	return nil
}
