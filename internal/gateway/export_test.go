package gateway

// NeedsOf is needsOf, which decides what another tier has to be able to do.
var NeedsOf = needsOf

// Held is what a gateway at rest has given back: places among the workers, bytes of bodies, running executions.
func (g *Gateway) Held() (working, memory int64, executions int) {
	g.registry.each(func(*execution) { executions++ })
	return g.working.Load(), g.mem.Used(), executions
}

// Followers counts the requests that wait for an execution of another.
func (g *Gateway) Followers() (n int) {
	g.registry.each(func(e *execution) { n += int(e.followers.Load()) })
	return n
}

// SpentToday is what a workflow and owner of the main tenant have spent and reserved today, in dollars.
func (g *Gateway) SpentToday(workflow, owner string) float64 {
	return g.book.Spent(account(mainTenant, workflow, owner)).USD()
}
