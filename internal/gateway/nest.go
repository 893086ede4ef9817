package gateway

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"time"

	"github.com/holdfast-ai/holdfast/breaker"
	"github.com/holdfast-ai/holdfast/bulkhead"
	"github.com/holdfast-ai/holdfast/decision"
	"github.com/holdfast-ai/holdfast/internal/policy"
	"github.com/holdfast-ai/holdfast/internal/route"
	"github.com/holdfast-ai/holdfast/retry"
)

// The nest is what stands around an upstream call, from the outside in: bulkhead, route (pause, cool-down, breaker),
// retry, time-out (design.md §2). A slot and a permit are held from before the claim to the end of the last attempt;
// a wait longer than decision.NestWait gives both back (semantics 36).

// rules are what a workflow says of its nest, made ready once.
type rules struct {
	breaker  breaker.Config
	decide   decision.Policy
	jobs     decision.Policy
	tiers    []*tier          // the workflow's own, in order
	places   map[string]*tier // by provider, of a workflow without tiers
	timeouts policy.Timeouts
	// shedBelow is the priority from which on a call is not shed before others.
	shedBelow bulkhead.Priority
}

// nests compiles the nest of every workflow. Workflows that name the same bulkhead share it (semantics 33).
func nests(cfg *policy.Config, providers map[string]*target, common *shared) map[string]*rules {
	all := make(map[string]*rules, len(cfg.Workflows))
	for i := range cfg.Workflows {
		w := &cfg.Workflows[i]
		r := newRules(w)
		r.tiersOf(cfg, w, providers, common)
		all[w.Name] = r
	}
	return all
}

func newRules(w *policy.Workflow) *rules {
	return &rules{places: map[string]*tier{}, timeouts: w.Timeouts, breaker: breaker.Config{FailureThreshold: w.Breaker.FailureThreshold,
		ResetTimeout: w.Breaker.ResetTimeout, Replicas: w.Breaker.Replicas, Shared: w.Breaker.Scope == "shared"}, decide: DecisionPolicy(w), jobs: JobPolicy(w),
		shedBelow: priorities[w.Lanes.InteractiveAdmission.ShedPriorityBelow]}
}

// DecisionPolicy is what decision.Decide needs of a workflow for a call that a client waits for (semantics 37).
func DecisionPolicy(w *policy.Workflow) decision.Policy {
	attempts := w.Retry.MaxAttempts
	if n := w.Lanes.InteractiveAdmission.MaxAttempts; n > 0 {
		attempts = min(attempts, n)
	}
	return decision.Policy{On: w.Retry.On, Backoff: retry.Policy{MaxAttempts: attempts, Base: w.Retry.Base, Max: w.Retry.Max},
		MaxAttempts: attempts, MaxWait: w.Lanes.InteractiveAdmission.MaxWait}
}

// JobPolicy is what decision.Decide needs of a workflow for a job: its lane bounds its attempts, and retry one pass
// (semantics 37).
func JobPolicy(w *policy.Workflow) decision.Policy {
	p := DecisionPolicy(w)
	p.MaxAttempts, p.Bound = w.Lanes.BackgroundRetry.MaxAttempts, "lanes.background_retry.max_attempts"
	p.MaxPass, p.MaxWait = w.Retry.MaxAttempts, 0
	return p
}

// nest is one execution's place in it.
type nest struct {
	rules    *rules
	tier     *tier
	route    *route.Route
	priority bulkhead.Priority
	class    bulkhead.Class // Batch for a job

	slot   bool
	batch  bool // counted as low-urgency work of the route
	inside bool
	ticket route.Ticket
}

// barred says why an attempt may not be sent now.
type barred struct {
	code    Code
	message string
	wait    time.Duration   // until it is worth asking again; 0 where only changed tells
	changed <-chan struct{} // closed when it is worth asking again
	patient bool            // a client may wait for it
}

// refusal is what a client is told that does not wait. Where a probe decides, a moment is as good a guess as any; where a
// person does, there is none.
func (b *barred) refusal() *Error {
	e := &Error{Code: b.code, Message: b.message, Wait: b.wait}
	if e.Wait == 0 && b.changed != nil {
		e.Wait = time.Second
	}
	return e
}

// enter takes a slot and the route's permit, without waiting.
func (n *nest) enter() *barred {
	if !n.slot && n.tier.slots != nil {
		if !n.tier.slots.Try(n.class) {
			return &barred{code: CodeBulkheadFull, message: "all slots of this tier's bulkhead are in use; nothing was sent", patient: n.tier.waits}
		}
		n.slot = true
	}
	if b := n.enterBatch(); b != nil {
		n.freeSlot()
		return b
	}
	t, refused := n.route.Enter()
	if refused == nil {
		n.ticket, n.inside = t, true
		return nil
	}
	n.leaveBatch()
	n.freeSlot()
	return barredBy(refused)
}

