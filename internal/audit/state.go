package audit

import (
	"context"
	"path"
	"slices"
	"strings"
	"time"
)

const (
	maxReads = 48 // calls of one snapshot
	maxTries = 4  // arguments that a reader is tried with, for one write
)

// state is what all readings showed.
type state struct {
	values map[string]any
	failed map[string]bool // sources whose reading is an error; its words are the value
	unread map[string]bool // sources that gave no answer: what they would have shown is not known
	listed bool            // the list of resources is whole
}

func newState() state { return state{map[string]any{}, map[string]bool{}, map[string]bool{}, true} }

// read takes in a source, which is asked once more if it gives no answer.
func (s *state) read(ctx context.Context, a *auditor, r reading) {
	source := r.source()
	for range 2 {
		v, failed := a.readOne(ctx, r)
		if s.unread[source] = v == unread; !s.unread[source] {
			s.values[source], s.failed[source] = v, failed
			return
		}
	}
}

// snapshot reads everything once.
func (a *auditor) snapshot(ctx context.Context) state {
	s := newState()
	all := slices.Concat(a.readings, a.derived)
	uris, whole := a.server.resources(ctx)
	for _, uri := range uris {
		all = append(all, reading{uri: uri})
	}
	for _, r := range all {
		if len(s.values) >= 2*maxReads || ctx.Err() != nil {
			whole = false
			break
		}
		s.read(ctx, a, r)
	}
	s.listed = whole
	return s
}

// changes lists what differs between two states, without what changes by itself. A source that only one of them read
// says nothing, except a resource, whose place in the list is data where that was read to its end.
func (a *auditor) changes(from, to state) []change {
	var out []change
	for _, source := range union(from.values, to.values) {
		before, inFrom := from.values[source]
		after, inTo := to.values[source]
		p := place{source: source}
		var found []change
		switch {
		case inFrom && inTo:
			found = a.difference(p, before, after)
		case !isURI(source) || from.unread[source] || to.unread[source] || !from.listed || !to.listed:
		case inFrom:
			found = []change{place{source: "resources"}.element(source).change(orNull(before), nil)}
		default:
			found = []change{place{source: "resources"}.element(source).change(nil, orNull(after))}
		}
		for _, c := range found {
			if !a.restless.has(readerOf(c.source), c.class) || a.marked(c) {
				out = append(out, c)
			}
		}
	}
	return out
}

func (a *auditor) difference(p place, before, after any) []change {
	if reader := readerOf(p.source); a.restless.knows(reader) {
		at := place{source: reader}
		before, after = a.restless.calm(at, before), a.restless.calm(at, after)
	}
	return diff(p, before, after)
}

// marked is a change with a word in it that only this audit writes: a record of ours in a list that also grows by
// itself. A list that grows with each read is another matter: it may repeat what was asked for.
func (a *auditor) marked(c change) bool {
	return c.added() && !a.noisy[readerOf(c.source)] && a.run.owns(text(c.after))
}

// learn marks what differs between two states although nobody wrote.
func (a *auditor) learn(from, to state) {
	for source, before := range from.values {
		if after, ok := to.values[source]; ok && from.failed[source] == to.failed[source] {
			a.restless.learn(place{source: readerOf(source)}, before, after)
		}
	}
	for _, c := range a.changes(from, to) {
		a.restless.parts[readerOf(c.source)+" "+c.class] = true // what learning did not catch, such as a resource that comes and goes
	}
}

func isURI(source string) bool {
	return strings.Contains(source, "://") && !strings.Contains(source, "{")
}

// derive adds the readings that a write's arguments, or its answer, make possible, and learns what of them is restless.
func (a *auditor) derive(ctx context.Context, t *tool, values map[string]any) {
	flat := flatten(values)
	for _, reader := range a.readers() {
		need := required(reader.schema)
		if len(need) == 0 || len(need) > 3 {
			continue
		}
		for _, args := range fill(need, flat, t, reader) {
			r := reading{tool: reader, args: args}
			known := slices.ContainsFunc(slices.Concat(a.derived, a.readings), func(k reading) bool { return k.source() == r.source() })
			if known || len(a.derived) >= maxReads {
				continue
			}
			if a.vet(ctx, reader, args); reader.lies {
				break
			}
			first, failed := a.readOne(ctx, r)
			if first == unread {
				continue
			}
			if second, again := a.readOne(ctx, r); failed == again && second != unread {
				a.restless.learn(place{source: reader.name}, first, second)
			}
			a.derived = append(a.derived, r)
		}
	}
}

// flatten lists the plain values in arguments by name; the elements of a list have the list's name.
func flatten(values map[string]any) []named1 {
	var out []named1
	walk(values, "", func(_, key string, leaf any) {
		if s, ok := scalar(leaf); ok && len(s) < 500 && len(out) < 64 {
			out = append(out, named1{key, leaf})
		}
	})
	return out
}

