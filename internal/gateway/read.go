package gateway

import (
	"context"
	"errors"
	"io"
	"math/rand/v2"
	"net/http"
	"time"

	"github.com/holdfast-ai/holdfast/breaker"
	"github.com/holdfast-ai/holdfast/deadline"
	"github.com/holdfast-ai/holdfast/decision"
	"github.com/holdfast-ai/holdfast/internal/pause"
	"github.com/holdfast-ai/holdfast/internal/upstream"
	"github.com/holdfast-ai/holdfast/signal"
)

// reading is a read on its way: no intent, no row, no key, served while the store is down, but inside the nest like
// every other call (semantics 1).
type reading struct {
	c       *call
	nest    nest
	budget  deadline.Budget
	request *upstream.Request
	tries   int
}

// readThrough passes a read on.
func (c *call) readThrough() *Error {
	ctx, stop := context.WithDeadlineCause(c.r.Context(), c.began.Add(c.budget()), errTotal)
	defer stop()
	n, next := c.nested()
	rd := &reading{c: c, nest: n, budget: deadline.New(c.began, c.budget())}
	if refusal := c.enterFor(&rd.nest, next.Tier, rd.budget); refusal != nil {
		return refusal
	}
	defer rd.nest.quit(breaker.Ignored)
	c.done, c.source = true, c.target.conf.Name
	rd.request = c.outbound()
	rd.nest.route.Budget().First()
	for {
		resp, err := c.g.upstream.Do(ctx, rd.request)
		resp = c.target.answered(resp)
		rd.tries++
		if err == nil && resp.Status < 400 {
			return rd.pass(resp, nil)
		}
		again, failed, refusal := rd.failed(ctx, resp, err)
		if !again {
			if refusal != nil || resp == nil {
				return refusal
			}
			return rd.pass(resp, failed)
		}
	}
}

// failed decides what follows a failed try; failed is the beginning of the provider's own error.
func (rd *reading) failed(ctx context.Context, resp *upstream.Response, err error) (again bool, failed []byte, refusal *Error) {
	c := rd.c
	f := decision.Facts{End: decision.Failed, Attempt: rd.tries, Remaining: rd.budget.Remaining(time.Now()), Roll: rand.Float64(),
		Left: c.r.Context().Err() != nil, Broken: !rd.nest.ticket.Live(), Spent: rd.nest.route.Budget().Tokens() < 1}
	a := signal.Answer{Provider: string(c.spec.Wire), Endpoint: c.r.Method + " " + c.path, ReceivedAt: time.Now(), Phase: signal.BeforeFirstToken}
	if err != nil {
		a.Phase, a.Transport = signal.NoResponse, readTransport(err)
	} else {
		failed, err = io.ReadAll(io.LimitReader(resp.Body, maxEvidence))
		a.Status, f.Status = resp.Status, resp.Status
		a.Header, a.Body = asCame(resp, failed)
		if err != nil {
			resp.Body.Close()
			a.Phase, a.Transport, f.Status = signal.NoResponse, readTransport(err), 0
		}
	}
	s := hideSignal(signal.Classify(a), c.target.hidden)
	f.Signal = s
	if wait := decision.Cooldown(s); wait > 0 {
		rd.nest.route.Cool(wait, s.ProviderErrorType)
	}
	d := decision.Decide(f, rd.nest.rules.decide)
	if (d.Action == decision.Retry || d.Action == decision.Wait) && rd.nest.route.Budget().Take() {
		if rd.waits(ctx, d.Delay) {
			if resp != nil {
				resp.Body.Close()
			}
			c.g.observer.Retry(c.wf.Name, f.Trigger())
			return true, nil, nil
		}
		rd.nest.route.Budget().Put()
		if err == nil && ctx.Err() != nil {
			resp.Body.Close()
			err = context.Cause(ctx)
		}
	}
	rd.nest.quit(rd.health(ctx, s))
	if err != nil {
		return false, nil, c.readFailed(err)
	}
	return false, failed, nil
}

func readTransport(err error) *signal.Transport {
	sent := signal.SentAll
	var ue *upstream.Error
	if errors.As(err, &ue) {
		sent = sentWords[ue.Sent]
	}
	return signal.FromError(err, sent, 0)
}

// health: a client that leaves and a budget of the caller's own say nothing of the provider.
func (rd *reading) health(ctx context.Context, s signal.Signal) breaker.Result {
	if rd.c.r.Context().Err() != nil || ctx.Err() != nil && rd.c.deadline > 0 || !decision.Unhealthy(s) {
		return breaker.Ignored
	}
	return breaker.Failure
}

// waits sleeps before the next try, and asks the route again. The slot is kept: a read holds little.
func (rd *reading) waits(ctx context.Context, d time.Duration) bool {
	if !pause.For(ctx, d) {
		return false
	}
	b, err := rd.nest.renewIn(ctx, time.Now().Add(min(rd.nest.rules.decide.MaxWait, rd.budget.Remaining(time.Now()))))
	return b == nil && err == nil
}

// pass gives the answer to the client as it comes; failed is the beginning of an error that was read already.
func (rd *reading) pass(resp *upstream.Response, failed []byte) *Error {
	c := rd.c
	defer resp.Body.Close()
	c.writeHead(resp)
	var err error
	if failed != nil {
		_, err = c.w.Write(c.g.guard.maskCredentials(rd.request, failed))
	} else {
		rd.nest.ticket.Answered()
	}
	if _, copied := copyAtOnce(c.w, resp.Body); errors.Join(err, copied) != nil {
		panic(http.ErrAbortHandler) // a clean end would pass for a whole answer
	}
	if failed == nil {
		rd.nest.quit(breaker.Success)
	}
	return nil
}

// writeHead passes the head of a read's answer on.
func (c *call) writeHead(resp *upstream.Response) {
	out := c.w.Header()
	for name, v := range resp.Header {
		if !hopByHop[name] && !ours(name) {
			out[name] = v
		}
	}
	set(out, "Holdfast-Source", c.target.conf.Name)
	if resp.Status >= 400 {
		c.failedHeaders(out, &head{})
	}
	c.status = resp.Status
	c.w.WriteHeader(resp.Status)
}