func barredBy(r *route.Refusal) *barred {
	switch r.Kind {
	case route.Cooling:
		return &barred{code: CodeRateLimited, message: "the route is cooling down (" + r.Reason + "); nothing was sent",
			wait: r.Wait, changed: r.Changed, patient: true}
	case route.Paused:
		return &barred{code: CodeCircuitOpen, message: "the route is paused by an operator (" + r.Reason + "); nothing was sent", wait: r.Wait}
	}
	if r.Forced {
		return &barred{code: CodeCircuitOpen, message: "the route was tripped by an operator (" + r.Reason + "); nothing was sent"}
	}
	return &barred{code: CodeCircuitOpen, message: "the route's circuit breaker is open (" + r.Reason + "); nothing was sent", wait: r.Wait}
}

// waitIn enters as soon as it may, until limit. It returns nil when it is in, else what stood in the way; with ctx over
// it returns ctx's cause.
func (n *nest) waitIn(ctx context.Context, b *barred, limit time.Time) (*barred, error) {
	for b != nil {
		left := time.Until(limit)
		if !b.patient || left <= 0 || b.wait > left {
			return b, nil
		}
		if b.code == CodeBulkheadFull {
			if got, err := n.waitSlot(ctx, limit); !got {
				return b, err
			}
		} else if err := b.await(ctx, left); err != nil {
			return b, err
		}
		b = n.enter()
	}
	return nil, nil
}

// waitSlot waits in the bulkhead's own line: by priority, then first come. It gets none when the limit comes first, or
// the line is too long.
func (n *nest) waitSlot(ctx context.Context, limit time.Time) (got bool, err error) {
	bounded, stop := context.WithDeadline(ctx, limit)
	defer stop()
	if err := n.tier.slots.Acquire(bounded, n.class, n.priority); err != nil {
		return false, context.Cause(ctx)
	}
	n.slot = true
	return true, nil
}

func (b *barred) await(ctx context.Context, left time.Duration) error {
	if b.wait > 0 {
		left = b.wait
	}
	timer := time.NewTimer(left)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-b.changed:
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	return nil
}

// quit gives slot and permit back, with what the route's health is to be taken from.
func (n *nest) quit(health breaker.Result) {
	if n.inside {
		n.inside = false
		n.ticket.Done(health)
	}
	n.leaveBatch()
	n.freeSlot()
}

// enterBatch counts a job among the low-urgency work of its route, which gives way where that has too much to do.
func (n *nest) enterBatch() *barred {
	if n.class != bulkhead.Batch || n.batch {
		return nil
	}
	wait, taken := n.route.TakeBatch()
	if !taken {
		return &barred{code: CodeRateLimited, message: "the route has too much to do, and low-urgency work waits; nothing was sent", wait: max(wait, stall)}
	}
	n.batch = true
	return nil
}

func (n *nest) leaveBatch() {
	if n.batch {
		n.batch = false
		n.route.PutBatch()
	}
}

func (n *nest) freeSlot() {
	if n.slot {
		n.slot = false
		n.tier.slots.Release(n.class)
	}
}

// renew asks the route again, in mid-nest: a retry goes by a cool-down that was set meanwhile. The permit that is held
// ends without a verdict: the breaker sees one result of a nest (design.md §2).
func (n *nest) renew() *barred {
	t, refused := n.ticket.Renew()
	if refused != nil {
		return barredBy(refused)
	}
	n.ticket = t
	return nil
}

// renewIn asks the route again until limit, the slot kept.
func (n *nest) renewIn(ctx context.Context, limit time.Time) (*barred, error) {
	for {
		b := n.renew()
		left := time.Until(limit)
		if b == nil || !b.patient || left <= 0 || b.wait > left {
			return b, nil
		}
		if err := b.await(ctx, left); err != nil {
			return b, err
		}
	}
}

// errGone ends a wait in which the last client left.
var errGone = errors.New("its client left while it waited")

// credentialMark separates routes by the credential that goes out, without showing it.
func (g *Gateway) credentialMark(credential string) string {
	var buf [256]byte
	sum := sha256.Sum256(append(append(append(buf[:0], "route"...), g.salt...), credential...))
	return hex.EncodeToString(sum[:4])
}
