package intent_test

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-ai/holdfast/intent"
	"github.com/holdfast-ai/holdfast/ledger"
	"github.com/holdfast-ai/holdfast/ledger/sqlite"
	"github.com/holdfast-ai/holdfast/ledger/sqlite/faultdisk"
)

// tardy is a ledger that takes a while for each write, and notes when heartbeats came.
type tardy struct {
	ledger.Ledger
	each  time.Duration
	beats []time.Time
}

func (l *tardy) Enqueue(w *ledger.Write) <-chan struct{} {
	time.Sleep(l.each)
	return l.Ledger.Enqueue(w)
}

func (l *tardy) Beat(ctx context.Context, o ledger.Owner) error {
	l.beats = append(l.beats, time.Now())
	return l.Ledger.Beat(ctx, o)
}

// However many jobs age in one instant, their engine's heartbeat comes in time, or others would take over what it works on.
func TestManyThatAgeHoldUpNoHeartbeat(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store, err := sqlite.Open(t.Context(), sqlite.Config{Path: "/ageing.db", Env: "test", Disk: faultdisk.New(t.TempDir()), Readers: 1})
		if err != nil {
			t.Fatal(err)
		}
		slow := &tardy{Ledger: store}
		g := intent.New(intent.Config{Ledger: slow})
		for i := range 600 {
			if _, err := g.Begin(intent.Begin{Job: true, Claim: true, Lane: intent.LaneBackground, ExpiresAt: store.Now().Add(time.Second),
				Head: ledger.Intent{Tenant: "main", Workflow: "w", Key: fmt.Sprint("idem:test:main:key:", i), Method: "POST", Path: "/v1/chat/completions"}}); err != nil {
				t.Fatal(err)
			}
		}
		time.Sleep(2 * time.Second)
		slow.each = 50 * time.Millisecond
		ctx, stop := context.WithCancel(t.Context())
		done := make(chan error)
		go func() { done <- g.Run(ctx) }()
		time.Sleep(2 * time.Minute)
		stop()
		if err := <-done; err != nil {
			t.Error(err)
		}
		for i := 1; i < len(slow.beats); i++ {
			if gap := slow.beats[i].Sub(slow.beats[i-1]); gap > 10*time.Second {
				t.Errorf("%s without a heartbeat; a lease lasts 15 s", gap)
			}
		}
		if due, err := store.Due(t.Context(), store.Now(), 10); err != nil || len(due) > 0 || len(slow.beats) < 12 {
			t.Errorf("%d still due, %v; %d heartbeats", len(due), err, len(slow.beats))
		}
		g.Close()
		if err := store.Close(); err != nil {
			t.Error(err)
		}
	})
}
