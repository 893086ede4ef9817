package audit

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"
)

// subject is a tool under test.
type subject struct {
	t        *tool
	recipe   recipe
	turn     int
	calls    int
	quiet    time.Duration // how long its effects are waited for
	findings []Finding
	notes    []string
	late     *pair // the call that waits for its late repeat; s1 and first are set
	lateAt   time.Time
	slow     bool // an effect came after its wait
	once     map[string]float64
	refs     map[string]any // of the call in sequence
	onceTurn int
	seen     bool // an effect was seen at all
	uses     bool // a record can be named once: again it has no effect
}

func (s *subject) found(f Finding) { s.findings = append(s.findings, f) }

func (s *subject) bad(verdicts ...Verdict) bool {
	return slices.ContainsFunc(s.findings, func(f Finding) bool { return slices.Contains(verdicts, f.Verdict) })
}

// probe is one set of arguments about to be sent.
type probe struct {
	args   Args
	used   map[string]any
	mark   string
	before state
}

// prepare makes arguments, finds what can be read of them, and reads it.
func (a *auditor) prepare(ctx context.Context, s *subject, turn int, refs map[string]any) probe {
	a.derived = nil
	p := a.arguments(s, turn, refs)
	a.derive(ctx, s.t, p.args)
	p.before = a.fresh(ctx, s)
	return p
}

func (a *auditor) arguments(s *subject, turn int, refs map[string]any) probe {
	mark, n := a.run.mark()
	args, used := s.recipe.build(s.t, a.pool, variant{mark: mark, n: n, turn: turn, refs: refs})
	if s.consumes() {
		a.pool.spend(s.t, used)
	}
	return probe{args: args, used: used, mark: mark}
}

// consumes is a tool after which a record is no longer there to be named.
func consumes(t *tool) bool { return t.has(destroyVerbs) || t.has([]string{"move", "rename"}) }

func (s *subject) consumes() bool { return s.uses || consumes(s.t) }

// spend takes the records that a call names out of what others may name.
func (p *pool) spend(t *tool, used map[string]any) {
	one := false
	mark := func(all bool) {
		for at, v := range used {
			name := strings.TrimSuffix(at[strings.LastIndexByte(at, '.')+1:], "[]")
			w := words(name)
			if !all && len(w) > 1 && !mentions(t, w[:len(w)-1]) {
				continue
			}
			one = true
			list, ok := v.([]any)
			if !ok {
				list = []any{v}
			}
			for _, e := range list {
				if id, ok := scalar(e); ok {
					p.gone[id] = true
				}
			}
		}
	}
	if mark(false); !one {
		mark(true)
	}
}

// fresh reads the state, and notices an effect that came after it was waited for.
func (a *auditor) fresh(ctx context.Context, s *subject) state {
	now := a.snapshot(ctx)
	if a.watched == s && len(a.changes(a.last, now)) > 0 {
		s.slow = true
	}
	a.last, a.watched = now, s
	a.pool.look(now, a.run)
	return now
}

func (a *auditor) send(ctx context.Context, s *subject, args Args) answer {
	s.calls++
	got := a.server.call(ctx, s.t.name, args)
	a.noted(ctx, s, args, got)
	return got
}

// noted makes use of what an answer names: its records can be read, and referred to.
func (a *auditor) noted(ctx context.Context, s *subject, args Args, got answer) {
	if got.wrong() {
		return
	}
	if m, ok := got.value.(map[string]any); ok {
		a.derive(ctx, s.t, m)
	} else if text, ok := got.value.(string); ok {
		if id := named.FindString(text); id != "" {
			a.derive(ctx, s.t, map[string]any{"id": id})
		}
	}
	if !s.consumes() {
		a.pool.add(s.t, args, got)
	}
}

