package gateway

import (
	"github.com/holdfast-ai/holdfast/internal/upstream"
	"github.com/holdfast-ai/holdfast/ledger"
	"github.com/holdfast-ai/holdfast/translate"
)

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

// Tell is body told to the client of c.
func Tell(body upstream.Body, c *translate.Call, moved func()) upstream.Body {
	return &telling{Body: body, events: c.Events(), moved: moved}
}

// Findable says that a row of the index over answers is in memory too, which it is a moment behind its commit.
func (g *Gateway) Findable(r *ledger.Cached) bool {
	e, err := entry(r)
	if err != nil {
		return false
	}
	found, _ := g.answers.index.Candidate(e.Tenant, e.Workflow, e.Partition, e.Key, e.Made)
	return found != nil && found.Intent == e.Intent
}
