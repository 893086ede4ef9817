package gateway

import (
	"context"
	"encoding/json"
	"errors"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/holdfast-ai/holdfast/decision"
	"github.com/holdfast-ai/holdfast/intent"
	"github.com/holdfast-ai/holdfast/internal/callback"
	"github.com/holdfast-ai/holdfast/internal/mutant"
	"github.com/holdfast-ai/holdfast/internal/policy"
	"github.com/holdfast-ai/holdfast/ledger"
	"github.com/holdfast-ai/holdfast/queue"
	"github.com/holdfast-ai/holdfast/retry"
	"github.com/holdfast-ai/holdfast/signal"
)

// Callbacks are jobs with a queue and workers of their own, so that no receiver, however slow, holds a worker that a call to
// a provider could have. Who is called a second time hears the same id: a webhook is at least once, and its receiver makes
// it once by that.

const (
	// callbackWorkers is how many callbacks are on their way at a time, callbacksPerHost how many of them to one receiver.
	callbackWorkers, callbacksPerHost = 32, 4
	// unsigned is how often it is looked whether there is a secret again.
	unsigned = 30 * time.Second
	// pausedReceivers bounds those of whom it is remembered that they asked to be left alone.
	pausedReceivers = 4096
	// pausedFor bounds how long one callback's answer keeps the others from its receiver: what is said for a day may be meant
	// for that one alone, and whoever is asked again says so again.
	pausedFor = 10 * time.Minute
)

// callbackRetry is the schedule of a callback's attempts: over half a day, with full jitter.
var callbackRetry = retry.Policy{MaxAttempts: intent.CallbackAttempts, Base: 5 * time.Second, Max: 4 * time.Hour}

// callbacks is who tells of jobs' ends.
type callbacks struct {
	*queue.Queue
	sender CallbackSender

	mu     sync.Mutex
	paused map[receiver]time.Time // until when, in ledger time
}

// receiver is a host to one tenant: behind the same one others may have receivers of their own.
type receiver struct{ tenant, host string }

func receiverOf(head *ledger.Intent) receiver {
	return receiver{head.Tenant, callback.Host(head.Callback)}
}

// Callbacks is the queue of this gateway's callbacks. Whoever starts the gateway runs it beside that of the jobs, which
// feeds it.
func (g *Gateway) Callbacks() *queue.Queue { return g.callbacks.Queue }

// CallbackSender makes one attempt to deliver a callback: a *callback.Sender.
type CallbackSender interface {
	Send(ctx context.Context, d callback.Delivery) callback.Result
}

func (g *Gateway) newCallbacks(s CallbackSender) *callbacks {
	if s == nil {
		s = &callback.Sender{}
	}
	c := &callbacks{sender: s, paused: map[receiver]time.Time{}}
	c.Queue = queue.New(queue.Config{Ledger: g.ledger, Log: g.log, Logger: g.logger, Workers: callbackWorkers, Fed: true, Takes: intent.IsCallback,
		Rules: func(head *ledger.Intent) queue.Rules {
			host := callback.Host(head.Callback)
			return queue.Rules{Key: host, Limit: callbacksPerHost, Provider: host, Route: host, MaxAttempts: intent.CallbackAttempts,
				Dead: []string{decision.MaxAttemptsExhausted, decision.MaxQueueAgeExceeded}}
		},
		Work:   func(ctx context.Context, j *queue.Job) queue.Rest { return g.current.Load().callBack(ctx, j) },
		Barred: func(head *ledger.Intent) (time.Duration, bool) { return g.current.Load().callbackBarred(head), true }})
	g.log.OnCallback(c.Enter)
	g.log.OnFreed(func(r *ledger.Record) {
		if intent.IsCallback(&r.Intent) {
			c.Enter(r)
		} else {
			g.jobs.Enter(r)
		}
	})
	return c
}

// Look has a job looked at that came into its lane by evidence or a person's word.
func (g *Gateway) Look(ctx context.Context, id string) {
	g.jobs.Look(ctx, id)
	g.callbacks.Look(ctx, id)
}

// CallbackLane is what callbacks that wait are counted under, beside the lanes of jobs.
const CallbackLane = "callbacks"

// Lanes says what each lane holds, and what the callbacks do that wait.
func (g *Gateway) Lanes() map[string]queue.Lane {
	all := g.jobs.Lanes()
	all[CallbackLane] = g.callbacks.Lanes()[intent.LaneBackground]
	return all
}

// callbackRules is what a configuration says of a callback; nil where it signs none.
func (g *edition) callbackRules(head *ledger.Intent) *policy.Callbacks {
	w := g.policy.Workflow(head.Workflow)
	if w == nil || w.Callbacks.Secret.IsZero() {
		return nil
	}
	return &w.Callbacks
}

