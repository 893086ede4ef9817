package breaker

import (
	"testing"

	"github.com/failsafe-go/failsafe-go"
	"github.com/failsafe-go/failsafe-go/circuitbreaker"
	"github.com/sony/gobreaker/v2"
)

// BenchmarkSuccess is one call that succeeds through a closed breaker, ours beside the others'.
func BenchmarkSuccess(b *testing.B) {
	work := func() (int, error) { return 1, nil }
	guarded := func(br *Breaker) func() {
		return func() {
			p, err := br.Acquire()
			if err != nil {
				b.Fatal(err)
			}
			defer p.Done(Success)
			_, _ = work()
		}
	}
	fs := failsafe.With[int](circuitbreaker.NewBuilder[int]().WithFailureThreshold(10).Build())
	gb := gobreaker.NewCircuitBreaker[int](gobreaker.Settings{})
	for _, c := range []struct {
		name string
		call func()
	}{
		{"holdfast", guarded(New(Config{}))},
		{"holdfast-rate", guarded(New(Config{FailureRate: 0.5}))},
		{"failsafe-go", func() { _, _ = fs.Get(work) }},
		{"gobreaker", func() { _, _ = gb.Execute(work) }},
	} {
		b.Run(c.name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				c.call()
			}
		})
		b.Run(c.name+"/parallel", func(b *testing.B) {
			b.RunParallel(func(pb *testing.PB) {
				for pb.Next() {
					c.call()
				}
			})
		})
	}
}
