package gateway

import (
	"bytes"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httputil"
	"strconv"
	"strings"
	"time"

	"github.com/holdfast-ai/holdfast/breaker"
	"github.com/holdfast-ai/holdfast/deadline"
	"github.com/holdfast-ai/holdfast/intent"
	"github.com/holdfast-ai/holdfast/internal/mutant"
	"github.com/holdfast-ai/holdfast/internal/policy"
	"github.com/holdfast-ai/holdfast/internal/provider"
	"github.com/holdfast-ai/holdfast/internal/upstream"
	"github.com/holdfast-ai/holdfast/ledger"
	"github.com/holdfast-ai/holdfast/signal"
)

// streamsThrough says that a body is passed on as it comes: an unknown path without a key, or a tunnel. Which
// body it is does not matter there, so nothing is held.
func (c *call) streamsThrough() bool {
	if c.upgrades() || c.tool != nil {
		return c.upgrades()
	}
	spec := provider.Parse(&provider.Request{Method: c.r.Method, Path: c.path, RawQuery: c.r.URL.RawQuery, Header: c.r.Header,
		Wire: c.target.wire})
	return !spec.Known && c.callerKey == ""
}

// upgrades says that the call asks for another protocol, as a WebSocket does (RFC 6455 §4.1). Every other Upgrade is
// passed over, as RFC 9110 §7.8 allows: Java's client offers h2c with its first POST, and that is a call like any other.
func (c *call) upgrades() bool {
	h := c.r.Header
	if c.r.Method != http.MethodGet || h["Upgrade"] == nil || strings.EqualFold(h.Get("Upgrade"), "h2c") {
		return false
	}
	for _, v := range h["Connection"] {
		for token := range strings.SplitSeq(v, ",") {
			if strings.EqualFold(strings.TrimSpace(token), "upgrade") {
				return true
			}
		}
	}
	return false
}

// pass serves what needs no claim: reads, which are no intents (semantics 1); unknown paths without a key, which
// are logged and passed on unbuffered; tunnels; and workflows that only observe.
func (c *call) pass() *Error {
	if !c.passes() {
		return nil
	}
	if err := c.passLeg(); err != nil {
		return err
	}
	switch {
	case c.upgrades():
		return c.proxied(nil) // unlogged
	case c.effect == ledger.EffectRead && c.spec.Known:
		return c.readThrough()
	case c.effect == ledger.EffectRead:
		if refusal := c.enterThrough(); refusal != nil {
			return refusal
		}
		return c.proxied(nil)
	case !c.spec.Known && c.callerKey == "" && c.approves():
		return c.unnamed()
	case !c.spec.Known && c.callerKey == "":
		return c.logged()
	case c.wf.Mode == policy.Observe:
		return c.observed()
	}
	return nil
}

// passes says that the call needs no claim.
func (c *call) passes() bool {
	return c.upgrades() || c.effect == ledger.EffectRead || !c.spec.Known && c.callerKey == "" || c.wf.Mode == policy.Observe
}

// writeMasked passes the beginning of an error's body on, which is where credentials are quoted.
func (g *Guard) writeMasked(w io.Writer, body io.Reader, request *upstream.Request) error {
	p, err := io.ReadAll(io.LimitReader(body, maxEvidence))
	if err != nil {
		return err
	}
	_, err = w.Write(g.maskCredentials(request, p))
	return err
}

func (c *call) budget() time.Duration {
	if c.deadline > 0 {
		return min(c.deadline, c.wf.Timeouts.Total)
	}
	return c.wf.Timeouts.Total
}

func (c *call) readFailed(err error) *Error {
	if c.r.Context().Err() != nil {
		c.status = 499
		return nil
	}
	var ue *upstream.Error
	if errors.Is(err, errTotal) || errors.As(err, &ue) && ue.Timeout {
		return &Error{Code: CodeDeadline, Message: "the provider did not answer in time", Err: err, Safe: safeYes}
	}
	return &Error{Code: CodeAllTiersFailed, Message: "the provider could not be reached or did not answer", Err: err, Safe: safeYes}
}

// copyAtOnce copies and flushes whenever nothing more is ready.
func copyAtOnce(w http.ResponseWriter, body upstream.Body) (int64, error) {
	block := largeBlocks.Get().(*[largeBlock]byte)
	defer largeBlocks.Put(block)
	flusher := http.NewResponseController(w)
	var total int64
	for {
		n, err := body.Read(block[:])
		total += int64(n)
		if n > 0 {
			if _, werr := w.Write(block[:n]); werr != nil {
				return total, werr
			}
		}
		if err == io.EOF {
			return total, nil
		}
		if err != nil {
			return total, err
		}
		if body.Buffered() == 0 {
			_ = flusher.Flush()
		}
	}
}

