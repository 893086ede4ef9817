package gateway

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"sync"
	"sync/atomic"
	"time"

	"github.com/holdfast-ai/holdfast/intent"
	"github.com/holdfast-ai/holdfast/internal/mutant"
	"github.com/holdfast-ai/holdfast/internal/policy"
	"github.com/holdfast-ai/holdfast/internal/provider"
	"github.com/holdfast-ai/holdfast/internal/upstream"
	"github.com/holdfast-ai/holdfast/ledger"
)

// Why an execution was cancelled.
var (
	errFirstToken  = errors.New("no content within timeouts.first_token")
	errAttempt     = errors.New("no answer within timeouts.attempt")
	errTotal       = errors.New("no answer within the total budget")
	errIdle        = errors.New("the stream stood still for timeouts.idle")
	errStreamLimit = errors.New("the stream took longer than timeouts.stream")
	errClientsGone = errors.New("every client left, and on_disconnect is cancel")
	errFinishLimit = errors.New("no client came back within finish_limit")
	errDrainQuota  = errors.New("more answers than finish_quota allows were finished for clients that left")
	errInterrupted = errors.New("this gateway was told to stop")
)

// execution is one dispatched operation in progress. It belongs to its intent, not to the connection that began
// it: clients come and go.
type execution struct {
	g       *Gateway
	key     string // in the registry
	claim   string // idempotency key of the intent, "" without
	fp      [32]byte
	wf      *policy.Workflow
	spec    provider.Call
	effect  ledger.Effect
	keep    bool // the answer is stored: somebody can ask for it again
	claimed bool

	overflow func() // told that the answer is no longer kept; nil where clients are being answered already

	request *upstream.Request
	ctx     context.Context
	cancel  context.CancelCauseFunc
	watch   *watch

	op        *intent.Op
	rec       *recording
	tries     int
	sent      time.Time // when the upstream call began
	began     time.Time // ledger time of the first sighting
	budget    time.Duration
	impatient bool // the budget is the caller's own, shorter than the policy's
	finished  chan struct{}

	followers atomic.Int64 // requests that repeated it while it ran
	draining  atomic.Bool  // finished for a client that left
	refs      atomic.Int32 // clients, and the execution itself until its record has landed
	mu        sync.Mutex
	clients   int
	settled   bool // the answer is complete; the record may still be on its way
	saved     bool // … and has landed
	served    string
	seen      *sighting // under its derived key
	reply     *stored   // the provider's error that was passed on
	answered  *stored
}

// newExecution prepares what c asks for. The caller is its first client.
func (g *Gateway) newExecution(c *call) *execution {
	e := &execution{g: g, wf: c.wf, spec: c.spec, effect: c.effect, fp: c.fp, claim: c.key, claimed: c.claimed,
		keep: c.key != "", rec: newRecording(&g.mem), finished: make(chan struct{}), clients: 1}
	e.refs.Store(2)
	e.ctx, e.cancel = context.WithCancelCause(context.Background())
	return e
}

// took gives e its intent. Duplicates may be asking for it already.
func (e *execution) took(op *intent.Op, began time.Time) {
	st := op.Status()
	e.mu.Lock()
	e.op, e.began, e.tries, e.served = op, began, st.Attempt, st.ServedModel
	e.mu.Unlock()
}

// hold adds a client.
func (e *execution) hold() {
	e.refs.Add(1)
	e.mu.Lock()
	e.clients++
	e.mu.Unlock()
	e.g.drains.remove(e)
}

// tryHold adds a client unless nothing of e is left.
func (e *execution) tryHold() bool {
	for {
		n := e.refs.Load()
		if n <= 0 {
			return false
		}
		if e.refs.CompareAndSwap(n, n+1) {
			break
		}
	}
	e.mu.Lock()
	e.clients++
	e.mu.Unlock()
	e.g.drains.remove(e)
	return true
}

// leave takes a client away. When the last one goes, the call ends where on_disconnect says so; else it is
// finished for whoever asks again, within bounds (semantics 25).
func (e *execution) leave() {
	e.mu.Lock()
	e.clients--
	gone := e.clients == 0 && !e.settled
	e.mu.Unlock()
	switch {
	case !gone:
	case e.wf.OnDisconnect == policy.Cancel:
		e.cancel(errClientsGone)
	case e.effect == ledger.EffectGeneration:
		e.g.drains.add(e)
	}
}

func (e *execution) over() bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.settled
}

func (e *execution) unref() {
	if e.refs.Add(-1) == 0 {
		e.rec.free()
	}
}

func (e *execution) attached() int {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.clients
}

