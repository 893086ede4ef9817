package telemetry

import (
	"context"

	"github.com/holdfast-ai/holdfast/ledger"
)

// Watched is a workflow, a tool server or an MCP server, with the tiers that its calls may go to.
type Watched struct {
	Workflow string
	Tiers    []string
}

// Watch has the counters that alerts are made of begin at 0: a series that first comes to be with its first event shows no increase
// there, and an alert on one that is not there yet never comes.
func (m *Meter) Watch(all []Watched) {
	ctx := context.Background()
	for _, w := range all {
		own := m.attributes.get("workflow", w.Workflow).add
		m.storeErrors.Add(ctx, 0, own...)
		m.entered.Add(ctx, 0, own...)
		for _, o := range []ledger.Outcome{ledger.OutcomeSuccess, ledger.OutcomeFailed} {
			m.resolved.Add(ctx, 0, m.attributes.get("workflow", w.Workflow, "outcome", o.String()).add...)
		}
		for _, tier := range w.Tiers {
			m.nest.rejected.Add(ctx, 0, m.attributes.get("workflow", w.Workflow, "tier", tier).add...)
		}
	}
	for _, result := range []string{"applied", "refused"} {
		m.policy.reloads.Add(ctx, 0, m.attributes.get("result", result).add...)
	}
}
