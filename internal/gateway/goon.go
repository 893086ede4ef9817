package gateway

import (
	"context"

	"github.com/holdfast-ai/holdfast/breaker"
	"github.com/holdfast-ai/holdfast/decision"
	"github.com/holdfast-ai/holdfast/fallback"
	"github.com/holdfast-ai/holdfast/intent"
	"github.com/holdfast-ai/holdfast/internal/mutant"
	"github.com/holdfast-ai/holdfast/ledger"
	"github.com/holdfast-ai/holdfast/signal"
)

// What a call takes over of an operation that an earlier call or process has begun: its attempts, and where it was.

// maxAncestors bounds the operations whose attempts are counted, each of which stands in the place of the next.
const maxAncestors = 16

// remembers takes over from the log how many attempts an operation has had, and each of its tiers, with those of the operations in whose
// place it stands (semantics 37). What cannot be read does not count: then the bound is this request's own.
func (c *call) remembers(r *ledger.Record) {
	ctx, stop := context.WithTimeout(context.Background(), c.g.policy.Limits.CommitWait)
	defer stop()
	c.inherited = 0
	clear(c.course.tries)
	c.counts(ctx, r.ID)
	for range maxAncestors {
		if r.ParentID == "" || mutant.On("ancestors-do-not-count") {
			return
		}
		var err error
		if r, err = c.g.ledger.Get(ctx, r.ParentID); err != nil {
			return
		}
		c.inherited += r.Attempt
		c.counts(ctx, r.ID)
	}
}

// counts adds up the attempts of each tier.
func (c *call) counts(ctx context.Context, id string) {
	if !c.course.several() {
		return
	}
	events, err := c.g.ledger.History(ctx, id)
	if err != nil {
		return
	}
	for tier, n := range intent.AttemptsByTier(events) {
		c.course.tries[tier] += n
	}
}

// behind says why a tier is not come to any more, nil where it is.
func (k *course) behind(i int) *fallback.Lack {
	switch {
	case k.most > 0 && k.tries[k.legs[i].name] >= k.most:
		return &fallback.Lack{Rule: "retry.max_attempts", Reason: "all of its attempts have been made"}
	case i < k.since:
		return &fallback.Lack{Rule: "semantics 7", Reason: "the operation has gone on from it before"}
	}
	return nil
}

// last is the last of the tiers that were tried, or the first.
func (k *course) last() int {
	for i := len(k.legs) - 1; i > 0; i-- {
		if k.tries[k.legs[i].name] > 0 {
			return i
		}
	}
	return 0
}

// goesOn takes over an operation that waits for a request such as this one: it goes on where it was (semantics 7).
func (c *call) goesOn(r *ledger.Record) {
	c.remembers(r)
	c.course.since = c.course.last()
}

// resumes has a call that has found its operation by its key, and has a place already, go on where that one was.
func (c *call) resumes(r *ledger.Record) *Error {
	c.goesOn(r)
	c.exec.inherited = c.inherited
	if !c.course.several() || mutant.On("taken-over-at-the-first-tier") {
		return nil
	}
	d := c.starts()
	to := c.course.index(d.Tier)
	if d.Action != fallback.Next || d.Approval || to <= c.course.at {
		return nil
	}
	c.exec.nest.quit(breaker.Ignored)
	c.exec.purse.drop()
	c.exec.barred = nil
	c.passesOver(&d)
	c.moves(to)
	return c.board()
}

// spent has a job whose attempts are used up go on at a tier that has not been asked, as it would have behind the last of them: what became
// of that one nobody knows, or it would not be here.
func (c *call) spent() (fallback.Decision, *Error) {
	k := c.course
	c.original()
	k.at = k.last()
	d := c.exec.would(Failing{Failure: string(signal.Unknown), Held: c.job.Op.Head().Hold})
	c.goTo(k.at)
	if d.Action != fallback.Next {
		c.unmet = decision.MaxAttemptsExhausted
		return d, errorf(CodeContract, "its attempts are used up (lanes.background_retry.max_attempts), and no other tier may answer: %s", d.Reason)
	}
	k.stopped(stop{tier: k.leg().name, sent: true, word: string(signal.Unknown), reason: "its attempts are used up"})
	k.noted(c.g, c.job.Op.ID(), c.wf.Name, &d)
	c.exec.trail()
	if !d.Approval {
		c.moves(k.index(d.Tier))
	}
	return d, nil
}
