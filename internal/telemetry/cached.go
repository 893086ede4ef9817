package telemetry

import (
	"context"

	"go.opentelemetry.io/otel/metric"
)

// cached are the instruments of what is answered in the place of a provider.
type cached struct {
	hits   metric.Int64Counter
	misses metric.Int64Counter
	unkept metric.Int64Counter
}

func (c *cached) instruments(counter func(name, what string) metric.Int64Counter) {
	c.hits = counter("holdfast.cache.hits", "Requests answered in the place of a provider, by kind: template, semantic, default.")
	c.misses = counter("holdfast.cache.misses", "Look-ups of one kind that found nothing, by what came nearest.")
	c.unkept = counter("holdfast.cache.unkept", "Answers that others will not find by their meaning, by why.")
}

// CacheHit implements gateway.Observer.
func (m *Meter) CacheHit(workflow, kind string) {
	m.cached.hits.Add(context.Background(), 1, m.attributes.get("workflow", workflow, "kind", kind).add...)
}

// CacheMiss implements gateway.Observer.
func (m *Meter) CacheMiss(workflow, kind, reason string) {
	m.cached.misses.Add(context.Background(), 1, m.attributes.get("workflow", workflow, "kind", kind, "reason", reason).add...)
}

// Unkept implements gateway.Observer.
func (m *Meter) Unkept(workflow, reason string) {
	m.cached.unkept.Add(context.Background(), 1, m.attributes.get("workflow", workflow, "reason", reason).add...)
}