// end is the last thing that happens to an execution: clients learn how it ended, duplicates look elsewhere.
func (e *execution) end(how ending) {
	e.mu.Lock()
	ended := e.settled
	e.settled = true
	e.mu.Unlock()
	if ended { // a panic behind the end
		return
	}
	if how.reveal != nil {
		e.rec.open(how.reveal)
		e.rec.show(e.rec.length())
	}
	e.rec.finish(how)
	e.g.drains.remove(e)
	close(e.finished)
	e.cancel(nil)
}

// forget takes e out of the registry once its record has landed, or never will.
func (e *execution) forget() {
	if n := e.followers.Load(); n > 0 && e.op != nil { // without an intent nothing was begun that could be repeated
		e.op.Note(repeated("in_flight", n))
	}
	e.g.registry.remove(e.key, e)
	e.unref()
}

// run makes the upstream call and records what becomes of it. It is called once, after the dispatch is durable.
func (e *execution) run() {
	defer e.g.leave()
	defer e.panicked()
	e.watch = e.newWatch()
	defer e.watch.stop()
	mutant.Point("send.before")
	e.sent = time.Now()
	resp, err := e.g.upstream.Do(e.ctx, e.request)
	mutant.Point("send.after")
	if err != nil {
		e.failedTransport(err)
		return
	}
	defer resp.Body.Close()
	format := e.formatOf(resp)
	switch {
	case resp.Status < 200 || resp.Status > 299:
		e.refusedByProvider(resp)
	case format == provider.SSE || format == provider.JSONArray:
		e.stream(resp, format)
	default:
		e.plain(resp, format)
	}
}

// panicked keeps a defect of ours from losing an operation: its outcome is unknown, and says so.
func (e *execution) panicked() {
	p := recover()
	if p == nil {
		return
	}
	e.g.logger.Error("panic in an execution", "intent", e.op.ID(), "panic", fmt.Sprint(p), "stack", string(debug.Stack()))
	e.conclude(verdict{end: ledger.AttemptUnknown, kind: "internal_error", reason: "the gateway failed while the call was on its way"},
		ending{fail: &Error{Code: CodeAllTiersFailed, Message: "the gateway failed while the call was on its way"}, abort: e.rec.shown()}, nil)
}

// watch bounds an execution in time: to the boundary by first_token, attempt and total; behind it by idle and
// stream (semantics 30). Progress is a store, not a timer's reset.
type watch struct {
	e       *execution
	timer   *time.Timer
	mu      sync.Mutex
	limit   time.Time // of this phase
	why     error
	last    atomic.Int64  // unix nanoseconds of the last bytes
	idle    time.Duration // 0 before the boundary
	stopped bool
}

func (e *execution) newWatch() *watch {
	t := e.wf.Timeouts
	limit, why := t.Attempt, errAttempt
	if e.spec.Stream && t.FirstToken < limit {
		limit, why = t.FirstToken, errFirstToken
	}
	if budget := e.budget; budget < limit {
		limit, why = budget, errTotal
	}
	w := &watch{e: e, why: why, limit: time.Now().Add(limit)}
	w.timer = time.AfterFunc(limit, w.fire)
	return w
}

// crossed says that the boundary was passed.
func (w *watch) crossed() {
	w.mu.Lock()
	defer w.mu.Unlock()
	now := time.Now()
	w.idle, w.why, w.limit = w.e.wf.Timeouts.Idle, errStreamLimit, now.Add(w.e.wf.Timeouts.Stream)
	w.last.Store(now.UnixNano())
	w.timer.Reset(min(w.idle, w.e.wf.Timeouts.Stream))
}

func (w *watch) progress() {
	if w.idle > 0 {
		w.last.Store(time.Now().UnixNano())
	}
}

func (w *watch) fire() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.stopped {
		return
	}
	now := time.Now()
	if !now.Before(w.limit) {
		w.e.cancel(w.why)
		return
	}
	still := now.Sub(time.Unix(0, w.last.Load()))
	if w.idle > 0 && still >= w.idle {
		w.e.cancel(errIdle)
		return
	}
	next := w.limit.Sub(now)
	if w.idle > 0 {
		next = min(next, w.idle-still)
	}
	w.timer.Reset(next)
}

func (w *watch) stop() {
	w.mu.Lock()
	w.stopped = true
	w.mu.Unlock()
	w.timer.Stop()
}

// source is the tier that answers.
func (e *execution) source() string {
	e.mu.Lock()
	op := e.op
	e.mu.Unlock()
	if op == nil {
		return ""
	}
	return op.Status().Tier
}

func (e *execution) attempts() int {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.tries
}

// serves notes the model that the answer names.
func (e *execution) serves(model string) {
	e.mu.Lock()
	e.served = plainName(model)
	e.mu.Unlock()
}

func (e *execution) servedModel() string {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.served == "" {
		return plainName(e.spec.Model)
	}
	return e.served
}