func (g *edition) callbackBarred(head *ledger.Intent) time.Duration {
	switch {
	case g.draining.Load():
		return time.Second
	case g.callbackRules(head) == nil:
		return unsigned
	}
	return g.callbacks.pause(receiverOf(head), g.ledger.Now())
}

// pause is how long a receiver is still left alone.
func (c *callbacks) pause(to receiver, now time.Time) time.Duration {
	c.mu.Lock()
	defer c.mu.Unlock()
	until, is := c.paused[to]
	if is && !now.Before(until) {
		delete(c.paused, to)
	}
	return max(0, until.Sub(now))
}

// leave keeps callbacks away from a receiver that asked for it. What is forgotten costs that receiver a call.
func (c *callbacks) leave(to receiver, until time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.paused) >= pausedReceivers {
		clear(c.paused)
	}
	if until.After(c.paused[to]) {
		c.paused[to] = until
	}
}

// callBack makes one attempt of a leased callback. It is the queue's worker.
func (g *edition) callBack(ctx context.Context, j *queue.Job) queue.Rest {
	g.running.begin() // before the look at draining: a drain that did not see this one waits for it
	defer g.running.end()
	head := j.Op.Head()
	rules := g.callbackRules(head)
	if rules == nil || g.draining.Load() {
		return queue.Rest{Wait: unsigned, Reason: "callbacks.secret is not configured now, or this gateway stops", Rule: "callbacks.secret"}
	}
	body, err := g.ledger.Body(ctx, head.ID, ledger.BodyRequest)
	switch {
	case errors.Is(err, ledger.ErrUnavailable):
		return queue.Rest{Wait: time.Second, Reason: "the store could not be read", Rule: "semantics 9"}
	case err != nil:
		return queue.Rest{Impossible: true, Reason: "its body is no longer kept: " + err.Error(), Rule: "retention.request_bodies"}
	}
	key, err := callback.Key(rules.Secret.Reveal())
	if err != nil { // check refuses such a configuration
		return queue.Rest{Impossible: true, Reason: err.Error(), Rule: "callbacks.secret"}
	}
	d := callback.Delivery{URL: head.Callback, ID: head.ID, Body: body.Data, Key: key, Allow: callback.ParseAllow(rules.Allow)}
	if err := j.Op.Dispatch(intent.Attempt{Route: "callback/" + callback.Host(head.Callback), Tier: intent.CallbackProvider}); err != nil {
		g.logger.Error("a callback cannot be dispatched; it goes back to its lane", "intent", head.ID, "error", err)
		return queue.Rest{Wait: time.Second, Reason: "its attempt could not be written down", Rule: "semantics 9"}
	}
	if err := j.Op.Sending(); err != nil {
		g.kept(j, j.Op.EndAttempt(intent.Ending{End: ledger.AttemptNotSent, Reason: err.Error(), Rule: "semantics 6", ReadyAt: g.ledger.Now(), Free: true}))
		return queue.Rest{}
	}
	g.deliver(ctx, j, d)
	return queue.Rest{}
}

// deliver sends what is on record as dispatched, and records what became of it.
func (g *edition) deliver(ctx context.Context, j *queue.Job, d callback.Delivery) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	defer context.AfterFunc(g.halted, func() { cancel(errInterrupted) })()
	began := time.Now()
	d.At = began // the receiver compares it with its own clock, not with the ledger's
	mutant.Point("callback.before")
	r := g.callbacks.sender.Send(ctx, d)
	mutant.Point("callback.after")
	took := time.Since(began)
	if r.Err != nil && errors.Is(context.Cause(ctx), errInterrupted) {
		g.kept(j, j.Op.Interrupt(errInterrupted.Error()))
		return
	}
	v := judgeCallback(&r)
	v.Evidence = callbackEvidence(&r, d.At, took)
	a := Attempt{Workflow: j.Op.Head().Workflow, Tier: intent.CallbackProvider, End: v.End, Error: v.Error, Took: took}
	g.observer.Attempt(a)
	if v.End != ledger.AttemptSuccess {
		g.logger.Warn("a callback did not arrive", "intent", j.Op.ID(), "job", intent.CallbackOf(j.Op.Head()), "to", j.Op.Head().Path,
			"status", r.Status, "error_type", v.Error, "reason", v.Reason)
	}
	g.kept(j, g.endCallback(j, &r, v))
}