// logged passes a call of an unknown path on, with its attempt on record before a byte leaves.
func (c *call) logged() *Error {
	if err := c.place(); err != nil {
		return err
	}
	if refusal := c.enterThrough(); refusal != nil {
		return refusal
	}
	op, err := c.g.log.Begin(c.passing())
	if err != nil {
		c.through.quit(breaker.Ignored)
		return c.storeAway(err)
	}
	return c.proxied(op)
}

// enterThrough takes the slot and the permit of a call that is passed on unbuffered. It has one attempt.
func (c *call) enterThrough() *Error {
	n, next := c.nested()
	if refusal := c.enterFor(&n, next.Tier, deadline.New(c.began, c.budget())); refusal != nil {
		return refusal
	}
	n.route.Budget().First()
	c.through = &n
	return nil
}

// leaveThrough gives them back, with what the exchange says of the provider.
func (c *call) leaveThrough(failed error) {
	if c.through == nil {
		return
	}
	health := breaker.Ignored
	switch {
	case c.r.Context().Err() != nil || errors.Is(failed, errInterrupted) || errors.Is(failed, errTotal) && c.deadline > 0:
	case failed != nil || c.status >= 500:
		health = breaker.Failure
	case c.status > 0 && c.status < 400:
		health = breaker.Success
	}
	c.through.quit(health)
}

func (c *call) passing() intent.Begin {
	c.exec = nil
	a := c.attempt()
	return intent.Begin{Head: c.head(), Attempt: &a, Visibility: ledger.VisBefore}
}

// observed changes nothing of the call: what would have been done is worked out beside it and put on record.
func (c *call) observed() *Error {
	if err := c.place(); err != nil {
		return err
	}
	if err := c.derive(); err != nil {
		c.g.logger.Info("observe: would have been refused", "workflow", c.wf.Name, "code", string(err.Code), "reason", err.Message)
	}
	would := "run"
	if c.key != "" {
		c.g.observer.Lookup(c.wf.Name)
		if seen, err := c.g.ledger.Derived(c.r.Context(), c.key, 1); err == nil && len(seen) > 0 {
			would = "replay or attach to " + seen[0].ID
			if seen[0].Fingerprint != c.fp {
				would = "refuse: the key was used for another request, " + seen[0].ID
			}
			c.g.observer.Duplicate(c.wf.Name, "observed")
			c.g.logger.Info("observe: duplicate", "workflow", c.wf.Name, "would", would)
		}
	}
	b := c.passing()
	if c.key != "" {
		b.DerivedUntil = c.g.ledger.Now().Add(c.wf.Idempotency.Window)
	}
	op, err := c.g.log.Begin(b)
	if err != nil {
		c.g.observer.StoreError(c.wf.Name)
		c.g.logger.Warn("observe: not on record; the call goes on", "error", err)
		return c.proxied(nil)
	}
	op.Note(ledger.Event{Kind: "note", Reason: "observe: would " + would, Rule: c.wf.Path() + ".mode"})
	return c.proxied(op)
}

// proxied passes the call on, unbuffered in both directions, and settles op by what came of it.
func (c *call) proxied(op *intent.Op) *Error {
	c.done, c.source = true, c.target.conf.Name
	out, bound := c.outbound(), c.passage()
	defer bound.end()
	var failed error
	p := &httputil.ReverseProxy{
		Rewrite: func(pr *httputil.ProxyRequest) {
			c.rewrite(pr.Out, out)
			bound.sends(pr.Out)
		},
		Transport:      c.target.quiet(c.g.through),
		FlushInterval:  -1,
		ErrorLog:       c.g.proxyLog,
		ModifyResponse: func(r *http.Response) error { return c.passAnswer(r, out, bound, op) },
		ErrorHandler:   func(_ http.ResponseWriter, _ *http.Request, err error) { failed = err },
	}
	defer func() {
		broke := recover()
		if failed != nil || broke != nil {
			failed = bound.because(failed)
		}
		c.passed(op, failed, broke)
	}()
	// Without it net/http closes the inbound body as the answer begins, while the transport still reads it.
	_ = http.NewResponseController(c.w).EnableFullDuplex()
	p.ServeHTTP(c.w, c.r.WithContext(bound.ctx))
	if failed != nil {
		return c.passFailed(op, bound.because(failed))
	}
	return nil
}

