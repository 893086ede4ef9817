package gateway

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"maps"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/holdfast-ai/holdfast/idempotency"
	"github.com/holdfast-ai/holdfast/intent"
	"github.com/holdfast-ai/holdfast/internal/mutant"
	"github.com/holdfast-ai/holdfast/internal/policy"
	"github.com/holdfast-ai/holdfast/ledger"
)

// jobPath is where jobs are found, on both ports.
const jobPath = "/holdfast/v1/jobs/"

// JobRequest is the body of POST /holdfast/v1/jobs (interface.md §3).
type JobRequest struct {
	Path           string          `json:"path"`
	Body           json.RawMessage `json:"body"`
	Workflow       string          `json:"workflow"`
	IdempotencyKey string          `json:"idempotency_key,omitempty"`
	OwnerKey       string          `json:"owner_key,omitempty"`
	Priority       string          `json:"priority,omitempty"`
	MaxQueueAgeMS  int64           `json:"max_queue_age_ms,omitempty"` // can only shorten the policy's
	CallbackURL    string          `json:"callback_url,omitempty"`     // whom the job's end is told to
	// Upload says that the job is one of many out of a file: its key is kept for intent.UploadKept at least, so that an upload which is
	// gone on with submits nothing twice.
	Upload bool `json:"upload,omitempty"`
}

// submission are the stages of a call that a job passes when it is submitted.
var submission = [...]stage{
	{"route", (*call).route},
	{"identify", (*call).identify},
	{"control", (*call).control},
	{"policy", (*call).choose},
	{"key", (*call).derive},
}

// SubmitJob writes a job down and has it worked on. r is the request to our own API that brought it: what it says of its
// caller counts. The same key again gives the same job, and known is true. Errors are *Error, or *AnsweredError where the key
// is a call's that has its answer.
func (g *Gateway) SubmitJob(r *http.Request, in JobRequest) (job *ledger.Record, known bool, err error) {
	return g.current.Load().submitJob(r, in)
}

func (g *edition) submitJob(r *http.Request, in JobRequest) (job *ledger.Record, known bool, err error) {
	if g.draining.Load() {
		return nil, false, errorf(CodeDraining, "this gateway is shutting down; nothing was taken on")
	}
	u, refusal := g.jobPath(&in)
	if refusal != nil {
		return nil, false, refusal
	}
	c := &call{g: g, began: time.Now(), body: in.Body, r: (&http.Request{Method: http.MethodPost, URL: u, Header: jobHeader(r, in),
		Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1, Body: http.NoBody}).WithContext(r.Context())}
	var answered AnsweredError
	c.out.ResponseWriter = nowhere{}
	c.w = &answered.answer
	defer func() { c.course.free() }() // where it begins is asked, and for that what its tiers would be sent is made
	id := caller(r)
	c.by = &id
	for i := range submission {
		if refusal := submission[i].run(c); refusal != nil {
			return nil, false, refusal
		}
	}
	if in.Upload {
		c.trigger = intent.TriggerUpload
	}
	if err := c.jobAllowed(g.guard.Credential(r)); err != nil {
		return nil, false, err
	}
	if err := c.callbackAllowed(in.CallbackURL); err != nil {
		return nil, false, err
	}
	c.callback = in.CallbackURL
	rec, known, refusal := c.submit(time.Duration(min(in.MaxQueueAgeMS, int64(maxAge/time.Millisecond))) * time.Millisecond)
	if refusal == nil && known && rec != nil {
		refusal = c.calledElsewhere(rec)
	}
	switch {
	case refusal != nil:
		return nil, false, refusal
	case rec == nil && c.done:
		return nil, false, &answered
	case rec == nil:
		return nil, false, errorf(CodeInFlight, "a call with this key is not done, and waits for the same request to come again")
	}
	return rec, known, nil
}

