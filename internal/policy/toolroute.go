package policy

import (
	"net/http"
	"reflect"
	"slices"
	"strings"
	"time"
)

// callIDs are fields of a tool's arguments that a model's client makes anew for each try. They say nothing of what is
// asked for, and never make two calls of one (interface.md §4).
var callIDs = []string{"tool_call_id", "toolCallId", "tool_use_id", "toolUseId"}

// triedAnew are fields that a caller's code makes anew for each try. Beside a key of business arguments they make no other
// call of one that has the same key; without a key who repeats a call may mean something by them.
var triedAnew = []string{"request_id", "requestId", "correlation_id", "correlationId", "trace_id", "traceId", "span_id", "spanId", "nonce",
	"timestamp", "ts", "client_timestamp", "clientTimestamp", "client_ts", "clientTs", "client_time", "clientTime", "sent_at", "sentAt",
	"user_agent", "userAgent", "attempt", "retry_count", "retryCount"}

// Ignored are the fields of a call's arguments that say nothing of what is asked for.
func (p *CallPolicy) Ignored() []string {
	all := slices.Concat(callIDs, p.Ignore)
	if p.Key != "" {
		all = append(all, triedAnew...)
	}
	return all
}

// AnyRoute is the index of the policy of calls that match no route.
const AnyRoute = -1

// ToolServer returns the server of that name, nil if there is none.
func (c *Config) ToolServer(name string) *ToolServer {
	for i := range c.Tools {
		if c.Tools[i].Name == name {
			return &c.Tools[i]
		}
	}
	return nil
}

// Find is the index of the first route that a call fits, or AnyRoute. Path is what follows /tools/NAME, as it came.
func (s *ToolServer) Find(method, path string) int {
	for i := range s.Routes {
		if s.Routes[i].fits(method, path) {
			return i
		}
	}
	return AnyRoute
}

func (r *Route) fits(method, path string) bool {
	m, pattern, _ := strings.Cut(r.Match, " ")
	if m != "*" && m != method {
		return false
	}
	g := compileGlob(pattern)
	return g.match(path)
}

// Call is the policy of a call of one route, or of AnyRoute, with what it does: GET and HEAD only read, unless the route
// says otherwise.
func (c *Config) Call(s *ToolServer, route int, method string) CallPolicy {
	p, path := s.any(), join("tools", s.Name)+".routes"
	if route != AnyRoute {
		p, path = s.Routes[route].CallPolicy, item(path, route)
	}
	if (method == http.MethodGet || method == http.MethodHead) && !c.Written(path+".effect") {
		p.Effect = Read
	}
	return p
}

// any is the policy of calls that match no route: every default.
func (s *ToolServer) any() CallPolicy {
	var p CallPolicy
	setDefaults(reflect.ValueOf(&p).Elem())
	p.resolve(s.Mode)
	return p
}

// Workflow is p in the form that a call goes by, under the name of its server. Path is where it stands in the
// configuration. An attempt has the tool's timeout; all of a call has twice that, for what failed for certain is tried
// again.
func (p *CallPolicy) Workflow(name, path string) *Workflow {
	w := &Workflow{}
	setDefaults(reflect.ValueOf(w).Elem())
	w.Name, w.at, w.Mode, w.Effect, w.OnUnknown, w.Durability = name, path, p.Mode, p.Effect, p.OnUnknown, p.Durability
	w.Succeeded, w.Failed, w.Definite, w.Reconcile, w.Approval = p.Succeeded, p.Failed, p.Definite, p.Reconcile, p.Approval
	w.Idempotency.Derive, w.Idempotency.Window, w.Idempotency.TTL, w.Idempotency.Key = p.Derive, p.Window, p.TTL, p.Key
	w.Idempotency.Ignore = p.Ignored()
	w.Timeouts = Timeouts{FirstToken: p.Timeout, Idle: p.Timeout, Attempt: p.Timeout, Total: 2 * p.Timeout,
		Request: 2*p.Timeout + p.Timeout/10 + time.Second, Stream: p.Timeout}
	w.Lanes.resolve(w.Retry)
	return w
}

// Path is the route's path in the configuration.
func (s *ToolServer) Path(route int) string {
	if route == AnyRoute {
		return join("tools", s.Name)
	}
	return item(join("tools", s.Name)+".routes", route)
}

// DefaultReconcile is how often and how long an effect is looked for where nothing is written, after attempts of that
// length.
func DefaultReconcile(attempt time.Duration) *Reconcile {
	r := &Reconcile{}
	setDefaults(reflect.ValueOf(r).Elem())
	r.resolve(attempt)
	return r
}
