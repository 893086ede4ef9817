package queue_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/holdfast-ai/holdfast/intent"
	"github.com/holdfast-ai/holdfast/ledger"
	"github.com/holdfast-ai/holdfast/queue"
)

// by has a job go by a route.
func by(model string) func(*intent.Begin) {
	return func(b *intent.Begin) { b.Head.RequestedModel = model }
}

// dead bars all routes whose model begins so, until it is told otherwise.
func dead(prefix string, wait *atomic.Int64, asked *atomic.Int64) func(*ledger.Intent) (time.Duration, bool) {
	return func(h *ledger.Intent) (time.Duration, bool) {
		if asked != nil {
			asked.Add(1)
		}
		if !strings.HasPrefix(h.RequestedModel, prefix) {
			return 0, false
		}
		return time.Duration(wait.Load()), true
	}
}

// begun is how many jobs whose key begins so were begun.
func (r *rig) begun(prefix string) (n int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, key := range r.worked {
		if strings.HasPrefix(key, "idem:test:main:key:"+prefix) {
			n++
		}
	}
	return n
}

// What waits for a route goes when an operator has opened it, and within half a minute where nobody has said so; not when the
// bar would have been over (semantics 34).
func TestWhatOpensARouteReleasesItsJobs(t *testing.T) {
	for name, told := range map[string]bool{"told": true, "not told": false} {
		t.Run(name, func(t *testing.T) {
			live(t, func(r *rig) {
				var wait atomic.Int64
				wait.Store(int64(500 * time.Second))
				q := r.queue(queue.Config{Barred: dead("m", &wait, nil), Work: r.work(0, r.succeed)})
				for i := range 5 {
					r.submit(q, fmt.Sprint("a", i))
				}
				r.with(q, func() {
					time.Sleep(10 * time.Second)
					if wait.Store(0); told {
						q.Reopen(nil)
						time.Sleep(3 * time.Second)
					} else {
						time.Sleep(35 * time.Second)
					}
					r.submit(q, "b")
					time.Sleep(time.Second)
					if a, b := r.begun("a"), r.begun("b"); a != 5 || b != 1 {
						t.Errorf("%d of 5 that waited and %d of 1 new ones were begun", a, b)
					}
				})
			})
		})
	}
}

// Jobs that were cancelled, or whose time is over, leave the schedule with the next sweep, whatever bars their route.
func TestWhatIsOverLeavesTheSchedule(t *testing.T) {
	live(t, func(r *rig) {
		var wait atomic.Int64
		wait.Store(int64(500 * time.Second))
		q := r.queue(queue.Config{Barred: dead("m", &wait, nil), Work: r.work(0, r.succeed)})
		var ids []string
		for i := range 30 {
			ids = append(ids, r.submit(q, fmt.Sprint("a", i), func(b *intent.Begin) {
				if i < 10 {
					b.ExpiresAt = r.store.Now().Add(10 * time.Second)
				}
			}))
		}
		r.with(q, func() {
			for _, id := range ids[10:20] {
				if err := r.log.Load(r.get(id)).GiveUp("caller", "cancelled", ""); err != nil {
					t.Error(err)
				}
			}
			q.Look(context.Background(), ids[10])
			if d := q.Depth(); d.Waiting != 29 || d.Ready != 29 {
				t.Errorf("behind one that was looked at: %+v", d)
			}
			time.Sleep(31 * time.Second)
			if d := q.Depth(); d.Waiting != 10 || d.Ready != 10 {
				t.Errorf("behind a sweep: %+v", d)
			}
			wait.Store(0)
			q.Reopen(nil)
			time.Sleep(5 * time.Second)
		})
		if n := r.begun("a"); n != 10 {
			t.Errorf("%d were begun", n)
		}
	})
}

// A job that aged behind a bar, and that a person sent again before the schedule had forgotten it, goes as any other.
func TestSentAgainWhileItsOldPlaceIsKept(t *testing.T) {
	for name, told := range map[string]bool{"told": true, "found": false} {
		t.Run(name, func(t *testing.T) {
			live(t, func(r *rig) {
				var wait atomic.Int64
				wait.Store(int64(500 * time.Second))
				q := r.queue(queue.Config{Barred: dead("m", &wait, nil), Work: r.work(0, r.succeed)})
				r.with(q, func() {
					id := r.submit(q, "a", func(b *intent.Begin) { b.ExpiresAt = r.store.Now().Add(10 * time.Second) })
					time.Sleep(11 * time.Second)
					if _, err := r.log.Expire(context.Background()); err != nil {
						t.Fatal(err)
					}
					if err := r.log.Load(r.get(id)).Revive(intent.Revival{By: "ops", Reason: "again", ExpiresAt: r.store.Now().Add(time.Hour)}); err != nil {
						t.Fatal(err)
					}
					if told {
						q.Look(context.Background(), id)
					} else {
						time.Sleep(30 * time.Second)
					}
					wait.Store(0)
					q.Reopen(nil)
					time.Sleep(time.Second)
				})
				if n := r.begun("a"); n != 1 {
					t.Errorf("begun %d times", n)
				}
			})
		})
	}
}

