package gateway

import (
	"slices"
	"time"

	"github.com/holdfast-ai/holdfast/breaker"
	"github.com/holdfast-ai/holdfast/decision"
	"github.com/holdfast-ai/holdfast/fallback"
	"github.com/holdfast-ai/holdfast/intent"
	"github.com/holdfast-ai/holdfast/internal/mutant"
	"github.com/holdfast-ai/holdfast/internal/upstream"
)

// A wait that is longer than is slept in the nest leads to a tier that has a place at once, if there is one (semantics 36): which is known
// only once it was asked.

// elsewhereNow has such a tier make an attempt in the place of the wait that was decided. Where none has a place, neither sent nor over is
// true, and the call is where it was.
func (e *execution) elsewhereNow(o *outcome, f decision.Facts) (sent, over bool) {
	failed := failing(e, o)
	if d := e.would(failed); d.Action != fallback.Next || d.Approval {
		return false, false
	}
	e.yieldPlace(o) // the wait gives it back in any case, and the next tier may share its slots
	e.logEnd(o)     // while e is where it was made
	back := e.stand()
	d := e.elsewhere(failed, failedStop(o))
	if !e.boardNext(d, failedStop(o).word, time.Time{}) && !mutant.On("no-wait-behind-closed-tiers") {
		e.returns(back)
		return false, false
	}
	o.elsewhere, f.Elsewhere = d, true
	o.evidence = e.evidence(f, decision.Decide(f, e.deciding()))
	resting := e.rest()
	recorded := resting && e.endAttempt(o, 0)
	e.work()
	if recorded {
		e.clear()
		if sent, over = e.sendNext(o); sent || over {
			return sent, over
		}
	}
	e.nest.quit(breaker.Ignored)
	e.purse.drop()
	e.conclude(o)
	return false, true
}

// stand is where a call is among its tiers, between two attempts.
type stand struct {
	at      int
	trail   []stop
	said    string
	request *upstream.Request
	target  *target
	next    intent.Attempt
	nest    nest
	purse   purse
}

func (e *execution) stand() stand {
	k := e.course
	return stand{at: k.at, trail: slices.Clone(k.trail), said: k.said, request: e.request, target: e.target, next: e.next, nest: e.nest, purse: e.purse}
}

// returns has a call be again where it was. Nothing was sent elsewhere, and nothing is held there.
func (e *execution) returns(s stand) {
	k := e.course
	k.at, k.trail, k.said = s.at, s.trail, s.said
	e.request, e.target, e.next, e.nest, e.purse = s.request, s.target, s.next, s.nest, s.purse
	e.at.Store(e.nest.tier)
	e.trail()
}
