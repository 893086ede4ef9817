package gateway

import (
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/holdfast-ai/holdfast/idempotency"
	"github.com/holdfast-ai/holdfast/internal/mutant"
	"github.com/holdfast-ai/holdfast/internal/policy"
	"github.com/holdfast-ai/holdfast/internal/provider"
	"github.com/holdfast-ai/holdfast/internal/redact"
	"github.com/holdfast-ai/holdfast/ledger"
)

// An HTTP tool is a provider with a wire of its own: its calls go through the same stages and executions, under the
// policy of a route instead of a workflow's.

// toolPrefix is where HTTP tools are on the data port.
const toolPrefix = "/tools/"

// toolEndpoint is the endpoint family of all calls of a server: they share a breaker.
const toolEndpoint = "tool"

// ToolProvider is Intent.Provider of the calls of HTTP tools; Intent.Workflow is their server's name.
const ToolProvider = "tool"

// toolServer is a configured server, made ready for calls.
type toolServer struct {
	conf   *policy.ToolServer
	target *target
	calls  map[toolCall]*toolRoute
}

// toolCall is which policy applies to a call: of which route, and whether GET makes it a read.
type toolCall struct {
	route int
	get   bool
}

// toolRoute is the policy of one kind of call.
type toolRoute struct {
	wf    *policy.Workflow
	name  string // Intent.Endpoint
	keyer *idempotency.Keyer
	rules *rules
	// Without a key template a call is a repetition only as long as nothing else was written (semantics 41).
	keyless bool
}

func tools(cfg *policy.Config, common *shared) (map[string]*toolServer, error) {
	all := make(map[string]*toolServer, len(cfg.Tools))
	for i := range cfg.Tools {
		conf := &cfg.Tools[i]
		base, err := url.Parse(strings.TrimSuffix(conf.BaseURL, "/"))
		if err != nil {
			return nil, fmt.Errorf("tools.%s.base_url: %w", conf.Name, err)
		}
		t := &toolServer{conf: conf, calls: map[toolCall]*toolRoute{}, target: &target{wire: provider.Tool, base: base, tool: true,
			conf: &policy.Provider{Name: conf.Name, Headers: conf.Headers}}}
		t.target.owns, t.target.hidden = ownCredential(conf.Headers), redact.New(conf.Hidden()...)
		for route := policy.AnyRoute; route < len(conf.Routes); route++ {
			for _, get := range []bool{false, true} {
				if t.calls[toolCall{route, get}], err = newToolRoute(cfg, conf, toolCall{route, get}, common); err != nil {
					return nil, err
				}
			}
		}
		all[conf.Name] = t
	}
	return all, nil
}

func newToolRoute(cfg *policy.Config, conf *policy.ToolServer, of toolCall, common *shared) (*toolRoute, error) {
	method, name, route := http.MethodPost, toolEndpoint, of.route
	if of.get {
		method = http.MethodGet
	}
	if route != policy.AnyRoute {
		name = conf.Routes[route].Match
	}
	p := cfg.Call(conf, route, method)
	w := p.Workflow(conf.Name, conf.Path(route))
	id := idempotency.Config{Ignore: w.Idempotency.Ignore, Key: w.Idempotency.Key, Depth: cfg.Limits.JSONDepth}
	if mutant.On("key-from-call-id") {
		id.Ignore = nil
	}
	keyer, err := idempotency.New(id)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", w.Path(), err)
	}
	r, own := newRules(w), toolPrefix+conf.Name+" "+name+" "+method
	r.places[conf.Name] = newTier(cfg, w, policy.Tier{Name: conf.Name}, own, own, common)
	return &toolRoute{wf: w, name: name, keyer: keyer, keyless: p.Key == "", rules: r}, nil
}

// ownCredential says that the server's headers prove who calls: then the client's own proof stays here, as it does where
// a provider has a key (semantics 44).
func ownCredential(headers []policy.Header) bool {
	return slices.ContainsFunc(headers, func(h policy.Header) bool {
		name := strings.ToLower(h.Name)
		for _, word := range []string{"authorization", "key", "token", "secret", "auth"} {
			if strings.Contains(name, word) {
				return true
			}
		}
		return false
	})
}

// toolPath finds the server and the route that a path below /tools/ means.
func (c *call) toolPath(path string) *Error {
	name, rest, _ := strings.Cut(strings.TrimPrefix(path, toolPrefix), "/")
	t := c.g.tools[name]
	if t == nil {
		c.spec.Wire = provider.Tool
		return errorf(CodeNotFound, "there is no tool server of this name; add it under tools")
	}
	c.from, c.target, c.path = t.target, t.target, "/"+rest
	c.tool = t.route(c.r.Method, c.path)
	return nil
}

// route is the policy of a call: that of the path that is meant, for an escape that says nothing must not choose another
// policy, or none.
func (t *toolServer) route(method, path string) *toolRoute {
	return t.calls[toolCall{t.conf.Find(method, idempotency.Path(path)), method == http.MethodGet || method == http.MethodHead}]
}

// chooseTool takes the policy of the route.
func (c *call) chooseTool() *Error {
	c.wf = c.tool.wf
	c.spec = provider.Call{Wire: provider.Tool, Path: c.path, Endpoint: toolEndpoint, Known: true, Format: provider.JSON,
		Read: c.wf.Effect == policy.Read}
	if err := c.allowed(c.wf.Name); err != nil {
		return err
	}
	c.setOut("")
	c.obeyAnnounced()
	c.effect = effects[c.wf.Effect]
	c.hold = c.wf.UnknownRule(false) == policy.HoldUnknown
	return nil
}

// loggedPath is the path under which the log and the key know the call: a tool's server is part of it.
func (c *call) loggedPath() string {
	if c.tool != nil {
		return toolPrefix + c.wf.Name + c.path
	}
	return c.path
}

// endpointName is the endpoint as the log has it.
func (c *call) endpointName() string {
	if c.tool != nil {
		return c.tool.name
	}
	return c.spec.Endpoint
}

// providerName is the provider as the log has it.
func (c *call) providerName() string {
	if c.tool != nil {
		return ToolProvider
	}
	if l := &c.course.legs[0]; !c.course.several() && l.to.wire == c.spec.Wire {
		return l.to.conf.Name
	}
	return c.from.conf.Name
}

// keyer makes the call's keys.
func (c *call) keyer() *idempotency.Keyer {
	if c.tool != nil {
		return c.tool.keyer
	}
	return c.g.keyers[c.wf.Name]
}

// nestRules is what the call's nest goes by.
func (c *call) nestRules() *rules {
	if c.tool != nil {
		return c.tool.rules
	}
	return c.g.nests[c.wf.Name]
}

// asked is the request as it is kept for a reconciler, where retention keeps it.
func (c *call) asked() *ledger.Body {
	if c.tool == nil || len(c.body) == 0 || c.g.policy.Retention.RequestBodies == "none" {
		return nil
	}
	return &ledger.Body{Kind: ledger.BodyRequest, ContentType: c.r.Header.Get("Content-Type"), Data: c.body}
}
