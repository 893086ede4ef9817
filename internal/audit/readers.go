package audit

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/holdfast-ai/holdfast/internal/mutant"
)

// reading is one way to look at the server's data.
type reading struct {
	tool *tool
	args Args
	uri  string
	wide bool // its only arguments say how much is asked for
}

func (r reading) source() string {
	switch {
	case r.uri != "":
		return r.uri
	case r.wide || len(r.args) == 0:
		return r.tool.name
	}
	return r.tool.name + text(r.args)
}

const (
	idleLooks  = 4 // snapshots before the first write
	maxChoices = 8 // arguments of a reader that can only be one of few
)

// watchIdle finds the readers, and what changes while nobody writes.
func (a *auditor) watchIdle(ctx context.Context) error {
	for _, t := range a.readers() {
		for _, args := range choices(t) {
			if len(a.readings) < maxReads {
				a.readings = append(a.readings, reading{tool: t, args: args, wide: len(required(t.schema)) == 0})
			}
		}
	}
	a.dropSlow(ctx)
	first := a.snapshot(ctx)
	a.pool.look(first, a.run)
	a.readings = append(a.readings, a.folderReadings(ctx)...)
	if err := a.idle(ctx); err != nil {
		return err
	}
	if a.unmask(ctx) {
		a.restless = newRestless() // what it changed is at rest without it
		if err := a.idle(ctx); err != nil {
			return err
		}
	}
	for _, t := range a.readers() {
		a.tryReader(ctx, t)
	}
	a.last = a.snapshot(ctx)
	a.begun = a.last
	a.pool.look(a.last, a.run)
	uris, _ := a.server.resources(ctx)
	a.report.Readers = sources(a.readings, uris)
	return ctx.Err()
}

// idle looks several times, apart enough for a clock of seconds to move.
func (a *auditor) idle(ctx context.Context) error {
	last := a.snapshot(ctx)
	for range idleLooks - 1 {
		if err := sleep(ctx, max(a.cfg.Settle/2, 400*time.Millisecond)); err != nil {
			return err
		}
		now := a.snapshot(ctx)
		a.learn(last, now)
		last = now
	}
	for part := range a.restless.parts {
		if strings.HasSuffix(part, "[]") {
			a.noisy[part[:strings.IndexByte(part, ' ')]] = true
		}
	}
	return nil
}

// choices are the arguments of a reader that asks for nothing, or for one of a few values.
func choices(t *tool) []Args {
	out := []Args{wide(t)}
	for _, f := range required(t.schema) {
		if len(f.schema.fixed) == 0 || len(out)*len(f.schema.fixed) > maxChoices {
			return nil
		}
		var next []Args
		for _, args := range out {
			for _, v := range f.schema.fixed {
				with := maps.Clone(args)
				with[f.name] = v
				next = append(next, with)
			}
		}
		out = next
	}
	return out
}

// wide asks for as much as one answer may hold, where the schema says how much that is.
func wide(t *tool) Args {
	args := Args{}
	for _, f := range t.schema.fields {
		limit := slices.Contains([]string{"limit", "page_size", "pagesize", "per_page", "perpage", "max_results", "maxresults"}, strings.ToLower(f.name))
		if limit && !f.required && f.schema.maximum != nil && (f.schema.kind == "integer" || f.schema.kind == "number") {
			args[f.name] = int64(*f.schema.maximum)
		}
	}
	return args
}

// unmask finds readers that write, whatever they say: what others show changes when they were called, and else does
// not. It reports whether there are any.
func (a *auditor) unmask(ctx context.Context) bool {
	var shows []reading
	for _, r := range a.readings {
		if a.restless.knows(r.tool.name) {
			shows = append(shows, r)
		}
	}
	found := false
	for _, t := range a.readers() {
		i := slices.IndexFunc(a.readings, func(r reading) bool { return r.tool == t })
		others := slices.DeleteFunc(slices.Clone(shows), func(r reading) bool { return r.tool == t })
		if i >= 0 && len(others) > 0 && a.moves(ctx, a.readings[i], others) {
			found = true
			a.expose(t)
		}
	}
	return found
}

// moves reports whether one reading changes what others show, each time, and nothing changes it without.
func (a *auditor) moves(ctx context.Context, r reading, others []reading) bool {
	looks := func() state {
		s := newState()
		for _, o := range others {
			s.read(ctx, a, o)
		}
		return s
	}
	var always map[string]bool
	idle := map[string]bool{}
	for n := range 3 {
		s0 := looks()
		s1 := looks()
		if _, failed := a.readOne(ctx, r); failed {
			return false
		}
		s2 := looks()
		for c := range parts(s0, s1) {
			idle[c] = true
		}
		changed := parts(s1, s2)
		if n == 0 {
			always = changed
		}
		maps.DeleteFunc(always, func(c string, _ bool) bool { return idle[c] || !changed[c] })
		if len(always) == 0 || ctx.Err() != nil {
			return false
		}
	}
	return true
}

