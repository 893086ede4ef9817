package bulkhead_test

import (
	"context"
	"testing"

	reference "github.com/failsafe-go/failsafe-go/bulkhead"

	"github.com/holdfast-ai/holdfast/bulkhead"
)

// BenchmarkTake takes and returns a free slot; the rows of failsafe-go are what to compare with, in the same run.
func BenchmarkTake(b *testing.B) {
	ctx := context.Background()
	s, ref := bulkhead.New(bulkhead.Config{Max: 1000, Reserve: 0.2}), reference.New[any](1000)
	for _, c := range []struct {
		name string
		once func()
	}{
		{"try", func() {
			if s.Try(interactive) {
				s.Release(interactive)
			}
		}},
		{"try-batch", func() {
			if s.Try(batch) {
				s.Release(batch)
			}
		}},
		{"acquire", func() {
			if s.Acquire(ctx, interactive, normal) == nil {
				s.Release(interactive)
			}
		}},
		{"reference-try", func() {
			if ref.TryAcquirePermit() {
				ref.ReleasePermit()
			}
		}},
		{"reference-acquire", func() {
			if ref.AcquirePermit(ctx) == nil {
				ref.ReleasePermit()
			}
		}},
	} {
		b.Run(c.name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				c.once()
			}
		})
		b.Run(c.name+"-parallel", func(b *testing.B) {
			b.RunParallel(func(pb *testing.PB) {
				for pb.Next() {
					c.once()
				}
			})
		})
	}
}

// BenchmarkFull is a bulkhead that turns callers away.
func BenchmarkFull(b *testing.B) {
	s, ref := bulkhead.New(bulkhead.Config{Max: 1}), reference.New[any](1)
	s.Try(interactive)
	ref.TryAcquirePermit()
	b.Run("try", func(b *testing.B) {
		for b.Loop() {
			s.Try(interactive)
		}
	})
	b.Run("reference-try", func(b *testing.B) {
		for b.Loop() {
			ref.TryAcquirePermit()
		}
	})
}

// BenchmarkContended has many wait for few slots.
func BenchmarkContended(b *testing.B) {
	ctx := context.Background()
	s, ref := bulkhead.New(bulkhead.Config{Max: 2}), reference.New[any](2)
	b.Run("acquire", func(b *testing.B) {
		b.SetParallelism(8)
		b.ReportAllocs()
		b.RunParallel(func(pb *testing.PB) {
			for pb.Next() {
				if s.Acquire(ctx, interactive, normal) == nil {
					s.Release(interactive)
				}
			}
		})
	})
	b.Run("reference-acquire", func(b *testing.B) {
		b.SetParallelism(8)
		b.ReportAllocs()
		b.RunParallel(func(pb *testing.PB) {
			for pb.Next() {
				if ref.AcquirePermit(ctx) == nil {
					ref.ReleasePermit()
				}
			}
		})
	})
}
