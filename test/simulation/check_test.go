package simulation

import (
	"bytes"
	"context"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/holdfast-ai/holdfast/ledger"
	"github.com/holdfast-ai/holdfast/ledger/sqlite"
)

// check holds the history against the invariants of design.md §1, once everything is over.
func (h *history) check(records []*ledger.Record, attempts map[string]attempts) {
	calls := h.far.calls()
	for i := range h.plan.Ops {
		o := &h.plan.Ops[i]
		c := &checked{history: h, op: o, attempts: attempts}
		for _, k := range calls {
			if k.op == o.ID {
				c.calls = append(c.calls, k)
			}
		}
		for _, r := range records {
			if r.RequestedModel == o.model() {
				c.records = append(c.records, r)
			}
		}
		for _, r := range h.requests {
			if r.op == o {
				c.requests = append(c.requests, r)
			}
		}
		c.all()
	}
	for _, k := range calls {
		if h.plan.op(k.op) == nil {
			h.violation("the provider saw a call that nobody asked for: %+v", k)
		}
	}
	if quota := max(1, h.plan.Workers/5); h.maxDrain > quota {
		h.violation("semantics 25: %d drains at once, the quota is %d", h.maxDrain, quota)
	}
	h.verify()
}

// verify runs the store's own check over what is on the disk.
func (h *history) verify() {
	path := h.world.dir + "/verify-" + h.name() + ".db"
	defer os.Remove(path)
	defer os.Remove(path + "-wal")
	defer os.Remove(path + "-shm")
	for _, suffix := range []string{"", "-wal"} {
		if content := h.disk.Content(storePath + suffix); len(content) > 0 {
			if err := os.WriteFile(path+suffix, content, 0o600); err != nil {
				h.violation("verify: %v", err)
				return
			}
		}
	}
	found, err := sqlite.Verify(context.Background(), path)
	if err != nil {
		h.violation("verify: %v", err)
	}
	for _, v := range found {
		h.violation("verify: %s", v)
	}
}

func (o *op) model() string { return "m" + itoa(o.ID) }

// checked is one operation after its history.
type checked struct {
	*history
	op       *op
	calls    []*call
	records  []*ledger.Record
	requests []*request
	attempts map[string]attempts // by intent
}

func (c *checked) bad(format string, a ...any) {
	c.violation("op %d (%s): "+format, append([]any{c.op.ID, c.op.Workflow}, a...)...)
}

func (c *checked) all() {
	c.logged()
	c.definite()
	c.wanted()
	c.once()
	for _, r := range c.requests {
		c.honest(r)
		c.refused(r)
		c.told(r)
	}
	if c.claimed() {
		c.kept()
		c.transient()
	} else {
		c.adopted()
		c.found()
	}
}

func (c *checked) claimed() bool { return c.op.Key || c.op.Workflow == "pipeline" }

// refused: a store that is well, or only a little slow, refuses nobody (semantics 9).
func (c *checked) refused(r *request) {
	if !strings.HasPrefix(r.code(), "store_") {
		return
	}
	if !slices.ContainsFunc(c.hard, func(t time.Time) bool { return !t.Before(r.began.Add(-time.Second)) && !t.After(r.ended) }) && !c.ill(r.began) {
		c.bad("semantics 9: refused for a store that nothing ails: %v", r)
	}
}

// told: a client that stays is told something, unless the gateway's end came between.
func (c *checked) told(r *request) {
	if r.status != 0 || r.left || r.err == nil || strings.Contains(r.err.Error(), "refused") {
		return
	}
	if !slices.ContainsFunc(c.downs, func(t time.Time) bool { return !t.Before(r.began) && !t.After(r.ended) }) {
		c.bad("a client that stays is told nothing: %v", r)
	}
}

// ill says that a fault of the disk or the process lasted at a time.
func (c *checked) ill(at time.Time) bool {
	return slices.ContainsFunc(c.plan.Events, func(e event) bool {
		from := c.history.began.Add(e.At)
		return e.Kind != "step" && (e.Kind != "slow" || e.Delay > mild) && !at.Before(from) && !at.After(from.Add(e.For+5*time.Second))
	})
}

