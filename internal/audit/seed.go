package audit

import (
	"context"
	"slices"
)

const (
	fewRecords  = 3  // that a tool which leaves them there should have to choose from
	manyRecords = 16 // for one that uses them up: each probe takes its own
	maxSeeds    = 24 // calls that make records before one step
)

// seed makes records with the server's own tools, for a tool that needs some.
func (a *auditor) seed(ctx context.Context, s *subject) {
	t := s.t
	if len(a.cfg.Args[t.name]) > 0 {
		return
	}
	need := needs(t)
	if len(need) == 0 {
		return
	}
	want := fewRecords
	if s.consumes() {
		want = manyRecords / 2
	}
	if a.enough(t, need, want) {
		return
	}
	makers := a.makersFor(ctx, t, need)
	if s.consumes() {
		want = manyRecords
	}
	for n := 0; n < maxSeeds && len(makers) > 0 && ctx.Err() == nil && !a.enough(t, need, want); n++ {
		m := makers[n%len(makers)]
		m.turn++
		p := a.arguments(m, m.turn, nil)
		got := a.server.call(ctx, m.t.name, p.args)
		a.pool.add(m.t, p.args, got)
		if n%len(makers) == len(makers)-1 {
			a.pool.look(a.snapshot(ctx), a.run)
		}
	}
	a.watched = nil // what changed was asked for
	a.last, _ = a.settled(ctx, a.last, a.cfg.Settle/2)
	a.pool.look(a.last, a.run)
}

// needs are the fields of a tool that name records which should exist.
func needs(t *tool) []field {
	refs := map[string]bool{}
	collect(t.schema, "", refs)
	var out []field
	var visit func(s *schema, at string)
	visit = func(s *schema, at string) {
		for _, f := range s.fields {
			p := at + "." + f.name
			if f.required && refs[p] && guess(t, f.name) {
				out = append(out, f)
			}
			if f.schema.items != nil {
				visit(f.schema.items, p+"[]")
			}
			visit(f.schema, p)
		}
	}
	visit(t.schema, "")
	return out
}

// enough reports whether so many records, made by this audit, answer to each need.
func (a *auditor) enough(t *tool, need []field, want int) bool {
	for _, f := range need {
		seen := map[string]bool{}
		for _, r := range a.pool.all() {
			if v, score := a.pool.resolve(t, r, f, false); score >= 3 && r.own {
				seen[text(v)] = true
			}
		}
		if len(seen) < want {
			return false
		}
	}
	return true
}

// makersFor are the tools that make what is needed: those that speak of the same things, else all.
func (a *auditor) makersFor(ctx context.Context, t *tool, need []field) []*subject {
	for _, other := range a.all {
		known := slices.ContainsFunc(a.makers, func(m *subject) bool { return m.t.name == other.name })
		tried := slices.ContainsFunc(a.subjects, func(s *subject) bool { return s.t.name == other.name })
		if other.name != t.name && other.writes() && other.order() == 0 && !known && !tried && related(other, t, need) {
			s := &subject{t: other, quiet: a.cfg.Settle / 2}
			a.trial(ctx, s) // keeps it among the makers when it works
		}
	}
	var fit []*subject
	for _, m := range a.makers {
		if m.t.name != t.name && related(m.t, t, need) {
			fit = append(fit, m)
		}
	}
	if len(fit) > 4 {
		fit = fit[:4]
	}
	return fit
}

// related reports whether one tool makes what another names.
func related(maker, t *tool, need []field) bool {
	about := nouns(maker)
	if mentions(t, about) {
		return true
	}
	for _, f := range need {
		if mentions(maker, words(f.name)) {
			return true
		}
		if pathLike(f.name) && slices.ContainsFunc(maker.schema.fields, func(m field) bool { return m.required && pathLike(m.name) && !guess(maker, m.name) }) {
			return true
		}
	}
	return false
}