// rewrite makes of a request what goes to the provider. Accept-Encoding is the client's where its answer is not searched for a
// secret, which no coding may hide.
func (c *call) rewrite(r *http.Request, out *upstream.Request) {
	r.URL, r.Host, r.Header = out.Target, out.Target.Host, out.Header
	if c.upgrades() {
		set(r.Header, "Connection", "Upgrade")
		r.Header["Upgrade"] = c.r.Header["Upgrade"]
	}
	if c.target.hidden == nil || mutant.On("secret-in-gzip") {
		delete(r.Header, "Accept-Encoding")
		if v := c.r.Header["Accept-Encoding"]; v != nil {
			r.Header["Accept-Encoding"] = v
		}
	}
	if c.body != nil {
		r.Body, r.ContentLength = io.NopCloser(bytes.NewReader(c.body)), int64(len(c.body))
		r.GetBody = nil
	}
}

// passAnswer adds to the provider's answer what the gateway says of it.
func (c *call) passAnswer(r *http.Response, out *upstream.Request, bound *passage, op *intent.Op) error {
	c.status = r.StatusCode
	c.definite = !c.wf.Definite.Denies(r.StatusCode) && signal.Definite(signal.Answer{Provider: string(c.spec.Wire), Endpoint: c.r.Method + " " + c.path,
		ReceivedAt: time.Now(), Status: r.StatusCode, Header: r.Header})
	if c.target.hidden != nil && r.StatusCode != http.StatusSwitchingProtocols {
		c.target.hide(r)
	}
	if r.StatusCode >= 400 {
		var begin bytes.Buffer
		if err := c.g.guard.writeMasked(&begin, r.Body, out); err != nil {
			return err
		}
		r.Body = struct {
			io.Reader
			io.Closer
		}{io.MultiReader(&begin, r.Body), r.Body}
	}
	bound.answers(r)
	set(r.Header, "Holdfast-Source", c.target.conf.Name)
	if c.without {
		set(r.Header, "Holdfast-Degraded", degraded)
		set(r.Header, "Holdfast-Recorded", "no")
	}
	if r.StatusCode >= 400 && c.wf.Mode != policy.Observe {
		c.failedHeaders(r.Header, &head{unknown: !c.definite})
	}
	if op != nil {
		set(r.Header, "Holdfast-Intent", op.ID())
		set(r.Header, "Holdfast-Recorded", "no")
	}
	return nil
}

// passFailed is what the client hears of a passed call that got no answer: whether it is safe to ask again depends
// on what it does, unless none of it was sent.
func (c *call) passFailed(op *intent.Op, err error) *Error {
	refusal := c.readFailed(err)
	if refusal == nil || op == nil {
		return refusal
	}
	refusal.Intent = op.ID()
	if !unreached(err) {
		refusal.Safe = ""
	}
	return refusal
}

// unreached says that no connection came about, so that nothing was sent.
func unreached(err error) bool {
	var dial *net.OpError
	return errors.As(err, &dial) && dial.Op == "dial"
}

// passed puts on record what became of a call that was passed on.
func (c *call) passed(op *intent.Op, failed error, broke any) {
	c.leaveThrough(failed)
	if op != nil {
		if err := c.recordPassed(op, failed, broke); err != nil {
			c.g.logger.Error("a passed call could not be recorded", "intent", op.ID(), "error", err)
		}
	}
	if broke != nil {
		panic(broke)
	}
}

func (c *call) recordPassed(op *intent.Op, failed error, broke any) error {
	end := intent.Ending{End: ledger.AttemptSuccess, Status: c.status}
	outcome := ledger.OutcomeSuccess
	switch {
	case unreached(failed):
		return op.NotSent("nothing was sent: the provider could not be reached", "semantics 3")
	case failed != nil || broke != nil:
		outcome, end.End = ledger.OutcomeFailed, ledger.AttemptUnknown
		end.Error, end.Billed, end.Reason = "connection_error", true, "the exchange broke off"
		if why := brokenOff(failed); why != nil {
			end.Error, end.Reason, end.Rule = kindOf(why), why.Error(), ruleOf(why)
		}
	case c.status >= 400:
		outcome, end.End, end.Error = ledger.OutcomeFailed, ledger.AttemptFailed, "http_"+strconv.Itoa(c.status)
		if c.effect == ledger.EffectExternal && !c.definite {
			end.End, end.Billed = ledger.AttemptUnknown, true
		}
	}
	if end.End == ledger.AttemptUnknown && op.Head().Hold {
		return op.Lose(end, nil)
	}
	return op.Settle(intent.Settlement{Outcome: outcome, Visibility: ledger.VisComplete, Ending: end}, true, nil)
}

// passThrough is net/http's transport, which can tunnel and stream request bodies. It repeats no request with a
// body, and none at all is repeated after an answer began.
func passThrough() *http.Transport {
	t := http.DefaultTransport.(*http.Transport).Clone()
	t.DisableCompression = true
	t.MaxIdleConnsPerHost = 64
	return t
}
