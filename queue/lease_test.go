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

// replica is an engine of several on one ledger, with a lease of some two seconds.
type replica struct {
	log  *intent.Log
	q    *queue.Queue
	stop func()
}

// replica starts one; freeze ends its heartbeat and leaves its workers as they are, as SIGSTOP does.
func (r *rig) replica(c queue.Config) (started *replica, freeze func()) {
	log := intent.New(intent.Config{Ledger: r.store, Beat: 700 * time.Millisecond})
	c.Ledger, c.Log = r.store, log
	c.Rules = func(*ledger.Intent) queue.Rules {
		return queue.Rules{MaxAttempts: 3, Dead: []string{"max_attempts_exhausted"}}
	}
	s := &replica{log: log, q: queue.New(c)}
	log.OnFreed(s.q.Enter)
	beating, freeze := context.WithCancel(context.Background())
	working, rest := context.WithCancel(context.Background())
	ended := make(chan error, 2)
	go func() { ended <- log.Run(beating) }()
	go func() { ended <- s.q.Run(working) }()
	s.stop = func() {
		rest()
		freeze()
		<-ended
		<-ended
		log.Close()
	}
	return s, freeze
}

// BR-068: a job longer than its lease has one worker among three engines, as long as that one lives. One that stood still
// may find its job taken over; then its late word is refused, and an effect that may have happened is not caused again.
func TestBR068LongJobs(t *testing.T) {
	for name, c := range map[string]struct {
		freeze, acts bool
		worked       int
		state        ledger.State
	}{
		"renewed":            {false, true, 1, ledger.Settled},
		"frozen, acts":       {true, true, 1, ledger.Unknown},
		"frozen, generates":  {true, false, 2, ledger.Settled},
		"renewed, only text": {false, false, 1, ledger.Settled},
	} {
		t.Run(name, func(t *testing.T) {
			live(t, func(r *rig) {
				var late error
				var freezes []func()
				var replicas []*replica
				for i := range 3 {
					s, freeze := r.replica(queue.Config{Work: func(_ context.Context, j *queue.Job) queue.Rest {
						r.mu.Lock()
						r.worked = append(r.worked, j.Op.Head().Key)
						first := len(r.worked) == 1
						r.mu.Unlock()
						if err := j.Op.Dispatch(sent); err != nil {
							t.Error(err)
						}
						if first && c.freeze {
							time.Sleep(2 * time.Second)
							freezes[i]()
							time.Sleep(5 * time.Minute)
						}
						time.Sleep(15 * time.Second)
						err := j.Op.Settle(intent.Settlement{Ending: intent.Ending{End: ledger.AttemptSuccess}, Outcome: ledger.OutcomeSuccess}, false, nil)
						if first {
							late = err
						} else if err != nil {
							t.Error(err)
						}
						return queue.Rest{}
					}})
					replicas, freezes = append(replicas, s), append(freezes, freeze)
				}
				id := r.submit(replicas[0].q, "j-1", func(b *intent.Begin) { b.Head.Hold = c.acts })
				time.Sleep(10 * time.Minute)
				for _, s := range replicas {
					s.stop()
				}
				rec := r.get(id)
				if len(r.worked) != c.worked || rec.State != c.state || c.freeze != errors.Is(late, ledger.ErrStale) {
					t.Errorf("%d workers, %v, the first one's word: %v", len(r.worked), rec.Status, late)
				}
				if c.worked == 2 && (rec.Attempt != 2 || rec.Outcome != ledger.OutcomeSuccess || rec.BilledMaybe != 1) {
					t.Errorf("%+v", rec.Status)
				}
			})
		})
	}
}

// BR-071: a job whose lease is nowhere, as in a store that was put back, is found by its state: taken again where nothing
// was sent, held where its effect may have happened.
func TestBR071OrphansAreFound(t *testing.T) {
	live(t, func(r *rig) {
		lost := intent.New(intent.Config{Ledger: r.store})
		before := queue.New(queue.Config{Ledger: r.store, Log: lost, Rules: func(*ledger.Intent) queue.Rules { return queue.Rules{} }})
		orphan := func(key string, dispatched bool) string {
			id := r.submit(before, key, func(b *intent.Begin) { b.Head.Hold = true })
			op := lost.Load(r.get(id))
			if err := op.Lease(); err != nil {
				t.Fatal(err)
			}
			if dispatched {
				if err := op.Dispatch(sent); err != nil {
					t.Fatal(err)
				}
			}
			return id
		}
		waiting, acting := orphan("a", false), orphan("b", true)
		lost.Close() // it never beat: no lease of its is on record
		s, _ := r.replica(queue.Config{Work: r.work(time.Second, r.succeed)})
		time.Sleep(40 * time.Second)
		s.stop()
		if rec := r.get(waiting); rec.State != ledger.Settled || rec.Attempt != 1 || rec.Crashes != 1 {
			t.Errorf("nothing was sent: %+v", rec.Status)
		}
		if rec := r.get(acting); rec.State != ledger.Unknown || rec.Attempt != 1 {
			t.Errorf("its effect may have happened: %+v", rec.Status)
		}
		if len(r.worked) != 1 {
			t.Errorf("worked on %q", r.worked)
		}
	})
}