// sequence sends a call twice, the second when the first's effects have settled.
func (a *auditor) sequence(ctx context.Context, s *subject, name string, quiet time.Duration, lost bool) Finding {
	s.turn++
	p := a.prepare(ctx, s, s.turn, nil)
	pr := pair{probe: name, args: p.args, s0: p.before, reader: s.t.presumedReader()}
	if lost {
		s.calls++
		pr.first = a.server.callLost(ctx, s.t.name, p.args)
		a.noted(ctx, s, p.args, pr.first)
	} else {
		pr.first = a.send(ctx, s, p.args)
	}
	pr.s1, _ = a.settled(ctx, pr.s0, quiet)
	pr.second = a.send(ctx, s, p.args)
	pr.s2, _ = a.settled(ctx, pr.s1, quiet)
	effect := a.changes(pr.s0, pr.s1)
	if len(effect) == 0 && len(a.changes(pr.s1, pr.s2)) > 0 && !pr.first.wrong() {
		s.slow = true
	}
	if len(effect) > 0 {
		s.seen = true
		if name == InSequence {
			s.once, s.refs, s.onceTurn = a.tally(pr.s0, pr.s1, p.args), p.used, s.turn
		}
	}
	return a.judge(pr)
}

// atOnce sends the same call twice at the same time, and compares what both did with what one does.
func (a *auditor) atOnce(ctx context.Context, s *subject) Finding {
	var last Finding
	for range 2 { // a race may be won once
		p := a.prepare(ctx, s, s.onceTurn, nil)
		got := a.volley(ctx, s, []Args{p.args, p.args})
		after, _ := a.settled(ctx, p.before, s.quiet)
		last = a.judgeAtOnce(s, p, got, after)
		if last.Verdict.Bad() {
			break
		}
	}
	return last
}

func (a *auditor) judgeAtOnce(s *subject, p probe, got []answer, after state) Finding {
	pr := pair{probe: AtOnce, args: p.args, s0: p.before, s1: after, s2: after, first: got[0], second: got[1], reader: s.t.presumedReader()}
	changes := a.changes(p.before, after)
	if class, times := beyond(a.tally(p.before, after, p.args), s.once); class != "" {
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
	b.changes, b.amounts = a.changes(before, after), a.tally(before, after, b.calls...)
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

// writeAgain writes a value, another over it, and the first again: whoever takes the third for a repeat of the first
// loses a write. Only tools that write over what was there, and that have no key to tell the two apart, are asked.
func (a *auditor) writeAgain(ctx context.Context, s *subject) (Finding, bool) {
	s.turn++
	one := a.prepare(ctx, s, s.turn, s.refs)
	other := a.arguments(s, s.turn+1, s.refs)
	if text(one.args) == text(other.args) || slices.ContainsFunc(flatten(one.args), func(v named1) bool { return keyLike(v.name) }) {
		return Finding{}, false
	}
	first := a.send(ctx, s, one.args)
	s1, _ := a.settled(ctx, one.before, s.quiet)
	a.send(ctx, s, other.args)
	s2, _ := a.settled(ctx, s1, s.quiet)
	last := a.send(ctx, s, one.args)
	s3, _ := a.settled(ctx, s2, s.quiet)
	over := a.changes(s1, s2)
	if first.wrong() || last.wrong() || !a.wroteOver(one.before, s1, s2) {
		return Finding{}, false
	}
	f := Finding{Probe: WriteAgain, Verdict: Safe, Says: "the value that was written last is the one that is there", Args: one.args}
	if len(a.changes(s2, s3)) == 0 {
		f.Verdict, f.Says = LostWrite, "a value was written, then another, then the first again: answered well, and the other is still there"
		f.Evidence = append(evidence("the other value", over), "last answer: "+last.says())
	}
	return f, true
}

// wroteOver reports whether the second of two calls put its value where the first had put its own, and nothing more.
func (a *auditor) wroteOver(s0, s1, s2 state) bool {
	first, second := a.changes(s0, s1), a.changes(s1, s2)
	if len(first) == 0 || len(second) == 0 {
		return false
	}
	for _, c := range second {
		if c.added() || c.removed() || number(c.before) != nil && number(c.after) != nil {
			return false // an amount may be what both left together
		}
		if !slices.ContainsFunc(first, func(d change) bool {
			return d.source == c.source && (d.path == c.path || strings.HasPrefix(c.path, d.path))
		}) {
			return false
		}
	}
	return true
}