// suffered says that the process or the disk had a fault, or its effects last, between two times.
func (c *checked) suffered(from, to time.Time) bool {
	return slices.ContainsFunc(c.downs, func(t time.Time) bool { return !t.Before(from.Add(-5*time.Second)) && !t.After(to) })
}

func (c *checked) execution(n int) *call {
	for _, k := range c.calls {
		if k.number == n {
			return k
		}
	}
	return nil
}

// logged: a call that the provider saw is an attempt in the recovered log, and a success was one (semantics 1, 27).
func (c *checked) logged() {
	logged, complete := 0, 0
	for _, r := range c.records {
		logged += c.attempts[r.ID].began
	}
	if len(c.calls) > logged {
		c.bad("design §1.1: the provider saw %d calls, the log has %d attempts", len(c.calls), logged)
	}
	for _, k := range c.calls {
		if k.complete {
			complete++
		}
	}
	for _, r := range c.records {
		if r.State == ledger.Settled && r.Outcome == ledger.OutcomeSuccess && complete == 0 {
			c.bad("semantics 27: %s is a success, no answer was whole", r.ID)
		}
		if r.State == ledger.Created && r.LeaseOwner != "" {
			c.bad("semantics 6: %s waits in the hands of an owner who does nothing with it", r.ID)
		}
		if r.State == ledger.Dispatched && (r.LeaseOwner != "" || r.Hold) {
			c.bad("semantics 6: %s is dispatched for ever", r.ID)
		}
	}
}

// definite: what the log calls a definite failure of an effect was one: nothing happened (semantics 3).
func (c *checked) definite() {
	failed, without := 0, 0
	for _, r := range c.records {
		for _, end := range c.attempts[r.ID].ends {
			if end == ledger.AttemptFailed {
				failed++
			}
		}
	}
	for _, k := range c.calls {
		if !k.effect {
			without++
		}
	}
	if c.op.Workflow == "external" && failed > without {
		c.bad("semantics 3: %d attempts failed for certain, %d calls were without effect", failed, without)
	}
}

// wanted: no call is made for a client that left before (semantics 25).
func (c *checked) wanted() {
	for _, k := range c.calls {
		if !slices.ContainsFunc(c.requests, func(r *request) bool {
			slack := 2*r.try.Delay + 10*time.Millisecond
			return !r.began.After(k.at) && !r.ended.Add(slack).Before(k.at)
		}) {
			c.bad("semantics 25: execution %d began when no client was there", k.number)
		}
	}
}

// once: an effect in the world happens once for its key (design §1.3).
func (c *checked) once() {
	effects := 0
	for _, k := range c.calls {
		if k.effect {
			effects++
		}
	}
	if c.op.Workflow == "external" && effects > 1 {
		c.bad("design §1.3: %d effects of one key", effects)
	}
}

// honest: what a client got is of one execution, from its first byte, to its end or to an error that says so
// (design §1.5, semantics 22 to 24, 26).
func (c *checked) honest(r *request) {
	body := clean(r.op, r.body)
	m := marks(body)
	if r.twist != "" {
		return // kept looks at it
	}
	switch {
	case len(m.executions) > 1:
		c.bad("design §1.5: an answer of executions %v: %v", m.executions, r)
		return
	case len(m.executions) == 0:
		return
	}
	if r.after > 0 {
		c.resumed(r, m, body)
		return
	}
	k := c.execution(m.executions[0])
	if k == nil {
		c.bad("an answer of execution %d, which never was: %v", m.executions[0], r)
		return
	}
	failed := bytes.Contains(body, []byte(`"error"`))
	if r.whole && r.status == 200 && !failed && !(finished(body) && bytes.HasPrefix(k.bytes(), body)) {
		c.bad("semantics 24, 27: the answer ends in order, and it is not the provider's: %v\nprovider: %q", r, k.bytes())
	}
	if !failed && !bytes.HasPrefix(k.bytes(), events(r, body)) {
		c.bad("design §1.5: the answer is not the provider's: %v\nprovider: %q", r, k.bytes())
	}
	if r.op.Stream && m.lead && len(m.pieces) == 0 && (r.whole || failed || !r.left && len(c.downs) == 0) {
		c.bad("semantics 22, 23: a lead-in without content: %v", r)
	}
}

