package queue_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/holdfast-ai/holdfast/intent"
	"github.com/holdfast-ai/holdfast/ledger"
	"github.com/holdfast-ai/holdfast/queue"
)

// leisurely is a ledger that takes its time for each page of what is open.
type leisurely struct{ ledger.Ledger }

func (l leisurely) Open(ctx context.Context, after string, limit int) ([]*ledger.Record, error) {
	time.Sleep(2 * time.Second)
	return l.Ledger.Open(ctx, after, limit)
}

// Nothing is begun before a start has read all that waits: the last job of the log may be the first to go, and a submission in
// between is behind all of them.
func TestNothingIsBegunOfHalfASchedule(t *testing.T) {
	live(t, func(r *rig) {
		const jobs = 600 // more than a page
		before := r.queue(queue.Config{Work: r.work(0, r.succeed)})
		for i := range jobs {
			r.submit(before, fmt.Sprint(i), func(b *intent.Begin) {
				if b.Head.Priority = "low"; i == jobs-1 {
					b.Head.Priority = "high"
				}
			})
		}
		r.store = leisurely{r.store}
		q := r.queue(queue.Config{Work: r.work(time.Millisecond, r.succeed), Workers: 1})
		ctx, stop := context.WithCancel(context.Background())
		over := make(chan error)
		go func() { over <- q.Run(ctx) }()
		time.Sleep(3 * time.Second) // behind the first page
		r.submit(q, "meanwhile", func(b *intent.Begin) { b.Head.Priority = "low" })
		time.Sleep(time.Minute)
		stop()
		if err := <-over; err != nil {
			t.Error(err)
		}
		if len(r.worked) != jobs+1 {
			t.Fatalf("%d of %d jobs were begun", len(r.worked), jobs+1)
		}
		if got, want := r.worked[0], "idem:test:main:key:"+fmt.Sprint(jobs-1); got != want {
			t.Errorf("%s went first, not %s", got, want)
		}
		if got := r.worked[jobs]; got != "idem:test:main:key:meanwhile" {
			t.Errorf("%s went last", got)
		}
	})
}
