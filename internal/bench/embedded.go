package bench

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	"github.com/holdfast-ai/holdfast/intent"
	"github.com/holdfast-ai/holdfast/ledger"
	"github.com/holdfast-ai/holdfast/queue"
)

// embedded measures the queue on its log alone, inside this process: jobs that are claimed, leased, dispatched and settled
// with an answer of 650 bytes, and send nothing.
func (c QueueConfig) embedded(ctx context.Context, dir string) (rate Rate, err error) {
	if c.OpenLedger == nil {
		return rate, errors.New("the embedded part has no store to open")
	}
	l, err := c.OpenLedger(filepath.Join(dir, "embedded.db"))
	if err != nil {
		return rate, err
	}
	defer func() { err = errors.Join(err, l.Close()) }()
	return c.on(ctx, l, true)
}

// on measures the queue on an open log, which no other engine is on where it is held exclusively.
func (c QueueConfig) on(ctx context.Context, l ledger.Ledger, exclusive bool) (rate Rate, err error) {
	log := intent.New(intent.Config{Ledger: l, Exclusive: exclusive})
	defer log.Close()
	e := &embeddedJobs{left: make(chan struct{})}
	e.open.Store(int64(c.Jobs))
	q := queue.New(queue.Config{Ledger: l, Log: log, Workers: embeddedWorkers, Work: e.work,
		Rules: func(*ledger.Intent) queue.Rules { return queue.Rules{MaxAttempts: 3} }})
	working, stop := context.WithCancel(ctx)
	ended := make(chan error, 1)
	go func() { ended <- q.Run(working) }()
	defer func() {
		stop()
		err = errors.Join(err, <-ended)
	}()
	began, cpu := time.Now(), ownCPU()
	if err := e.submit(q, c.Jobs, c.Connections); err != nil {
		return rate, err
	}
	submitted := time.Since(began)
	select {
	case <-e.left:
	case <-ctx.Done():
		return rate, context.Cause(ctx)
	}
	rate = Rate{Submitted: float64(c.Jobs) / submitted.Seconds(), Worked: float64(c.Jobs) / time.Since(began).Seconds(),
		CPU: float64((ownCPU() - cpu).Microseconds()) / float64(c.Jobs)}
	return rate, errors.Join(e.failed()...)
}

// embeddedWorkers are more than a gateway has: what they wait for is the disk alone.
const embeddedWorkers = 256

type embeddedJobs struct {
	open atomic.Int64
	left chan struct{} // closed when all are settled

	mu   sync.Mutex
	errs []error
}

func (e *embeddedJobs) submit(q *queue.Queue, jobs, clients int) error {
	errs := make([]error, clients)
	var next atomic.Int64
	var all sync.WaitGroup
	for i := range clients {
		all.Go(func() {
			for n := next.Add(1); n <= int64(jobs) && errs[i] == nil; n = next.Add(1) {
				_, errs[i] = q.Submit(intent.Begin{Claim: true, Head: ledger.Intent{Tenant: "main", Workflow: "default", Effect: ledger.EffectGeneration,
					Key: fmt.Sprintf("idem:production:main:key:job-%d", n), Explicit: true, Method: "POST", Path: chatPath, Provider: "openai",
					Endpoint: "chat.completions", RequestedModel: "gpt-5-mini", Priority: "normal", MaxAttempts: 3},
					Request: &ledger.Body{Kind: ledger.BodyRequest, ContentType: "application/json", Data: answerBody}})
			}
		})
	}
	all.Wait()
	return errors.Join(errs...)
}

// work does a job. The queue counts it as done when it is settled.
func (e *embeddedJobs) work(_ context.Context, j *queue.Job) queue.Rest {
	err := j.Op.Dispatch(intent.Attempt{Route: benchRoute, Tier: "default", Model: "gpt-5-mini"})
	if err == nil {
		err = j.Op.Settle(intent.Settlement{Ending: intent.Ending{End: ledger.AttemptSuccess, Status: 200}, Outcome: ledger.OutcomeSuccess,
			Answer: &ledger.Answer{HTTPStatus: 200, Source: "default", HasBody: true}, KeepUntil: time.Now().Add(time.Hour),
			Body: &ledger.Body{Kind: ledger.BodyAnswer, ContentType: "application/json", Data: answerBody}}, false, nil)
	}
	if err != nil {
		e.mu.Lock()
		e.errs = append(e.errs, err)
		e.mu.Unlock()
	}
	if e.open.Add(-1) == 0 {
		close(e.left)
	}
	return queue.Rest{}
}

func (e *embeddedJobs) failed() []error {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.errs[:min(len(e.errs), 3)]
}
