package audit

import (
	"context"
	"slices"
	"time"
)

const (
	idleLooks = 5                       // snapshots at the start between which nobody writes
	idleLeast = 1200 * time.Millisecond // from the first to the last, so that a clock's second goes by
)

// watchIdle finds the readers, what changes while nobody writes, and readers that write.
func (a *auditor) watchIdle(ctx context.Context) error {
	for _, t := range a.readers() {
		if len(a.readings) < maxReads && len(required(t.schema)) == 0 {
			a.readings = append(a.readings, reading{tool: t.name})
		}
	}
	a.dropSlow(ctx)
	a.pool.look(a.snapshot(ctx), a.run)
	a.readings = append(a.readings, a.folderReadings(ctx)...)
	if err := a.rest(ctx); err != nil {
		return err
	}
	if a.restless.count() > 0 && a.findLiars(ctx) {
		a.restless = newRestless()
		if err := a.rest(ctx); err != nil {
			return err
		}
	}
	a.pool.look(a.snapshot(ctx), a.run)
	a.vetReaders(ctx)
	a.last = a.snapshot(ctx)
	a.begun = a.last
	a.pool.look(a.last, a.run)
	a.report.Readers = sources(a.readings, a.server.resources(ctx))
	return ctx.Err()
}

// rest takes snapshots, and learns what differs between them.
func (a *auditor) rest(ctx context.Context) error {
	first := a.snapshot(ctx)
	for range idleLooks - 1 {
		if err := sleep(ctx, max(a.cfg.Settle, idleLeast)/(idleLooks-1)); err != nil {
			return err
		}
		next := a.snapshot(ctx)
		for source, v := range next.values {
			if before, ok := first.values[source]; ok {
				a.restless.learn(origin(source)+" ", before, v)
			}
		}
		first = next
	}
	return ctx.Err()
}

// dropSlow leaves out readers that take so long that a snapshot would be no moment.
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

func (a *auditor) lies(t *tool) bool {
	return slices.ContainsFunc(a.liars, func(l *tool) bool { return l.name == t.name })
}

// findLiars looks for the readers of every snapshot whose calls are what makes others restless. A record of all calls
// is no effect of any: where most readers do it, none is taken for one that writes.
func (a *auditor) findLiars(ctx context.Context) bool {
	keep := a.restless
	a.restless = newRestless()
	defer func() { a.restless = keep }()
	watch := slices.Clone(a.readings)
	guilty := map[string]bool{}
	for _, r := range watch {
		if ctx.Err() != nil {
			return false
		}
		if a.moves(ctx, r, without(watch, r.tool)) {
			guilty[r.tool] = true
		}
	}
	return a.convict(guilty, len(watch))
}

func without(all []reading, tool string) []reading {
	return slices.DeleteFunc(slices.Clone(all), func(r reading) bool { return r.tool == tool })
}

// convict takes tools out of the readers, unless they are most of those asked.
func (a *auditor) convict(guilty map[string]bool, asked int) bool {
	if len(guilty) == 0 || len(guilty) > 1 && 2*len(guilty) >= asked {
		return false
	}
	for _, t := range a.all {
		if guilty[t.name] && !a.lies(t) {
			a.liars = append(a.liars, t)
		}
	}
	a.readings = slices.DeleteFunc(a.readings, func(r reading) bool { return guilty[r.tool] })
	return true
}

// moves reports whether a reading makes a record in what others show, each of three times that it is made, where
// nothing came without it.
func (a *auditor) moves(ctx context.Context, r reading, watch []reading) bool {
	look := func() state {
		s := state{map[string]any{}, map[string]bool{}}
		for _, w := range watch {
			s.values[w.source()], s.failed[w.source()] = a.readOne(ctx, w)
		}
		return s
	}
	before := look()
	idle := look()
	if a.writesIn(before, idle) {
		return false
	}
	for range 3 {
		a.readOne(ctx, r)
		now := look()
		if !a.writesIn(idle, now) {
			return false
		}
		idle = now
	}
	return ctx.Err() == nil
}

// writesIn reports whether a record came or went, or a text was changed; a number alone may be a count of requests.
func (a *auditor) writesIn(from, to state) bool {
	return slices.ContainsFunc(a.changes(from, to), func(c change) bool {
		return c.added() || c.removed() || number(c.before) == nil
	})
}

// vetReaders calls the readers that need arguments, with such as the reads suggest, and learns what changes in them by
// itself and which of them write.
func (a *auditor) vetReaders(ctx context.Context) {
	var found []reading
	for _, t := range a.readers() {
		if len(required(t.schema)) == 0 || slices.ContainsFunc(a.readings, func(r reading) bool { return r.tool == t.name }) {
			continue
		}
		for i, way := range a.pool.recipes(t) {
			if i == 3 || ctx.Err() != nil {
				break
			}
			mark, n := a.run.mark()
			args, _ := way.build(t, a.pool, variant{mark: mark, n: n})
			r := reading{tool: t.name, args: args}
			if _, failed := a.readOne(ctx, r); !failed {
				found = append(found, r)
				break
			}
		}
	}
	guilty := map[string]bool{}
	for _, r := range found {
		a.vetting[r.tool] = true
		if a.moves(ctx, r, a.readings) {
			guilty[r.tool] = true
		}
	}
	a.convict(guilty, len(found)+len(a.readings))
	a.watchAlone(ctx, slices.DeleteFunc(found, func(r reading) bool { return guilty[r.tool] }))
}

// watchAlone learns what changes by itself in readings that are not part of every snapshot.
func (a *auditor) watchAlone(ctx context.Context, readings []reading) {
	if len(readings) == 0 {
		return
	}
	first := make([]any, len(readings))
	for i, r := range readings {
		first[i], _ = a.readOne(ctx, r)
	}
	for range idleLooks - 1 {
		if sleep(ctx, idleLeast/(idleLooks-1)) != nil {
			return
		}
		for i, r := range readings {
			next, _ := a.readOne(ctx, r)
			a.restless.learn(origin(r.source())+" ", first[i], next)
			first[i], _ = a.readOne(ctx, r)
		}
	}
}

// vetted reports whether a reading may be used: one whose tool was never called well before is first seen not to write.
func (a *auditor) vetted(ctx context.Context, r reading) bool {
	if a.vetting[r.tool] {
		return true
	}
	if a.moves(ctx, r, a.readings) {
		a.convict(map[string]bool{r.tool: true}, len(a.readings)+1)
		return false
	}
	a.vetting[r.tool] = true
	first, _ := a.readOne(ctx, r)
	second, _ := a.readOne(ctx, r)
	a.restless.learn(origin(r.source())+" ", first, second)
	return true
}
