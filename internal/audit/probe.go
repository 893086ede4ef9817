package audit

import (
	"context"
	"slices"
	"strings"
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
	slow     bool          // an effect came after its wait
	lasted   time.Duration // of the last call
	took     time.Duration // of the last one that had an effect; a repeat may be answered sooner
	once     map[string]float64
	refs     map[string]any // of the call in sequence
	onceTurn int
	onceSize int             // of its arguments: twice as many do twice as much
	seen     bool            // an effect was seen at all
	uses     bool            // a record can be named once: again it has no effect
	where    map[string]bool // the readers that showed effects of single calls
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
	begun := time.Now()
	got := a.server.call(ctx, s.t.name, args)
	s.lasted = time.Since(begun)
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
	return a.proven(ctx, s, func() (Finding, pair) { return a.twice(ctx, s, name, quiet, lost) })
}

func (a *auditor) twice(ctx context.Context, s *subject, name string, quiet time.Duration, lost bool) (Finding, pair) {
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
	lasted := s.lasted
	pr.s1, _ = a.settled(ctx, pr.s0, quiet)
	pr.second = a.send(ctx, s, p.args)
	pr.s2, _ = a.settled(ctx, pr.s1, quiet)
	pr.d1, pr.d2 = a.changes(pr.s0, pr.s1), a.changes(pr.s1, pr.s2)
	if len(pr.d1) == 0 && len(pr.d2) > 0 && !pr.first.wrong() {
		s.slow = true
	}
	if len(pr.d1) > 0 {
		s.seen = true
		pr.related = s.relates(pr.d1, pr.d2)
		s.affects(pr.d1)
		if !lost && !pr.first.wrong() {
			s.took = lasted
		}
		if name == InSequence {
			s.once, s.refs, s.onceTurn, s.onceSize = a.tally(pr.s0, pr.s1, p.args), p.used, s.turn, len(flatten(p.args))
		}
	}
	return a.judge(pr), pr
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
	if len(a.changes(s2, s3)) > 0 {
		return f, true
	}
	if _, late := a.lateLook(ctx, s, s3); !late {
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
