package route

import (
	"cmp"
	"slices"
	"time"

	"github.com/holdfast-ai/holdfast/breaker"
)

// Info is the state of one route, for people.
type Info struct {
	Route string
	// Paused says why, where an operator paused it.
	Paused   bool
	PausedBy string
	// Breaker is its whole state.
	Breaker breaker.Record
	// Cooling says that calls are refused until Until (ledger time), which is zero when a probe decides.
	Cooling bool
	Probing bool // the probe after a cool-down is on its way
	Until   time.Time
	Reason  string
	// Tokens is what the retry budget holds.
	Tokens float64
	// Fault is what is injected now; nil: nothing.
	Fault *FaultInfo
	// Pressure is the backpressure on it.
	Pressure Pressure
}

// FaultInfo is one fault that is on.
type FaultInfo struct {
	Pattern string
	Fault
	Hits int64 // attempts that met it
}

// List returns all routes that are known, by name.
func (t *Table) List() []Info {
	t.mu.Lock()
	routes := slices.Clone(t.order)
	t.mu.Unlock()
	out := make([]Info, len(routes))
	for i, r := range routes {
		out[i] = r.info()
	}
	slices.SortFunc(out, func(a, b Info) int { return cmp.Compare(a.Route, b.Route) })
	return out
}

func (r *Route) info() Info {
	wait, reason, probing, cooling := r.gate.view()
	info := Info{Route: r.key, Breaker: r.breaker.Snapshot(), Cooling: cooling, Probing: probing, Reason: reason,
		Until: r.table.ledgerTime(wait), Tokens: r.Budget().Tokens(), Pressure: r.Pressure()}
	if why := r.paused.Load(); why != nil {
		info.Paused, info.PausedBy = true, *why
	}
	if f := r.fault.Load(); f != nil && time.Now().Before(f.ends) {
		info.Fault = f.info()
	}
	return info
}

// Faults returns the faults that are on, also those that no known route meets.
func (t *Table) Faults() []FaultInfo {
	t.mu.Lock()
	defer t.mu.Unlock()
	out := make([]FaultInfo, len(t.faults))
	for i, f := range t.faults {
		out[i] = *f.info()
	}
	return out
}

func (f *injection) info() *FaultInfo {
	return &FaultInfo{Pattern: f.pattern, Fault: f.Fault, Hits: f.hits.Load()}
}
