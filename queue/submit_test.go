package queue_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/holdfast-ai/holdfast/intent"
	"github.com/holdfast-ai/holdfast/ledger"
	"github.com/holdfast-ai/holdfast/queue"
)

// with lets the queue work while f goes on.
func (r *rig) with(q *queue.Queue, f func()) {
	ctx, stop := context.WithCancel(context.Background())
	done := make(chan error)
	go func() { done <- q.Run(ctx) }()
	time.Sleep(time.Second)
	f()
	stop()
	if err := <-done; err != nil {
		r.Error(err)
	}
}

// A worker that has nothing to do has a job from its first commit: should the process die in it, that is a crash.
func TestAFreeWorkerHasItFromTheBeginning(t *testing.T) {
	live(t, func(r *rig) {
		q := r.queue(queue.Config{Work: func(_ context.Context, j *queue.Job) queue.Rest {
			if rec := r.get(j.Op.ID()); rec.LeaseOwner != r.log.Owner() || rec.Version != 1 || rec.State != ledger.Created {
				r.Errorf("in a worker's hands: %+v", rec.Status)
			}
			other := intent.New(intent.Config{Ledger: r.store, Exclusive: true}) // a new process
			defer other.Close()
			if _, err := other.Recover(context.Background()); err != nil {
				r.Error(err)
			}
			if err := j.Op.Dispatch(sent); !errors.Is(err, ledger.ErrStale) {
				r.Errorf("a zombie dispatched: %v", err)
			}
			return queue.Rest{}
		}})
		r.with(q, func() {
			id := r.submit(q, "a")
			time.Sleep(time.Second)
			if rec := r.get(id); rec.Crashes != 1 || rec.Attempt != 0 || rec.LeaseOwner != "" {
				r.Errorf("%+v", rec.Status)
			}
		})
	})
}

// What is submitted behind others, beyond a limit, behind a bar, for later or to nobody waits as any job does.
func TestSubmissionTakesNobodysPlace(t *testing.T) {
	waits := func(r *rig, id string) {
		r.Helper()
		if rec := r.get(id); rec.LeaseOwner != "" {
			r.Errorf("leased: %+v", rec.Status)
		}
	}
	live(t, func(r *rig) {
		opens := time.Now().Add(time.Minute)
		q := r.queue(queue.Config{Workers: 2, Barred: func(h *ledger.Intent) (time.Duration, bool) {
			if h.RequestedModel == "barred" {
				return time.Until(opens), true
			}
			return 0, false
		}, Rules: func(h *ledger.Intent) queue.Rules { return queue.Rules{Key: h.OwnerKey, Limit: 1, MaxAttempts: 3} },
			Work: r.work(10*time.Second, r.succeed)})
		owned := func(owner string) func(*intent.Begin) { return func(b *intent.Begin) { b.Head.OwnerKey = owner } }
		waits(r, r.submit(q, "nobody works", owned("a")))
		r.with(q, func() {
			waits(r, r.submit(q, "beyond the limit", owned("a")))
			waits(r, r.submit(q, "later", owned("b"), func(b *intent.Begin) { b.ReadyAt = r.store.Now().Add(time.Hour) }))
			waits(r, r.submit(q, "approval", owned("b"), func(b *intent.Begin) { b.Lane = intent.LaneReview }))
			waits(r, r.submit(q, "behind a bar", func(b *intent.Begin) { b.Head.RequestedModel = "barred" }))
			if rec := r.get(r.submit(q, "free", owned("c"))); rec.LeaseOwner == "" {
				r.Errorf("a free worker did not take it: %+v", rec.Status)
			}
			waits(r, r.submit(q, "no worker", owned("d"), func(b *intent.Begin) { b.Head.Priority = "low" }))
			waits(r, r.submit(q, "no worker either", owned("d"), func(b *intent.Begin) { b.Head.Priority = "high" }))
			time.Sleep(70 * time.Second)
		})
		var got []string
		for _, k := range r.worked {
			got = append(got, k[len("idem:test:main:key:"):])
		}
		if want := []string{"nobody works", "free", "beyond the limit", "no worker either", "no worker", "behind a bar"}; !slices.Equal(got[:2], want[:2]) ||
			len(got) != len(want) || slices.Index(got, want[3]) > slices.Index(got, want[4]) || got[5] != want[5] {
			r.Errorf("%q, want %q", got, want)
		}
	})
}

