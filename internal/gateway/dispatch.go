package gateway

import (
	"encoding/json"
	"errors"
	"net/http"
	"strings"

	"github.com/holdfast-ai/holdfast/idempotency"
	"github.com/holdfast-ai/holdfast/intent"
	"github.com/holdfast-ai/holdfast/internal/mutant"
	"github.com/holdfast-ai/holdfast/internal/provider"
	"github.com/holdfast-ai/holdfast/internal/provider/wire"
	"github.com/holdfast-ai/holdfast/internal/upstream"
	"github.com/holdfast-ai/holdfast/ledger"
)

// begin says what is written before the act.
func (c *call) begin() intent.Begin {
	e := c.exec
	b := intent.Begin{Head: c.head(), Claim: c.claimed && !mutant.On("dispatch-without-claim"), Attempt: &e.next, Visibility: ledger.VisBefore,
		Request: c.asked()}
	if e.barred != nil {
		e.waitingFor(&b)
	}
	now := c.g.ledger.Now()
	b.ExpiresAt = now.Add(max(c.wf.Timeouts.Request, c.wf.Idempotency.Window))
	if c.key != "" && !c.claimed {
		b.DerivedUntil = now.Add(c.wf.Idempotency.Window)
	}
	return b
}

// head is what the log says of the call for ever.
func (c *call) head() ledger.Intent {
	return ledger.Intent{Tenant: c.tenant, Workflow: c.wf.Name, OwnerKey: c.owner, Effect: c.effect, Hold: c.hold,
		Key: c.key, Explicit: c.callerKey != "", Fingerprint: c.fp, Method: c.r.Method, Path: c.loggedPath(),
		Provider: c.providerName(), Endpoint: c.endpointName(), RequestedModel: c.model, Stream: c.spec.Stream,
		Priority: c.priority, FallbackOK: c.wf.Fallback.Contract.ID, EstimatedCost: c.estimate, MaxAttempts: c.nestRules().decide.MaxAttempts, PolicyRevision: c.revision(), Trigger: c.trigger, ParentID: c.parent}
}

func holderOf(err error) string {
	var d *intent.DuplicateError
	if errors.As(err, &d) {
		return d.Holder
	}
	return ""
}

// hopByHop headers end at a proxy (RFC 9110 §7.6.1).
var hopByHop = map[string]bool{
	"Connection": true, "Keep-Alive": true, "Proxy-Connection": true, "Proxy-Authenticate": true,
	"Proxy-Authorization": true, "Te": true, "Trailer": true, "Transfer-Encoding": true, "Upgrade": true,
}

// outbound is the request as it goes to the provider of the tier that the call is at.
func (c *call) outbound() *upstream.Request {
	o := c.original()
	o.effect, o.key = c.effect, c.key
	return o.outbound(c.course.leg())
}

// markMetadata writes into a chat completion that is stored by what it is found again, where the workflow wants that (reconcile.metadata). The
// fingerprint is of what was asked; the log says what was added to it. The mark is of this operation alone: the key may come again.
func (e *execution) markMetadata() {
	r := e.wf.Reconcile
	if r == nil || !r.Metadata || e.target.tool || e.spec.Endpoint != wire.Chat || e.course.leg().crosses != nil || !e.op.Head().Hold {
		return
	}
	value := idempotency.OutboundKey(e.g.secret, e.op.ID())
	body, ok := provider.Mark(e.request.Body, value)
	if !ok {
		return
	}
	e.request.Body = body
	said, err := json.Marshal(map[string]any{"metadata": map[string]string{provider.MarkName: value}})
	if err != nil { // strings
		return
	}
	e.op.Note(ledger.Event{Kind: "note", Reason: "sent with a mark in its metadata, by which it is found", Rule: "reconcile.metadata", Evidence: said})
}

func forwardHeaders(to, from http.Header) {
	var named []string
	for _, v := range from["Connection"] {
		named = append(named, strings.Split(v, ",")...)
	}
	for name, values := range from {
		if hopByHop[name] || strings.HasPrefix(name, "Holdfast-") || name == "Idempotency-Key" ||
			name == "Content-Length" || name == "Cookie" || name == "Expect" {
			continue
		}
		to[name] = values
	}
	for _, n := range named {
		to.Del(strings.TrimSpace(n))
	}
}

// authorize puts the configured key where this wire, or this provider's auth_header, expects it.
func (t *target) authorize(h http.Header) {
	switch {
	case t.head != "" && !strings.EqualFold(t.head, "Authorization"):
		h.Set(t.head, t.key)
	case t.head == "" && t.wire == provider.Anthropic:
		set(h, "X-Api-Key", t.key)
	case t.head == "" && t.wire == provider.Gemini:
		set(h, "X-Goog-Api-Key", t.key)
	default:
		set(h, "Authorization", "Bearer "+t.key)
	}
}

// run starts the upstream call. A stream gets a goroutine of its own, so that clients come and go; a plain
// answer is whole before any client gets a byte, so the first client's goroutine does the work: the call is
// not bound to its connection either way.
func (c *call) run() *Error {
	if !c.leader {
		return nil
	}
	e := c.exec
	if c.r.Context().Err() != nil && e.attached() == 1 && !mutant.On("dispatch-for-nobody") {
		return c.nobodyWaits()
	}
	e.request, e.target = c.outbound(), c.target
	e.markMetadata()
	if e.key == "" {
		e.key = e.op.ID()
		c.g.registry.join(e.key, e)
	}
	if c.retries() {
		c.enter()
	}
	c.attend()
	c.admitted = false // the execution gives the place back
	c.cur = e.rec.attach()
	if c.spec.Stream {
		go e.run()
		return nil
	}
	e.overflow = c.answerAside
	e.run()
	if c.aside != nil {
		return c.answeredAside()
	}
	return nil
}

// answeredAside waits for the answer that was begun beside the call.
func (c *call) answeredAside() *Error {
	a := <-c.aside
	if a.broke != nil {
		panic(a.broke)
	}
	return a.err
}

// aside is how an answer ended that was given beside the running call.
type aside struct {
	err   *Error
	broke any
}

// answerAside begins to answer the leader while its goroutine still runs the call: an answer that is not kept has to
// leave as it comes.
func (c *call) answerAside() {
	c.aside = make(chan aside, 1)
	go func() {
		var a aside
		defer func() { a.broke = recover(); c.aside <- a }()
		a.err = c.answerFrom(c.cur)
	}()
}

// nobodyWaits ends an operation whose client left before anything was sent (semantics 25). One that has closed its side only
// is told so: nothing is in flight, and no attempt was made.
func (c *call) nobodyWaits() *Error {
	c.exec.unmade()
	if err := c.exec.unsent("its client left before it was sent", "semantics 25"); err != nil {
		c.g.logger.Warn("a call that was not sent could not be marked so", "intent", c.exec.op.ID(), "error", err)
	}
	return c.abandon(&Error{Code: CodeAdmission, Message: "its client left, or closed its side of the connection, before the call was sent; nothing was sent",
		Intent: c.exec.op.ID()})
}
