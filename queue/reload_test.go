package queue_test

import (
	"context"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/holdfast-ai/holdfast/intent"
	"github.com/holdfast-ai/holdfast/ledger"
	"github.com/holdfast-ai/holdfast/queue"
)

// Jobs that wait go by the rules that hold when a worker takes them; who has one keeps those that he took it by.
func TestReload(t *testing.T) {
	live(t, func(r *rig) {
		var now atomic.Pointer[queue.Rules]
		now.Store(&queue.Rules{Key: "k", Limit: 1, MaxAttempts: 3})
		q := r.queue(queue.Config{Workers: 1, Rules: func(*ledger.Intent) queue.Rules { return *now.Load() },
			Work: r.work(time.Second, r.succeed)})
		for _, key := range []string{"a", "b", "c", "d", "e", "f", "g"} {
			r.submit(q, key)
		}
		ctx, stop := context.WithCancel(context.Background())
		done := make(chan error)
		go func() { done <- q.Run(ctx) }()
		time.Sleep(1500 * time.Millisecond) // b is being worked on
		now.Store(&queue.Rules{Key: "k", Limit: 3, MaxAttempts: 3, Order: []string{"attempt"}})
		q.Reload(8)
		time.Sleep(time.Second)
		r.mu.Lock()
		if len(r.worked) < 4 || r.most != 3 {
			t.Errorf("%q worked on, %d at a time; the limit is 3 now", r.worked, r.most)
		}
		r.mu.Unlock()
		now.Store(&queue.Rules{Key: "k", Limit: 1, MaxAttempts: 3})
		q.Reload(8)
		time.Sleep(10 * time.Second)
		stop()
		if err := <-done; err != nil {
			t.Error(err)
		}
		slices.Sort(r.worked)
		if len(r.worked) != 7 || len(slices.Compact(r.worked)) != 7 || r.most != 3 || q.Depth() != (queue.Depth{}) {
			t.Errorf("%q worked on, %d at a time; left %+v", r.worked, r.most, q.Depth())
		}
	})
}

// A person who is quicker than the worker that has just parked the job does not wait for the next sweep.
func TestLookWhileInHands(t *testing.T) {
	live(t, func(r *rig) {
		var q *queue.Queue
		parked := false
		q = r.queue(queue.Config{Work: r.work(0, func(j *queue.Job) queue.Rest {
			if parked {
				return r.succeed(j)
			}
			parked = true
			if err := j.Op.Park(intent.Parking{Lane: intent.LaneDead, Reason: "test"}); err != nil {
				t.Error(err)
			}
			id := j.Op.ID()
			if err := r.log.Load(r.get(id)).Revive(intent.Revival{By: "ops", Reason: "fixed", NotExecuted: true}); err != nil {
				t.Error(err)
			}
			q.Look(context.Background(), id)
			return queue.Rest{}
		})})
		id := r.submit(q, "a")
		r.run(q, time.Second)
		if rec := r.get(id); rec.State != ledger.Settled || len(r.worked) != 2 {
			t.Errorf("%+v, worked on %d times", rec.Status, len(r.worked))
		}
	})
}
