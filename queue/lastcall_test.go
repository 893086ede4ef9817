package queue_test

import (
	"sync/atomic"
	"testing"
	"time"

	"github.com/holdfast-ai/holdfast/intent"
	"github.com/holdfast-ai/holdfast/ledger"
	"github.com/holdfast-ai/holdfast/queue"
)

// A job waits for what bars its way until its last call: then it is begun all the same, whatever its place in the order, and also where it
// was to wait for a time behind its end. One that has no other way waits on, and so do those that have time.
func TestLastCall(t *testing.T) {
	live(t, func(r *rig) {
		var wait atomic.Int64
		wait.Store(int64(time.Hour))
		var elsewhere atomic.Bool
		q := r.queue(queue.Config{Barred: dead("m", &wait, nil), Elsewhere: func(*ledger.Intent) bool { return elsewhere.Load() }, Work: r.work(0, r.succeed)})
		lasting := func(d, ready time.Duration) func(*intent.Begin) {
			return func(b *intent.Begin) {
				b.ExpiresAt = r.store.Now().Add(d)
				if ready > 0 {
					b.ReadyAt = r.store.Now().Add(ready)
				}
			}
		}
		r.submit(q, "none", lasting(100*time.Second, 0))
		elsewhere.Store(true)
		r.submit(q, "later", lasting(time.Hour, 0))
		r.submit(q, "ready", lasting(100*time.Second, 0))
		r.submit(q, "behind", lasting(100*time.Second, 2*time.Hour))
		r.with(q, func() {
			time.Sleep(74 * time.Second)
			if n := r.begun(""); n != 0 {
				t.Errorf("%d were begun before their last call", n)
			}
			time.Sleep(3 * time.Second)
			for key, want := range map[string]int{"ready": 1, "behind": 1, "none": 0, "later": 0} {
				if n := r.begun(key); n != want {
					t.Errorf("%s was begun %d times", key, n)
				}
			}
			time.Sleep(time.Hour)
			if n := r.begun("later"); n != 1 {
				t.Errorf("an hour's job was begun %d times", n)
			}
		})
	})
}
