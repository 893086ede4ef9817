package gateway

import (
	"context"
	"encoding/json"
	"errors"
	"maps"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/holdfast-ai/holdfast/bulkhead"
	"github.com/holdfast-ai/holdfast/decision"
	"github.com/holdfast-ai/holdfast/intent"
	"github.com/holdfast-ai/holdfast/internal/mutant"
	"github.com/holdfast-ai/holdfast/internal/policy"
	"github.com/holdfast-ai/holdfast/ledger"
	"github.com/holdfast-ai/holdfast/queue"
)

// A job goes the way of a call: its worker is the one client, and the request is the one that was written down. What
// differs is said in this file: its tenant and key are on record, it waits in its lane and not here, and behind an
// attempt it rests where a call would end.

// jobStages are those stages of a call that a job still has before it; the others were passed when it was submitted.
var jobStages = [...]stage{
	{"route", (*call).jobRoute},
	{"identify", (*call).identify},
	{"control", (*call).control},
	{"policy", (*call).choose},
	{"approval", (*call).approved},
	{"key", (*call).jobKey},
	{"admit", (*call).admit},
	{"permit", (*call).permit},
	{"claim", (*call).claim},
	{"run", (*call).runJob},
}

// Jobs is the queue of this gateway's jobs. Whoever starts the gateway runs it.
func (g *Gateway) Jobs() *queue.Queue { return g.jobs }

func (g *Gateway) newQueue(cfg *policy.Config) *queue.Queue {
	return queue.New(queue.Config{Ledger: g.ledger, Log: g.log, Logger: g.logger, Workers: jobWorkers(cfg),
		Takes: func(head *ledger.Intent) bool { return !intent.IsCallback(head) }, Others: func(r *ledger.Record) { g.callbacks.Enter(r) },
		Rules: func(head *ledger.Intent) queue.Rules { return g.current.Load().scheduled(head) },
		// A job that waits is not in flight: each pass goes, from its first stage to its last, by the configuration that is in
		// force when a worker takes it. After a restart there would be no other.
		Work:      func(ctx context.Context, j *queue.Job) queue.Rest { return g.current.Load().workOn(ctx, j) },
		Barred:    func(head *ledger.Intent) (time.Duration, bool) { return g.current.Load().jobBarred(head) },
		Elsewhere: func(head *ledger.Intent) bool { return g.current.Load().hasElsewhere(head) },
		As: func(head ledger.Intent, said json.RawMessage) ledger.Intent {
			if mutant.On("replay-waits-for-old-route") {
				return head
			}
			return scheduledAs(head, said)
		}})
}

// jobWorkers leaves a fifth of the places free for calls that somebody waits for, whatever the backlog.
func jobWorkers(cfg *policy.Config) int {
	return min(queue.DefaultWorkers, max(1, cfg.Limits.Workers*4/5))
}

// jobRules is the policy of a job by its head.
func (g *edition) jobRules(head *ledger.Intent) queue.Rules {
	w := g.jobWorkflow(head)
	if w == nil { // it is barred
		return queue.Rules{}
	}
	r := RulesOf(w)
	if key := g.concurrencyKey(w, head); key != "" {
		r.Key, r.Limit = key, w.Bulkhead.MaxConcurrent
		if r.Limit <= 0 {
			r.Limit = max(1, queue.DefaultWorkers/4)
		}
	}
	return r
}

// RulesOf is what a workflow says of its jobs, but for their concurrency key.
func RulesOf(w *policy.Workflow) queue.Rules {
	return queue.Rules{Order: w.Backpressure.ReleaseOrder, MaxAttempts: w.Lanes.BackgroundRetry.MaxAttempts,
		Review: w.Lanes.OwnerReview.EnterWhen, Dead: w.Lanes.DeadLetter.EnterWhen}
}

// reviewed says that a person has spoken for a job: it was sent on by somebody's word.
func reviewed(j *queue.Job) bool { return j != nil && j.Life.Generation > 1 }

// jobWorkflow is the workflow of a job, or of its tool's route; nil where the configuration does not have it now.
func (g *edition) jobWorkflow(head *ledger.Intent) *policy.Workflow {
	if head.Provider != ToolProvider {
		return g.policy.Workflow(head.Workflow)
	}
	t := g.tools[head.Workflow]
	if t == nil {
		return nil
	}
	return t.route(head.Method, strings.TrimPrefix(head.Path, toolPrefix+head.Workflow)).wf
}

// jobGoes is the provider and the model that a job goes to first, at the tier that its contract lets it begin at.
func (g *edition) jobGoes(w *policy.Workflow, head *ledger.Intent) (provider, model string) {
	if head.Provider == ToolProvider {
		return head.Provider, head.RequestedModel
	}
	var one [1]leg
	k := course{legs: g.legs(g.nests[w.Name], g.providers[head.Provider], head.RequestedModel, overrideIn(head), &one)}
	l := k.legs[0]
	if k.several() {
		l = k.legs[k.index(beginsIn(head))]
	}
	if l.to == nil { // it is barred
		return head.Provider, head.RequestedModel
	}
	return l.to.conf.Name, l.sends
}

