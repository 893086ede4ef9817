package mcp

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"sync"
	"time"

	"github.com/holdfast-ai/holdfast/intent"
	"github.com/holdfast-ai/holdfast/internal/mutant"
	"github.com/holdfast-ai/holdfast/internal/policy"
	"github.com/holdfast-ai/holdfast/ledger"
)

// flight is one effect on its way, and everybody who waits for it. It belongs to its intent, not to the client
// that asked first.
type flight struct {
	p     *Proxy
	c     *call
	op    *intent.Op
	begun time.Time // when it was sent
	// approved is when it was sent, in ledger time, that had waited for its owner.
	approved time.Time
	reply    chan reply
	ended    chan string // status of the task it became
	final    chan reply

	mu       sync.Mutex
	waiters  []*waiter
	asked    *pending
	early    json.RawMessage // the task that it became, for whoever asks from now on
	answered bool            // nobody can join any more
	gaveUp   bool            // an answer is now evidence
}

// run finds the flight of the same call, or begins it.
func (p *Proxy) run(c *call, to sink) {
	w := c.s.wait(c, to)
	p.observer.Lookup(c.s.srv.name)
	p.mu.Lock()
	if p.draining {
		p.mu.Unlock()
		w.say(refusal{code: "draining", safe: safeYes, text: "Nothing was executed: holdfast is shutting down. Call again later."})
		return
	}
	if f := p.flights[c.slot]; f != nil && c.slot != "" && f.join(w) {
		p.mu.Unlock()
		return
	}
	f := &flight{p: p, c: c, reply: make(chan reply, 1), ended: make(chan string, 1), final: make(chan reply, 1), waiters: []*waiter{w}}
	w.f.Store(f)
	if c.slot != "" {
		p.flights[c.slot] = f
	}
	p.aloft[f] = struct{}{}
	p.work.Go(f.fly)
	p.mu.Unlock()
}

// join adds a request to the flight. Call with Proxy.mu held.
func (f *flight) join(w *waiter) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	id := ""
	if f.op != nil {
		id = f.op.ID()
	}
	switch {
	case f.answered:
		return false
	case f.c.fingerprint != w.c.fingerprint:
		f.p.work.Go(func() { w.reused(id) })
		return true
	case f.early != nil:
		early := f.early
		f.p.work.Go(func() { f.duplicate(w, "in_flight"); w.again(id, early, f.p.since(f.op)) })
		return true
	case len(f.waiters) >= f.p.limits().Attached:
		f.p.work.Go(func() { w.inFlight(id) })
		return true
	}
	w.f.Store(f)
	f.waiters = append(f.waiters, w)
	f.p.work.Go(func() { f.duplicate(w, "in_flight") })
	return true
}

func (f *flight) duplicate(w *waiter, kind string) {
	f.p.observer.Duplicate(w.c.s.srv.name, kind)
	f.mu.Lock()
	op := f.op
	f.mu.Unlock()
	if op != nil { // else the claim is still being written
		op.Note(ledger.Event{Kind: "duplicate", Reason: kind, Rule: "semantics 41"})
	}
}

// each tells everybody who waits, and lets nobody join any more.
func (f *flight) each(tell func(i int, w *waiter)) {
	f.p.leave(f)
	f.mu.Lock()
	f.answered = true
	all := f.waiters
	f.mu.Unlock()
	for i, w := range all {
		tell(i, w)
	}
}

func (f *flight) refuse(r refusal) { f.each(func(_ int, w *waiter) { w.say(r) }) }

// fly looks the call up and, where it is new, makes it happen. Each turn of the loop another moved the intent
// between two reads.
func (f *flight) fly() {
	for range 4 {
		if again := f.lead(); !again {
			return
		}
	}
	f.refuse(refusal{code: "request_in_flight", safe: safeYes, text: "Nothing was executed now: an identical call is changing hands. Ask again in a few seconds."})
}