// jobPath is where the request of a job is to go; it refuses what is no request.
func (g *edition) jobPath(in *JobRequest) (*url.URL, *Error) {
	u, err := url.Parse(in.Path)
	switch {
	case err != nil || !strings.HasPrefix(in.Path, "/") || u.Host != "" || u.Fragment != "":
		return nil, errorf(CodeInvalidRequest, "path is a path of the data plane, such as /v1/chat/completions")
	case local(u.Path):
		return nil, errorf(CodeInvalidRequest, "path is a provider's or a tool's, not one of the gateway's own")
	case len(in.Body) == 0:
		return nil, errorf(CodeInvalidRequest, "body is the request's JSON body")
	case deeper(in.Body, g.policy.Limits.JSONDepth):
		return nil, errorf(CodeInvalidRequest, "the body nests deeper than limits.json_depth, %d", g.policy.Limits.JSONDepth)
	case in.MaxQueueAgeMS < 0:
		return nil, errorf(CodeInvalidRequest, "max_queue_age_ms is positive")
	}
	return u, nil
}

// AnsweredError says that no job was made: its key is that of a call, whose answer is this one.
type AnsweredError struct{ answer keptAnswer }

func (e *AnsweredError) Error() string {
	return "the key is that of a call that has its answer: " + http.StatusText(e.answer.status)
}

// Answer gives the answer as the call's own client would have it once more.
func (e *AnsweredError) Answer(w http.ResponseWriter) {
	maps.Copy(w.Header(), e.answer.header)
	w.WriteHeader(e.answer.status)
	_, _ = w.Write(e.answer.body) // a client that left
}

// keptAnswer takes an answer in that is written in one piece, which does not change any more: it is not copied.
type keptAnswer struct {
	status int
	header http.Header
	body   []byte
}

func (k *keptAnswer) Header() http.Header {
	if k.header == nil {
		k.header = http.Header{}
	}
	return k.header
}

func (k *keptAnswer) WriteHeader(status int) { k.status = status }

func (k *keptAnswer) Write(p []byte) (int, error) {
	k.body = p
	return len(p), nil
}

// maxAge bounds what arithmetic is done with.
const maxAge = 10 * 365 * 24 * time.Hour

// jobHeader is the header of a job's request: what its provider is told, and what is said of it to us.
func jobHeader(r *http.Request, in JobRequest) http.Header {
	h := http.Header{"Content-Type": {"application/json"}}
	for _, name := range [...]string{"Anthropic-Version", "Anthropic-Beta", "Openai-Organization", "Openai-Project", "Holdfast-Fresh", "Cache-Control"} {
		if v := r.Header[name]; v != nil {
			h[name] = v
		}
	}
	for name, v := range map[string]string{"Holdfast-Workflow": in.Workflow, "Idempotency-Key": in.IdempotencyKey,
		"Holdfast-Owner": in.OwnerKey, "Holdfast-Priority": in.Priority} {
		if v != "" {
			h[name] = []string{v}
		}
	}
	return h
}

// submitter says whose job it is: who our own API was asked by, for no credential of a provider's is kept.
func (c *call) submitter(id identity) {
	c.tenant, c.client = id.tenant, id.client
	if c.tenant == "" { // an operator's
		if c.tenant = mainTenant; c.g.guard.tenant != "" {
			c.tenant = c.g.guard.tenant
		}
	}
	if c.client != nil && c.client.Owner != "" {
		c.owner = c.client.Owner
	}
}

// jobAllowed refuses what cannot be a job.
func (c *call) jobAllowed(credential string) *Error {
	switch {
	case c.effect == ledger.EffectRead:
		return errorf(CodeInvalidRequest, "a read is no job: it is answered at once, and nothing of it is kept")
	case c.wf.Mode == policy.Observe:
		return errorf(CodeInvalidRequest, "the workflow %s only observes (mode: observe): it takes no jobs", c.wf.Name)
	case !c.target.owns && c.g.guard.Open() && credential != "":
		return errorf(CodeInvalidRequest, "a job is sent when its caller is gone, and its caller's credential is not kept: set providers.%s.api_key",
			c.target.conf.Name)
	case c.wf.Lanes.BackgroundRetry.RequireIdempotencyKey && c.callerKey == "":
		return errorf(CodeInvalidRequest, "lanes.background_retry.require_idempotency_key: give the job an idempotency_key of your own, "+
			"with --key on the command line, idempotency_key in a submission, Idempotency-Key as a header")
	}
	return nil
}

