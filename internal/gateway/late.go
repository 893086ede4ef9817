package gateway

import (
	"context"
	"errors"
	"io"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/holdfast-ai/holdfast/intent"
	"github.com/holdfast-ai/holdfast/internal/mutant"
	"github.com/holdfast-ai/holdfast/internal/upstream"
	"github.com/holdfast-ai/holdfast/ledger"
)

// A tool that answers after its time-out says itself what happened: the best evidence there is. So the exchange is not
// broken off when its attempt is given up; it is listened to for as long as no absence would be believed either.

// listeners are the exchanges whose attempts were given up.
type listeners struct {
	ctx context.Context
	end context.CancelFunc
	all sync.WaitGroup
	n   atomic.Int64
}

// maxListeners bounds them; beyond it an exchange ends with its attempt.
const maxListeners = 512

func (l *listeners) open() { l.ctx, l.end = context.WithCancel(context.Background()) }

// begin takes a place, or says that there is none.
func (l *listeners) begin() bool {
	if l.ctx.Err() != nil {
		return false
	}
	if l.n.Add(1) > maxListeners {
		l.n.Add(-1)
		return false
	}
	return true
}

// exchanged is what an exchange brought.
type exchanged struct {
	resp *upstream.Response
	err  error
}

// sendTool is send for a call that acts: what answers after the attempt's time is evidence.
func (e *execution) sendTool() (*upstream.Response, error) {
	ctx, cancel := context.WithCancelCause(context.Background())
	var sending atomic.Bool
	request := *e.request
	request.Sending = func() error {
		if err := e.op.Sending(); err != nil {
			return err
		}
		sending.Store(true)
		return nil
	}
	got := make(chan exchanged, 1)
	go func() {
		resp, err := e.g.upstream.Do(ctx, &request)
		got <- exchanged{resp, err}
	}()
	select {
	case x := <-got:
		context.AfterFunc(e.ctx, func() { cancel(context.Cause(e.ctx)) }) // bounds the body
		if x.err != nil {
			cancel(nil)
		}
		return x.resp, x.err
	case <-e.ctx.Done():
	}
	why := context.Cause(e.ctx)
	if !sending.Load() || !(errors.Is(why, errAttempt) || errors.Is(why, errTotal)) || mutant.On("deaf-after-timeout") || !e.g.late.begin() {
		cancel(why)
		x := <-got
		return x.resp, x.err
	}
	e.g.late.all.Go(func() {
		defer e.g.late.n.Add(-1)
		defer cancel(nil)
		e.listen(got, cancel)
	})
	return nil, &upstream.Error{Phase: upstream.PhaseHead, Sent: upstream.All, Err: why}
}

// listen waits for the answer of an attempt that was given up.
func (e *execution) listen(got <-chan exchanged, cancel context.CancelCauseFunc) {
	limit := max(time.Minute, 2*e.wf.Timeouts.Attempt)
	if r := e.wf.Reconcile; r != nil {
		limit = r.Quiet
	}
	timer := time.AfterFunc(limit, func() { cancel(errAttempt) })
	defer timer.Stop()
	defer context.AfterFunc(e.g.late.ctx, func() { cancel(errInterrupted) })()
	x := <-got
	if x.err != nil {
		return
	}
	resp := e.target.answered(x.resp)
	defer resp.Body.Close()
	bound := min(maxEvidence, e.g.policy.Limits.MaxResponseBytes) // nobody pays for its memory
	body, err := io.ReadAll(io.LimitReader(resp.Body, bound+1))
	if err != nil || int64(len(body)) > bound {
		return
	}
	<-e.finished // the attempt's own end comes first in the history
	e.heard(resp, body)
}

// heard ends the unknown by a late answer, as it would have ended the attempt.
func (e *execution) heard(resp *upstream.Response, body []byte) {
	v := verdict{end: ledger.AttemptSuccess, status: resp.Status}
	header, said := asCame(resp, body)
	if resp.Status < 200 || resp.Status > 299 {
		v = judge(e.wf, true, e.received(resp.Status, header, said))
	} else if bad, ok := accepted(e.wf, resp.Status, header, said); !ok {
		v = bad
	}
	v.hide(e.target.hidden)
	end := intent.Ending{End: v.end, Status: resp.Status, Error: v.kind, Reason: "the far side answered after the attempt had been given up"}
	var err error
	if v.end == ledger.AttemptUnknown {
		err = e.op.Evidence(end, &ledger.Body{ContentType: first(resp.Header["Content-Type"]), Data: body[:min(len(body), maxEvidence)]})
	} else {
		err = e.settleLate(v, end, resp, body)
	}
	if err != nil {
		e.g.logger.Warn("a late answer could not be recorded", "intent", e.op.ID(), "error", err)
		return
	}
	e.g.logger.Info("a late answer", "intent", e.op.ID(), "status", resp.Status, "end", v.end.String())
}

func (e *execution) settleLate(v verdict, end intent.Ending, resp *upstream.Response, body []byte) error {
	s := intent.Settlement{Ending: end, Outcome: ledger.OutcomeFailed, Reason: end.Reason}
	status := resp.Status
	if v.end == ledger.AttemptSuccess {
		s.Outcome = ledger.OutcomeSuccess
	} else if status >= 200 && status <= 299 {
		status = http.StatusBadGateway
	}
	if e.keep && (v.end == ledger.AttemptSuccess || v.keep) {
		answer := e.storedAnswer(status, resp.Header, e.g.guard.maskCredentials(e.request, body), 0)
		s.Answer, s.KeepUntil = &answer.answer, answer.until
		s.Body = &ledger.Body{Kind: ledger.BodyAnswer, ContentType: header(resp, "Content-Type"), Data: answer.body}
	}
	ctx, stop := context.WithTimeout(context.Background(), e.g.policy.Limits.CommitWait)
	defer stop()
	return e.g.log.Late(ctx, e.op.ID(), s)
}
