package gateway

import (
	"github.com/holdfast-ai/holdfast/bulkhead"
	"github.com/holdfast-ai/holdfast/internal/mutant"
)

// Shedding turns calls away before they are started, by priority (design.md §4): a call below
// lanes.interactive_admission.shed_priority_below does not wait, and leaves the last places to the others.

// headroom is the part of the slots and of limits.workers, one in so many, that such calls leave free.
const headroom = 10

// sheddable reports whether a call goes first where not all can be served. A job does not: it waits in its lane.
func (n *nest) sheddable() bool {
	return n.class == bulkhead.Interactive && n.priority < n.rules.shedBelow && !mutant.On("shed-ignores-priority")
}

// pressed reports whether the tier has no more to give than what is kept for others than sheddable calls, or its route has
// too much to do even with one job at a time.
func (n *nest) pressed() bool {
	if n.route.Sheds() {
		return true
	}
	if n.tier.slots == nil {
		return false
	}
	slots, used, _, waiting := n.tier.slots.Snapshot()
	return waiting > 0 || used >= slots-slots/headroom
}

// shed refuses what would otherwise take the place of a more urgent call; nil where it need not.
func (n *nest) shed() *barred {
	if !n.sheddable() || !n.pressed() {
		return nil
	}
	return &barred{code: CodeShed, message: "slot and route are left to calls of higher priority (lanes.interactive_admission.shed_priority_below); nothing was sent"}
}

// unless turns a wait into a refusal where the call is one that does not wait.
func (n *nest) unless(b *barred) *barred {
	if b == nil || !b.patient || !n.sheddable() {
		return b
	}
	return &barred{code: CodeShed, wait: b.wait,
		message: "a call of this priority does not wait (lanes.interactive_admission.shed_priority_below): " + b.message}
}

// admit takes a slot and the route's permit for a call that has not begun, or sheds it.
func (n *nest) admit() *barred {
	if b := n.shed(); b != nil {
		return b
	}
	return n.unless(n.enter())
}

// places is how many calls may be in progress for this one to be taken on.
func (c *call) places() int64 {
	all := int64(c.g.policy.Limits.Workers)
	if r := c.nestRules(); c.job == nil && r != nil && priorities[c.priority] < r.shedBelow && !mutant.On("shed-ignores-priority") {
		return all - all/headroom
	}
	return all
}
