package gateway

import (
	"encoding/json"
	"errors"
	"strings"

	"github.com/holdfast-ai/holdfast/intent"
	"github.com/holdfast-ai/holdfast/internal/mutant"
	"github.com/holdfast-ai/holdfast/internal/policy"
	"github.com/holdfast-ai/holdfast/ledger"
)

// overrideOf is the route that whoever replayed a job chose, "" for the same.
func overrideOf(said json.RawMessage) string {
	var in struct {
		Route string `json:"route_override"`
	}
	if json.Unmarshal(said, &in) != nil || in.Route == SameRoute {
		return ""
	}
	return in.Route
}

// SameRoute is the route_override that changes nothing.
const SameRoute = "same"

// overridden sends a replayed job where a person wants it: to another provider of the same format, with another model
// where one is named.
func (c *call) overridden() *Error {
	if c.override == "" {
		return nil
	}
	name, model, _ := strings.Cut(c.override, "/")
	if err := c.g.checkOverride(c.job.Op.Head(), c.override); err != nil {
		return errorf(CodeContract, "%s", err.Error())
	}
	w := *c.wf
	w.Tiers = []policy.Tier{{Provider: name, Model: model}}
	c.wf = &w
	return nil
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
	case w != nil && !w.Fallback.AllowedBeforeFirstToken && !mutant.On("override-against-policy"):
		return errors.New("route_override is same: the policy of " + w.Name + " has no other route answer (fallback.allowed_before_first_token: false)")
	case from != nil && to.wire != from.wire:
		return errors.New("route_override: " + name + " speaks " + string(to.wire) + ", the request is " + string(from.wire))
	}
	return nil
}
