package queue_test

import (
	"context"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/holdfast-ai/holdfast/ledger"
	"github.com/holdfast-ai/holdfast/queue"
)

// Two queues share a log that one of them reads: each works on its own jobs, those of before its start included, and no job of
// the one waits for a worker of the other.
func TestOneQueueFeedsAnother(t *testing.T) {
	live(t, func(r *rig) {
		before := r.queue(queue.Config{Workers: 1, Work: r.work(time.Second, r.succeed)})
		r.submit(before, "other-1")
		r.submit(before, "mine-1")
		other := func(head *ledger.Intent) bool { return strings.Contains(head.Key, "other") }
		second := r.queue(queue.Config{Workers: 1, Fed: true, Takes: other, Work: r.work(time.Hour, r.succeed)})
		first := r.queue(queue.Config{Workers: 1, Takes: func(head *ledger.Intent) bool { return !other(head) }, Others: second.Enter,
			Work: r.work(time.Second, r.succeed)})
		ctx, stop := context.WithCancel(context.Background())
		var all sync.WaitGroup
		all.Go(func() { _ = first.Run(ctx) })
		all.Go(func() { _ = second.Run(ctx) })
		time.Sleep(10 * time.Second)
		r.submit(first, "mine-2")
		late := r.submit(first, "other-2") // the first does not take it; its next reading hands it over
		time.Sleep(100 * time.Second)
		if d := second.Depth(); d.Waiting != 1 || d.Working != 1 {
			t.Errorf("the second: %+v", d)
		}
		if rec := r.get(late); rec.State != ledger.Created || rec.LeaseOwner != "" {
			t.Errorf("%+v", rec.Status)
		}
		r.mu.Lock()
		slices.Sort(r.worked)
		if len(r.worked) != 3 || !strings.HasSuffix(r.worked[2], "other-1") {
			t.Errorf("begun: %v", r.worked)
		}
		r.mu.Unlock()
		stop()
		all.Wait()
	})
}
