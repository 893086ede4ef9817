package queue_test

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/holdfast-ai/holdfast/intent"
	"github.com/holdfast-ai/holdfast/internal/pgtest"
	"github.com/holdfast-ai/holdfast/ledger"
	"github.com/holdfast-ai/holdfast/ledger/postgres"
	"github.com/holdfast-ai/holdfast/queue"
)

// Three replicas, each with connections of its own to one Postgres: what the first has no worker for is done by the others, each job
// once. One of them ends in order in the middle of it, and what it gave back counts neither as an attempt nor as a crash.
func TestReplicasOverPostgres(t *testing.T) {
	server := pgtest.Start(t)
	server.Exec(t, "postgres", "CREATE DATABASE replicas")
	const jobs = 60
	var mu sync.Mutex
	worked, by, done := map[string]int{}, map[int]int{}, make(chan struct{}, jobs)
	blocked := make(chan struct{})
	type engine struct {
		store *postgres.Ledger
		log   *intent.Log
		q     *queue.Queue
		stop  func()
	}
	var engines []*engine
	for i := range 3 {
		store, err := postgres.Open(t.Context(), postgres.Config{URL: server.DSN("replicas"), Env: "test"})
		if err != nil {
			t.Fatal(err)
		}
		e := &engine{store: store, log: intent.New(intent.Config{Ledger: store, CommitWait: time.Minute})}
		c := queue.Config{Ledger: store, Log: e.log, Rules: func(*ledger.Intent) queue.Rules { return queue.Rules{MaxAttempts: 3} }, Workers: 3,
			Work: func(_ context.Context, j *queue.Job) queue.Rest {
				if i == 0 {
					<-blocked // the first has one worker, and that is busy
				}
				mu.Lock()
				worked[j.Op.ID()]++
				by[i]++
				mu.Unlock()
				err := j.Op.Dispatch(sent)
				if err == nil {
					err = j.Op.Settle(intent.Settlement{Ending: intent.Ending{End: ledger.AttemptSuccess}, Outcome: ledger.OutcomeSuccess}, false, nil)
				}
				if err != nil {
					t.Error(err)
				}
				done <- struct{}{}
				return queue.Rest{}
			}}
		if i == 0 {
			c.Workers = 1
		}
		e.q = queue.New(c)
		e.log.OnFreed(e.q.Enter)
		ctx, stop := context.WithCancel(context.Background())
		var all sync.WaitGroup
		if err := e.log.Alive(t.Context()); err != nil {
			t.Fatal(err)
		}
		all.Go(func() { _ = e.log.Run(ctx) })
		all.Go(func() { _ = e.q.Run(ctx) })
		e.stop = sync.OnceFunc(func() {
			stop()
			all.Wait()
			e.log.Close()
			if err := store.Close(); err != nil {
				t.Error(err)
			}
		})
		engines = append(engines, e)
	}
	var ids []string
	for i := range jobs {
		op, err := engines[0].q.Submit(intent.Begin{Claim: true, Head: ledger.Intent{Tenant: "main", Workflow: "w", Effect: ledger.EffectGeneration,
			Key: fmt.Sprint("idem:test:main:key:", i), Method: "POST", Path: "/v1/chat/completions", Provider: "openai", Endpoint: "chat", MaxAttempts: 3}})
		if err != nil {
			t.Fatal(err)
		}
		ids = append(ids, op.ID())
	}
	for range jobs / 2 { // by the others: the first is busy with one
		<-done
	}
	engines[1].stop()
	for range jobs - jobs/2 - 1 {
		<-done
	}
	close(blocked)
	<-done
	engines[2].stop()
	for _, id := range ids {
		rec, err := engines[0].store.Get(t.Context(), id)
		if err != nil || rec.State != ledger.Settled || rec.Attempt != 1 || rec.Crashes != 0 || worked[id] != 1 {
			t.Errorf("worked on %d times, %+v, %v", worked[id], rec, err)
		}
	}
	if by[0] > 1 || by[1]+by[2] < jobs-1 {
		t.Errorf("done by: %v", by)
	}
	engines[0].stop()
	if found, err := postgres.Verify(context.Background(), server.DSN("replicas")); err != nil || len(found) > 0 {
		t.Errorf("verify: %v %v", found, err)
	}
}
