package audit

import (
	"context"
	"fmt"
	"path"
	"slices"
	"strings"
	"time"
)

const (
	maxReads  = 48 // calls of one snapshot
	maxTries  = 4  // arguments that a reader is tried with, for one write
	maxStates = 64 // snapshots of one wait
)

// reading is one way to look at the server's data.
type reading struct {
	tool string
	args Args
	uri  string
}

func (r reading) source() string {
	switch {
	case r.uri != "":
		return r.uri
	case len(r.args) == 0:
		return r.tool
	}
	return r.tool + text(r.args)
}

// state is what all readings showed.
type state struct {
	values map[string]any
	failed map[string]bool // sources whose reading is an error; its words are the value
}

func (a *auditor) readOne(ctx context.Context, r reading) (any, bool) {
	if r.uri != "" {
		v, err := a.server.resource(ctx, r.uri)
		if err != nil {
			return "error: " + timeless(err.Error()), true
		}
		return plain(v, false), false
	}
	got := a.server.call(ctx, r.tool, r.args)
	if got.wrong() {
		return timeless(got.says()), true
	}
	return plain(got.value, false), false
}

// snapshot reads everything once.
func (a *auditor) snapshot(ctx context.Context) state {
	s := state{map[string]any{}, map[string]bool{}}
	all := slices.Concat(a.readings, a.derived)
	for _, uri := range a.server.resources(ctx) {
		all = append(all, reading{uri: uri})
	}
	for _, r := range all {
		if len(s.values) >= 2*maxReads || ctx.Err() != nil {
			break
		}
		v, failed := a.readOne(ctx, r)
		s.values[r.source()], s.failed[r.source()] = v, failed
	}
	return s
}

// changes lists what differs between two states, without what changes by itself. A source that only one of them read
// says nothing, except a resource, whose place in the list is data.
func (a *auditor) changes(from, to state) []change {
	var out []change
	for _, source := range union(from.values, to.values) {
		before, inFrom := from.values[source]
		after, inTo := to.values[source]
		p := place{source: source}
		var found []change
		switch {
		case inFrom && inTo:
			found = diff(p, before, after)
		case !isURI(source):
		case inFrom:
			found = []change{place{source: "resources"}.element(source).change(orNull(before), nil)}
		default:
			found = []change{place{source: "resources"}.element(source).change(nil, orNull(after))}
		}
		for _, c := range found {
			if !a.restless(c) {
				out = append(out, c)
			}
		}
	}
	return out
}

func isURI(source string) bool {
	return strings.Contains(source, "://") && !strings.Contains(source, "{")
}

// restless reports whether a change is one that happens while nobody writes.
func (a *auditor) restless(c change) bool {
	at := c.source + " " + c.class
	for known := range a.volatile {
		if at == known || strings.HasPrefix(at, known+".") || strings.HasPrefix(at, known+"[") {
			return true
		}
	}
	return false
}

// watchIdle finds the readers, and what changes while nobody writes.
func (a *auditor) watchIdle(ctx context.Context) error {
	for _, t := range a.all {
		if (t.hints.ReadOnly == HintTrue || t.presumedReader()) && len(a.readings) < maxReads && !slices.ContainsFunc(t.schema.fields, func(f field) bool { return f.required }) {
			a.readings = append(a.readings, reading{tool: t.name})
		}
	}
	a.dropSlow(ctx)
	first := a.snapshot(ctx)
	a.pool.look(first, a.run)
	a.readings = append(a.readings, a.folderReadings(ctx)...)
	first = a.snapshot(ctx)
	for range 3 {
		if err := sleep(ctx, a.cfg.Settle/2); err != nil {
			return err
		}
		next := a.snapshot(ctx)
		a.markVolatile(first, next)
		first = next
	}
	a.last, a.begun = first, first
	a.pool.look(first, a.run)
	a.report.Readers = sources(a.readings, a.server.resources(ctx))
	return ctx.Err()
}

func sources(readings []reading, uris []string) []string {
	out := []string{}
	for _, r := range readings {
		out = append(out, r.source())
	}
	return append(out, uris...)
}

// dropSlow leaves out readers that fail, or that take so long that a snapshot would be no moment.
func (a *auditor) dropSlow(ctx context.Context) {
	const slow = 2 * time.Second
	a.readings = slices.DeleteFunc(a.readings, func(r reading) bool {
		begun := time.Now()
		wait, cancel := context.WithTimeout(ctx, slow)
		defer cancel()
		_, failed := a.readOne(wait, r)
		return failed && time.Since(begun) >= slow
	})
}

func (a *auditor) markVolatile(from, to state) {
	for _, c := range a.changes(from, to) {
		a.volatile[c.source+" "+c.class] = true
	}
}

// folderReadings are the readers whose only need is a folder, in each folder that the server reported.
func (a *auditor) folderReadings(ctx context.Context) []reading {
	var out []reading
	for _, t := range a.readers() {
		need := required(t.schema)
		if len(need) != 1 || !pathLike(need[0].name) || need[0].schema.kind == "array" {
			continue
		}
		for _, d := range a.pool.dirs {
			r := reading{tool: t.name, args: Args{need[0].name: d}}
			if _, failed := a.readOne(ctx, r); !failed && len(out) < maxReads/4 {
				out = append(out, r)
			}
		}
	}
	return out
}

func (a *auditor) readers() []*tool {
	var out []*tool
	for _, t := range a.all {
		if t.hints.ReadOnly == HintTrue || t.presumedReader() {
			out = append(out, t)
		}
	}
	return out
}

func required(s *schema) []field {
	var out []field
	for _, f := range s.fields {
		if f.required {
			out = append(out, f)
		}
	}
	return out
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
			r := reading{tool: reader.name, args: args}
			known := slices.ContainsFunc(slices.Concat(a.derived, a.readings), func(k reading) bool { return k.source() == r.source() })
			if known || len(a.derived) >= maxReads {
				continue
			}
			first, failed := a.readOne(ctx, r)
			second, _ := a.readOne(ctx, r)
			if failed && strings.Contains(fmt.Sprint(first), "no answer within") {
				continue
			}
			for _, c := range diff(place{source: r.source()}, first, second) {
				a.volatile[c.source+" "+c.class] = true
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
			options = f.schema.fixed[:1]
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

// settled waits until the state has not changed for a while, and at most until the wait is over. It returns the last
// state, and how long after the beginning it last changed.
func (a *auditor) settled(ctx context.Context, from state, quiet time.Duration) (state, time.Duration) {
	begun := time.Now()
	last, changed := from, time.Duration(0)
	for range maxStates {
		now := a.snapshot(ctx)
		if len(a.changes(last, now)) > 0 {
			changed = time.Since(begun)
		}
		last = now
		if time.Since(begun)-changed >= quiet || sleep(ctx, quiet/2) != nil {
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
