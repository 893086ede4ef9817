package gateway

import (
	"context"
	"sync/atomic"
	"testing"
)

// What is done behind the answers is bounded, and dropped at the end.
func TestChoresAreBounded(t *testing.T) {
	a := newAnswers(nil)
	var began, ended atomic.Int64
	taken := 0
	for range 2 * maxChores {
		if a.later(func(ctx context.Context) {
			began.Add(1)
			<-ctx.Done()
			ended.Add(1)
		}) {
			taken++
		}
	}
	if taken < maxChores || taken > maxChores+choreWorkers {
		t.Errorf("%d chores were taken on, of at most %d that wait and %d that are done", taken, maxChores, choreWorkers)
	}
	a.close()
	if began.Load() > choreWorkers || began.Load() != ended.Load() {
		t.Errorf("%d began, %d ended; what waits is dropped", began.Load(), ended.Load())
	}
	if a.later(func(context.Context) { t.Error("done behind the end") }) {
		t.Error("taken on behind the end")
	}
	a.all.Wait()
}
