package telemetry

import (
	"context"
	"sync/atomic"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"

	"github.com/holdfast-ai/holdfast/queue"
)

// lanes are the instruments of work that waits.
type lanes struct {
	read atomic.Pointer[func() map[string]queue.Lane]

	depth, ready, working metric.Int64ObservableGauge
	age, longest          metric.Float64ObservableGauge
}

func (l *lanes) instruments(meter metric.Meter) error {
	var first error
	count := func(name, what string) metric.Int64ObservableGauge {
		g, err := meter.Int64ObservableGauge(name, metric.WithDescription(what))
		first = keep(first, err)
		return g
	}
	since := func(name, what string) metric.Float64ObservableGauge {
		g, err := meter.Float64ObservableGauge(name, metric.WithDescription(what), metric.WithUnit("s"))
		first = keep(first, err)
		return g
	}
	l.depth = count("holdfast.lane.depth", "Operations in a lane.")
	l.ready = count("holdfast.lane.ready", "Operations in a lane whose time has come.")
	l.working = count("holdfast.lane.working", "Jobs in workers' hands.")
	l.age = since("holdfast.lane.age", "Age of the oldest operation in a lane.")
	l.longest = since("holdfast.lane.longest", "Time for which a worker has had the job that it has had longest.")
	if first != nil {
		return first
	}
	_, err := meter.RegisterCallback(l.observe, l.depth, l.ready, l.working, l.age, l.longest)
	return err
}

func (l *lanes) observe(_ context.Context, o metric.Observer) error {
	read := l.read.Load()
	if read == nil {
		return nil
	}
	for name, lane := range (*read)() {
		if name == "" { // a call that is on its way is in none
			continue
		}
		label := metric.WithAttributes(attribute.String("lane", name))
		o.ObserveInt64(l.depth, int64(lane.Depth), label)
		o.ObserveInt64(l.ready, int64(lane.Ready), label)
		o.ObserveInt64(l.working, int64(lane.Working), label)
		o.ObserveFloat64(l.age, lane.Age.Seconds(), label)
		o.ObserveFloat64(l.longest, lane.Longest.Seconds(), label)
	}
	return nil
}

// Lanes has the lanes read by f when the metrics are.
func (m *Meter) Lanes(f func() map[string]queue.Lane) { m.lanes.read.Store(&f) }
