package mcp

import (
	"encoding/json"
	"sync/atomic"
	"time"

	"github.com/holdfast-ai/holdfast/ledger"
)

// waiter is one request that gets the flight's answer.
type waiter struct {
	n  int64 // order among the session's requests
	c  *call
	id json.RawMessage
	to sink
	f  atomic.Pointer[flight]
}

// wait enters a request of the session's.
func (s *session) wait(c *call, to sink) *waiter {
	s.mu.Lock()
	defer s.mu.Unlock()
	w := &waiter{n: s.p.next(), c: c, id: c.m.id, to: to}
	s.calls[w] = struct{}{}
	s.used = time.Now()
	return w
}

// answer ends the wait.
func (w *waiter) answer(raw []byte) {
	if w.ended() {
		w.to.answer(raw)
	}
}

// ended takes w out of those who wait, and says whether it was among them.
func (w *waiter) ended() bool {
	s := w.c.s
	s.mu.Lock()
	defer s.mu.Unlock()
	_, waits := s.calls[w]
	delete(s.calls, w)
	return waits
}

func (w *waiter) say(r refusal) { w.answer(w.c.said(w.id, r)) }

// leave takes a request out that was cancelled. It returns what to cancel at the server: nothing while others wait.
func (w *waiter) leave() *pending {
	w.ended()
	w.to.drop()
	f := w.f.Load()
	if f == nil {
		return nil
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	left := 0
	for _, other := range f.waiters {
		if other.waits() {
			left++
		}
	}
	if left > 0 {
		return nil
	}
	if f.op != nil {
		f.op.Note(ledger.Event{Kind: "note", Reason: "cancelled by the client; the outcome is waited for", Rule: "semantics 40"})
	}
	return f.asked
}

func (w *waiter) waits() bool {
	w.c.s.mu.Lock()
	defer w.c.s.mu.Unlock()
	_, waits := w.c.s.calls[w]
	return waits
}

func (w *waiter) reused(id string) {
	w.say(refusal{code: "idempotency_key_reused", safe: safeNo, intent: id, text: "Nothing was executed: another call of this tool, with other arguments, " +
		"has the same business key (" + w.c.rule.Key + "), so that both would be one effect. Intent " + id + "."})
}

func (w *waiter) inFlight(id string) {
	w.say(refusal{code: "request_in_flight", safe: safeYes, intent: id, text: "Nothing was executed now: an identical call is still running (intent " + id + "). Ask again in a few seconds."})
}

// again answers with what is on record.
func (w *waiter) again(id string, value json.RawMessage, age time.Duration) {
	w.answer(result(w.id, marked(value, w.c.replayWords(value, id, age), map[string]any{metaIntent: id, metaReplayed: true, metaAge: age.Milliseconds()})))
}

// pass ends the wait with the server's own HTTP refusal: 401 tells a client how to get a credential.
func (w *waiter) pass(e *sendError) {
	if w.ended() {
		w.to.refuse(w.id, e)
	}
}