// finished says that an answer reached the event that completes it (semantics 28).
func finished(body []byte) bool {
	for _, end := range []string{`"finish_reason":"stop"`, `"stop_reason":"end_turn"`, `"finishReason":"STOP"`, "[DONE]", "message_stop"} {
		if bytes.Contains(body, []byte(end)) {
			return true
		}
	}
	return false
}

// events is what r got without half an event at its end, which may be the first half of an error.
func events(r *request, body []byte) []byte {
	if !r.op.Stream || r.whole {
		return body
	}
	return body[:bytes.LastIndex(body, r.op.gap())+1]
}

// resumed: the rest comes from the execution that the client knows, at its place (semantics 26).
func (c *checked) resumed(r *request, m marked, body []byte) {
	if r.status != 200 {
		return
	}
	if m.executions[0] != r.partOf {
		c.bad("semantics 26: resumed execution %d with execution %d: %v", r.partOf, m.executions[0], r)
	}
	if k := c.execution(m.executions[0]); k != nil && r.whole && !bytes.Contains(body, []byte(`"error"`)) {
		rest := k.bytes()
		for range r.after {
			_, rest, _ = bytes.Cut(rest, r.op.gap())
		}
		if !bytes.HasPrefix(rest, body) || !finished(body) {
			c.bad("semantics 26: the rest after event %d differs: %v\nwant %q", r.after, r, rest)
		}
	}
}

// success says that r got a whole answer of the provider's own.
func (r *request) success() bool {
	return r.twist == "" && r.after == 0 && r.whole && r.status == 200 && r.code() == "" && !bytes.Contains(r.body, []byte(`"error"`))
}

// jumped says that ledger time may be an hour later after a restart, past every generation's ttl (semantics 11).
func (c *checked) jumped() bool {
	return slices.ContainsFunc(c.plan.Events, func(e event) bool { return e.Kind == "step" }) && c.plan.faulty()
}

// kept: a success that was told is told again, byte for byte, and nothing is sent for it (design §1.2, semantics 14).
func (c *checked) kept() {
	durable := c.op.Workflow == "external" || c.op.Workflow == "strict" && !c.jumped()
	for _, first := range c.requests {
		c.other(first, durable)
		if !first.success() || first.header.Get("Holdfast-Stored") != "" || first.trailer.Get("Holdfast-Stored") != "" || first.header.Get("Holdfast-Recorded") != "" {
			continue
		}
		for _, r := range c.requests {
			if r == first || r.began.Before(first.ended) || !r.success() || !durable && c.suffered(first.began, r.ended) {
				continue
			}
			if !bytes.Equal(clean(c.op, r.body), clean(c.op, first.body)) {
				c.bad("design §1.2: the same key was answered differently:\n%v\n%v", first, r)
			}
		}
		for _, k := range c.calls {
			if k.at.After(first.ended) && (durable || !c.suffered(first.began, k.at)) {
				c.bad("design §1.2: execution %d after the key had its answer: %v", k.number, first)
			}
		}
	}
}

// other: while a key has its answer, another request under it gets none (semantics 15, 16).
func (c *checked) other(first *request, durable bool) {
	if !first.whole || first.status != 200 || first.code() != "" || bytes.Contains(first.body, []byte(`"error"`)) {
		return
	}
	for _, r := range c.requests {
		if c.op.Key && r.twist != first.twist && r.status == 200 && r.began.After(first.ended) && (durable || !c.suffered(first.began, r.ended)) {
			c.bad("semantics 15, 16: another request was answered under the same key:\n%v\n%v", first, r)
		}
	}
}

// transient: a failure that passes is not kept for the key (semantics 14).
func (c *checked) transient() {
	for _, r := range c.requests {
		if r.status != 429 && r.status != 500 && r.status != 503 && r.status != 529 || r.code() != "" || c.op.Workflow == "external" {
			continue
		}
		if !slices.ContainsFunc(c.calls, func(k *call) bool { return k.ended.IsZero() || !k.ended.Before(r.began) }) {
			c.bad("semantics 14: a failure from before was given again: %v", r)
		}
	}
}
