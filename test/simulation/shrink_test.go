package simulation

import (
	"fmt"
	"slices"
	"testing"
)

// tries is how often a history is lived through to see whether it breaks: what happens at the same instant happens
// in an order that no seed decides.
const tries = 4

func (w *world) breaks(t *testing.T, p *plan) (often int) {
	for range tries {
		if wrong, _ := w.play(t, p); len(wrong) > 0 {
			often++
		}
	}
	return often
}

// shrink leaves out of a plan whatever it does not need to break as often as it does.
func (w *world) shrink(t *testing.T, p *plan) (parts []string, often int) {
	if often = w.breaks(t, p); often == 0 {
		return nil, 0
	}
	for _, part := range p.parts() {
		more := append(slices.Clone(parts), part)
		if n := w.breaks(t, p.without(more)); n >= often {
			parts, often = more, n
		}
	}
	return parts, often
}

// parts names everything of the plan that can be left out of it.
func (p *plan) parts() (names []string) {
	for i := range p.Ops {
		o := &p.Ops[i]
		names = append(names, fmt.Sprintf("o%d", o.ID))
		for j := range o.Turns {
			names = append(names, fmt.Sprintf("o%dt%d", o.ID, j))
		}
		for j := range o.Clients {
			names = append(names, fmt.Sprintf("o%dc%d", o.ID, j))
			for k := range o.Clients[j].Tries {
				names = append(names, fmt.Sprintf("o%dc%dl%d", o.ID, j, k))
			}
		}
	}
	for i := range p.Events {
		names = append(names, fmt.Sprintf("e%d", i))
	}
	return names
}

// without leaves parts out: operations, clients and events are gone, turns work, tries stay.
func (p *plan) without(parts []string) *plan {
	out := func(format string, a ...any) bool { return slices.Contains(parts, fmt.Sprintf(format, a...)) }
	q := *p
	q.Ops, q.Events = nil, nil
	for _, o := range p.Ops {
		if out("o%d", o.ID) {
			continue
		}
		o.Turns = slices.Clone(o.Turns)
		for j := range o.Turns {
			if out("o%dt%d", o.ID, j) {
				o.Turns[j] = turn{Do: works}
			}
		}
		var kept []client
		for j, c := range o.Clients {
			c.Tries = slices.Clone(c.Tries)
			for k := range c.Tries {
				if out("o%dc%dl%d", o.ID, j, k) {
					c.Tries[k] = patient()
				}
			}
			if !out("o%dc%d", o.ID, j) {
				kept = append(kept, c)
			}
		}
		o.Clients = kept
		q.Ops = append(q.Ops, o)
	}
	for i, e := range p.Events {
		if !out("e%d", i) {
			q.Events = append(q.Events, e)
		}
	}
	return &q
}
