// Package telemetry turns what the engine reports into OpenTelemetry metrics, served in Prometheus' text form.
package telemetry

import (
	"context"
	"net/http"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"go.opentelemetry.io/otel/attribute"
	otelprom "go.opentelemetry.io/otel/exporters/prometheus"
	"go.opentelemetry.io/otel/metric"
	sdk "go.opentelemetry.io/otel/sdk/metric"

	"github.com/holdfast-ai/holdfast/intent"
	"github.com/holdfast-ai/holdfast/internal/gateway"
	"github.com/holdfast-ai/holdfast/ledger"
)

// seconds are bucket bounds for latencies of calls that take from milliseconds to minutes.
var seconds = []float64{.005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 20, 30, 60, 120, 300, 600}

// Meter holds Holdfast's own instruments (interface.md §6). It is the Observer of gateway and log.
type Meter struct {
	registry *prometheus.Registry

	requests    metric.Int64Counter
	duration    metric.Float64Histogram
	calls       metric.Int64Counter
	errors      metric.Int64Counter
	latency     metric.Float64Histogram
	lookups     metric.Int64Counter
	duplicates  metric.Int64Counter
	storeErrors metric.Int64Counter
	entered     metric.Int64Counter
	resolved    metric.Int64Counter
	states      [ledger.Settled + 1]atomic.Int64
	attributes  cache
	nest        nest
	shared      sharedState
	cached      cached
	policy      inForce
	lanes       lanes
}

// New makes the instruments on a registry of their own, beside the usual ones of the runtime and the process: what
// work for clients that left has cost shows in goroutines, memory and open files first.
func New() (*Meter, error) {
	m := &Meter{registry: prometheus.NewRegistry()}
	m.registry.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	exporter, err := otelprom.New(otelprom.WithRegisterer(m.registry), otelprom.WithoutScopeInfo())
	if err != nil {
		return nil, err
	}
	return m, m.instruments(sdk.NewMeterProvider(sdk.WithReader(exporter)).Meter("holdfast"))
}

// instruments makes them; the first error is returned.
func (m *Meter) instruments(meter metric.Meter) error {
	var first error
	counter := func(name, what string) metric.Int64Counter {
		c, err := meter.Int64Counter(name, metric.WithDescription(what))
		first = keep(first, err)
		return c
	}
	histogram := func(name, what string) metric.Float64Histogram {
		h, err := meter.Float64Histogram(name, metric.WithDescription(what), metric.WithUnit("s"), metric.WithExplicitBucketBoundaries(seconds...))
		first = keep(first, err)
		return h
	}
	m.requests = counter("holdfast.requests", "Requests answered, by workflow, source, status and the gateway's own error code.")
	m.duration = histogram("holdfast.request.duration", "Time from a request's head to the end of its answer.")
	m.calls = counter("holdfast.tier.calls", "Upstream calls made.")
	m.errors = counter("holdfast.tier.errors", "Upstream calls that did not succeed, by error type.")
	m.latency = histogram("holdfast.tier.latency", "Time of an upstream call to the end of its answer.")
	m.lookups = counter("holdfast.idempotency.lookups", "Keys looked up.")
	m.duplicates = counter("holdfast.idempotency.duplicates", "Requests that repeated another.")
	m.storeErrors = counter("holdfast.idempotency.store_errors", "Requests refused because the store was away.")
	m.entered = counter("holdfast.unknown.entered", "Intents whose outcome became unknown.")
	m.resolved = counter("holdfast.unknown.resolved", "Intents whose outcome is known again.")
	first = keep(first, m.nest.instruments(meter, counter))
	first = keep(first, m.shared.instruments(meter, counter))
	m.cached.instruments(counter)
	first = keep(first, m.policy.instruments(meter, counter))
	first = keep(first, m.lanes.instruments(meter))
	_, err := meter.Int64ObservableGauge("holdfast.intents", metric.WithDescription("Unsettled intents of the log by state; settled: those that were settled since the start."),
		metric.WithInt64Callback(m.countIntents))
	return keep(first, err)
}

func keep(first, err error) error {
	if first != nil {
		return first
	}
	return err
}

// Seed sets the number of unsettled intents found in the store, before the first change is told of.
func (m *Meter) Seed(counts map[ledger.State]int64) {
	for s, n := range counts {
		if int(s) < len(m.states) {
			m.states[s].Store(n)
		}
	}
}

func (m *Meter) countIntents(_ context.Context, o metric.Int64Observer) error {
	for s := ledger.Created; s <= ledger.Settled; s++ {
		// A change is told of behind the commit, so that of two in a row the second may be told of first.
		o.Observe(max(m.states[s].Load(), 0), metric.WithAttributes(attribute.String("state", s.String())))
	}
	return nil
}

// Handler serves /metrics.
func (m *Meter) Handler() http.Handler {
	return promhttp.HandlerFor(m.registry, promhttp.HandlerOpts{})
}

// Change implements the log's Observe.
func (m *Meter) Change(c intent.Change) {
	if c.From != 0 {
		m.states[c.From].Add(-1)
	}
	m.states[c.To].Add(1)
	ctx := context.Background()
	if c.To == ledger.Unknown {
		m.entered.Add(ctx, 1, m.attributes.get("workflow", c.Head.Workflow).add...)
	}
	if c.From == ledger.Unknown {
		m.resolved.Add(ctx, 1, m.attributes.get("workflow", c.Head.Workflow, "outcome", c.Outcome.String()).add...)
	}
}

// Request implements gateway.Observer.
func (m *Meter) Request(r gateway.Request) {
	ctx := context.Background()
	m.requests.Add(ctx, 1, m.attributes.get("workflow", r.Workflow, "source", r.Source, "code", string(r.Code), "status", statusClass(r.Status)).add...)
	m.duration.Record(ctx, r.Took.Seconds(), m.attributes.get("workflow", r.Workflow, "source", r.Source).record...)
}

// Lookup implements gateway.Observer.
func (m *Meter) Lookup(workflow string) {
	m.lookups.Add(context.Background(), 1, m.attributes.get("workflow", workflow).add...)
}

// Duplicate implements gateway.Observer.
func (m *Meter) Duplicate(workflow, of string) {
	m.duplicates.Add(context.Background(), 1, m.attributes.get("workflow", workflow, "of", of).add...)
}

// StoreError implements gateway.Observer.
func (m *Meter) StoreError(workflow string) {
	m.storeErrors.Add(context.Background(), 1, m.attributes.get("workflow", workflow).add...)
}

// Attempt implements gateway.Observer.
func (m *Meter) Attempt(a gateway.Attempt) {
	ctx := context.Background()
	set := m.attributes.get("workflow", a.Workflow, "tier", a.Tier)
	m.calls.Add(ctx, 1, set.add...)
	m.latency.Record(ctx, float64(a.Took)/float64(time.Second), set.record...)
	if a.End != ledger.AttemptSuccess {
		m.errors.Add(ctx, 1, m.attributes.get("workflow", a.Workflow, "tier", a.Tier, "end", a.End.String(), "error_type", a.Error).add...)
	}
}

// ToolAttempt implements mcp.Observer: a call of an MCP server's write tool counts as one of a provider does.
func (m *Meter) ToolAttempt(workflow, tier string, end ledger.AttemptEnd, kind string, took time.Duration) {
	m.Attempt(gateway.Attempt{Workflow: workflow, Tier: tier, End: end, Error: kind, Took: took})
}

func statusClass(status int) string {
	if status < 100 || status > 599 {
		return "none"
	}
	return [...]string{"1xx", "2xx", "3xx", "4xx", "5xx"}[status/100-1]
}