// parts are the places in which two states differ, by class.
func parts(from, to state) map[string]bool {
	out := map[string]bool{}
	for source, before := range from.values {
		after, ok := to.values[source]
		if !ok {
			continue
		}
		for _, c := range diff(place{source: source}, before, after) {
			out[source+" "+c.class] = true
		}
	}
	return out
}

// expose takes a tool from the readers to those that are audited.
func (a *auditor) expose(t *tool) {
	if mutant.On("audit-trusts-read-only") {
		return
	}
	t.lies = true
	ofTool := func(r reading) bool { return r.tool == t }
	a.readings, a.derived = slices.DeleteFunc(a.readings, ofTool), slices.DeleteFunc(a.derived, ofTool)
	fmt.Fprintf(a.cfg.Progress, "      %s says that it only reads, and writes\n", t.name)
}

// tryReader calls a reader that needs arguments, to see that it only reads before it is relied upon.
func (a *auditor) tryReader(ctx context.Context, t *tool) {
	if len(required(t.schema)) == 0 || t.vetted {
		return
	}
	for n, r := range a.pool.recipes(t) {
		mark, k := a.run.mark()
		args, _ := r.build(t, a.pool, variant{mark: mark, n: k, turn: n})
		if n == maxTries || ctx.Err() != nil {
			return
		}
		if got := a.server.call(ctx, t.name, args); got.wrong() {
			continue
		}
		a.vet(ctx, t, args)
		return
	}
}

// vet looks once at what a reader does with arguments that work.
func (a *auditor) vet(ctx context.Context, t *tool, args Args) {
	if t.vetted || len(a.readings) == 0 {
		return
	}
	r := reading{tool: t, args: args}
	others := slices.DeleteFunc(slices.Clone(a.readings), func(r reading) bool { return r.tool == t })
	if _, failed := a.readOne(ctx, r); failed || len(others) == 0 {
		return
	}
	t.vetted = true
	if a.moves(ctx, r, others) {
		a.expose(t)
	}
}

// unread is what a source shows that gives no answer. Nothing follows from it, neither that something is there nor that it is
// not: a server that answers late, or ends, has undone nothing.
const unread = noAnswer("no answer")

type noAnswer string

// unanswered reports whether an error is no answer of the server's.
func unanswered(err error) bool {
	var answered *jsonrpc.Error
	return !errors.As(err, &answered)
}

func (a *auditor) readOne(ctx context.Context, r reading) (any, bool) {
	if r.uri != "" {
		v, err := a.server.resource(ctx, r.uri)
		switch {
		case err != nil && unanswered(err):
			return unread, true
		case err != nil:
			return "error: " + timeless(err.Error()), true
		}
		return plain(v, false), false
	}
	raw, ended := a.server.read(ctx, r.tool.name, r.args)
	if raw == nil && unanswered(ended.err) {
		return unread, true
	}
	if raw == nil {
		return timeless(ended.says()), true
	}
	source, as := r.source(), wording(raw)
	if known, ok := a.looked[source]; ok && known.as == as {
		return known.value, false // most looks find what the one before found
	}
	got := newAnswer(raw)
	if got.wrong() {
		return timeless(got.says()), true
	}
	value, more := a.pages(ctx, r, got.value)
	if value == unread {
		return unread, true
	}
	seen := look{as: as, value: plain(value, false)}
	if !more && len(a.looked) < 4*maxReads {
		a.looked[source] = seen
	}
	return seen.value, false
}

// look is what a reading showed last, and the wording of the answer that said so.
type look struct {
	as    string
	value any
}

// wording is a result before it is read.
func wording(r *mcp.CallToolResult) string {
	b, err := json.Marshal([]any{r.IsError, r.StructuredContent, r.Content})
	if err != nil {
		return ""
	}
	return string(b)
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

// folderReadings are the readers whose only need is a folder, in each folder that the server reported.
func (a *auditor) folderReadings(ctx context.Context) []reading {
	var out []reading
	for _, t := range a.readers() {
		need := required(t.schema)
		if len(need) != 1 || !pathLike(need[0].name) || need[0].schema.kind == "array" {
			continue
		}
		for _, d := range a.pool.dirs {
			r := reading{tool: t, args: Args{need[0].name: d}}
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
		if t.reads() {
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
