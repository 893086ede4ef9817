package gateway

import (
	"encoding/json"
	"errors"
	"strings"

	"github.com/holdfast-ai/holdfast/intent"
	"github.com/holdfast-ai/holdfast/internal/mutant"
	"github.com/holdfast-ai/holdfast/internal/policy"
	"github.com/holdfast-ai/holdfast/internal/provider"
	"github.com/holdfast-ai/holdfast/ledger"
)

// overrideOf is the route that whoever replayed a job chose, "" for the same.
func overrideOf(said json.RawMessage) string {
	var in struct {
		Route string `json:"route_override"`
	}
	if len(said) == 0 || json.Unmarshal(said, &in) != nil || in.Route == SameRoute {
		return ""
	}
	return in.Route
}

// SameRoute is the route_override that changes nothing.
const SameRoute = "same"

// overrideTrigger begins Intent.Trigger in the copy of a head that the schedule goes by, where a person has chosen the route.
// What is on record of a job never changes.
const overrideTrigger = "route_override:"

// scheduledAs is what a job counts as whose generation a person began with this word.
func scheduledAs(head ledger.Intent, said json.RawMessage) ledger.Intent {
	if route := overrideOf(said); route != "" {
		head.Trigger = overrideTrigger + route
	}
	return head
}

// overrideIn is the route that a person has chosen for a job of this head; "" for its own.
func overrideIn(head *ledger.Intent) string {
	route, is := strings.CutPrefix(head.Trigger, overrideTrigger)
	if !is {
		return ""
	}
	return route
}

// cutRoute reads PROVIDER or PROVIDER/MODEL.
func cutRoute(route string) (name, model string) {
	name, model, _ = strings.Cut(route, "/")
	return name, model
}

// CheckOverride says whether a job can be sent by another route, PROVIDER or PROVIDER/MODEL; the error says why not.
func (g *Gateway) CheckOverride(head *ledger.Intent, override string) error {
	return g.current.Load().checkOverride(head, override)
}

func (g *edition) checkOverride(head *ledger.Intent, override string) error {
	if override == SameRoute {
		return nil
	}
	name, _, _ := strings.Cut(override, "/")
	to, from, w := g.providers[name], g.providers[head.Provider], g.jobWorkflow(head)
	switch {
	case intent.IsCallback(head):
		return errors.New("a callback has no other route: route_override is same")
	case head.Provider == ToolProvider:
		return errors.New("a tool's call has no other route: route_override is same")
	case to == nil:
		return errors.New("route_override is same, PROVIDER or PROVIDER/MODEL; there is no provider " + bounded(name))
	case forbids(w):
		return errors.New("route_override is same: the policy of " + w.Name + " has no other route answer (fallback.allowed_before_first_token: false)")
	case from != nil && to.wire != from.wire && !translates(head.Endpoint, to.wire):
		return errors.New("route_override: " + name + " speaks " + string(to.wire) + ", the request is " + string(from.wire) +
			", and only chat completions and messages are translated")
	case from == nil && !understands(to, head):
		return errors.New("route_override: " + name + " speaks " + string(to.wire) + ", in which the request to " + head.Path + " is none")
	}
	return nil
}

// forbids says that the policy of a job has it sent by no route of a person's choice.
func forbids(w *policy.Workflow) bool {
	return w != nil && !w.Fallback.AllowedBeforeFirstToken && !mutant.On("override-against-policy")
}

// understands says that a request is in a provider's format, as far as the record says: the same call in it as it was.
func understands(to *target, head *ledger.Intent) bool {
	return head.Endpoint == "" || provider.Parse(&provider.Request{Method: head.Method, Path: head.Path, Wire: to.wire}).Endpoint == head.Endpoint
}
