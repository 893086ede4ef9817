package queue_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/holdfast-ai/holdfast/intent"
	"github.com/holdfast-ai/holdfast/ledger"
	"github.com/holdfast-ai/holdfast/queue"
)

// moody is a ledger that takes no writes for a while, as a full disk does: from the first one that a test names.
type moody struct {
	ledger.Ledger
	mu    sync.Mutex
	hates func(*ledger.Write) bool
	lasts time.Duration
	until time.Time
}

func (m *moody) Enqueue(w *ledger.Write) <-chan struct{} {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.hates != nil && m.hates(w) {
		m.hates, m.until = nil, time.Now().Add(m.lasts)
	}
	if time.Now().Before(m.until) {
		w.Err = fmt.Errorf("%w: no space left", ledger.ErrUnavailable)
		done := make(chan struct{})
		close(done)
		return done
	}
	return m.Ledger.Enqueue(w)
}

// moody puts one below the log and the queues.
func (r *rig) moody(lasts time.Duration, hates func(*ledger.Write) bool) {
	r.log.Close()
	r.store = &moody{Ledger: r.store, hates: hates, lasts: lasts}
	r.log = intent.New(intent.Config{Ledger: r.store, Exclusive: true})
}

// A store that is away for a moment, just when a job is put back, costs it neither an attempt nor a crash nor its lane: it is
// worked on again without a restart, and what was refused for certain stays so.
func TestStoreAwayAsAJobIsPutBack(t *testing.T) {
	refused := intent.Ending{End: ledger.AttemptFailed, Status: 503, Reason: "overloaded", Lane: intent.LaneBackground, Free: true}
	free := func(w *ledger.Write) bool { return w.Insert == nil && !w.Append && w.Status.LeaseOwner == "" }
	for name, c := range map[string]struct {
		hates    func(*ledger.Write) bool
		first    func(*rig, *queue.Job) queue.Rest
		attempts int
		crashes  int
	}{
		"nothing could be sent": {hates: func(w *ledger.Write) bool { return !w.Lease && w.Status.State == ledger.Dispatched }, attempts: 1,
			first: func(r *rig, j *queue.Job) queue.Rest {
				if err := j.Op.Dispatch(sent); err == nil {
					r.Error("dispatched without a store")
				}
				return queue.Rest{Wait: time.Second, Reason: "the store is away"}
			}},
		"refused for certain": {hates: free, attempts: 2, first: func(r *rig, j *queue.Job) queue.Rest {
			if err := j.Op.Dispatch(sent); err != nil {
				r.Error(err)
			}
			e := refused
			e.ReadyAt = r.store.Now().Add(time.Second)
			_ = j.Op.EndAttempt(e)
			return queue.Rest{}
		}},
		"its worker fails": {hates: free, attempts: 1, crashes: 1, first: func(*rig, *queue.Job) queue.Rest { panic("a defect") }},
	} {
		for _, away := range []time.Duration{time.Second, 20 * time.Second} { // within CommitWait, and beyond
			for _, acts := range []bool{false, true} {
				t.Run(fmt.Sprint(name, away, acts), func(t *testing.T) {
					live(t, func(r *rig) {
						r.moody(away, c.hates)
						taken := 0
						q := r.queue(queue.Config{Work: func(_ context.Context, j *queue.Job) queue.Rest {
							if taken++; taken == 1 {
								return c.first(r, j)
							}
							return r.succeed(j)
						}})
						id := r.submit(q, "a", func(b *intent.Begin) { b.Head.Hold = acts })
						r.run(q, away+35*time.Second)
						rec := r.get(id)
						if rec.State != ledger.Settled || rec.Outcome != ledger.OutcomeSuccess || rec.Attempt != c.attempts || rec.Crashes != c.crashes || rec.BilledMaybe != 0 {
							t.Errorf("taken %d times: %+v", taken, rec.Status)
						}
					})
				})
			}
		}
	}
}

