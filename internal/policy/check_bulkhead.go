package policy

import "fmt"

// written is a bulkhead with the path of its block.
type written struct {
	Bulkhead
	path string
}

// bulkheads are those that calls of w go through: one per tier, or its own.
func (w *Workflow) bulkheads() []written {
	own := written{w.Bulkhead, w.Path() + ".bulkhead"}
	if len(w.Tiers) == 0 {
		return []written{own}
	}
	all := make([]written, len(w.Tiers))
	for i, t := range w.Tiers {
		all[i] = own
		if t.Bulkhead != nil {
			all[i] = written{*t.Bulkhead, item(w.Path()+".tiers", i) + ".bulkhead"}
		}
	}
	return all
}

func unbounded(b written) bool { return b.MaxConcurrent == 0 }

// bulkheads holds their sum to limits.workers × 0.8, and those that share a name to one size.
func (k *checker) bulkheads() {
	sum, last, named := 0, "limits.workers", map[string]written{}
	for i := range k.c.Workflows {
		for _, b := range k.c.Workflows[i].bulkheads() {
			if k.shares(b, named) || b.MaxConcurrent == 0 {
				continue
			}
			sum, last = sum+b.MaxConcurrent, b.path+".max_concurrent"
		}
	}
	if most := k.c.Limits.Workers * 8 / 10; sum > most {
		k.fail(last, fmt.Sprintf("bulkheads add up to %d, more than limits.workers × 0.8 = %d", sum, most),
			fmt.Sprintf("lower them, or set limits.workers to at least %d", (sum*10+7)/8))
	}
}

// shares reports whether the slots of b are those of an earlier one, by its name.
func (k *checker) shares(b written, named map[string]written) bool {
	if b.Name == "" {
		return false
	}
	first, known := named[b.Name]
	switch {
	case !known:
		named[b.Name] = b
		if b.MaxConcurrent == 0 {
			k.warn(b.path+".name", quote(b.Name)+" has no slots, and bounds nothing", "add max_concurrent: 30")
		}
	case b.path != first.path && b.MaxConcurrent != first.MaxConcurrent:
		at := b.path + ".max_concurrent"
		if !k.c.Written(at) {
			at = b.path + ".name"
		}
		k.fail(at, fmt.Sprintf("bulkhead %s has %d slots here and %d at %s", quote(b.Name), b.MaxConcurrent, first.MaxConcurrent, first.path),
			fmt.Sprintf("write max_concurrent: %d in both, or give them names of their own", max(b.MaxConcurrent, first.MaxConcurrent)))
	}
	return known
}
