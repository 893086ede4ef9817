package gateway

import (
	"github.com/holdfast-ai/holdfast/ledger"
	"github.com/holdfast-ai/holdfast/queue"
)

// scheduled is the policy of a job, with where it goes: workers are shared by routes, whichever workflow or tenant sends there.
func (g *edition) scheduled(head *ledger.Intent) queue.Rules {
	r := g.jobRules(head)
	if head.Provider == ToolProvider {
		r.Provider, r.Route = ToolProvider+"/"+head.Workflow, head.Path
		return r
	}
	r.Provider, r.Route = head.Provider, head.RequestedModel
	if w := g.jobWorkflow(head); w != nil {
		r.Provider, r.Route = g.jobGoes(w, head)
	}
	r.Route += "/" + head.Endpoint
	return r
}
