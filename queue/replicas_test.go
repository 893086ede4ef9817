package queue_test

import (
	"context"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-ai/holdfast/intent"
	"github.com/holdfast-ai/holdfast/ledger"
	"github.com/holdfast-ai/holdfast/queue"
)

// notifying is a ledger that says what was written where a test has it say so, and counts how often its log is read.
type notifying struct {
	ledger.Ledger
	mu    sync.Mutex
	heard map[int]func(ledger.Notice)
	n     int
	reads int
}

func (l *notifying) Notices(f func(ledger.Notice)) (stop func()) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.heard == nil {
		l.heard = map[int]func(ledger.Notice){}
	}
	l.n++
	id := l.n
	l.heard[id] = f
	return func() {
		l.mu.Lock()
		delete(l.heard, id)
		l.mu.Unlock()
	}
}

func (l *notifying) say(n ledger.Notice) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, f := range l.heard {
		f(n)
	}
}

func (l *notifying) Open(ctx context.Context, after string, limit int) ([]*ledger.Record, error) {
	l.mu.Lock()
	l.reads++
	l.mu.Unlock()
	return l.Ledger.Open(ctx, after, limit)
}

func (l *notifying) read() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.reads
}

// begun is when each job was begun, since a moment.
type begun struct {
	mu sync.Mutex
	at map[string]time.Time
}

func (b *begun) work(r *rig, took time.Duration) func(context.Context, *queue.Job) queue.Rest {
	return func(_ context.Context, j *queue.Job) queue.Rest {
		b.mu.Lock()
		b.at[j.Op.ID()] = time.Now()
		b.mu.Unlock()
		time.Sleep(took)
		return r.succeed(j)
	}
}

func (b *begun) since(id string, then time.Time) (time.Duration, bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	at, is := b.at[id]
	return at.Sub(then), is
}

// A job that one replica has no worker for is taken by another that has: at once where the ledger tells of it, soon where it tells
// of nothing or the notice is lost. Replicas that have nothing to do read little.
func TestAnotherReplicasJobs(t *testing.T) {
	for name, c := range map[string]struct {
		told  bool
		limit time.Duration
	}{
		"told of":     {true, 100 * time.Millisecond},
		"not told of": {false, 2 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			live(t, func(r *rig) {
				l := &notifying{Ledger: r.store}
				plain := r.store
				r.store = l
				defer func() { r.store = plain }()
				b := &begun{at: map[string]time.Time{}}
				busy, _ := r.replica(queue.Config{Workers: 1, Work: b.work(r, 3*time.Minute)})
				synctest.Wait()
				r.submit(busy.q, "first")
				idle, _ := r.replica(queue.Config{Workers: 1, Work: b.work(r, time.Millisecond)})
				time.Sleep(time.Minute + 400*time.Millisecond) // far from a sweep
				before := l.read()
				then := time.Now()
				id := r.submit(busy.q, "second")
				if c.told {
					l.say(ledger.Notice{Kind: ledger.NoticeReady})
				}
				time.Sleep(3 * time.Second)
				if after, is := b.since(id, then); !is || after > c.limit {
					t.Errorf("begun %t, after %s; want it within %s", is, after, c.limit)
				}
				time.Sleep(57 * time.Second)
				if n := l.read() - before; n > 80 {
					t.Errorf("%d reads of the log in a minute, by one replica that is busy and one that has nothing to do", n)
				}
				time.Sleep(3 * time.Minute) // its heartbeat ends with stop, and its worker has to be done
				busy.stop()
				idle.stop()
			})
		})
	}
}

// Several replicas have the same jobs in their schedules, and each job is done once; what a replica was doing that ends in order is
// gone on with by the others at once, and counts as no crash.
func TestReplicasShareTheirJobs(t *testing.T) {
	live(t, func(r *rig) {
		b := &begun{at: map[string]time.Time{}}
		var replicas []*replica
		for range 3 {
			s, _ := r.replica(queue.Config{Workers: 4, Work: b.work(r, 100*time.Millisecond)})
			replicas = append(replicas, s)
		}
		synctest.Wait()
		var ids []string
		for i := range 120 {
			time.Sleep(time.Millisecond)
			ids = append(ids, r.submit(replicas[i%3].q, string(rune('a'+i/26))+string(rune('a'+i%26))))
		}
		time.Sleep(time.Second)
		replicas[0].stop()
		time.Sleep(2 * time.Minute)
		for _, id := range ids {
			if rec := r.get(id); rec.State != ledger.Settled || rec.Attempt != 1 || rec.Crashes != 0 {
				t.Errorf("%+v", rec.Status)
			}
		}
		replicas[1].stop()
		replicas[2].stop()
	})
}

// What a dead replica had in hand is worked on by another within a lease and a little, not with the next sweep.
func TestDeadReplicasJobsAreTakenOver(t *testing.T) {
	live(t, func(r *rig) {
		b := &begun{at: map[string]time.Time{}}
		dead := intent.New(intent.Config{Ledger: r.store, Beat: 700 * time.Millisecond})
		waits := queue.New(queue.Config{Ledger: r.store, Log: dead, Rules: func(*ledger.Intent) queue.Rules { return queue.Rules{} }})
		s, _ := r.replica(queue.Config{Workers: 4, Work: b.work(r, time.Millisecond)})
		time.Sleep(31 * time.Second) // a sweep was a moment ago
		id := r.submit(waits, "a")
		if err := dead.Load(r.get(id)).Lease(); err != nil {
			t.Fatal(err)
		}
		then := time.Now()
		time.Sleep(10 * time.Second)
		if after, is := b.since(id, then); !is || after > 5*time.Second {
			t.Errorf("taken over %t, after %s", is, after)
		}
		if rec := r.get(id); rec.Crashes != 1 || rec.Attempt != 1 {
			t.Errorf("%+v", rec.Status)
		}
		s.stop()
		dead.Close()
	})
}
