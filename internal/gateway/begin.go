package gateway

import (
	"slices"

	"github.com/holdfast-ai/holdfast/fallback"
	"github.com/holdfast-ai/holdfast/internal/mutant"
	"github.com/holdfast-ai/holdfast/internal/policy"
)

// Where a call begins: at the first of its tiers whose contract holds.

// plan finds the tiers that the call may go to. Which of them it begins at its contract says, once nothing else answers it.
func (c *call) plan() *Error {
	chosen := ""
	if c.job != nil {
		head := scheduledAs(*c.job.Op.Head(), c.job.Life.Said)
		chosen = overrideIn(&head)
	}
	c.setOut(chosen)
	if c.target == c.from {
		return nil
	}
	if mutant.On("job-forgets-its-submitter") {
		c.by = nil
	}
	return c.identify() // whose credential goes out decides whose tenant it is (semantics 44)
}

// setOut is at the first leg.
func (c *call) setOut(chosen string) {
	c.course = &course{}
	c.course.legs = c.g.legs(c.nestRules(), c.from, c.model, chosen, &c.course.one)
	if c.course.several() {
		c.course.tries = map[string]int{}
		if c.job == nil {
			c.course.most = c.nestRules().decide.MaxAttempts
		}
	}
	c.goTo(0)
}

// forwards reports whether the client's credential may go to a provider, whichever tier it is: then it says whose the call is.
func (c *call) forwards() bool {
	if c.course == nil {
		return !c.from.owns
	}
	return !c.from.owns && slices.ContainsFunc(c.course.legs, func(l leg) bool { return l.to == c.from })
}

// passLeg is where a call goes that is no intent, or is passed on as it comes: to the first tier that reads it as it is.
func (c *call) passLeg() *Error {
	o := c.original()
	for i := range c.course.legs {
		l := &c.course.legs[i]
		if l.to.wire == c.spec.Wire && o.mayProve(l.to) || l.to.tool {
			c.goTo(i)
			return nil
		}
	}
	l := &c.course.legs[0]
	return errorf(CodeContract, "the tier %s speaks %s, the request is %s, or it would need a credential that it does not have; nothing was sent", l.name, l.to.wire, c.spec.Wire)
}

// starts decides at which tier the call begins: the first whose contract holds, and that it has not left behind. Where it has left all of
// those, it goes on at the last one: that their attempts are used up breaks no contract, and who asks again after an unknown outcome is
// answered (semantics 7, 20). The zero Decision is the first tier, which is asked nothing.
func (c *call) starts() fallback.Decision { return c.start(true) }

func (c *call) start(again bool) fallback.Decision {
	k := c.course
	if c.target.tool || mutant.On("sent-before-contract") || !k.several() && c.plainStart() {
		return fallback.Decision{}
	}
	f := Failing{Reviewed: reviewed(c.job)}
	o := c.original()
	tiers := k.facts(c.g.policy, o, 0)
	facts, rules := f.facts(k.wants(o), tiers[0], tiers), fallbackPolicy(c.wf, &f)
	d := fallback.Start(&facts, rules)
	for i := len(tiers) - 1; i >= 0 && again && c.job == nil && d.Action != fallback.Next && !mutant.On("used-up-is-a-mismatch"); i-- {
		if tiers[i].Past != nil {
			tiers[i].Past = nil
			d = fallback.Start(&facts, rules)
		}
	}
	return d
}

// begins goes to the tier at which the call begins.
func (c *call) begins() (d fallback.Decision, refusal *Error) {
	k := c.course
	if c.job != nil && c.job.Spent {
		return c.spent()
	}
	if d = c.starts(); d.Action == "" {
		return d, nil
	}
	switch c.passesOver(&d); {
	case d.Action == fallback.Next && !d.Approval:
		if to := k.index(d.Tier); to > 0 {
			c.moves(to)
		}
		return d, nil
	case d.Action == fallback.Next:
		return d, nil
	}
	if slices.ContainsFunc(d.Skipped, func(s fallback.Skipped) bool { return s.Rule == bodyMemory }) {
		// Which is no contract's fault: nobody is asked about it.
		return fallback.Decision{}, errorf(CodeShed, bodyMemory+" is used up by calls in progress; nothing was sent")
	}
	c.exec.meets(&c.exec.met.fallback, d.Condition)
	return d, errorf(CodeContract, "no tier keeps what the request asks for: %s; nothing was sent", k.words())
}

// passesOver keeps which tiers a call does not begin at.
func (c *call) passesOver(d *fallback.Decision) {
	if len(d.Skipped) == 0 {
		return
	}
	c.course.skipped(d.Skipped)
	skips := *d // which is kept: the usual case keeps nothing
	c.course.noted(c.g, "", c.wf.Name, &skips)
	c.exec.trail()
}

// plainStart says without looking at the request that the only tier can be asked for anything.
func (c *call) plainStart() bool {
	l := c.course.leg()
	if c.original().ready(l) != nil || l.to.wire != c.spec.Wire {
		return false
	}
	if len(c.nestRules().tiers) == 0 {
		return true
	}
	m := c.g.policy.Known(l.sends)
	return !no(m.Tools) && !no(m.ParallelTools) && !no(m.Images) && !no(m.Audio) && !no(m.Video) && !no(m.Files) && !no(m.JSONSchema)
}

func no(b *bool) bool { return b != nil && !*b }

// wants is what the request asks of whoever answers it, read once.
func (k *course) wants(o *original) fallback.Needs {
	if k.needs == nil {
		needs := needsOf(o.body)
		needs.Wire, needs.SameModel = string(o.spec.Wire), vectors(o.spec.Endpoint)
		for i := len(k.legs) - 1; i >= 0; i-- {
			if k.legs[i].to.wire == o.spec.Wire {
				needs.Home = k.legs[i].to.conf.Name
			}
		}
		k.needs = &needs
		k.size = sizeOf(o.spec.Endpoint, o.body)
	}
	return *k.needs
}

// facts are the tiers from one on, as a contract sees them.
func (k *course) facts(cfg *policy.Config, o *original, from int) []fallback.Tier {
	k.wants(o)
	all := make([]fallback.Tier, 0, len(k.legs)-from)
	for i := from; i < len(k.legs); i++ {
		l := &k.legs[i]
		t := tierFacts(cfg, &l.conf, l.to.conf.Name, l.sends, k.size)
		t.Name, t.Wire = l.name, string(l.to.wire)
		if l.to.wire != o.spec.Wire && !l.to.tool { // it is told to it, or Ready says why not
			t.Wire = string(o.spec.Wire)
		}
		t.Ready = func() *fallback.Lack { return o.ready(l) }
		if t.Lack == nil && !o.spec.Known && i > 0 && l.to != k.legs[0].to {
			t.Lack = &fallback.Lack{Rule: "tiers.provider", Reason: "whether " + l.to.conf.Name + " has this path is not known"}
		}
		t.Past = k.behind(i)
		all = append(all, t)
	}
	return all
}
