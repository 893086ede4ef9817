package telemetry

import (
	"context"
	"sync/atomic"
	"time"

	"go.opentelemetry.io/otel/metric"
)

// sharedState are the instruments of what replicas share.
type sharedState struct {
	up    atomic.Int32 // 0: none is configured; 1: away; 2: there
	local metric.Int64Counter
	took  metric.Float64Histogram
}

func (s *sharedState) instruments(meter metric.Meter, counter func(name, what string) metric.Int64Counter) error {
	s.local = counter("holdfast.shared_state.degraded_calls", "What was done with this process's part of a limit, because shared state was away.")
	var err, err2 error
	s.took, err = meter.Float64Histogram("holdfast.shared_state.call", metric.WithUnit("s"), metric.WithDescription("Calls to the store of shared state."),
		metric.WithExplicitBucketBoundaries(.0002, .0005, .001, .002, .005, .01, .02, .05, .1))
	_, err2 = meter.Int64ObservableGauge("holdfast.shared_state.up", metric.WithDescription("1 while the store of shared state is there, 0 while it is away; absent where none is configured."),
		metric.WithInt64Callback(func(_ context.Context, o metric.Int64Observer) error {
			if up := s.up.Load(); up > 0 {
				o.Observe(int64(up - 1))
			}
			return nil
		}))
	return keep(err, err2)
}

// SharedUp implements shared.Observer.
func (m *Meter) SharedUp(up bool) {
	n := int32(1)
	if up {
		n = 2
	}
	m.shared.up.Store(n)
}

// SharedCall implements shared.Observer.
func (m *Meter) SharedCall(op string, took time.Duration, failed bool) {
	outcome := "ok"
	if failed {
		outcome = "failed"
	}
	m.shared.took.Record(context.Background(), took.Seconds(), m.attributes.get("operation", op, "outcome", outcome).record...)
}

// SharedLocal implements shared.Observer.
func (m *Meter) SharedLocal(op string) {
	m.shared.local.Add(context.Background(), 1, m.attributes.get("operation", op).add...)
}