func (f *flight) lead() (again bool) {
	ctx, stop := context.WithTimeout(context.Background(), f.p.limits().CommitWait)
	defer stop()
	if r := f.p.held.find(ctx, f.p.ledger, f.c); r != nil {
		return f.known(ctx, r)
	}
	if f.c.key != "" {
		r, err := f.p.ledger.Holder(ctx, f.c.key)
		switch {
		case err == nil:
			return f.known(ctx, r)
		case !errors.Is(err, ledger.ErrNotFound):
			f.storeAway(err)
			return false
		}
	}
	if f.c.asksOwner() {
		return f.ask()
	}
	return f.start(nil)
}

func (f *flight) storeAway(err error) {
	f.p.observer.StoreError(f.c.s.srv.name)
	f.p.logger.Error("the store is unavailable; a call was refused", "server", f.c.s.srv.name, "tool", f.c.tool, "error", err)
	f.refuse(refusal{code: "store_unavailable", safe: safeYes, text: "Nothing was executed: holdfast cannot write its log just now. Call again later."})
}

// start makes the intent durable, then sends the call. waiting is one that the server asked for input over, and that now goes on.
func (f *flight) start(waiting *ledger.Record) (again bool) {
	conn, err := f.c.s.connected()
	if err != nil {
		f.refuse(refusal{code: "server_unavailable", safe: safeYes, text: "Nothing was executed: the tool's server cannot be reached (" + err.Error() + "). It is safe to call again later."})
		return false
	}
	r := &pending{m: f.c.sent, name: f.c.tool, head: f.c.head, to: progressOnly{f}, done: f.done}
	out, err := f.c.s.register(conn, r)
	if errors.Is(err, errMemory) || errors.Is(err, errBusy) {
		f.refuse(refusal{code: "shed", safe: safeYes, text: "Nothing was executed: " + err.Error() + ". It is safe to call again later."})
		return false
	}
	if err != nil {
		f.refuse(refusal{code: "server_unavailable", safe: safeYes, text: "Nothing was executed: the session is over."})
		return false
	}
	if mutant.On("forward-before-claim") {
		_ = conn.link.send(context.Background(), out)
	}
	if again, err = f.claim(waiting, out.raw); again || err != nil {
		f.c.s.take(r.id)
		if err != nil {
			f.storeAway(err)
		}
		return again
	}
	f.mu.Lock()
	f.asked = r
	f.mu.Unlock()
	base := f.c.base
	if base == "" {
		base = f.op.ID()
	}
	f.c.s.srv.history.add(written{id: f.op.ID(), base: base, fingerprint: f.c.fingerprint})
	f.send(conn, out)
	return false
}

// claim makes intent, claim and attempt durable in one commit: nothing is sent before.
func (f *flight) claim(waiting *ledger.Record, sent []byte) (again bool, err error) {
	attempt := intent.Attempt{Route: "mcp/" + f.c.s.srv.name + "/" + f.c.tool, Tier: f.c.s.srv.name}
	if waiting != nil {
		op := f.p.log.Load(waiting)
		err = op.Dispatch(attempt)
		var illegal *intent.IllegalStepError
		if errors.Is(err, ledger.ErrStale) || errors.As(err, &illegal) {
			return true, nil
		}
		if f.set(op); waiting.Attempt == 0 {
			f.approved = f.p.ledger.Now()
		}
		return false, err
	}
	b := intent.Begin{Head: f.c.intentHead(), Claim: f.c.key != "", Attempt: &attempt, Visibility: ledger.VisBackground,
		ExpiresAt: f.p.ledger.Now().Add(f.window()), Request: f.p.keep(ledger.BodyRequest, f.c.m.raw)}
	if !bytes.Equal(f.c.m.raw, sent) {
		b.Sent = f.p.keep(ledger.BodySent, sent)
	}
	op, err := f.p.log.Begin(b)
	var dup *intent.DuplicateError
	if errors.As(err, &dup) {
		return true, nil
	}
	if err != nil {
		return false, err
	}
	f.set(op)
	op.Note(ledger.Event{Kind: "note", Reason: "a write: " + f.c.effect, Rule: "design 6"})
	if f.c.reason != "" {
		op.Note(ledger.Event{Kind: "note", Reason: "repeated on purpose: " + f.c.reason, Rule: "semantics 41"})
	}
	return false, nil
}

