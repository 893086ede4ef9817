package gateway

import (
	"testing"
	"time"

	"github.com/failsafe-go/failsafe-go"
	fsbulkhead "github.com/failsafe-go/failsafe-go/bulkhead"
	"github.com/failsafe-go/failsafe-go/circuitbreaker"
	"github.com/failsafe-go/failsafe-go/fallback"
	"github.com/failsafe-go/failsafe-go/retrypolicy"
	"github.com/sony/gobreaker/v2"

	"github.com/holdfast-ai/holdfast/breaker"
	"github.com/holdfast-ai/holdfast/bulkhead"
	"github.com/holdfast-ai/holdfast/deadline"
	"github.com/holdfast-ai/holdfast/internal/route"
)

// BenchmarkNest is what the nest adds to a call that succeeds: the route looked up, a slot, pause, cool-down, breaker, the
// share of retries and the budget, and everything given back. The reference rows of the same run are failsafe-go's
// fallback, bulkhead, breaker and retry around an empty function, and gobreaker alone (measurements.md §4).
func BenchmarkNest(b *testing.B) {
	routes := route.New(route.Config{})
	defer routes.Close()
	r := &rules{breaker: breaker.Config{FailureThreshold: 10, ResetTimeout: 30 * time.Second}}
	t := &tier{slots: bulkhead.New(bulkhead.Config{Max: 30, Reserve: 0.2}), drains: &drains{}}
	const key = "openai/gpt-5/chat.completions/00000000"
	b.Run("holdfast", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			budget := deadline.New(time.Now(), time.Minute)
			n := nest{rules: r, tier: t, route: routes.Get(key, r.breaker, 0.2), priority: bulkhead.Normal}
			if n.enter() != nil {
				b.Fatal("refused")
			}
			n.route.Budget().First()
			if budget.Over(time.Now()) || n.route.Fault() != nil {
				b.Fatal("over")
			}
			n.quit(breaker.Success)
		}
	})
	b.Run("failsafe-go", func(b *testing.B) {
		b.ReportAllocs()
		nest := failsafe.With[int](fallback.NewWithResult(0), fsbulkhead.New[int](30), circuitbreaker.NewWithDefaults[int](), retrypolicy.NewWithDefaults[int]())
		for b.Loop() {
			if _, err := nest.Get(func() (int, error) { return 1, nil }); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("gobreaker", func(b *testing.B) {
		b.ReportAllocs()
		cb := gobreaker.NewCircuitBreaker[int](gobreaker.Settings{})
		for b.Loop() {
			if _, err := cb.Execute(func() (int, error) { return 1, nil }); err != nil {
				b.Fatal(err)
			}
		}
	})
}