// concurrencyKey is what backpressure.concurrency_key comes to for a job; "" where the workflow has none. The workflow
// is part of it, for the limit is the workflow's.
func (g *edition) concurrencyKey(w *policy.Workflow, head *ledger.Intent) string {
	if len(w.Backpressure.ConcurrencyKey) == 0 {
		return ""
	}
	provider, model := g.jobGoes(w, head)
	values := map[string]string{"owner_key": head.OwnerKey, "tenant": head.Tenant, "workflow": head.Workflow, "provider": provider,
		"requested_model": head.RequestedModel, "served_model": model, "endpoint_type": head.Endpoint,
		"route_key": provider + "/" + model + "/" + head.Endpoint}
	parts := []string{head.Workflow}
	for _, name := range w.Backpressure.ConcurrencyKey {
		parts = append(parts, url.QueryEscape(values[name]))
	}
	return strings.Join(parts, "/")
}

// stall is how long a job's line is left alone that found its bulkhead full, or a probe on its way.
const stall = 50 * time.Millisecond

// jobBarred is how long no job of this kind can be started: its route cools down, is paused or broken, or all slots that
// batch work may have are in use. It takes nothing. Behind a route's bar the first is a probe.
func (g *edition) jobBarred(head *ledger.Intent) (wait time.Duration, probe bool) {
	if g.leaving.Load() || g.draining.Load() {
		return time.Second, false
	}
	c, err := g.jobCandidate(head)
	if err != nil {
		g.absent.say(g.logger, head, err)
		return absentWait, false
	}
	c.spec.Stream = head.Stream
	if c.spec.Endpoint = head.Endpoint; c.tool != nil {
		c.spec.Endpoint = toolEndpoint
	}
	c.goTo(c.course.index(beginsIn(head)))
	n, _ := c.nested()
	if n.tier.slots != nil && !n.tier.slots.Fits(bulkhead.Batch) {
		return stall, false
	}
	if wait, barred := n.route.Barred(); barred {
		return max(wait, stall), true
	}
	if wait, fits := n.route.BatchFits(); !fits {
		return max(wait, stall), true
	}
	return 0, false
}

// jobRequest is what is kept of a job's request beside its body.
type jobRequest struct {
	Query  string      `json:"query,omitempty"`
	Header http.Header `json:"header,omitempty"`
}

// workOn does a leased job. It is the queue's worker.
func (g *edition) workOn(ctx context.Context, j *queue.Job) queue.Rest {
	c, err := g.jobCall(ctx, j)
	switch {
	case errors.Is(err, ledger.ErrUnavailable):
		return queue.Rest{Wait: time.Second, Reason: "the store could not be read", Rule: "semantics 9"}
	case err != nil:
		return queue.Rest{Impossible: true, Reason: "its request is no longer kept: " + err.Error(), Rule: "retention.request_bodies"}
	}
	defer c.release()
	defer c.brokenJob()
	for i := range jobStages {
		if err := jobStages[i].run(c); err != nil {
			return c.unstarted(err)
		}
		if c.done { // it waits for its owner
			break
		}
	}
	return queue.Rest{}
}

// unsent is why a job of which a stage failed was not sent.
const unsent = "the gateway failed before the job was sent"

// brokenJob gives back what a job holds of which a stage failed. The queue counts the crash.
func (c *call) brokenJob() {
	p := recover()
	if p == nil {
		return
	}
	if e := c.exec; e != nil && c.leader && (e.request == nil || c.admitted) && !e.over() { // it does not run
		c.abandon(errorf(CodeAllTiersFailed, unsent))
		if e.op != nil {
			err := e.op.EndAttempt(intent.Ending{End: ledger.AttemptNotSent, Error: "internal_error", Reason: unsent, Rule: "semantics 10"})
			if err != nil {
				c.g.logger.Error("that a job was not sent could not be put on record; its attempt ends as unknown", "intent", e.op.ID(), "error", err)
			}
		}
	}
	panic(p)
}

// jobCall is the call of a job, from what the log kept of it.
func (g *edition) jobCall(ctx context.Context, j *queue.Job) (*call, error) {
	head := j.Op.Head()
	body, kept, err := g.jobBodies(ctx, j)
	if err != nil {
		return nil, err
	}
	var request jobRequest
	if err := json.Unmarshal(kept.Data, &request); err != nil {
		return nil, err
	}
	if request.Header == nil {
		request.Header = http.Header{}
	}
	u := &url.URL{Path: head.Path, RawQuery: request.Query} // for show: where it goes is on record
	r := (&http.Request{Method: head.Method, URL: u, Header: request.Header, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		Body: http.NoBody}).WithContext(ctx)
	c := &call{g: g, r: r, job: j, began: time.Now(), body: body.Data}
	c.out.ResponseWriter = nowhere{}
	c.w = &c.out
	return c, nil
}