// judgeCallback is what an answer means: 2xx that it arrived, all else that it did not, and no answer that nobody knows.
func judgeCallback(r *callback.Result) intent.Ending {
	v := intent.Ending{End: ledger.AttemptFailed, Status: r.Status, Rule: "callback_url"}
	switch {
	case errors.Is(r.Err, callback.ErrAddress), errors.Is(r.Err, callback.ErrURL):
		v.Error, v.Rule = "address_refused", "callbacks.allow"
	case r.Err != nil && r.Sent:
		v.End, v.Error = ledger.AttemptUnknown, "no_answer"
	case r.Err != nil:
		v.Error = "connection_error"
	case r.Status >= 200 && r.Status < 300:
		return intent.Ending{End: ledger.AttemptSuccess, Status: r.Status}
	default:
		v.Error, v.Reason = "http_"+strconv.Itoa(r.Status), "the receiver answered "+strconv.Itoa(r.Status)
		if r.Status >= 300 && r.Status < 400 {
			v.Reason += "; a redirect is not followed"
		}
	}
	if r.Err != nil {
		v.Reason = bounded(strings.ToValidUTF8(r.Err.Error(), "?"))
	}
	return v
}

// callbackEvidence is what is kept of an attempt beside its end. Nothing of an answer's body is: it may be a page of
// somebody's own network.
func callbackEvidence(r *callback.Result, at time.Time, took time.Duration) json.RawMessage {
	p, err := json.Marshal(struct {
		Address   string `json:"address,omitempty"`
		Timestamp int64  `json:"webhook_timestamp"`
		TookMS    int64  `json:"took_ms"`
	}{r.Address, at.Unix(), took.Milliseconds()})
	if err != nil { // a text and numbers always marshal
		return nil
	}
	return p
}

// endCallback moves a callback on behind an attempt.
func (g *edition) endCallback(j *queue.Job, r *callback.Result, v intent.Ending) error {
	op := j.Op
	switch {
	case v.End == ledger.AttemptSuccess:
		return op.Settle(intent.Settlement{Ending: v, Outcome: ledger.OutcomeSuccess, Visibility: ledger.VisBackground}, false, nil)
	case r.Status == 410:
		const gone = "the receiver is gone for good (410)"
		return op.Settle(intent.Settlement{Ending: v, Outcome: ledger.OutcomeFailed, Reason: gone, Visibility: ledger.VisBackground}, false, nil)
	case v.Error == "address_refused":
		return op.Park(intent.Parking{Lane: intent.LaneDead, Ending: &v, Reason: v.Reason, Rule: v.Rule})
	}
	made := op.Status().Attempt - j.Life.Attempts
	if !callbackRetry.More(made) {
		return op.Park(intent.Parking{Lane: intent.LaneDead, Ending: &v, Rule: v.Rule,
			Reason: decision.MaxAttemptsExhausted + ": " + strconv.Itoa(made) + " attempts did not arrive; " + v.Reason})
	}
	now := g.ledger.Now()
	floor := callbackFloor(r)
	if floor > 0 {
		g.callbacks.leave(receiverOf(op.Head()), now.Add(min(floor, pausedFor)))
	}
	v.RetryAfter = callbackRetry.Delay(made, floor, nil)
	v.ReadyAt, v.Lane, v.Free = now.Add(v.RetryAfter), intent.LaneBackground, true
	return op.EndAttempt(v)
}

// callbackFloor is how long the receiver asked to be left alone.
func callbackFloor(r *callback.Result) time.Duration {
	if r.Err != nil {
		return 0
	}
	wait, _ := signal.Classify(signal.Answer{ReceivedAt: time.Now(), Status: r.Status, Header: r.Header}).RetryAfter()
	return min(wait, retry.Longest)
}

func (g *edition) kept(j *queue.Job, err error) {
	if err != nil && !errors.Is(err, ledger.ErrStale) && !errors.Is(err, intent.ErrCommitWait) {
		g.logger.Error("what became of a callback could not be recorded; a sweep frees it, and it is sent again", "intent", j.Op.ID(), "error", err)
	}
}

// callbackAllowed refuses a callback_url that would not be called.
func (c *call) callbackAllowed(address string) *Error {
	if address == "" {
		return nil
	}
	if c.tool != nil {
		return errorf(CodeInvalidRequest, "callback_url: the end of a tool's job is told to nobody; GET %sID/events follows it", jobPath)
	}
	rules := &c.wf.Callbacks
	if rules.Secret.IsZero() {
		return errorf(CodeInvalidRequest, "callback_url: the workflow %s signs no callbacks; set workflows.%s.callbacks.secret to a secret that the receiver has too, "+
			`such as "${CALLBACK_SECRET}"`, c.wf.Name, c.wf.Name)
	}
	if err := callback.Check(address, callback.ParseAllow(rules.Allow)); err != nil {
		return errorf(CodeInvalidRequest, "%s", err.Error())
	}
	return nil
}

// calledElsewhere refuses a job again whose end is told to somebody else: the second caller would wait for nothing.
func (c *call) calledElsewhere(rec *ledger.Record) *Error {
	if c.callback == "" || rec.Callback == c.callback {
		return nil
	}
	return &Error{Code: CodeKeyReused, Intent: rec.ID,
		Message: "this job was submitted before with another callback_url, or with none, and that counts; a job of its own has an idempotency_key of its own"}
}
