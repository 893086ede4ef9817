package gateway

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"time"

	"github.com/holdfast-ai/holdfast/internal/policy"
)

// passage bounds a call that is passed on unbuffered. To the head of its answer it has the budget, which an upload
// extends for as long as it moves, unless the caller set a deadline; behind it timeouts.idle. A shutdown that can
// wait no longer ends it. Tunnels, and calls that are only observed, know the shutdown alone.
type passage struct {
	ctx     context.Context
	cancel  context.CancelCauseFunc
	unwatch func() bool
	bounds  [2]bound // to the head, behind it
	moving  bool     // bytes of the request count
}

type bound struct {
	timer *time.Timer
	limit time.Duration
}

func (c *call) passage() *passage {
	p := &passage{moving: c.deadline == 0}
	p.ctx, p.cancel = context.WithCancelCause(c.r.Context())
	p.unwatch = context.AfterFunc(c.g.halted, func() { p.cancel(errInterrupted) })
	if !c.upgrades() && c.wf.Mode != policy.Observe {
		p.bounds[0] = p.bound(c.budget(), errTotal)
		p.bounds[1] = p.bound(c.wf.Timeouts.Idle, errIdle)
		p.bounds[1].timer.Stop()
	}
	return p
}

func (p *passage) bound(limit time.Duration, why error) bound {
	return bound{limit: limit, timer: time.AfterFunc(limit, func() { p.cancel(why) })}
}

// moved begins the bound anew. Late, behind end, it cancels what is over.
func (b bound) moved() { b.timer.Reset(b.limit) }

// sends counts the bytes of the request.
func (p *passage) sends(r *http.Request) {
	if p.bounds[0].timer != nil && p.moving && r.Body != nil && r.Body != http.NoBody {
		r.Body = watched{r.Body, p.bounds[0]}
	}
}

// answers begins to count those of the answer.
func (p *passage) answers(r *http.Response) {
	if p.bounds[0].timer == nil || r.StatusCode == http.StatusSwitchingProtocols {
		return
	}
	p.bounds[0].timer.Stop()
	p.bounds[1].moved()
	r.Body = watched{r.Body, p.bounds[1]}
}

func (p *passage) end() {
	p.unwatch()
	for _, b := range p.bounds {
		if b.timer != nil {
			b.timer.Stop()
		}
	}
	p.cancel(nil)
}

// because adds to an error why this process broke the call off, if it did.
func (p *passage) because(err error) error {
	switch why := brokenOff(context.Cause(p.ctx)); {
	case why == nil || errors.Is(err, why):
	case err == nil:
		return why
	default:
		return fmt.Errorf("%w: %w", why, err)
	}
	return err
}

// brokenOff is the reason of ours in err, nil when there is none.
func brokenOff(err error) error {
	for _, why := range [...]error{errTotal, errIdle, errInterrupted} {
		if errors.Is(err, why) {
			return why
		}
	}
	return nil
}

// watched is a body whose bytes begin a bound anew.
type watched struct {
	io.ReadCloser
	bound bound
}

func (w watched) Read(p []byte) (int, error) {
	n, err := w.ReadCloser.Read(p)
	if n > 0 {
		w.bound.moved()
	}
	return n, err
}
