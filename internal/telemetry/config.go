package telemetry

import (
	"context"
	"sync"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"
)

// inForce is which configuration runs, and which one was refused last.
type inForce struct {
	reloads metric.Int64Counter

	mu       sync.Mutex
	revision string
	refused  string // "": what the file says is what runs
}

func (p *inForce) instruments(meter metric.Meter, counter func(name, what string) metric.Int64Counter) error {
	p.reloads = counter("holdfast.config.reloads", "Changed configurations, by result: applied, refused.")
	_, err := meter.Int64ObservableGauge("holdfast.config.info", metric.WithDescription("1, with the revision in force."),
		metric.WithInt64Callback(func(_ context.Context, o metric.Int64Observer) error {
			p.mu.Lock()
			defer p.mu.Unlock()
			o.Observe(1, metric.WithAttributes(attribute.String("revision", p.revision)))
			return nil
		}))
	_, err2 := meter.Int64ObservableGauge("holdfast.config.refused",
		metric.WithDescription("1 while a changed configuration is refused, with its revision; 0 while what runs is what was written."),
		metric.WithInt64Callback(func(_ context.Context, o metric.Int64Observer) error {
			p.mu.Lock()
			defer p.mu.Unlock()
			var is int64
			if p.refused != "" {
				is = 1
			}
			o.Observe(is, metric.WithAttributes(attribute.String("revision", p.refused)))
			return nil
		}))
	return keep(err, err2)
}

// Applied tells that a revision is in force; first, that it is the one of the start.
func (m *Meter) Applied(revision string, first bool) {
	m.policy.mu.Lock()
	m.policy.revision, m.policy.refused = revision, ""
	m.policy.mu.Unlock()
	if !first {
		m.policy.reloads.Add(context.Background(), 1, metric.WithAttributes(attribute.String("result", "applied")))
	}
}

// Refused tells that a changed configuration was not put in force. Its revision is "invalid" where it is none.
func (m *Meter) Refused(revision string) {
	m.policy.mu.Lock()
	m.policy.refused = revision
	m.policy.mu.Unlock()
	m.policy.reloads.Add(context.Background(), 1, metric.WithAttributes(attribute.String("result", "refused")))
}

// Restored tells that the file says again what runs.
func (m *Meter) Restored() {
	m.policy.mu.Lock()
	m.policy.refused = ""
	m.policy.mu.Unlock()
}
