package gateway

import (
	"context"
	"sync"
	"sync/atomic"
	"testing"
)

// What is done behind the answers is bounded, and dropped at the end.
func TestChoresAreBounded(t *testing.T) {
	a := newAnswers(nil)
	var began, ended atomic.Int64
	taken := 0
	for range 2 * maxChores {
		if a.later(1, func(ctx context.Context) {
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
	if a.later(1, func(context.Context) { t.Error("done behind the end") }) {
		t.Error("taken on behind the end")
	}
	a.all.Wait()
}

// The bytes that wait are bounded as well as their number.
func TestChoresAreBoundedByTheirSize(t *testing.T) {
	a := newAnswers(nil)
	defer a.close()
	taken := 0
	for range 8 {
		if a.later(maxChoreBytes/4, func(ctx context.Context) { <-ctx.Done() }) {
			taken++
		}
	}
	if taken < 4 || taken > 4+choreWorkers {
		t.Errorf("%d chores of a quarter of the bound were taken on", taken)
	}
}

// No worker waits for its row: the log takes many in one commit, and else a burst waits for as many commits as it has rows.
func TestWorkersWaitForNoCommit(t *testing.T) {
	a := newAnswers(nil)
	const rows = 4 * choreWorkers
	var begun sync.WaitGroup
	begun.Add(rows)
	committed := make(chan struct{})
	for range rows {
		a.later(1, func(context.Context) {
			a.commit(func() {
				begun.Done()
				<-committed
			})
		})
	}
	begun.Wait()
	close(committed)
	a.close()
	if len(a.commits) > 0 {
		t.Errorf("%d commits hold their place", len(a.commits))
	}
}
