package gateway

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"sync"
	"sync/atomic"
	"time"

	"github.com/holdfast-ai/holdfast/breaker"
	"github.com/holdfast-ai/holdfast/deadline"
	"github.com/holdfast-ai/holdfast/intent"
	"github.com/holdfast-ai/holdfast/internal/mutant"
	"github.com/holdfast-ai/holdfast/internal/policy"
	"github.com/holdfast-ai/holdfast/internal/provider"
	"github.com/holdfast-ai/holdfast/internal/provider/wire"
	"github.com/holdfast-ai/holdfast/internal/upstream"
	"github.com/holdfast-ai/holdfast/ledger"
	"github.com/holdfast-ai/holdfast/queue"
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
	g       *edition
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
	target  *target
	ctx     context.Context // of the running attempt
	cancel  context.CancelCauseFunc
	watch   *watch

	course    *course
	nest      nest
	next      intent.Attempt // as the next attempt is written down
	barred    *barred        // what the first attempt waits for
	purse     purse
	inherited int // attempts of the operation that this one goes on with

	job  *queue.Job // nil for a call that clients wait for
	pass int        // attempts before this pass of a job

	op        *intent.Op
	rec       *recording
	tries     int
	sent      time.Time // when the upstream call began
	began     time.Time // ledger time of the first sighting
	budget    deadline.Budget
	impatient bool // the budget is the caller's own, shorter than the policy's
	finished  chan struct{}

	followers atomic.Int64           // requests that repeated it while it ran
	draining  atomic.Pointer[drains] // where it is finished for a client that left
	at        atomic.Pointer[tier]   // whose slots it has
	refs      atomic.Int32           // clients; the execution itself, until it has ended and until its record has landed
	mu        sync.Mutex
	clients   int
	resting   bool   // between two attempts, or before the first: nothing is on its way
	why       error  // it was broken off for good
	settled   bool   // the answer is complete; the record may still be on its way
	saved     bool   // … and has landed
	remote    bool   // another gateway makes its answer
	tier      string // … and says that this tier does
	spent     bool   // its clients may have heard of a failure that is not on record yet
	served    string
	fallback  string    // what was decided about other tiers
	because   string    // why another tier than the first was asked
	met       met       // conditions of the policy that its failure met
	left      string    // the tiers that did not answer
	seen      *sighting // under its derived key
	asks      *asked    // by what its answer is found for others; nil: by nothing
	kept      *keeping  // its answer, on the way there
	answered  *stored
	word      lateWord // what is to land
}

// newExecution prepares what c asks for. The caller is its first client.
func (g *edition) newExecution(c *call) *execution {
	e := &execution{g: g, wf: c.wf, spec: c.spec, effect: c.effect, fp: c.fp, claim: c.key, claimed: c.claimed,
		asks: c.asks(), keep: c.key != "", course: c.course, rec: newRecording(g.mem), finished: make(chan struct{}), clients: 1}
	e.refs.Store(3)
	e.ctx, e.cancel = context.WithCancelCause(context.Background())
	return e
}

// took gives e its intent. Duplicates may be asking for it already.
func (e *execution) took(op *intent.Op, began time.Time) {
	st := op.Status()
	e.mu.Lock()
	e.op, e.began, e.tries, e.served = op, began, st.Attempt, st.ServedModel
	e.mu.Unlock()
	e.tell()
	if e.barred == nil {
		e.course.begun(st.Tier)
		e.moved()
	}
}

// stop breaks the call off for good.
func (e *execution) stop(why error) {
	e.mu.Lock()
	if e.why == nil {
		e.why = why
	}
	cancel := e.cancel
	e.mu.Unlock()
	cancel(why)
}

// anew gives the next attempt a context of its own where the last one's was ended by a time-out.
func (e *execution) anew() {
	if e.ctx.Err() == nil {
		return
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	e.ctx, e.cancel = context.WithCancelCause(context.Background())
	if e.why != nil {
		e.cancel(e.why)
	}
}

func (e *execution) over() bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.settled
}

// spend says that from now on clients may hear that e failed. Who comes again with a key that the failure releases must
// not be given it once more (semantics 14): until its record has landed nobody joins e.
func (e *execution) spend() {
	e.mu.Lock()
	e.spent = true
	e.mu.Unlock()
}

// failed says that e has failed, and only its record is still to come.
func (e *execution) failed() bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.spent
}

func (e *execution) unref() {
	if e.refs.Add(-1) == 0 {
		e.rec.free()
		e.course.free()
	}
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
		how.whole = true
	}
	e.purse.pay(ledger.AttemptUnknown, wire.NoUsage()) // what is still reserved is of an attempt that nobody has ended
	e.rec.finish(how)
	_ = e.undrain()
	close(e.finished)
	e.cancel(nil)
	e.unref()
}