func (f *flight) set(op *intent.Op) {
	f.mu.Lock()
	f.op = op
	f.mu.Unlock()
}

// longestWindow bounds the window of a call whose key is made of all its arguments (semantics 41).
const longestWindow = 10 * time.Minute

func (f *flight) window() time.Duration {
	if f.c.rule.Key == "" {
		return min(f.c.rule.Window, longestWindow)
	}
	return f.c.rule.Window
}

// send forwards the call and waits for its end.
func (f *flight) send(c *conn, out outgoing) {
	ctx, stop := context.WithCancel(context.Background())
	defer stop()
	over := time.AfterFunc(f.c.rule.Timeout, stop)
	defer over.Stop()
	f.begun = time.Now()
	mutant.Point("send.before")
	err := f.op.Sending()
	if err != nil {
		err = &sendError{err: err}
	} else {
		err = c.link.send(ctx, out)
	}
	if err != nil {
		c.unanswered(out.id, asSendError(err))
	}
	mutant.Point("send.after")
	for waited := f.c.rule.Timeout; ; {
		select {
		case got := <-f.reply:
			f.conclude(got)
			f.p.memory.Give(got.size)
			return
		case <-ctx.Done():
		case <-f.p.halted:
		}
		more := f.c.s.remaining(c, f.c.rule.Timeout)
		if f.p.isHalted() || waited >= longestAsk || more <= 0 {
			break
		}
		// The server waits for a person on the client's side, or did: that is not its own time.
		waited += more
		ctx, stop = context.WithTimeout(context.Background(), more)
		defer stop()
	}
	f.mu.Lock()
	f.gaveUp = true
	f.mu.Unlock()
	select {
	case got := <-f.reply: // it came in the same moment
		f.conclude(got)
		f.p.memory.Give(got.size)
	case <-f.p.halted:
		f.interrupt()
	default:
		f.c.s.keepLate(out.id)
		f.lose(verdict{end: ledger.AttemptUnknown, kind: "timeout", rule: f.c.rule.path + ".timeout",
			reason: "no answer came within " + f.c.rule.Timeout.String()}, nil)
	}
}

// longestAsk bounds the time that a server's questions to the client add to a call.
const longestAsk = 10 * time.Minute

// remaining is how long the server may still take: all its time while it waits for the client, what is left of it since it got the
// client's answer, and nothing otherwise.
func (s *session) remaining(c *conn, timeout time.Duration) time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, a := range s.asks {
		if a.conn == c {
			return timeout
		}
	}
	if c.heard.IsZero() {
		return 0
	}
	return timeout - time.Since(c.heard)
}

// done takes what became of the request.
func (f *flight) done(got reply) {
	if got.msg != nil { // whoever read it lets go of it now
		if got.size = len(got.msg.raw); got.came != nil {
			got.size += len(got.came.raw)
		}
		f.p.memory.Hold(got.size)
	}
	f.mu.Lock()
	late := f.gaveUp
	if !late {
		f.reply <- got
	}
	f.mu.Unlock()
	if late && !f.p.begin(func() { f.late(got); f.p.memory.Give(got.size) }) {
		f.p.memory.Give(got.size)
	}
}

// progressOnly is where the client reads what comes before the answer: every message goes to whoever asked first.
type progressOnly struct{ f *flight }

func (o progressOnly) put(raw []byte) {
	o.f.mu.Lock()
	to := o.f.waiters[0].to
	o.f.mu.Unlock()
	to.put(raw)
}
func (o progressOnly) answer([]byte)             {}
func (o progressOnly) drop()                     {}
func (o progressOnly) refuse([]byte, *sendError) {}

// leave takes a flight out of the registry.
func (p *Proxy) leave(f *flight) {
	p.mu.Lock()
	if p.flights[f.c.slot] == f {
		delete(p.flights, f.c.slot)
	}
	delete(p.aloft, f)
	p.mu.Unlock()
}

// strict says that an answer waits for its record (semantics 28).
func (f *flight) strict() bool { return f.c.rule.Durability != policy.Relaxed }
