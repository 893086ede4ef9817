package intent_test

import (
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/holdfast-ai/holdfast/intent"
	"github.com/holdfast-ai/holdfast/ledger"
)

// Any sequence of moves, legal or refused, by living and dead owners, leaves a log that Verify accepts, in which an
// outcome that is known never changes and a held unknown is sent no further.
func TestAnyHistoryVerifies(t *testing.T) {
	r := newRig(t)
	g := r.engine(func(c *intent.Config) { c.CommitWait = time.Minute })
	n := 0
	rapid.Check(t, func(rt *rapid.T) {
		n++
		b := begin("")
		if rapid.Bool().Draw(rt, "key") {
			b = begin(fmt.Sprint("p", n))
		}
		b.Head.Hold, b.Head.Stream = rapid.Bool().Draw(rt, "hold"), rapid.Bool().Draw(rt, "stream")
		if rapid.Bool().Draw(rt, "waiting") {
			b.Attempt = nil
		}
		o, err := g.Begin(b)
		if err != nil {
			rt.Fatal(err)
		}
		hands := []*intent.Op{o}
		moves := rapid.SliceOfN(rapid.SampledFrom(moveNames), 1, 8).Draw(rt, "moves")
		var settled ledger.Outcome
		for _, name := range moves {
			if name == "load" {
				hands = append(hands, g.Load(r.get(o.ID())))
				continue
			}
			hand := hands[rapid.IntRange(0, len(hands)-1).Draw(rt, "hand")]
			before := r.get(o.ID())
			err := everyMove[name](r, hand)
			after := r.get(o.ID())
			if err != nil && after.Version != before.Version {
				rt.Fatalf("%s was refused (%v) and moved the intent: %+v", name, err, after.Status)
			}
			if before.State == ledger.Unknown && after.Attempt != before.Attempt {
				rt.Fatalf("%s sent what is unknown", name)
			}
			if settled != 0 && after.Outcome != settled {
				rt.Fatalf("%s changed %s to %s", name, settled, after.Outcome)
			}
			if after.State == ledger.Settled {
				settled = after.Outcome
			}
		}
	})
}

var failed = intent.Ending{End: ledger.AttemptFailed, Status: 503, Error: "overloaded"}

var everyMove = map[string]func(*rig, *intent.Op) error{
	"dispatch":  func(_ *rig, o *intent.Op) error { return o.Dispatch(try) },
	"fail once": func(_ *rig, o *intent.Op) error { return o.EndAttempt(failed) },
	"lose once": func(_ *rig, o *intent.Op) error { return o.EndAttempt(lost) },
	"lose":      func(_ *rig, o *intent.Op) error { return o.Lose(lost, nil) },
	"succeed":   func(r *rig, o *intent.Op) error { return o.Settle(won(r.store.Now().Add(time.Hour)), false, nil) },
	"fail": func(_ *rig, o *intent.Op) error {
		return o.Settle(intent.Settlement{Ending: failed, Outcome: ledger.OutcomeFailed}, false, nil)
	},
	"not sent":  func(_ *rig, o *intent.Op) error { return o.NotSent("no", "") },
	"discard":   func(_ *rig, o *intent.Op) error { return o.Discard("no", "") },
	"interrupt": func(_ *rig, o *intent.Op) error { return o.Interrupt("stop") },
	"evidence": func(_ *rig, o *intent.Op) error {
		return o.Evidence(intent.Ending{End: ledger.AttemptSuccess, Status: 200}, &ledger.Body{Data: []byte("late")})
	},
	"note": func(_ *rig, o *intent.Op) error { o.Note(ledger.Event{Kind: "duplicate"}); return nil },
	"resolve": func(r *rig, o *intent.Op) error {
		return o.Resolve(ledger.OutcomeSuccess, "ada", "seen", nil, r.store.Now().Add(time.Hour))
	},
	"resolve failed": func(_ *rig, o *intent.Op) error {
		return o.Resolve(ledger.OutcomeFailed, "ada", "gone", nil, time.Time{})
	},
}

var moveNames = func() []string {
	names := []string{"load"}
	for name := range everyMove {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}()

// Of many that ask for one key at once, one gets it; the others learn whose it is.
func TestOneClaim(t *testing.T) {
	r := newRig(t)
	engines := []*intent.Log{r.engine(), r.engine()}
	var mu sync.Mutex
	var winners, holders []string
	var all sync.WaitGroup
	for i := range 40 {
		all.Go(func() {
			o, err := engines[i%2].Begin(begin("k"))
			var dup *intent.DuplicateError
			mu.Lock()
			defer mu.Unlock()
			switch {
			case err == nil:
				winners = append(winners, o.ID())
			case errors.As(err, &dup) && errors.Is(err, ledger.ErrClaimed):
				holders = append(holders, dup.Holder)
			default:
				t.Error(err)
			}
		})
	}
	all.Wait()
	if len(winners) != 1 || len(holders) != 39 || len(slices.Compact(holders)) != 1 || holders[0] != winners[0] {
		t.Errorf("winners %v, holders %v", winners, holders)
	}
}

// Ids are unique, and their order is that of creation, also when a thousand are made in one millisecond.
func TestIDsRise(t *testing.T) {
	r := newRig(t)
	g := r.engine()
	last := ""
	for range 300 {
		o := r.begin(g, begin("", waiting))
		if o.ID() <= last || len(o.ID()) != 36 || o.ID()[14] != '7' {
			t.Fatalf("id %q after %q", o.ID(), last)
		}
		last = o.ID()
	}
}
