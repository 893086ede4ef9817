package gateway

import (
	"maps"
	"slices"
)

// Holding is what a gateway has taken and not yet given back; at rest it is zero.
type Holding struct {
	Working    int64 // places among the workers
	Memory     int64 // bytes of bodies
	Executions int
	Drains     int // answers that are finished for clients that left
	Slots      int // of bulkheads
}

// Holding says what is held now.
func (g *Gateway) Holding() (h Holding) {
	g.registry.each(func(*execution) { h.Executions++ })
	h.Working, h.Memory = g.working.Load(), g.mem.Used()
	seen := map[*drains]bool{}
	for _, r := range g.current.Load().allRules() {
		for _, t := range r.all() {
			if !seen[t.drains] {
				seen[t.drains] = true
				h.Drains += t.drains.count()
			}
			if t.slots != nil {
				_, used, _, _ := t.slots.Snapshot()
				h.Slots += used
			}
		}
	}
	return h
}

// allRules are the nests of workflows and of tools.
func (g *edition) allRules() []*rules {
	all := slices.Collect(maps.Values(g.nests))
	for _, t := range g.tools {
		for _, r := range t.calls {
			all = append(all, r.rules)
		}
	}
	return all
}

func (d *drains) count() int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return len(d.list)
}
