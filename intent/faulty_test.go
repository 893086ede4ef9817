package intent_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/holdfast-ai/holdfast/intent"
	"github.com/holdfast-ai/holdfast/internal/pgtest"
	"github.com/holdfast-ai/holdfast/ledger"
	"github.com/holdfast-ai/holdfast/ledger/ledgertest"
	"github.com/holdfast-ai/holdfast/ledger/postgres"
)

// atItsWorst is everything that a ledger may do, at rates at which hardly a life goes by without it.
func atItsWorst(seed uint64) ledgertest.Faults {
	return ledgertest.Faults{Seed: seed, Refuse: 0.1, Slow: 0.2, Late: 0.08, Delay: 10 * time.Millisecond, LateBy: 150 * time.Millisecond,
		Read: 0.1, Beat: 0.3, Keep: 0.1, Lost: 0.3, Doubled: 0.3}
}

// TestAFaultyLedgerLosesNothing: over a ledger that refuses, is late and does not answer, no intent is lost that anybody was told of, no outcome that
// was told changes, nothing left that is not on record, and every history obeys the law.
func TestAFaultyLedgerLosesNothing(t *testing.T) {
	for seed := range uint64(3) {
		t.Run(fmt.Sprintf("sqlite/%d", seed), func(t *testing.T) {
			r := newRig(t) // it verifies the log at the end
			survives(t, r.store.Ledger, seed, true)
		})
		t.Run(fmt.Sprintf("postgres/%d", seed), func(t *testing.T) {
			url := pgtest.Start(t).DSN("postgres")
			l, err := postgres.Open(t.Context(), postgres.Config{URL: url})
			if err != nil {
				t.Fatal(err)
			}
			defer l.Close()
			survives(t, l, seed, false)
			found, err := postgres.Verify(t.Context(), url)
			if err != nil {
				t.Fatal(err)
			}
			for _, v := range found {
				t.Error(v)
			}
		})
	}
}

// world is what really happened, and what its callers were told.
type world struct {
	mu   sync.Mutex
	sent map[string]int            // by intent, the calls that left
	told map[string]ledger.Outcome // what was said to be on record; 0: that the intent is
}

func (w *world) send(id string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.sent[id]++
}

func (w *world) tell(id string, o ledger.Outcome) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.told[id] = max(w.told[id], o)
}

func survives(t *testing.T, store ledger.Ledger, seed uint64, exclusive bool) {
	faulty := ledgertest.Faulty(store, atItsWorst(seed))
	config := intent.Config{Ledger: faulty, CommitWait: 40 * time.Millisecond, Exclusive: exclusive}
	engines := []*intent.Log{intent.New(config), intent.New(config)}
	w := &world{sent: map[string]int{}, told: map[string]ledger.Outcome{}}
	var callers sync.WaitGroup
	for n := range 12 {
		r := rand.New(rand.NewPCG(seed, uint64(n)))
		callers.Go(func() {
			for round := range 15 {
				w.live(engines[n%2], r, fmt.Sprintf("k-%d-%d", n/2, round)) // two callers have one key
			}
		})
	}
	callers.Wait()
	if faulty.Met() == 0 {
		t.Error("there was no fault: nothing was tried")
	}
	faulty.Heal()
	for _, g := range engines {
		g.Close() // what is late lands
	}
	w.check(t, store)
}

// live is one request, as a gateway makes it: nothing leaves before it is on record, and what came back follows.
func (w *world) live(g *intent.Log, r *rand.Rand, key string) {
	b := begin(key)
	b.Head.MaxAttempts, b.Head.Hold = 3, r.IntN(2) == 0
	if r.IntN(4) == 0 {
		b.Attempt = nil
	}
	o, err := g.Begin(b)
	if err != nil {
		return // refused, or another's key: nobody was told anything
	}
	w.tell(o.ID(), 0)
	if b.Attempt == nil && o.Dispatch(try) != nil {
		return
	}
	for {
		w.send(o.ID())
		switch r.IntN(4) {
		case 0: // it failed for certain, and goes again
			if o.EndAttempt(failed) != nil || o.Dispatch(try) != nil {
				return
			}
			continue
		case 1: // nobody knows
			if o.Lose(lost, nil) == nil {
				w.tell(o.ID(), ledger.OutcomeUnknown)
			}
		case 2:
			s := intent.Settlement{Ending: failed, Outcome: ledger.OutcomeFailed}
			if o.Settle(s, r.IntN(2) == 0, nil) == nil {
				w.tell(o.ID(), ledger.OutcomeFailed)
			}
		default:
			if o.Settle(won(time.Now().Add(time.Hour)), r.IntN(2) == 0, nil) == nil {
				w.tell(o.ID(), ledger.OutcomeSuccess)
			}
		}
		return
	}
}

func (w *world) check(t *testing.T, store ledger.Ledger) {
	for id, told := range w.told {
		rec, err := store.Get(context.Background(), id)
		if err != nil {
			t.Errorf("%s was told of, and is lost: %v", id, err)
			continue
		}
		if rec.Attempt < w.sent[id] {
			t.Errorf("%s: %d calls left, %d are on record", id, w.sent[id], rec.Attempt)
		}
		if told != 0 && rec.Outcome != told {
			t.Errorf("%s: %s was told, %s is on record", id, told, rec.Outcome)
		}
		if told == ledger.OutcomeSuccess {
			if _, err := store.Body(context.Background(), id, ledger.BodyAnswer); err != nil {
				t.Errorf("%s: its answer: %v", id, err)
			}
		}
	}
	if len(w.told) == 0 {
		t.Error("no intent began")
	}
}
