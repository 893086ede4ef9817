package queue_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-ai/holdfast/intent"
	"github.com/holdfast-ai/holdfast/ledger"
	"github.com/holdfast-ai/holdfast/ledger/sqlite"
	"github.com/holdfast-ai/holdfast/ledger/sqlite/faultdisk"
	"github.com/holdfast-ai/holdfast/queue"
)

// rig is a log on a disk in memory, with the queues that work on it; all of it in fake time.
type rig struct {
	*testing.T
	store ledger.Ledger
	log   *intent.Log

	mu     sync.Mutex
	worked []string // keys, in the order in which they were begun
	now    int
	most   int // at a time
}

func newRig(t *testing.T) *rig {
	l, err := sqlite.Open(t.Context(), sqlite.Config{Path: "/queue.db", Env: "test", Disk: faultdisk.New(t.TempDir()), Readers: 1})
	if err != nil {
		t.Fatal(err)
	}
	r := &rig{T: t, store: l}
	r.log = intent.New(intent.Config{Ledger: l, Exclusive: true})
	return r
}

func (r *rig) close() {
	r.log.Close()
	if err := r.store.Close(); err != nil {
		r.Error(err)
	}
}

// work is a worker that sends, takes a while, and ends as told.
func (r *rig) work(took time.Duration, end func(*queue.Job) queue.Rest) func(context.Context, *queue.Job) queue.Rest {
	return func(_ context.Context, j *queue.Job) queue.Rest {
		r.mu.Lock()
		r.worked = append(r.worked, j.Op.Head().Key)
		r.now++
		r.most = max(r.most, r.now)
		r.mu.Unlock()
		defer func() {
			r.mu.Lock()
			r.now--
			r.mu.Unlock()
		}()
		time.Sleep(took)
		return end(j)
	}
}

var sent = intent.Attempt{Route: "openai/m/chat", Tier: "openai", Model: "m"}

func (r *rig) succeed(j *queue.Job) queue.Rest {
	err := j.Op.Dispatch(sent)
	if err == nil {
		err = j.Op.Settle(intent.Settlement{Ending: intent.Ending{End: ledger.AttemptSuccess}, Outcome: ledger.OutcomeSuccess}, false, nil)
	}
	if err != nil {
		r.Error(err)
	}
	return queue.Rest{}
}

func (r *rig) queue(c queue.Config) *queue.Queue {
	c.Ledger, c.Log = r.store, r.log
	if c.Rules == nil {
		c.Rules = func(*ledger.Intent) queue.Rules {
			return queue.Rules{MaxAttempts: 3, Dead: []string{"max_attempts_exhausted"}}
		}
	}
	return queue.New(c)
}

func (r *rig) submit(q *queue.Queue, key string, change ...func(*intent.Begin)) string {
	b := intent.Begin{Claim: true, Head: ledger.Intent{Tenant: "main", Workflow: "w", Effect: ledger.EffectGeneration, Key: "idem:test:main:key:" + key,
		Method: "POST", Path: "/v1/chat/completions", Provider: "openai", Endpoint: "chat", RequestedModel: "m", MaxAttempts: 3}}
	for _, f := range change {
		f(&b)
	}
	op, err := q.Submit(b)
	if err != nil {
		r.Fatal(err)
	}
	return op.ID()
}

func (r *rig) get(id string) *ledger.Record {
	rec, err := r.store.Get(context.Background(), id)
	if err != nil {
		r.Fatal(err)
	}
	return rec
}

// run lets the queue work for a time.
func (r *rig) run(q *queue.Queue, d time.Duration) {
	ctx, stop := context.WithCancel(context.Background())
	done := make(chan error)
	go func() { done <- q.Run(ctx) }()
	time.Sleep(d)
	stop()
	if err := <-done; err != nil {
		r.Error(err)
	}
}

func live(t *testing.T, f func(*rig)) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		f(r)
		r.close()
	})
}

// One job is one job, however often it is submitted, and the same key gives it back.
func TestSubmitOnce(t *testing.T) {
	live(t, func(r *rig) {
		q := r.queue(queue.Config{Work: r.work(time.Second, r.succeed)})
		id := r.submit(q, "a")
		var held *intent.DuplicateError
		if _, err := q.Submit(intent.Begin{Claim: true, Head: ledger.Intent{Key: "idem:test:main:key:a"}}); !errors.As(err, &held) || held.Holder != id {
			r.Errorf("a second submission: %v", err)
		}
		r.run(q, 5*time.Second)
		if rec := r.get(id); rec.State != ledger.Settled || rec.Attempt != 1 {
			r.Errorf("%+v", rec.Status)
		}
		if len(r.worked) != 1 {
			r.Errorf("worked on %q", r.worked)
		}
	})
}

// A queue that begins anew has read from the log what the last one knew, and works in the same order.
func TestOrderIsTheLogs(t *testing.T) {
	live(t, func(r *rig) {
		before := r.queue(queue.Config{Work: r.work(time.Second, r.succeed)})
		for i, p := range []string{"low", "normal", "high", "low", "high"} {
			r.submit(before, fmt.Sprint(i), func(b *intent.Begin) { b.Head.Priority = p })
		}
		r.run(r.queue(queue.Config{Workers: 1, Work: r.work(time.Second, r.succeed)}), 10*time.Second)
		var got []string
		for _, k := range r.worked {
			got = append(got, k[len(k)-1:])
		}
		if want := []string{"2", "4", "1", "0", "3"}; !slices.Equal(got, want) {
			r.Errorf("%q, want %q", got, want)
		}
	})
}

