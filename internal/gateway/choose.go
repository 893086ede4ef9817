package gateway

import (
	"fmt"
	"slices"
	"strings"

	"github.com/holdfast-ai/holdfast/idempotency"
	"github.com/holdfast-ai/holdfast/internal/mutant"
	"github.com/holdfast-ai/holdfast/internal/policy"
	"github.com/holdfast-ai/holdfast/internal/provider"
	"github.com/holdfast-ai/holdfast/ledger"
)

var effects = map[policy.Effect]ledger.Effect{
	policy.Read: ledger.EffectRead, policy.Generation: ledger.EffectGeneration, policy.External: ledger.EffectExternal,
}

// choose reads what the call is and finds its workflow.
func (c *call) choose() *Error {
	if c.tool != nil {
		return c.chooseTool()
	}
	c.spec = provider.Parse(&provider.Request{Method: c.r.Method, Path: c.path, RawQuery: c.r.URL.RawQuery,
		Header: c.r.Header, Body: c.body, Wire: c.from.wire})
	c.model = plainName(c.spec.Model)
	switch cfg := c.g.policy; {
	case c.job != nil: // whose workflow is on record
		if err := c.sameFormat(); err != nil {
			return err
		}
	case c.wanted != "":
		if c.wf = cfg.Workflow(c.wanted); c.wf == nil {
			return errorf(CodeInvalidRequest, "there is no workflow %q; workflows are %s", bounded(c.wanted), names(cfg))
		}
	default:
		c.wf = cfg.Match(c.path, c.spec.Model, c.r.Header)
	}
	if err := c.allowed(c.wf.Name); err != nil {
		return err
	}
	if err := c.plan(); err != nil {
		return err
	}
	c.obeyAnnounced()
	c.effect = effects[c.wf.EffectOf(c.spec.Read)]
	c.hold = c.wf.UnknownRule(c.spec.Acts != "") == policy.HoldUnknown
	return nil
}

// allowed refuses a credential that is for other workflows, or tool servers.
func (c *call) allowed(name string) *Error {
	if c.client != nil && len(c.client.Workflows) > 0 && !slices.Contains(c.client.Workflows, name) {
		return errorf(CodeForbidden, "this credential may not use the workflow %q", name)
	}
	return nil
}

func keyers(cfg *policy.Config) (map[string]*idempotency.Keyer, error) {
	byName := make(map[string]*idempotency.Keyer, len(cfg.Workflows))
	for i := range cfg.Workflows {
		w := &cfg.Workflows[i]
		k, err := idempotency.New(idempotency.Config{Ignore: w.Idempotency.Ignore,
			SchemaVersion: w.Idempotency.SchemaVersion, Key: w.Idempotency.Key, Depth: cfg.Limits.JSONDepth})
		if err != nil {
			return nil, fmt.Errorf("workflows.%s.idempotency: %w", w.Name, err)
		}
		byName[w.Name] = k
	}
	return byName, nil
}

func names(cfg *policy.Config) string {
	list := make([]string, len(cfg.Workflows))
	for i := range cfg.Workflows {
		list[i] = cfg.Workflows[i].Name
	}
	return strings.Join(list, ", ")
}

func bounded(s string) string {
	if len(s) > 64 {
		return s[:64] + "…"
	}
	return s
}

// clashes says that a key was used for another request: the caller's own (semantics 15), or a tool's key of business
// arguments, whose other arguments would be lost in the first call's answer. Under a workflow's template, and without
// one, the key itself says what is the same.
func (c *call) clashes(fp [32]byte) bool {
	return fp != c.fp && (c.callerKey != "" || c.tool != nil && !c.tool.keyless && !mutant.On("business-key-alone"))
}

// reused refuses a key that clashes.
func (c *call) reused(id string) *Error {
	if c.callerKey == "" {
		return &Error{Code: CodeKeyReused, Intent: id, Message: "another call with the same business key (" + c.wf.Idempotency.Key +
			") and other arguments is on record, and both would be one effect; nothing was sent. Name what tells the two apart in key, or what may differ in ignore"}
	}
	return &Error{Code: CodeKeyReused, Intent: id,
		Message: "this Idempotency-Key was used for a different request; use a new key for a new request"}
}

// keyed is the request as keys are made of it.
func (c *call) keyed() idempotency.Request {
	r := idempotency.Request{Env: c.g.policy.Env, Tenant: c.tenant, Workflow: c.wf.Name, Owner: c.owner, Method: c.r.Method,
		Path: c.loggedPath(), Query: c.r.URL.RawQuery, Header: c.r.Header, Body: c.body}
	if c.tool != nil {
		r.API = idempotency.Other // whatever its path looks like: the fields are the tool's own
	}
	return r
}

// derive computes what the request means and the key under which it is the same as another (interface.md §4).
func (c *call) derive() *Error {
	cfg, r, keyer := c.g.policy, c.keyed(), c.keyer()
	c.fp = keyer.Fingerprint(&r)
	switch {
	case c.callerKey != "":
		c.key, c.claimed = idempotency.ExplicitKey(cfg.Env, c.tenant, c.callerKey), true
		return nil
	case c.wf.Idempotency.Derive == policy.DeriveOff || !c.spec.Known:
		return nil
	}
	fp := c.fp
	if c.writesInOrder() {
		if after := c.g.writes.after(c.writer(), c.fp); after != "" {
			r.Path += "/after/" + after
			fp = keyer.Fingerprint(&r)
		}
	}
	key, err := keyer.DerivedKey(&r, fp)
	if err != nil {
		return &Error{Code: CodeInvalidRequest, Message: "workflow " + c.wf.Name + ": its key template does not fit this request: " + err.Error()}
	}
	c.key, c.claimed = key, c.wf.Idempotency.Derive == policy.DeriveAlways || c.approves()
	return nil
}
