package sdk

import (
	"fmt"
	"maps"
	"sync"
	"testing"
	"time"
)

// TestVote: fifty identical questions at once, of clients that stay, are fifty calls with an answer each.
func TestVote(t *testing.T) {
	needGateway(t)
	const voters = 50
	each(t, func(t *testing.T, c client) {
		both(t, func(t *testing.T, streamed bool) {
			in := call{op: theRig.op(), prompt: "what do you think?", script: `{"text":"I am voter %N","work_ms":50,"event_ms":5}`}
			var mu sync.Mutex
			answers := map[string]int{}
			var all sync.WaitGroup
			for range voters {
				all.Go(func() {
					got, tape, err := c.ask(t.Context(), streamed, in)
					if err != nil || tape.last().replayed() || tape.attempts() != 1 {
						t.Errorf("%v, replayed %v, %d attempts", err, tape.last().replayed(), tape.attempts())
					}
					mu.Lock()
					answers[got.text]++
					mu.Unlock()
				})
			}
			all.Wait()
			if n := theRig.counts(t, in.op); n.Calls != voters || len(answers) != voters {
				t.Errorf("%d calls upstream, %d answers, want %d each", n.Calls, len(answers), voters)
			}
		})
	})
}

// TestTwoRetries: of two requests that ask for one lost answer, without saying that they are retries, one gets it
// and the other is a question of its own.
func TestTwoRetries(t *testing.T) {
	eachOf(t, needCutter(t), func(t *testing.T, c client) {
		in := call{op: theRig.op(), prompt: "say it to one"}
		in.script = fmt.Sprintf(`{"text":%q,"hold":%q,"hold_at":"event","hold_n":%d}`, lostText, in.op, c.lead+1)
		place{at: "mark", mark: content}.header(c, true, &in)
		if got, _, err := c.ask(t.Context(), true, in); err == nil {
			t.Fatalf("not cut: %+v", got)
		}
		<-backOff()
		var got [2]answer
		var tapes [2]*tape
		var both sync.WaitGroup
		for i := range got {
			both.Go(func() {
				var err error
				if got[i], tapes[i], err = c.ask(t.Context(), true, in); err != nil {
					t.Error(err)
				}
			})
		}
		theRig.waitAllHeld(t, in.op, 2)
		theRig.release(t, in.op)
		both.Wait()
		if a, b := tapes[0].last().replayed(), tapes[1].last().replayed(); a == b {
			t.Errorf("replayed: %v and %v, want one", a, b)
		}
		if !whole(got[0]) || !whole(got[1]) || got[0].text == got[1].text {
			t.Errorf("%q and %q, want two whole answers", got[0].text, got[1].text)
		}
		if n := theRig.counts(t, in.op); n.Calls != 2 {
			t.Errorf("%d calls upstream, want 2", n.Calls)
		}
	})
}

// TestReceived: who has the whole answer and asks again gets a new one: at once, a second later, and, once
// delivery_grace is over, even with a retry's count.
func TestReceived(t *testing.T) {
	needGateway(t)
	each(t, func(t *testing.T, c client) {
		both(t, func(t *testing.T, streamed bool) {
			in := call{op: theRig.op(), prompt: "and again", script: `{"text":"answer %N"}`, header: map[string]string{"Holdfast-Workflow": "brief"}}
			seen := map[string]bool{}
			ask := func() (replayed bool) {
				got, tape, err := c.ask(t.Context(), streamed, in)
				if err != nil {
					t.Fatal(err)
				}
				seen[got.text] = true
				return tape.last().replayed()
			}
			second := func() { <-time.After(time.Second) }
			first, next := ask(), ask()
			second()
			if first || next || ask() || len(seen) != 3 {
				t.Fatalf("answers %v, want three new ones", seen)
			}
			in.header = maps.Clone(in.header)
			in.header["X-Stainless-Retry-Count"] = "1"
			second()
			for turns := 1; ask(); turns++ { // the grace begins anew with each answer that was adopted
				if turns == 10 {
					t.Fatal("a received answer is adopted for ever")
				}
				second()
			}
			if n := theRig.counts(t, in.op); n.Calls != 4 || len(seen) != 4 {
				t.Errorf("%d calls upstream, answers %v, want 4", n.Calls, seen)
			}
		})
	})
}
