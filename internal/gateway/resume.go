package gateway

import (
	"context"
	"errors"
	"fmt"
	"strconv"

	"github.com/holdfast-ai/holdfast/internal/mutant"
	"github.com/holdfast-ai/holdfast/internal/provider"
	"github.com/holdfast-ai/holdfast/internal/provider/jsonarray"
	"github.com/holdfast-ai/holdfast/internal/sse"
	"github.com/holdfast-ai/holdfast/ledger"
)

// resuming reads Last-Event-ID and Holdfast-Stream-Ids (semantics 26).
func (c *call) resuming() *Error {
	h := c.r.Header
	c.ids = h.Get("Holdfast-Stream-Ids") == "1"
	v, ok := h["Last-Event-Id"]
	if !ok {
		return nil
	}
	n, err := strconv.Atoi(v[0])
	if err != nil || n < 0 || len(v) != 1 {
		return errorf(CodeInvalidRequest, "Last-Event-ID is the number, from 1, of the last complete event that was received")
	}
	c.resume, c.after = true, n
	return nil
}

var errStreamLost = errorf(CodeStreamLost, "there is no recording to resume from; a new request, without Last-Event-ID, makes a new answer")

// resumeRunning resumes from an execution in this process, else from the ledger.
func (c *call) resumeRunning() *Error {
	c.exec.cancel(nil)
	c.exec, c.leader = nil, false
	running := c.g.registry.find(c.key)
	if running == nil {
		return c.resumeHeld()
	}
	c.exec = running
	return c.follow(running)
}

// severalSeen says that clients may have seen the beginning of an execution under this key that is not the one at
// hand: one that broke off and released the key, or, where a key is derived, an equal one whose answer is taken for
// delivered by now. The rest of an answer is never taken from another execution (semantics 26), and nothing says which
// of the two is meant.
func (c *call) severalSeen() bool {
	if mutant.On("resume-other-execution") {
		return false
	}
	ctx, stop := context.WithTimeout(context.Background(), c.g.policy.Limits.CommitWait)
	defer stop()
	i := c.wf.Idempotency
	f := ledger.Filter{Key: c.key, NewerThan: c.g.ledger.Now().Add(-max(i.Window, i.TTL)), Limit: 100}
	if c.claimed { // what is not released is the holder's
		f.Outcomes = []ledger.Outcome{ledger.OutcomeFailed}
	}
	list, err := c.g.ledger.List(ctx, f)
	if err != nil || len(list) == f.Limit {
		return true
	}
	seen := 0
	for _, r := range list {
		switch {
		case r.Partial && r.Outcome == ledger.OutcomeFailed:
			return true
		case !c.claimed && r.State != ledger.Created && (r.State != ledger.Settled || r.Outcome == ledger.OutcomeSuccess):
			seen++
		}
	}
	return seen > 1
}

// resumeHeld resumes under a key whose operation is not at hand in this process. It never begins a new one.
func (c *call) resumeHeld() *Error {
	if mutant.On("resume-other-execution") {
		c.exec, c.leader = c.g.newExecution(c), true
		c.exec.key = c.key
		c.g.registry.join(c.key, c.exec)
		return nil
	}
	if !c.claimed {
		return errStreamLost
	}
	ctx, stop := context.WithTimeout(context.Background(), c.g.policy.Limits.CommitWait)
	defer stop()
	r, err := c.g.ledger.Holder(ctx, c.key)
	switch {
	case errors.Is(err, ledger.ErrNotFound):
		return errStreamLost
	case err != nil:
		return c.storeAway(err)
	case c.g.elsewhere(r):
		return c.resumeThere(r)
	case r.State != ledger.Settled:
		return errStreamLost
	}
	if again, refusal := c.held(r.ID); refusal != nil || again || !c.done {
		if refusal != nil {
			return refusal
		}
		return errStreamLost
	}
	return nil
}

// resumeThere resumes from an execution of another gateway.
func (c *call) resumeThere(r *ledger.Record) *Error {
	if c.clashes(r.Fingerprint) {
		return c.reused(r.ID)
	}
	c.exec, c.leader = c.g.newExecution(c), true
	c.exec.key = c.key
	if running := c.g.registry.join(c.key, c.exec); running != nil {
		c.exec.cancel(nil)
		c.exec, c.leader = running, false
		return c.follow(running)
	}
	return c.followThere(r)
}

// cutter gives a client the rest of a recording after its n-th event, or numbers events for it. The recording
// itself never changes.
type cutter struct {
	format provider.Format
	after  int
	ids    bool

	n     int
	base  int64
	buf   []byte // from base
	sse   sse.Parser
	array jsonarray.Scanner
}

// newCutter returns nil where bytes pass as they are.
func (c *call) newCutter(contentType string) *cutter {
	format := provider.FormatOf(&c.spec, contentType)
	if format != provider.SSE && format != provider.JSONArray {
		return nil
	}
	ids := c.ids && format == provider.SSE && c.spec.Wire != provider.Gemini
	if !c.resume && !ids {
		return nil
	}
	return &cutter{format: format, after: c.after, ids: ids}
}

// reaches says whether a recording that has ended has the event to resume behind; of a running one nobody knows.
func (c *call) reaches(r *recording, h *head) bool {
	if !c.exec.over() {
		return true
	}
	k := c.newCutter(h.contentType())
	if k == nil {
		return true
	}
	_, ok := k.cut(r.bytes(r.visibleTo()))
	return ok
}

// feed takes the next recorded bytes and passes on what this client is to get of them.
func (k *cutter) feed(p []byte, out func([]byte) error) error {
	k.buf = append(k.buf, p...)
	var failed error
	event := func(end int64) {
		chunk := k.buf[:end-k.base]
		k.buf, k.base = k.buf[end-k.base:], end
		if k.n++; k.n <= k.after || failed != nil {
			return
		}
		if k.ids {
			chunk = append(fmt.Appendf(nil, "id: %d\n", k.n), chunk...)
		}
		failed = out(chunk)
	}
	if k.format == provider.JSONArray {
		_ = k.array.Feed(p, func(_ []byte, _, end int64) error { event(end); return failed })
	} else {
		_ = k.sse.Feed(p, func(e sse.Event) error { event(e.End); return failed })
	}
	return failed
}

// rest passes on what stands behind the last event.
func (k *cutter) rest(out func([]byte) error) error {
	if k.n < k.after || len(k.buf) == 0 {
		return nil
	}
	return out(k.buf)
}

// cut is feed and rest over a whole body; ok is false when the body has no n-th event.
func (k *cutter) cut(body []byte) (rest []byte, ok bool) {
	out := func(p []byte) error { rest = append(rest, p...); return nil }
	_ = k.feed(body, out)
	_ = k.rest(out)
	return rest, k.n >= k.after
}