// A submission that is refused gives the worker back that was kept for it.
func TestRefusedSubmissionKeepsNoWorker(t *testing.T) {
	live(t, func(r *rig) {
		q := r.queue(queue.Config{Workers: 1, Work: r.work(time.Second, r.succeed)})
		r.with(q, func() {
			r.submit(q, "a", func(b *intent.Begin) { b.ReadyAt = r.store.Now().Add(time.Hour) })
			for range 5 {
				var held *intent.DuplicateError
				if _, err := q.Submit(intent.Begin{Claim: true, Head: ledger.Intent{Key: "idem:test:main:key:a"}}); !errors.As(err, &held) {
					r.Error(err)
				}
			}
			if d := q.Depth(); d.Working != 0 || d.Waiting != 1 {
				r.Errorf("%+v", d)
			}
			r.submit(q, "b")
			time.Sleep(5 * time.Second)
		})
		if len(r.worked) != 1 {
			r.Errorf("worked on %q", r.worked)
		}
	})
}

// slow is a store whose writes wait for a door, those that settle for another one.
type slow struct {
	ledger.Ledger
	others, settling chan struct{}
}

func (s *slow) Enqueue(w *ledger.Write) <-chan struct{} {
	door, done := s.others, make(chan struct{})
	if w.Settle {
		door = s.settling
	}
	go func() {
		<-door
		<-s.Ledger.Enqueue(w)
		close(done)
	}()
	return done
}

// A job whose submitter was refused lies in the log until its late commit is taken back, however long that takes: no sweep gives
// it to a worker.
func TestRefusedSubmissionIsNobodysWork(t *testing.T) {
	live(t, func(r *rig) {
		s := &slow{Ledger: r.store, others: make(chan struct{}), settling: make(chan struct{})}
		r.log.Close()
		r.store, r.log = s, intent.New(intent.Config{Ledger: s, Exclusive: true})
		q := r.queue(queue.Config{Work: r.work(time.Second, func(*queue.Job) queue.Rest { return queue.Rest{Wait: time.Hour} })})
		b := intent.Begin{Claim: true, Head: ledger.Intent{Tenant: "main", Workflow: "w", Effect: ledger.EffectGeneration, Key: "idem:test:main:key:late",
			Method: "POST", Path: "/v1/chat/completions", Provider: "openai", Endpoint: "chat", RequestedModel: "m", MaxAttempts: 3}}
		if _, err := q.Submit(b); !errors.Is(err, intent.ErrCommitWait) {
			r.Fatal(err)
		}
		close(s.others)
		r.run(q, 2*time.Minute)
		open, err := r.store.Open(context.Background(), "", 10)
		if err != nil || len(open) != 1 || open[0].Attempt != 0 || open[0].LeaseOwner != "" {
			r.Fatalf("%v, %v", open, err)
		}
		if len(r.worked) != 0 || !r.log.Refused(open[0].ID) {
			r.Errorf("worked on %q", r.worked)
		}
		close(s.settling)
		time.Sleep(time.Second)
		if rec := r.get(open[0].ID); rec.Outcome != ledger.OutcomeDiscarded || r.log.Refused(rec.ID) {
			r.Errorf("%+v", rec.Status)
		}
	})
}

// A job that was submitted a moment ago comes with its bodies as they were then; of much, or of large ones, none are kept.
func TestFreshJobsComeWithTheirBodies(t *testing.T) {
	live(t, func(r *rig) {
		const large = "large"
		missing := 0
		q := r.queue(queue.Config{Workers: 1, Work: func(_ context.Context, j *queue.Job) queue.Rest {
			stored, err := r.store.Body(context.Background(), j.Op.ID(), ledger.BodyRequest)
			if err != nil {
				r.Fatal(err)
			}
			switch fresh := j.Request != nil && j.Header != nil; {
			case fresh && (j.Op.Head().OwnerKey == large || !slices.Equal(stored.Data, j.Request.Data) || string(j.Header.Data) != "{}"):
				r.Errorf("%d bytes were kept of %d", len(j.Request.Data), len(stored.Data))
			case !fresh:
				missing++
			}
			return r.succeed(j)
		}})
		submit := func(key, owner string, size int) {
			data := slices.Repeat([]byte(key[:1]), size)
			r.submit(q, key, func(b *intent.Begin) {
				b.Head.OwnerKey = owner
				b.Request = &ledger.Body{Kind: ledger.BodyRequest, Data: data}
				b.Header = &ledger.Body{Kind: ledger.BodyHeader, Data: []byte("{}")}
			})
			clear(data) // the caller's own
		}
		for i := range 200 { // nobody works yet: 10 MB of bodies wait, of which 4 MB are kept
			submit(fmt.Sprint("a", i), "", 50<<10)
		}
		submit("b", large, 1<<20)
		r.run(q, time.Minute)
		if missing < 100 || missing > 130 {
			r.Errorf("%d jobs came without their bodies", missing)
		}
		missing = 0
		r.with(q, func() { // what was kept is given back
			submit("c", "", 50<<10)
			time.Sleep(time.Second)
		})
		if missing != 0 {
			r.Error("the bodies of those that are done are still counted")
		}
	})
}