// A job that is left in nobody's hands is freed by what the log says of it. Beside an attempt that nobody has ended it goes by
// on_unknown, as behind a crash; a worker that merely takes its time is left alone.
func TestStraysAreFreed(t *testing.T) {
	dispatch := func(r *rig, j *queue.Job) {
		if err := j.Op.Dispatch(sent); err != nil {
			r.Error(err)
		}
	}
	for name, c := range map[string]struct {
		first  func(*rig, *queue.Job)
		acts   bool
		within time.Duration
		want   ledger.Status
	}{
		"left beside an attempt":    {func(r *rig, j *queue.Job) { dispatch(r, j) }, false, 5 * time.Minute, ledger.Status{State: ledger.Settled, Attempt: 2, Crashes: 1, BilledMaybe: 1}},
		"left beside an effect":     {func(r *rig, j *queue.Job) { dispatch(r, j) }, true, 5 * time.Minute, ledger.Status{State: ledger.Unknown, Attempt: 1, Crashes: 1, BilledMaybe: 1}},
		"failed beside an attempt":  {func(r *rig, j *queue.Job) { dispatch(r, j); panic("a defect") }, false, 5 * time.Second, ledger.Status{State: ledger.Settled, Attempt: 2, Crashes: 1, BilledMaybe: 1}},
		"failed beside an effect":   {func(r *rig, j *queue.Job) { dispatch(r, j); panic("a defect") }, true, 5 * time.Second, ledger.Status{State: ledger.Unknown, Attempt: 1, Crashes: 1, BilledMaybe: 1}},
		"takes its time":            {func(*rig, *queue.Job) { time.Sleep(5 * time.Minute) }, false, 6 * time.Minute, ledger.Status{State: ledger.Settled, Attempt: 1}},
		"takes its time, of effect": {func(*rig, *queue.Job) { time.Sleep(5 * time.Minute) }, true, 6 * time.Minute, ledger.Status{State: ledger.Settled, Attempt: 1}},
	} {
		for _, fed := range []bool{false, true} {
			t.Run(fmt.Sprint(name, fed), func(t *testing.T) {
				live(t, func(r *rig) {
					taken := 0
					conf := queue.Config{Fed: fed, Work: func(_ context.Context, j *queue.Job) queue.Rest {
						if taken++; taken == 1 {
							c.first(r, j)
						}
						if st := j.Op.Status(); taken == 1 && st.State != ledger.Created {
							return queue.Rest{}
						}
						return r.succeed(j)
					}}
					q := r.queue(conf)
					id := r.submit(q, "a", func(b *intent.Begin) { b.Head.Hold = c.acts })
					if fed {
						feeder := r.queue(queue.Config{Takes: func(*ledger.Intent) bool { return false }, Others: q.Enter})
						ctx, stop := context.WithCancel(context.Background())
						done := make(chan error)
						go func() { done <- feeder.Run(ctx) }()
						defer func() { stop(); <-done }()
					}
					r.run(q, c.within)
					st := r.get(id).Status
					got := ledger.Status{State: st.State, Attempt: st.Attempt, Crashes: st.Crashes, BilledMaybe: st.BilledMaybe}
					if got != c.want {
						t.Errorf("taken %d times: %+v, want %+v", taken, got, c.want)
					}
				})
			})
		}
	}
}

// A job whose submitter was refused is no stray, though it is leased and in nobody's hands: its end is on the way.
func TestRefusedSubmissionIsNoStray(t *testing.T) {
	live(t, func(r *rig) {
		s := &slow{Ledger: r.store, others: make(chan struct{}), settling: make(chan struct{})}
		r.log.Close()
		r.store, r.log = s, intent.New(intent.Config{Ledger: s, Exclusive: true})
		q := r.queue(queue.Config{Work: r.work(time.Second, r.succeed)})
		b := intent.Begin{Job: true, Leased: true, Claim: true, Lane: intent.LaneBackground, Head: ledger.Intent{Tenant: "main", Workflow: "w",
			Effect: ledger.EffectGeneration, Key: "idem:test:main:key:late", Method: "POST", Path: "/v1/chat/completions", Provider: "openai"}}
		if _, err := r.log.Begin(b); !errors.Is(err, intent.ErrCommitWait) {
			r.Fatal(err)
		}
		close(s.others)
		r.run(q, 3*time.Minute)
		open, err := r.store.Open(context.Background(), "", 10)
		if err != nil || len(open) != 1 || open[0].Crashes != 0 || open[0].LeaseOwner != r.log.Owner() || len(r.worked) != 0 {
			r.Fatalf("%v, %+v, worked on %q", err, open, r.worked)
		}
		close(s.settling)
		time.Sleep(time.Second)
		if rec := r.get(open[0].ID); rec.Outcome != ledger.OutcomeDiscarded {
			r.Errorf("%+v", rec.Status)
		}
	})
}