// submit writes the job down, with its claim in the same commit. Without a job and a refusal the key is a call's: it has given
// its answer (done), or waits for a request with its key.
func (c *call) submit(age time.Duration) (rec *ledger.Record, known bool, refusal *Error) {
	switch {
	case c.key == "": // derive: off, or a body that has no key: each submission is a job of its own
		c.key = idempotency.ExplicitKey(c.g.policy.Env, c.tenant, "job-"+rand.Text())
	case c.callerKey == "" && !c.claimed && (c.wf.Idempotency.Derive == policy.DeriveOff || c.anew()):
		c.key = idempotency.ExplicitKey(c.g.policy.Env, c.tenant, "job-"+rand.Text())
	}
	c.claimed = true
	if _, cost, known := c.estimated(); known {
		c.estimate = cost.USD()
	}
	head := c.head()
	head.MaxAttempts, head.Callback = c.wf.Lanes.BackgroundRetry.MaxAttempts, c.callback
	head.Trigger = c.beginning(head.Trigger)
	kept, err := json.Marshal(jobRequest{Query: credentialless(c.r.URL.RawQuery), Header: c.keptHeader()})
	if err != nil {
		return nil, false, errorf(CodeInvalidRequest, "the header cannot be kept")
	}
	limit := c.wf.Lanes.BackgroundRetry.MaxQueueAge
	if age > 0 {
		limit = min(limit, age)
	}
	expires, lane := c.g.ledger.Now().Add(limit), intent.LaneBackground
	if c.approves() || c.review {
		expires, lane = time.Time{}, intent.LaneReview
	}
	for range 4 { // each turn the holder has gone between two reads
		op, err := c.g.jobs.Submit(intent.Begin{Head: head, Claim: true, Lane: lane, ExpiresAt: expires,
			Request: &ledger.Body{Kind: ledger.BodyRequest, ContentType: c.r.Header.Get("Content-Type"), Data: c.body},
			Header:  &ledger.Body{Kind: ledger.BodyHeader, ContentType: "application/json", Data: kept}})
		holder := holderOf(err)
		switch {
		case err == nil:
			return &ledger.Record{Intent: *op.Head(), Status: op.Status()}, false, nil
		case holder == "":
			return nil, false, c.storeAway(err)
		}
		rec, again, refusal := c.heldJob(holder)
		if !again {
			return rec, true, refusal
		}
	}
	return nil, false, errorf(CodeInFlight, "the operation with this key is changing hands")
}

// heldJob finds the job that has the key already, or hears of the call that has it what that call's own client would. again is
// true where its claim has ended meanwhile.
func (c *call) heldJob(holder string) (job *ledger.Record, again bool, refusal *Error) {
	ctx, stop := context.WithTimeout(context.Background(), c.g.policy.Limits.CommitWait)
	defer stop()
	refused := c.g.log.Refused(holder) // before it is read: it may be taken back between the two
	r, err := c.g.ledger.Get(ctx, holder)
	switch {
	case errors.Is(err, ledger.ErrNotFound):
		return nil, true, nil
	case err != nil:
		return nil, false, c.storeAway(err)
	case c.clashes(r.Fingerprint):
		return nil, false, c.reused(r.ID)
	case r.State == ledger.Settled && !c.g.ledger.Now().Before(r.ClaimUntil):
		return nil, true, nil
	case refused && r.State != ledger.Settled:
		return nil, false, c.heldByRefused(r)
	case r.JobID == "" && mutant.On("async-says-in-flight"):
		return nil, false, &Error{Code: CodeInFlight, Intent: r.ID, Message: "a call has this key already"}
	case c.goesOnWith(r):
		return nil, false, nil
	case r.JobID == "":
		again, refusal = c.heldBy(ctx, r, refused)
		return nil, again, refusal
	}
	kind := "in_flight"
	if r.State == ledger.Settled {
		kind = "settled"
	} else if refusal := c.relies(r); refusal != nil {
		return nil, false, refusal
	}
	c.duplicateOf(r, kind)
	return r, false, nil
}

