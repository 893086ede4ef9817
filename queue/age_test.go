package queue_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/holdfast-ai/holdfast/intent"
	"github.com/holdfast-ai/holdfast/ledger"
	"github.com/holdfast-ai/holdfast/queue"
)

// What is older than its max_queue_age is not begun, and where its time ends in a worker's hands, not dispatched.
func TestNothingTooOldIsDispatched(t *testing.T) {
	for name, c := range map[string]struct {
		before time.Duration // what the worker takes before it would send
		taken  int
	}{"too old in the queue": {0, 0}, "too old in a worker's hands": {12 * time.Second, 1}} {
		t.Run(name, func(t *testing.T) {
			live(t, func(r *rig) {
				var err error
				q := r.queue(queue.Config{Workers: 1, Work: func(_ context.Context, j *queue.Job) queue.Rest {
					r.worked = append(r.worked, j.Op.Head().Key)
					time.Sleep(c.before)
					if err = j.Op.Dispatch(sent); err != nil {
						return queue.Rest{Wait: time.Second, Reason: err.Error()}
					}
					t.Error("dispatched")
					return queue.Rest{}
				}})
				id := r.submit(q, "a", func(b *intent.Begin) {
					b.ExpiresAt = r.store.Now().Add(10 * time.Second)
					if c.taken == 0 {
						b.ReadyAt = r.store.Now().Add(10 * time.Second)
					}
				})
				ctx, stop := context.WithCancel(context.Background())
				ran := make(chan error)
				go func() { ran <- r.log.Run(ctx) }()
				r.run(q, time.Minute)
				stop()
				if err := <-ran; err != nil {
					t.Error(err)
				}
				if len(r.worked) != c.taken || c.taken > 0 && !errors.Is(err, intent.ErrAged) {
					t.Errorf("begun %d times, %v", len(r.worked), err)
				}
				if rec := r.get(id); rec.Lane != intent.LaneDead || rec.State != ledger.Created || rec.Attempt != 0 || rec.Crashes != 0 {
					t.Errorf("%+v", rec.Status)
				}
			})
		})
	}
}
