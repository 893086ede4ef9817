package gateway

import (
	"cmp"
	"slices"
)

// Bulkhead is what a workflow's bulkhead at one tier holds now.
type Bulkhead struct {
	Workflow string
	Tier     string
	// Provider is where the tier sends its calls; empty where the path decides.
	Provider string
	// Name is that of a shared bulkhead: the figures are then those of all that share it.
	Name    string
	Max     int // slots
	Used    int // in use; more than Max for a while after Max was lowered
	Waiting int // calls that wait for a slot
}

// Bulkheads returns all that bound calls, by workflow and tier. A tier that only limits.workers bounds has none.
func (g *Gateway) Bulkheads() []Bulkhead {
	var all []Bulkhead
	now := g.current.Load()
	for i := range now.policy.Workflows {
		w := &now.policy.Workflows[i]
		for _, t := range now.nests[w.Name].all() {
			if t.slots == nil {
				continue
			}
			b := Bulkhead{Workflow: w.Name, Tier: t.name, Provider: t.conf.Provider, Name: t.bulkhead}
			b.Max, b.Used, _, b.Waiting = t.slots.Snapshot()
			all = append(all, b)
		}
	}
	slices.SortFunc(all, func(a, b Bulkhead) int {
		return cmp.Or(cmp.Compare(a.Workflow, b.Workflow), cmp.Compare(a.Tier, b.Tier))
	})
	return all
}
