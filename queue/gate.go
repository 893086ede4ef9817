package queue

import "github.com/holdfast-ai/holdfast/internal/mutant"

// gate bounds how many jobs are worked on at a time of all the lines that pass it: those of a concurrency key, of a provider,
// of a route, or those on their last chance.
type gate struct {
	name    string
	limit   int   // 0: a share of what is free
	within  *gate // of a route: its provider
	working int
	holders int           // lines
	before  ranked[*line] // that found no room; of the first of them the next job is
	freed   bool          // there may be room again
}

// A route that takes long, or hangs, must leave workers for the others, which nobody has to configure. It may have three times
// as many as it leaves, to all and to the other routes of its provider; all those together leave a sixteenth. So of 64
// workers one route has at most 45, a second one twelve of the rest, and the routes of one provider 60. Of fewer than four
// workers no share is worth its price.
const (
	routeShare    = 3
	providerRest  = 16
	fewestWorkers = 4
)

// fits reports whether one more job may pass.
func (q *Queue) fits(g *gate) bool {
	switch {
	case g.limit > 0:
		return g.working < g.limit
	case g.working == 0 || q.Workers < fewestWorkers || mutant.On("one-route-takes-all"):
		return true
	}
	return g.working+1 <= routeShare*min(q.Workers-q.working-1, g.within.limit-g.within.working)
}

// providerLimit is how many jobs of one provider are worked on at a time.
func (q *Queue) providerLimit() int {
	if q.Workers < fewestWorkers || mutant.On("one-route-takes-all") {
		return q.Workers
	}
	return q.Workers - max(1, q.Workers/providerRest)
}

// gatesOf finds or makes the gates of a line, and holds them for it.
func (q *Queue) gatesOf(l *line) (gates []*gate) {
	if l.key.last {
		gates = append(gates, q.hold("last", 1))
	}
	if l.rules.Key != "" && l.rules.Limit > 0 {
		gates = append(gates, q.hold("key\x00"+l.rules.Key, l.rules.Limit))
	}
	provider, route := l.rules.Provider, l.rules.Route
	if provider == "" {
		provider = l.key.provider
	}
	if route == "" {
		route = l.key.model + "\x00" + l.key.endpoint
	}
	all := q.hold("provider\x00"+provider, q.providerLimit())
	own := q.hold("route\x00"+provider+"\x00"+route, 0)
	own.within = all
	return append(gates, all, own)
}

func (q *Queue) hold(name string, limit int) *gate {
	g := q.gates[name]
	if g == nil {
		g = &gate{name: name, before: standing()}
		q.gates[name] = g
	}
	g.limit = limit
	g.holders++
	q.free(g)
	return g
}

func (q *Queue) unhold(g *gate) {
	g.holders--
	q.forget(g)
}

// forget lets go of a gate that nobody passes.
func (q *Queue) forget(g *gate) {
	if g.holders == 0 && g.working == 0 && q.gates[g.name] == g {
		delete(q.gates, g.name)
	}
}

// obstacle is a gate that lets no job of a line pass now, nil where there is none.
func (q *Queue) obstacle(l *line) *gate {
	for _, g := range l.gates {
		if !q.fits(g) {
			return g
		}
	}
	return nil
}

// stand has a line stand before a gate until it lets one pass.
func (q *Queue) stand(l *line, g *gate) {
	q.unplace(l)
	l.at = &g.before
	g.before.add(l)
	if g.limit == 0 {
		q.crowded[g] = true
	}
}

// free notes that a gate may have room again.
func (q *Queue) free(g *gate) {
	if !g.freed && !g.before.empty() {
		g.freed = true
		q.freed = append(q.freed, g)
	}
}

// released notes that a worker has become free: then there is more to share.
func (q *Queue) released() {
	q.working--
	for g := range q.crowded {
		if q.free(g); g.before.empty() {
			delete(q.crowded, g)
		}
	}
}

// admit lets the first line before each gate that has room again stand with its way, and those before it whose way is shut.
// Where another one than that is begun, the next call lets one more pass.
func (q *Queue) admit() {
	for i := 0; i < len(q.freed); {
		g := q.freed[i]
		if g.before.empty() || !q.fits(g) {
			g.freed = false
			last := len(q.freed) - 1
			q.freed[i], q.freed[last] = q.freed[last], nil
			q.freed = q.freed[:last]
			continue
		}
		l := g.before.first()
		q.unplace(l)
		if q.place(l); !l.way.shut {
			i++
		}
	}
}
