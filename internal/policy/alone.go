package policy

import "math"

// Alone is c for measuring the tiers of a workflow one beside the other: each is a workflow of its own, names[i] that of
// tier i. A workflow without tiers stands for itself. What belongs to a call stays as it is: providers, models, time-outs, prompts,
// retries, what counts as success, what one request may cost. What would let one call decide about another is off, or
// anything else answer in a tier's place: keys, caches, breakers, the day's budget, bulkheads, approval, credentials of clients. A
// call waits for a route that cools down as long as its time allows. names is nil where there is no such workflow.
func (c *Config) Alone(workflow string) (alone *Config, names []string) {
	from := c.Workflow(workflow)
	if from == nil {
		return nil, nil
	}
	d := *c
	d.Workflows, d.Tools, d.MCP, d.Auth, d.SharedState = nil, nil, MCP{}, Auth{}, nil
	tiers := from.Tiers
	if len(tiers) == 0 {
		tiers = make([]Tier, 1)
	}
	for i := range tiers {
		w := from.measured()
		if len(from.Tiers) > 0 {
			w.Name += "/" + tiers[i].Name // no name that a file can give
			w.Tiers = []Tier{tiers[i]}
			w.Tiers[0].Bulkhead = nil
		}
		names = append(names, w.Name)
		d.Workflows = append(d.Workflows, w)
	}
	if d.Workflows[0].Name != DefaultWorkflow {
		d.Workflows = append(d.Workflows, *c.Workflow(DefaultWorkflow))
	}
	d.index = make(map[string]int, len(d.Workflows))
	for i := range d.Workflows {
		d.index[d.Workflows[i].Name] = i
	}
	d.stamp()
	return &d, names
}

// measured is a workflow whose calls know nothing of one another.
func (w *Workflow) measured() Workflow {
	m := *w
	m.at = w.Path()
	m.Mode, m.Approval = Enforce, ApproveNone
	m.Idempotency = Idempotency{Derive: DeriveOff, Window: w.Idempotency.Window, TTL: w.Idempotency.TTL, OnInFlight: Attach, OnStoreError: Local}
	m.Cache, m.Bulkhead, m.Spend.PerDay, m.Reconcile = Cache{}, Bulkhead{}, 0, nil
	m.Breaker.FailureThreshold, m.Breaker.Scope, m.Breaker.Replicas = math.MaxInt32, "local", 1
	m.Lanes.InteractiveAdmission.MaxWait = w.Timeouts.Total
	m.OnDisconnect = Cancel // who stops measuring pays for no answer that nobody reads
	return m
}
