package telemetry

import (
	"context"
	"sync"
	"sync/atomic"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"

	"github.com/holdfast-ai/holdfast/breaker"
	"github.com/holdfast-ai/holdfast/internal/route"
)

// nest are the instruments of what stands around a call.
type nest struct {
	retries     metric.Int64Counter
	accepted    metric.Int64Counter
	rejected    metric.Int64Counter
	fallbacks   metric.Int64Counter
	transitions metric.Int64Counter

	mu       sync.Mutex
	breakers map[string]breaker.State // of routes whose breaker has ever moved
	routes   atomic.Pointer[func() []route.Info]
}

func (n *nest) instruments(meter metric.Meter, counter func(name, what string) metric.Int64Counter) error {
	n.retries = counter("holdfast.retries", "Further attempts, by what made them follow.")
	n.accepted = counter("holdfast.bulkhead.accepted", "Calls that got a slot of their tier.")
	n.rejected = counter("holdfast.bulkhead.rejected", "Calls that found all slots of their tier in use.")
	n.fallbacks = counter("holdfast.fallbacks", "Calls that went from one tier to another, by the failure or refusal that made them.")
	n.transitions = counter("holdfast.breaker.transitions", "Changes of a route's circuit breaker.")
	n.breakers = map[string]breaker.State{}
	_, err := meter.Int64ObservableGauge("holdfast.breaker.state", metric.WithDescription("0 closed, 1 half-open, 2 open; routes whose breaker has moved since the start."),
		metric.WithInt64Callback(n.countBreakers))
	_, err2 := meter.Int64ObservableGauge("holdfast.route.batch_limit", metric.WithDescription("Low-urgency calls that a route may have in progress, where its signals have led to a limit."),
		metric.WithInt64Callback(n.countLimits))
	return keep(err, err2)
}

// countLimits tells of routes under pressure alone, at most maxBreakers of them.
func (n *nest) countLimits(_ context.Context, o metric.Int64Observer) error {
	list := n.routes.Load()
	if list == nil {
		return nil
	}
	told := 0
	for _, r := range (*list)() {
		if told < maxBreakers && r.Pressure.Level != route.Easy {
			told++
			o.Observe(int64(r.Pressure.Limit), metric.WithAttributes(attribute.String("route", r.Route)))
		}
	}
	return nil
}

// Routes has the routes read by f when the metrics are.
func (m *Meter) Routes(f func() []route.Info) { m.nest.routes.Store(&f) }

func (n *nest) countBreakers(_ context.Context, o metric.Int64Observer) error {
	n.mu.Lock()
	defer n.mu.Unlock()
	for route, state := range n.breakers {
		o.Observe(int64(state), metric.WithAttributes(attribute.String("route", route)))
	}
	return nil
}

// maxBreakers bounds the routes that are told of: a model name is the client's to choose.
const maxBreakers = 1000

// Breaker is told of each change of a route's breaker.
func (m *Meter) Breaker(route string, c breaker.Change) {
	n := &m.nest
	n.mu.Lock()
	if _, known := n.breakers[route]; known || len(n.breakers) < maxBreakers {
		n.breakers[route] = c.To
	} else {
		route = "other"
	}
	n.mu.Unlock()
	n.transitions.Add(context.Background(), 1, m.attributes.get("route", route, "from", c.From.String(), "to", c.To.String()).add...)
}

// Retry implements gateway.Observer.
func (m *Meter) Retry(workflow, trigger string) {
	m.nest.retries.Add(context.Background(), 1, m.attributes.get("workflow", workflow, "trigger", trigger).add...)
}

// Bulkhead implements gateway.Observer.
func (m *Meter) Bulkhead(workflow, tier string, accepted bool) {
	c := m.nest.rejected
	if accepted {
		c = m.nest.accepted
	}
	c.Add(context.Background(), 1, m.attributes.get("workflow", workflow, "tier", tier).add...)
}

// Fallback implements gateway.Observer.
func (m *Meter) Fallback(workflow, from, to, reason string) {
	m.nest.fallbacks.Add(context.Background(), 1, m.attributes.get("workflow", workflow, "from", from, "to", to, "reason", reason).add...)
}