// keptHeader is what of a request's header goes with the job: nothing that proves who calls, and nothing that is said to
// us alone and was taken in.
func (c *call) keptHeader() http.Header {
	h := make(http.Header, len(c.r.Header))
	forwardHeaders(h, c.r.Header)
	c.g.guard.strip(h)
	for _, name := range [...]string{"X-Stainless-Timeout", "X-Stainless-Read-Timeout", "X-Server-Timeout", "X-Stainless-Retry-Count", "Prefer",
		"Content-Encoding", "Cache-Control"} {
		delete(h, name)
	}
	if c.tool == nil {
		h["Holdfast-Workflow"] = []string{c.wf.Name}
	}
	if v := c.r.Header[examplesHeader]; v != nil { // said to us, and of the request
		h[examplesHeader] = v
	}
	return h
}

// async answers a client that accepts an answer later: 202, with a job in the place of the call. Nothing else ever
// answers 202: an SDK would take it for a completion.
func (c *call) async() *Error {
	switch {
	case c.effect == ledger.EffectRead || !c.spec.Known && c.callerKey == "":
		return nil
	case !prefersAsync(c.r.Header) && c.approves():
		return c.awaitOwner()
	case !prefersAsync(c.r.Header):
		return nil
	}
	if err := c.jobAllowed(c.g.guard.Credential(c.r)); err != nil {
		return err
	}
	if c.g.draining.Load() {
		return errorf(CodeDraining, "this gateway is shutting down; nothing was taken on")
	}
	key, claimed := c.key, c.claimed
	rec, known, err := c.submit(0)
	switch {
	case err != nil:
		return err
	case rec == nil: // answered; or it goes on with a call that was interrupted, which is no job's
		c.key, c.claimed = key, claimed
		return nil
	}
	h := c.w.Header()
	set(h, "Preference-Applied", "respond-async")
	if known {
		set(h, "Idempotency-Replayed", "true")
	}
	WriteJob(c.w, rec)
	c.done, c.status, c.whole = true, http.StatusAccepted, true
	return nil
}

// prefersAsync reads Prefer (RFC 7240): a list of preferences, whose names know no case.
func prefersAsync(h http.Header) bool {
	for _, line := range h["Prefer"] {
		for p := range strings.SplitSeq(line, ",") {
			name, _, _ := strings.Cut(p, ";")
			if strings.EqualFold(strings.TrimSpace(name), "respond-async") {
				return true
			}
		}
	}
	return false
}

// accepted202 is the body of a 202.
type accepted202 struct {
	ID             string `json:"id"`
	JobID          string `json:"job_id"`
	State          string `json:"state"`
	Outcome        string `json:"outcome"`
	Lane           string `json:"lane"`
	IdempotencyKey string `json:"idempotency_key"`
	Workflow       string `json:"workflow"`
	Attempt        int    `json:"attempt"`
	MaxAttempts    int    `json:"max_attempts"`
	CreatedAt      string `json:"created_at"`
	ReadyAt        string `json:"ready_at,omitempty"`
	ExpiresAt      string `json:"expires_at,omitempty"`
}

// WriteJob answers 202 with a job and where to find it.
func WriteJob(w http.ResponseWriter, r *ledger.Record) {
	text := func(t time.Time) string {
		if t.IsZero() {
			return ""
		}
		return t.UTC().Format(time.RFC3339Nano)
	}
	h := w.Header()
	set(h, "Location", jobPath+r.ID)
	set(h, "Content-Type", "application/json")
	set(h, "Holdfast-Intent", r.ID)
	w.WriteHeader(http.StatusAccepted)
	_ = json.NewEncoder(w).Encode(accepted202{ID: r.ID, JobID: r.JobID, State: r.State.String(), Outcome: r.Outcome.String(), Lane: r.Lane,
		IdempotencyKey: r.Key, Workflow: r.Workflow, Attempt: r.Attempt, MaxAttempts: r.MaxAttempts, CreatedAt: text(r.CreatedAt),
		ReadyAt: text(r.ReadyAt), ExpiresAt: text(r.ExpiresAt)})
}
