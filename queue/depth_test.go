package queue_test

import (
	"context"
	"testing"
	"time"

	"github.com/holdfast-ai/holdfast/intent"
	"github.com/holdfast-ai/holdfast/queue"
)

// The figures of a lane show what waits, since when, and the job that a worker does not put down (BR-071).
func TestLaneFigures(t *testing.T) {
	live(t, func(r *rig) {
		q := r.queue(queue.Config{Workers: 1, Work: r.work(time.Minute, func(j *queue.Job) queue.Rest {
			if err := j.Op.Park(intent.Parking{Lane: intent.LaneDead, Reason: "test"}); err != nil {
				t.Error(err)
			}
			return queue.Rest{}
		})})
		r.submit(q, "a")
		r.submit(q, "b")
		ctx, stop := context.WithCancel(context.Background())
		done := make(chan error)
		go func() { done <- q.Run(ctx) }()
		time.Sleep(20 * time.Second)
		if b := q.Lanes()[intent.LaneBackground]; b.Depth != 1 || b.Ready != 1 || b.Working != 1 || b.Longest != 20*time.Second || b.Age < 20*time.Second {
			t.Errorf("after 20 s: %+v", b)
		}
		time.Sleep(80 * time.Second) // the first is parked, the second in hand, and the log was read meanwhile
		lanes := q.Lanes()
		if b, d := lanes[intent.LaneBackground], lanes[intent.LaneDead]; b.Depth != 0 || b.Working != 1 || b.Longest != 40*time.Second ||
			d.Depth != 1 || d.Age < 100*time.Second {
			t.Errorf("after 100 s: %+v, dead %+v", b, d)
		}
		stop()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
}