// named1 is a value and what it was called.
type named1 struct {
	name  string
	value any
}

// fill makes arguments for a reader from the values that a write had.
func fill(need []field, values []named1, writer, reader *tool) []Args {
	out := []Args{{}}
	for _, f := range need {
		var options []any
		for _, v := range values {
			if fits(f.name, v, writer, reader) {
				options = append(options, candidates(f, v.value)...)
			}
		}
		if len(f.schema.fixed) > 0 {
			options = slices.DeleteFunc(options, func(o any) bool {
				return !slices.ContainsFunc(f.schema.fixed, func(v any) bool { return text(v) == text(o) })
			})
			if len(options) == 0 {
				options = f.schema.fixed[:1]
			}
		}
		var next []Args
		for _, args := range out {
			for _, o := range options {
				with := Args{f.name: o}
				for k, v := range args {
					with[k] = v
				}
				if len(next) < maxTries && !slices.ContainsFunc(next, func(n Args) bool { return text(n) == text(with) }) {
					next = append(next, with)
				}
			}
		}
		out = next
	}
	return out
}

// candidates are a value in the shape that a field asks for; of a path also its folder.
func candidates(f field, v any) []any {
	kind := f.schema
	wrap := func(v any) any { return v }
	if kind.kind == "array" {
		wrap = func(v any) any { return []any{v} }
		if kind = kind.items; kind == nil {
			kind = &schema{}
		}
	}
	v, ok := coerce(kind.kind, v)
	if !ok {
		return nil
	}
	out := []any{wrap(v)}
	if s, isText := v.(string); isText && pathLike(f.name) && path.IsAbs(s) {
		out = append(out, wrap(path.Dir(s)))
	}
	return out
}

// fits reports whether a value that a writer knew by its name is what a reader asks for under its own.
func fits(want string, v named1, writer, reader *tool) bool {
	if sameName(want, v.name) {
		return true
	}
	if s, ok := v.value.(string); ok && path.IsAbs(s) && pathLike(want) {
		return true
	}
	w, have := words(want), words(v.name)
	if len(w) == 0 || len(have) == 0 {
		return false
	}
	// id and ticket_id name the same where the tools speak of tickets.
	last, haveLast := singular(w[len(w)-1]), singular(have[len(have)-1])
	if last == haveLast && identityKey(want) {
		return len(w) == 1 && mentions(reader, have[:len(have)-1]) || len(have) == 1 && mentions(writer, w[:len(w)-1]) || len(w) == 1 && len(have) == 1
	}
	// account, and account_id.
	return identityKey(v.name) && len(w) == 1 && len(have) == 2 && sameWord(w[0], have[0]) || identityKey(want) && len(have) == 1 && len(w) == 2 && sameWord(w[0], have[0]) ||
		len(w) == 1 && slices.Contains([]string{"query", "q", "search", "text", "term"}, w[0]) && identityKey(v.name)
}

func mentions(t *tool, ws []string) bool {
	for _, w := range ws {
		if slices.ContainsFunc(t.words, func(have string) bool { return sameWord(have, w) }) {
			return true
		}
	}
	return false
}

func sameName(a, b string) bool {
	x, y := words(a), words(b)
	return slices.EqualFunc(x, y, sameWord)
}

// settled waits until the state has not changed for a while. It returns the last state, and how long after the
// beginning it last changed. What goes on changing for much longer than effects are waited for changes by itself: a job
// that counts, a clock that a write has set going.
//
// A quiet shorter than the configured one belongs to a tool whose effects are there with its answer: one look will do,
// since the look before the next call notices what came after all.
func (a *auditor) settled(ctx context.Context, from state, quiet time.Duration) (state, time.Duration) {
	begun, limit := time.Now(), max(8*quiet, 2*a.cfg.Late)
	last, changed := from, time.Duration(0)
	if quiet < a.cfg.Settle {
		_ = sleep(ctx, quiet) // the look fails as well where this does
		a.last = a.snapshot(ctx)
		return a.last, changed
	}
	for n := 0; ; n++ {
		at := time.Since(begun)
		now := a.snapshot(ctx)
		moves := len(a.changes(last, now)) > 0
		if moves && (n > 0 || time.Since(begun) > a.cfg.Settle) { // what a short first look finds was there with the answer
			changed = at
		}
		if moves && n > 1 && at > limit {
			a.learn(last, now)
			changed = 0
		}
		last = now
		if time.Since(begun)-changed >= quiet || at > 2*limit || sleep(ctx, quiet/2) != nil {
			break
		}
	}
	a.last = last
	return last, changed
}

func sleep(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
