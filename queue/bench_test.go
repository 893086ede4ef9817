package queue_test

import (
	"bytes"
	"context"
	"fmt"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/holdfast-ai/holdfast/intent"
	"github.com/holdfast-ai/holdfast/ledger"
	"github.com/holdfast-ai/holdfast/ledger/sqlite"
	"github.com/holdfast-ai/holdfast/queue"
)

// BenchmarkJobs submits jobs by 64 callers and works them by 256, on a real disk, to their settlement.
func BenchmarkJobs(b *testing.B) {
	var commits int64 // of the one writer, which has ended when they are read
	l, err := sqlite.Open(b.Context(), sqlite.Config{Path: filepath.Join(b.TempDir(), "queue.db"), Hook: func(point string) {
		if point == "commit.after" {
			commits++
		}
	}})
	if err != nil {
		b.Fatal(err)
	}
	log := intent.New(intent.Config{Ledger: l, Exclusive: true})
	var left sync.WaitGroup
	body := bytes.Repeat([]byte("0123456789"), 65)
	q := queue.New(queue.Config{Ledger: l, Log: log, Workers: 256, Rules: func(*ledger.Intent) queue.Rules { return queue.Rules{MaxAttempts: 3} },
		Work: func(_ context.Context, j *queue.Job) queue.Rest {
			defer left.Done()
			err := j.Op.Dispatch(sent)
			if err == nil {
				err = j.Op.Settle(intent.Settlement{Ending: intent.Ending{End: ledger.AttemptSuccess}, Outcome: ledger.OutcomeSuccess,
					Answer: &ledger.Answer{HTTPStatus: 200, HasBody: true}, KeepUntil: time.Now().Add(time.Hour),
					Body: &ledger.Body{Kind: ledger.BodyAnswer, ContentType: "application/json", Data: body}}, false, nil)
			}
			if err != nil {
				b.Error(err)
			}
			return queue.Rest{}
		}})
	ctx, stop := context.WithCancel(context.Background())
	done := make(chan error)
	go func() { done <- q.Run(ctx) }()
	b.ReportAllocs()
	b.ResetTimer()
	cpu := cpuTime()
	left.Add(b.N)
	var next atomic.Int64
	for range 64 {
		go func() {
			for n := next.Add(1); n <= int64(b.N); n = next.Add(1) {
				if _, err := q.Submit(intent.Begin{Claim: true, Head: ledger.Intent{Tenant: "main", Workflow: "w", Effect: ledger.EffectGeneration,
					Key: fmt.Sprint("idem:test:main:key:", n), Method: "POST", Path: "/v1/chat/completions", Provider: "openai"},
					Request: &ledger.Body{Kind: ledger.BodyRequest, ContentType: "application/json", Data: body}}); err != nil {
					b.Error(err)
					left.Done()
				}
			}
		}()
	}
	left.Wait()
	b.StopTimer()
	b.ReportMetric(float64((cpuTime()-cpu).Microseconds())/float64(b.N), "cpu-µs/job")
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "jobs/s")
	stop()
	if err := <-done; err != nil {
		b.Error(err)
	}
	log.Close()
	if err := l.Close(); err != nil {
		b.Error(err)
	}
	b.ReportMetric(float64(b.N)/float64(commits), "jobs/commit")
}
