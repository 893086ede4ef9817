package gateway_test

import (
	"context"
	"io"
	"net/http"
	"sync/atomic"
	"testing"
	"time"

	"github.com/holdfast-ai/holdfast/ledger"
)

// What the engine of a lost lease hears late is evidence, whatever it is, and never state: neither a success nor a failure
// changes what the engine says that took the job over (semantics 6).
func TestZombiesWordIsEvidence(t *testing.T) {
	for name, c := range map[string]struct {
		workflow string
		status   int // that the zombie hears
		state    ledger.State
		outcome  ledger.Outcome
		attempts int
	}{
		"an answer, sent again by another": {"default", 200, ledger.Settled, ledger.OutcomeSuccess, 2},
		"a failure, sent again by another": {"default", 500, ledger.Settled, ledger.OutcomeSuccess, 2},
		"a refusal, sent again by another": {"default", 400, ledger.Settled, ledger.OutcomeSuccess, 2},
		"a limit, sent again by another":   {"default", 429, ledger.Settled, ledger.OutcomeSuccess, 2},
		"an answer to what nobody repeats": {"act", 200, ledger.Unknown, ledger.OutcomeUnknown, 1},
		"a failure of what nobody repeats": {"act", 500, ledger.Unknown, ledger.OutcomeUnknown, 1},
		"a refusal of what nobody repeats": {"act", 400, ledger.Unknown, ledger.OutcomeUnknown, 1},
	} {
		t.Run(name, func(t *testing.T) {
			var calls atomic.Int64
			far := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				w.Header().Set("Content-Type", "application/json")
				if opOf(r); calls.Add(1) == 1 {
					time.Sleep(90 * time.Second)
					w.WriteHeader(c.status)
				}
				_, _ = io.WriteString(w, completion)
			})
			inBubble(t, bubbled, far, func(b *bubble) {
				b.life.stop()
				zombie := b.engine(false)
				b.gw = zombie.gw
				id := b.submit("a", c.workflow)
				time.Sleep(time.Second)
				zombie.freeze()
				other := b.engine(false)
				time.Sleep(80 * time.Second) // its lease runs out, and is swept
				before := b.get(id)
				time.Sleep(5 * time.Minute)
				rec := b.get(id)
				if rec.State != c.state || rec.Outcome != c.outcome || rec.Attempt != c.attempts || rec.Crashes != 1 || int(calls.Load()) != c.attempts {
					t.Errorf("%d calls, %+v", calls.Load(), rec.Status)
				}
				if before.State != rec.State || before.Outcome != rec.Outcome || before.Lane != rec.Lane {
					t.Errorf("before the late word %+v, behind it %+v", before.Status, rec.Status)
				}
				if !b.hasEvidence(id, c.status) {
					t.Error("what was heard late is nowhere")
				}
				zombie.stop()
				other.stop()
				b.life = b.engine(true)
			})
		})
	}
}

// hasEvidence reports whether the history keeps what came too late.
func (b *bubble) hasEvidence(id string, status int) bool {
	b.Helper()
	events, err := b.store.History(context.Background(), id)
	if err != nil {
		b.Fatal(err)
	}
	for _, e := range events {
		if e.Kind == "evidence" && e.Status == status {
			return true
		}
	}
	for _, e := range events {
		b.Logf("%s %s %s→%s attempt %d %s %d %s (%s)", e.At, e.Kind, e.From, e.To, e.Attempt, e.End, e.Status, e.Reason, e.Rule)
	}
	return false
}