// Jobs of one concurrency key share a limit, and do not hold up the others.
func TestConcurrencyKey(t *testing.T) {
	live(t, func(r *rig) {
		busy := map[string]int{}
		var mu sync.Mutex
		q := r.queue(queue.Config{Workers: 8, Rules: func(h *ledger.Intent) queue.Rules {
			return queue.Rules{Key: h.OwnerKey, Limit: 2, MaxAttempts: 3}
		}, Work: func(ctx context.Context, j *queue.Job) queue.Rest {
			owner := j.Op.Head().OwnerKey
			mu.Lock()
			if busy[owner]++; busy[owner] > 2 {
				r.Errorf("%d jobs of %s at a time", busy[owner], owner)
			}
			mu.Unlock()
			rest := r.work(time.Second, r.succeed)(ctx, j)
			mu.Lock()
			busy[owner]--
			mu.Unlock()
			return rest
		}})
		for i := range 20 {
			r.submit(q, fmt.Sprint("a", i), func(b *intent.Begin) { b.Head.OwnerKey = "a" })
		}
		for i := range 4 {
			r.submit(q, fmt.Sprint("b", i), func(b *intent.Begin) { b.Head.OwnerKey = "b" })
		}
		r.run(q, 3*time.Second)
		if got := len(slices.DeleteFunc(slices.Clone(r.worked), func(k string) bool { return k[len(k)-2] != 'b' })); got < 2 {
			r.Errorf("%d of the other owner's jobs were begun behind twenty of the first", got)
		}
		if r.most != 4 {
			r.Errorf("%d jobs at a time", r.most)
		}
		r.run(q, time.Minute)
		if len(r.worked) != 24 {
			r.Errorf("%d jobs were done", len(r.worked))
		}
	})
}

// A job whose worker fails before it sends anything costs a crash each time, and ends in the dead letter.
func TestPoisonedJobEnds(t *testing.T) {
	live(t, func(r *rig) {
		q := r.queue(queue.Config{Work: func(context.Context, *queue.Job) queue.Rest { panic("poison") }})
		id := r.submit(q, "a")
		r.run(q, time.Minute)
		if rec := r.get(id); rec.Lane != intent.LaneDead || rec.Crashes != 3 || rec.Attempt != 0 || rec.State != ledger.Created {
			r.Errorf("%+v", rec.Status)
		}
	})
}

// A worker that can send nothing now gives the job back, and that counts as nothing; nobody comes before its time.
func TestGivenBackIsNoAttempt(t *testing.T) {
	live(t, func(r *rig) {
		var at []time.Time
		q := r.queue(queue.Config{Work: func(_ context.Context, j *queue.Job) queue.Rest {
			at = append(at, time.Now())
			if len(at) < 6 {
				return queue.Rest{Wait: 10 * time.Second, Reason: "full"}
			}
			return r.succeed(j)
		}})
		id := r.submit(q, "a")
		r.run(q, 2*time.Minute)
		if rec := r.get(id); rec.State != ledger.Settled || rec.Attempt != 1 || rec.Crashes != 0 {
			r.Errorf("%+v", rec.Status)
		}
		for i := 1; i < len(at); i++ {
			if d := at[i].Sub(at[i-1]); d < 10*time.Second {
				r.Errorf("taken again after %s", d)
			}
		}
	})
}

// Behind a bar the first goes alone, and the others come one after the other.
func TestBarredLine(t *testing.T) {
	live(t, func(r *rig) {
		var mu sync.Mutex
		var at []time.Time
		opens := time.Now().Add(5 * time.Second)
		q := r.queue(queue.Config{Workers: 30, Barred: func(*ledger.Intent) (time.Duration, bool) { return time.Until(opens), true },
			Work: func(_ context.Context, j *queue.Job) queue.Rest {
				mu.Lock()
				at = append(at, time.Now())
				mu.Unlock()
				return r.succeed(j)
			}})
		for i := range 30 {
			r.submit(q, fmt.Sprint(i))
		}
		r.run(q, time.Minute)
		if len(at) != 30 {
			r.Fatalf("%d jobs were done", len(at))
		}
		for _, t := range at {
			if t.Before(opens) {
				r.Errorf("begun %s too early", opens.Sub(t))
			}
		}
		if second := at[1].Sub(at[0]); second < 50*time.Millisecond {
			r.Errorf("the second went %s behind the first", second)
		}
		for i, begun := range at[:20] { // of those that are spread over half a second
			if within := at[i+10].Sub(begun); within < 10*time.Millisecond {
				r.Errorf("ten went within %s: %v", within, at)
			}
		}
	})
}

// What can never be sent waits for a person.
func TestImpossibleJob(t *testing.T) {
	live(t, func(r *rig) {
		q := r.queue(queue.Config{Work: func(context.Context, *queue.Job) queue.Rest {
			return queue.Rest{Impossible: true, Reason: "no such provider"}
		}})
		id := r.submit(q, "a")
		r.run(q, time.Second)
		if rec := r.get(id); rec.Lane != intent.LaneDead || rec.State != ledger.Created {
			r.Errorf("%+v", rec.Status)
		}
	})
}

// A job longer than any lease is worked on by one worker, and a cancelled one by none.
func TestLongJobRunsOnce(t *testing.T) {
	live(t, func(r *rig) {
		q := r.queue(queue.Config{Work: r.work(10*time.Minute, r.succeed)})
		long := r.submit(q, "a")
		cancelled := r.submit(q, "b", func(b *intent.Begin) { b.ReadyAt = r.store.Now().Add(time.Minute) })
		if err := r.log.Load(r.get(cancelled)).GiveUp("caller", "cancelled", ""); err != nil {
			r.Fatal(err)
		}
		r.run(q, 15*time.Minute)
		if len(r.worked) != 1 || r.get(long).Attempt != 1 {
			r.Errorf("worked on %q", r.worked)
		}
	})
}
