package audit

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"
)

// lateRepeats sends what still waits for it. What lay between is not only time but other tools' calls, which makes the
// wait longer than it was asked to be.
func (a *auditor) lateRepeats(ctx context.Context) error {
	a.endOf(ctx, a.watched)
	for _, s := range a.subjects {
		a.lateRepeat(ctx, s)
	}
	return ctx.Err()
}

// lateRepeat repeats a tool's first call. What others may have done to its record in the meantime is ruled out by a
// second try with nothing in between, unless the repeat made something new, which nobody else can have done.
func (a *auditor) lateRepeat(ctx context.Context, s *subject) {
	p := s.late
	if p == nil || ctx.Err() != nil {
		return
	}
	s.late = nil
	a.journal.begin(s.t.name, LateRepeat)
	if sleep(ctx, time.Until(s.lateAt.Add(a.cfg.Late))) != nil {
		return
	}
	if s.bad(DuplicateEffect, WrongRecord) {
		return // a late repeat has nothing to add
	}
	fmt.Fprintf(a.cfg.Progress, "      %s: late repeat after %s\n", s.t.name, time.Since(s.lateAt).Round(time.Second))
	a.step(ctx, s, step{LateRepeat, func() (Finding, bool) { return a.repeatLate(ctx, s, p), true }})
}

func (a *auditor) repeatLate(ctx context.Context, s *subject, p *pair) Finding {
	a.derived = nil
	a.derive(ctx, s.t, p.args)
	a.noted(ctx, s, p.args, p.first)
	between := a.fresh(ctx, s)
	second := a.send(ctx, s, p.args)
	after, _ := a.settled(ctx, between, s.quiet)
	d1, again := a.changes(p.s0, p.s1), pair{probe: LateRepeat, args: p.args, s0: between, s1: between, s2: after, first: p.first, second: second, reader: p.reader}
	f := a.judge(again)
	if f.Verdict == CannotTell && len(d1) > 0 && !p.first.wrong() {
		f.Verdict, f.Says = Safe, "the repeat came late, and changed nothing"
	}
	if !f.Verdict.Bad() || a.intact(d1, p.s1, between) && onlyAdds(s.own(a.changes(between, after))) {
		return f
	}
	if s.bad(f.Verdict) {
		return unproven(f)
	}
	return a.lateAlone(ctx, s)
}

// unproven is the finding of a late repeat that would say no more of its tool than is known already: another try alone is not
// worth its time, and without one it may accuse the tool of what other calls did in between.
func unproven(f Finding) Finding {
	f.Verdict, f.Says = CannotTell, "what other calls did in between may account for this"
	return f
}

// intact reports whether what the first call did is still as it left it.
func (a *auditor) intact(did []change, then, now state) bool {
	since := a.changes(then, now)
	for _, c := range did {
		if slices.ContainsFunc(since, func(d change) bool {
			return d.source == c.source && (strings.HasPrefix(d.path, c.path) || strings.HasPrefix(c.path, d.path))
		}) {
			return false
		}
	}
	return true
}

// onlyAdds reports whether changes make something new.
func onlyAdds(changes []change) bool {
	return len(changes) > 0 && slices.ContainsFunc(changes, change.added) && !slices.ContainsFunc(changes, change.removed)
}

// lateTries are calls that a late repeat alone may take to find one with an effect: of a mark that only rises, lower
// ones have none.
const lateTries = 8

// lateAlone is a late repeat with nothing in between.
func (a *auditor) lateAlone(ctx context.Context, s *subject) Finding {
	var pr pair
	for range lateTries {
		a.seed(ctx, s)
		s.turn++
		p := a.prepare(ctx, s, s.turn, nil)
		pr = pair{probe: LateRepeat, args: p.args, s0: p.before, reader: s.t.presumedReader()}
		pr.first = a.send(ctx, s, p.args)
		pr.s1, _ = a.settled(ctx, pr.s0, s.quiet)
		if ctx.Err() != nil || len(a.changes(pr.s0, pr.s1)) > 0 {
			break
		}
	}
	if sleep(ctx, a.cfg.Late) == nil {
		pr.s1 = a.snapshot(ctx)
		pr.second = a.send(ctx, s, pr.args)
		pr.s2, _ = a.settled(ctx, pr.s1, s.quiet)
	}
	f := a.judge(pr)
	if accuses(f) && len(s.own(a.changes(pr.s1, pr.s2))) == 0 {
		return unproven(f)
	}
	return f
}