// endUnkept ends an execution behind which nothing of its key is on the way to the record: who hears of the end and
// comes again asks the ledger, and never joins what is over.
func (e *execution) endUnkept(how ending) {
	e.g.registry.remove(e.key, e)
	e.end(how)
	e.forget()
}

// forget takes e out of the registry once its record has landed, or never will.
func (e *execution) forget() {
	if n := e.followers.Load(); n > 0 && e.op != nil { // without an intent nothing was begun that could be repeated
		e.op.Note(repeated("in_flight", n))
	}
	e.g.registry.remove(e.key, e)
	e.unref()
}

// run makes the upstream call, and further ones as decided, and records what becomes of them. It is called once; the
// first attempt is durable before, or waits behind the claim for a slot and a permit.
func (e *execution) run() {
	defer e.g.leave()
	defer e.panicked()
	if !e.admitted() {
		return
	}
	e.nest.route.Budget().First()
	for {
		o := e.attempt()
		if o == nil || !e.again(o) {
			return
		}
	}
}

// attempt makes one upstream call. It returns nil when the answer is with the clients.
func (e *execution) attempt() *outcome {
	e.watch = e.newWatch()
	defer e.watch.stop()
	e.sayLeftOut()
	mutant.Point("send.before")
	e.sent = time.Now()
	resp, err := e.send()
	resp = e.target.answered(resp)
	mutant.Point("send.after")
	if err != nil {
		return e.failedTransport(err)
	}
	defer resp.Body.Close()
	format := e.formatOf(resp)
	switch {
	case e.crosses() != nil && resp.Status >= 200 && resp.Status <= 299 && hidden(resp):
		return e.notAnAnswer("in the coding "+header(resp, "Content-Encoding"), header(resp, "Content-Type"))
	case e.spec.Wire == provider.Tool && resp.Status >= 200 && resp.Status <= 299:
		return e.plain(resp, provider.Opaque) // whole, whatever it says that it is
	case resp.Status < 200 || resp.Status > 299:
		return e.refusedByProvider(resp)
	case format == provider.SSE && e.crosses() != nil:
		e.tellStream(resp)
		return e.stream(resp, format)
	case format == provider.SSE || format == provider.JSONArray:
		return e.stream(resp, format)
	default:
		return e.plain(resp, format)
	}
}

// asked is the call as the provider reads it that answers.
func (e *execution) asked() *provider.Call {
	if t := e.crosses(); t != nil {
		return &t.spec
	}
	return &e.spec
}

// crosses is the translation between the execution's clients and the tier that it is at; nil where both speak one format.
func (e *execution) crosses() *translation { return e.course.leg().crosses }

// send puts the request on the wire, unless a fault is injected into the route. Whoever stood still since the attempt was put on
// record, so that others may have taken it over, sends nothing (semantics 6).
func (e *execution) send() (*upstream.Response, error) {
	if !e.g.log.Alone() {
		e.request.Sending = e.op.Sending
	}
	if f := e.nest.route.Fault(); f != nil {
		return e.injected(f)
	}
	if e.spec.Wire == provider.Tool && e.op.Head().Hold {
		return e.sendTool()
	}
	return e.g.upstream.Do(e.ctx, e.request)
}

// panicked keeps a defect of ours from losing an operation: its outcome is unknown, and says so.
func (e *execution) panicked() {
	p := recover()
	if p == nil {
		return
	}
	e.g.logger.Error("panic in an execution", "intent", e.op.ID(), "panic", fmt.Sprint(p), "stack", string(debug.Stack()))
	if !mutant.On("probe-lost-on-panic") {
		e.nest.quit(breaker.Ignored)
	}
	e.conclude(&outcome{verdict: verdict{end: ledger.AttemptUnknown, kind: "internal_error", reason: "the gateway failed while the call was on its way"},
		how:     ending{fail: &Error{Code: CodeAllTiersFailed, Message: "the gateway failed while the call was on its way"}, abort: e.rec.shown()},
		visible: e.rec.shown()})
}

// source is the tier that answers.
func (e *execution) source() string {
	e.mu.Lock()
	op, tier := e.op, e.tier
	e.mu.Unlock()
	if op == nil || tier != "" {
		return tier
	}
	return op.Status().Tier
}

func (e *execution) attempts() int {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.tries
}

// unmade takes an attempt back that was put on record and then not made.
func (e *execution) unmade() {
	e.mu.Lock()
	e.tries = max(0, e.tries-1)
	e.mu.Unlock()
	if k := e.course; k.tries != nil {
		k.tries[k.leg().name]--
	}
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