// jobBodies are what is kept of a job's request, read where they are not at hand.
func (g *edition) jobBodies(ctx context.Context, j *queue.Job) (request, header *ledger.Body, err error) {
	if j.Request != nil && j.Header != nil {
		return j.Request, j.Header, nil
	}
	if request, err = g.ledger.Body(ctx, j.Op.ID(), ledger.BodyRequest); err != nil {
		return nil, nil, err
	}
	header, err = g.ledger.Body(ctx, j.Op.ID(), ledger.BodyHeader)
	return request, header, err
}

// nowhere is the connection of a client that is none.
type nowhere struct{}

func (nowhere) Header() http.Header         { return http.Header{} }
func (nowhere) Write(p []byte) (int, error) { return len(p), nil }
func (nowhere) WriteHeader(int)             {}

// jobKey takes over what is on record of what the request means, and takes the key in this process: whoever asks with
// it finds the running job.
func (c *call) jobKey() *Error {
	head := c.job.Op.Head()
	c.key, c.fp, c.claimed, c.priority = head.Key, head.Fingerprint, true, head.Priority
	c.effect, c.hold = head.Effect, head.Hold
	if err := c.charged(len(c.body)); err != nil {
		return errorf(CodeShed, "%s", err.Error())
	}
	e := c.g.newExecution(c)
	e.key, e.job = c.key, c.job
	e.pass, e.inherited = c.job.Op.Status().Attempt, -c.job.Life.Attempts
	ctx, stop := context.WithTimeout(c.r.Context(), c.g.policy.Limits.CommitWait)
	defer stop()
	c.counts(ctx, c.job.Op.ID())
	c.course.past = maps.Clone(c.course.tries)
	if running := c.g.registry.join(c.key, e); running != nil { // a request that looks the key up at this moment
		running.leave()
		running.unref()
		e.cancel(nil)
		return errorf(CodeInFlight, "a request with its key is looked after at this moment")
	}
	c.exec, c.leader = e, true
	return nil
}

// claimJob makes the first attempt of this pass durable. The claim is the job's since it was submitted.
func (c *call) claimJob() *Error {
	switch err := c.job.Op.Dispatch(c.exec.next); {
	case errors.Is(err, intent.ErrAged):
		return errorf(CodeDeadline, "its max_queue_age is over")
	case errors.Is(err, ledger.ErrStale):
		return &Error{Code: CodeInFlight, Message: "the job was cancelled or taken over before it was sent", Err: err}
	case err != nil:
		return c.storeAway(err)
	}
	c.exec.took(c.job.Op, c.job.Op.Head().CreatedAt)
	return nil
}

// runJob makes the upstream calls of this pass, and returns when what became of them is on record.
func (c *call) runJob() *Error {
	e := c.exec
	e.request, e.target = c.outbound(), c.target
	e.markMetadata()
	c.attend()
	c.admitted = false // the execution gives the place back
	e.run()
	<-e.finished
	return nil
}

func (c *call) class() bulkhead.Class {
	if c.job != nil {
		return bulkhead.Batch
	}
	return bulkhead.Interactive
}

// unstarted says what follows for a job of which nothing could be sent.
func (c *call) unstarted(err *Error) queue.Rest {
	rest := queue.Rest{Wait: max(err.Wait, stall), Reason: "not started: " + err.Message, Rule: string(err.Code)}
	if errors.Is(err, errAbsent) {
		c.g.absent.say(c.g.logger, c.job.Op.Head(), err)
		return rest
	}
	switch err.Code {
	case CodeBulkheadFull, CodeRateLimited, CodeCircuitOpen, CodeInFlight:
		rest.Wait = c.g.untilAged(c.job, rest.Wait)
	case CodeSpendExceeded: // a day's limit is over tomorrow, the others a person has to change
		rest.Condition, rest.Impossible = decision.QuotaOrSpendExhausted, err.Wait == 0
	case CodeShed, CodeDraining, CodeStoreUnavailable, CodeDeadline:
		rest.Wait = max(err.Wait, time.Second)
	case CodeContract:
		if rest.Condition, rest.Impossible = c.unmet, true; c.job.Spent {
			rest.Impossible, rest.Rule = false, "lanes.background_retry.max_attempts"
		}
	default: // its request is none
		rest.Impossible = true
	}
	return rest
}

// AgedLane is where a job goes whose max_queue_age is over: "" gives it up.
func (g *Gateway) AgedLane(r *ledger.Record) string {
	if intent.IsCallback(&r.Intent) {
		return intent.LaneDead
	}
	w := g.current.Load().jobWorkflow(&r.Intent)
	if w == nil {
		return intent.LaneDead
	}
	rules := RulesOf(w)
	return rules.Lane(decision.MaxQueueAgeExceeded)
}

// QueueAge is how long a job may wait in its lane.
func (g *Gateway) QueueAge(head *ledger.Intent) time.Duration {
	if intent.IsCallback(head) {
		return intent.CallbackAge
	}
	if w := g.current.Load().jobWorkflow(head); w != nil {
		return w.Lanes.BackgroundRetry.MaxQueueAge
	}
	return 0
}