// However many wait for routes that lead nowhere, who goes by another is begun at once; and what was left in the log goes in
// its order when there is room.
func TestDeadRoutesKeepNobodyOut(t *testing.T) {
	live(t, func(r *rig) {
		var wait atomic.Int64
		wait.Store(int64(500 * time.Second))
		q := r.queue(queue.Config{Workers: 1, Barred: dead("dead", &wait, nil), Work: r.work(0, r.succeed)})
		q.Bound(64)
		for i := range 200 {
			r.submit(q, fmt.Sprintf("a%03d", i), by("dead"))
			time.Sleep(time.Second) // of which each is one step of ready_at
		}
		r.with(q, func() {
			for i := range 5 {
				r.submit(q, fmt.Sprint("b", i), by("free"))
			}
			time.Sleep(time.Second)
			if n := r.begun("b"); n != 5 {
				t.Errorf("%d jobs of a free route were begun", n)
			}
			wait.Store(0)
			q.Reopen(nil)
			time.Sleep(2 * time.Minute)
		})
		if n := r.begun("a"); n != 200 {
			t.Errorf("%d jobs were begun of the route that was opened", n)
		}
		if got := r.worked[5:]; !slices.IsSorted(got) {
			t.Errorf("in no order: %q", got)
		}
	})
}

// Where so many routes lead nowhere that they leave nobody room, they are cut down to their part.
func TestManyDeadRoutesKeepNobodyOut(t *testing.T) {
	live(t, func(r *rig) {
		var wait atomic.Int64
		wait.Store(int64(500 * time.Second))
		q := r.queue(queue.Config{Barred: dead("dead", &wait, nil), Work: r.work(0, r.succeed)})
		q.Bound(64)
		for i := range 300 {
			r.submit(q, fmt.Sprintf("a%03d", i), by(fmt.Sprint("dead", i%12)))
		}
		r.with(q, func() {
			for i := range 3 {
				r.submit(q, fmt.Sprint("b", i), by(fmt.Sprint("free", i)))
			}
			time.Sleep(time.Minute)
			if n := r.begun("b"); n != 3 {
				t.Errorf("%d jobs of free routes were begun", n)
			}
			wait.Store(0)
			q.Reopen(nil)
			time.Sleep(5 * time.Minute)
		})
		if n := r.begun("a"); n != 300 {
			t.Errorf("%d jobs were begun of the routes that were opened", n)
		}
	})
}

// A route that does not answer leaves workers to others, and so does a provider with all its routes.
func TestWhatHangsLeavesWorkers(t *testing.T) {
	for name, c := range map[string]struct {
		workers int
		routes  int
		most    int
		other   bool // of the same provider
	}{"one route of 64": {64, 1, 45, true}, "three routes": {64, 3, 54, true}, "a hundred routes": {64, 100, 60, false},
		"of eight": {8, 1, 6, true}, "of four": {4, 1, 3, false}} {
		t.Run(name, func(t *testing.T) {
			live(t, func(r *rig) {
				var hanging, most int
				q := r.queue(queue.Config{Workers: c.workers, Work: func(ctx context.Context, j *queue.Job) queue.Rest {
					if !strings.HasPrefix(j.Op.Head().RequestedModel, "hang") {
						return r.work(0, r.succeed)(ctx, j)
					}
					r.mu.Lock()
					hanging++
					most = max(most, hanging)
					r.mu.Unlock()
					time.Sleep(10 * time.Minute)
					r.mu.Lock()
					hanging--
					r.mu.Unlock()
					return r.succeed(j)
				}})
				r.with(q, func() {
					for i := range 120 {
						r.submit(q, fmt.Sprint("a", i), by(fmt.Sprint("hang", i%c.routes)))
					}
					for i := range 50 {
						r.submit(q, fmt.Sprint("b", i), by("other"), func(b *intent.Begin) {
							if !c.other {
								b.Head.Provider = "another"
							}
						})
					}
					time.Sleep(10 * time.Second)
					n := r.begun("b")
					r.mu.Lock()
					if n != 50 || most != c.most {
						t.Errorf("%d of 50 others were begun, and %d of those that hang; want %d", n, most, c.most)
					}
					r.mu.Unlock()
					time.Sleep(40 * time.Minute)
				})
				if hanging > 0 || most != c.most || q.Depth() != (queue.Depth{}) && c.workers > 8 {
					t.Errorf("%d hang, %d at most; left %+v", hanging, most, q.Depth())
				}
			})
		})
	}
}

// A bar is asked for each way, not for each owner that waits behind it.
func TestABarIsAskedOncePerWay(t *testing.T) {
	live(t, func(r *rig) {
		var wait, asked atomic.Int64
		wait.Store(int64(50 * time.Millisecond))
		q := r.queue(queue.Config{Barred: dead("m", &wait, &asked), Work: r.work(0, r.succeed)})
		for i := range 300 {
			r.submit(q, fmt.Sprint("a", i), func(b *intent.Begin) { b.Head.OwnerKey = fmt.Sprint("owner", i) })
		}
		r.with(q, func() { time.Sleep(9 * time.Second) })
		if n := asked.Load(); n > 250 {
			t.Errorf("asked %d times in ten seconds", n)
		}
	})
}
