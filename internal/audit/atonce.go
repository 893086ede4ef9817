package audit

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/holdfast-ai/holdfast/internal/mutant"
)

// atOnce sends the same call twice at the same time, and compares what both did with what one does.
func (a *auditor) atOnce(ctx context.Context, s *subject) Finding {
	var last Finding
	for range 2 { // a race may be won once
		p := a.prepare(ctx, s, s.onceTurn, nil)
		got := a.volley(ctx, s, []Args{p.args, p.args})
		after, _ := a.settled(ctx, p.before, s.quiet)
		last = a.judgeAtOnce(s, p, got, after)
		if last.Verdict == Safe || last.Verdict == CannotTell && !got[0].wrong() {
			last = a.oneMore(ctx, s, p, got, after, last)
		}
		if last.Verdict.Bad() {
			break
		}
	}
	return last
}

// oneMore sends a third call by itself after two at once that were both answered well. Where these had their effect it
// finds nothing to do; where they hindered each other it does what neither had done.
func (a *auditor) oneMore(ctx context.Context, s *subject, p probe, both []answer, after state, f Finding) Finding {
	if s.bad(DuplicateEffect, WrongRecord) || both[0].wrong() || both[1].wrong() || s.once == nil {
		return f
	}
	did := a.changes(p.before, after)
	if len(did) == 0 {
		if after, late := a.lateLook(ctx, s, after); late {
			return pair{probe: AtOnce, args: p.args, first: both[0], second: both[1]}.finding(CannotTell, "an effect came later than it was waited for", evidence("both calls", a.changes(p.before, after))...)
		}
	}
	third := a.send(ctx, s, p.args)
	last, _ := a.settled(ctx, after, s.quiet)
	more := s.own(a.changes(after, last))
	if len(more) == 0 || third.wrong() || mutant.On("audit-no-third-call") {
		return f
	}
	pr := pair{probe: AtOnce, args: p.args, first: both[0], second: third}
	says, verdict := "two equal calls at once were both answered well and left nothing: a third one, alone, did the work", LostWrite
	if len(did) > 0 && !slices.ContainsFunc(did, change.removed) {
		says, verdict = "after two equal calls at once a third one had an effect of its own", DuplicateEffect
	}
	return pr.finding(verdict, says, slices.Concat(evidence("both calls", did), evidence("third call", more))...)
}

func (a *auditor) judgeAtOnce(s *subject, p probe, got []answer, after state) Finding {
	pr := pair{probe: AtOnce, args: p.args, s0: p.before, s1: after, s2: after, first: got[0], second: got[1], reader: s.t.presumedReader()}
	changes := a.changes(p.before, after)
	if class, times := beyond(a.tally(p.before, after, p.args), s.once); class != "" && len(flatten(p.args)) == s.onceSize {
		return pr.finding(DuplicateEffect, fmt.Sprintf("two equal calls at once had the effect of one %.3g times", times), evidence("both calls", changes)...)
	}
	if pr.first.wrong() && !pr.second.wrong() {
		pr.first, pr.second = pr.second, pr.first // which of them came first is chance
	}
	f := a.judge(pr)
	if f.Verdict == Safe {
		f.Says = "two equal calls at once had the effect of one, and the same answer"
	}
	return f
}

// volley sends calls at the same time, and waits for all answers.
func (a *auditor) volley(ctx context.Context, s *subject, calls []Args) []answer {
	out := make([]answer, len(calls))
	start := make(chan struct{})
	var wait sync.WaitGroup
	for i, args := range calls {
		wait.Go(func() {
			<-start
			out[i] = a.server.call(ctx, s.t.name, args)
		})
	}
	close(start)
	wait.Wait()
	s.calls += len(calls)
	for i, args := range calls {
		a.noted(ctx, s, args, out[i])
	}
	return out
}

const many = 4 // different calls at once

// manyAtOnce sends different calls one by one, then different calls at once, and compares what is left of them.
func (a *auditor) manyAtOnce(ctx context.Context, s *subject) Finding {
	f := Finding{Probe: ManyAtOnce, Verdict: CannotTell, Says: "calls one by one left nothing that could be counted"}
	oneByOne := a.batch(ctx, s, func(calls []Args) []answer {
		out := make([]answer, len(calls))
		for i, args := range calls {
			out[i] = a.send(ctx, s, args)
		}
		return out
	})
	if oneByOne.good() < many || len(oneByOne.present)+len(oneByOne.amounts) == 0 {
		return f
	}
	for range 2 {
		atOnce := a.batch(ctx, s, func(calls []Args) []answer { return a.volley(ctx, s, calls) })
		if f = atOnce.against(oneByOne); f.Verdict.Bad() {
			break
		}
	}
	return f
}

// batch is what a number of different calls left.
type batch struct {
	calls   []Args
	marks   []string
	answers []answer
	present map[string]bool // marks that reads show afterwards
	amounts map[string]float64
	changes []change
}

func (b batch) good() int {
	n := 0
	for _, got := range b.answers {
		if !got.wrong() {
			n++
		}
	}
	return n
}

// batch makes calls to one record where the tool leaves it there, so that they have something to lose.
func (a *auditor) batch(ctx context.Context, s *subject, send func([]Args) []answer) batch {
	a.derived = nil
	b := batch{present: map[string]bool{}}
	refs := s.refs
	if s.consumes() {
		refs = nil
	}
	for i := range many {
		p := a.arguments(s, s.onceTurn+1+i, refs)
		b.calls, b.marks = append(b.calls, p.args), append(b.marks, p.mark)
		a.derive(ctx, s.t, p.args)
	}
	before := a.fresh(ctx, s)
	b.answers = send(b.calls)
	after, _ := a.settled(ctx, before, s.quiet)
	b.changes, b.amounts = a.changes(before, after), s.ownAmounts(a.tally(before, after, b.calls...))
	for source, v := range after.values {
		if after.failed[source] {
			continue // an error that repeats the arguments shows no effect
		}
		all := text(v)
		for _, m := range b.marks {
			if strings.Contains(all, m) {
				b.present[m] = true
			}
		}
	}
	return b
}

// against compares calls at once with as many that came one by one.
func (b batch) against(oneByOne batch) Finding {
	f := Finding{Probe: ManyAtOnce, Verdict: Safe, Says: "each of them has left what it leaves alone", Args: b.calls[0]}
	missing := ""
	if len(oneByOne.present) == many {
		for i, m := range b.marks {
			if !b.answers[i].wrong() && !b.present[m] {
				f.Evidence = append(f.Evidence, "answered well and not there: "+short(b.calls[i]))
				missing = m
			}
		}
	} else if class := shortOf(b.amounts, oneByOne.amounts); class != "" && b.good() == many {
		missing = class
		f.Evidence = append(f.Evidence, fmt.Sprintf("one by one %s came to %g, at once to %g", class, oneByOne.amounts[class], b.amounts[class]))
	}
	if missing != "" {
		f.Verdict, f.Says = LostWrite, "of four different calls at once, all answered well, not all have left their effect"
		f.Evidence = append(f.Evidence, evidence("all calls", b.changes)...)
	}
	return f
}
