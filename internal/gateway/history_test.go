package gateway_test

import (
	"fmt"
	"math/rand/v2"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/anishathalye/porcupine"
)

// A key is a register: the first success is written once, every later call reads it; a failure that releases the key
// leaves it as it was, so that the next call writes.
type keyCall struct{ key string }

type keyAnswer struct {
	ok   bool
	body string // of a success
	mark bool   // Idempotency-Replayed
}

var keyRegister = porcupine.Model{
	Partition: func(history []porcupine.Operation) (parts [][]porcupine.Operation) {
		byKey := map[string][]porcupine.Operation{}
		for _, o := range history {
			k := o.Input.(keyCall).key
			byKey[k] = append(byKey[k], o)
		}
		for _, p := range byKey {
			parts = append(parts, p)
		}
		return parts
	},
	Init: func() any { return "" },
	Step: func(state, _, output any) (bool, any) {
		held, out := state.(string), output.(keyAnswer)
		switch {
		case !out.ok: // a failure, ours or the provider's: only while nothing was won
			return held == "", held
		case held == "":
			return !out.mark || out.body != "", out.body
		}
		return out.body == held && out.mark, held
	},
	DescribeOperation: func(input, output any) string { return fmt.Sprintf("%v -> %v", input, output) },
}

// TestHistoriesAreLinearizable lets many clients repeat few keys while the provider fails now and then.
func TestHistoriesAreLinearizable(t *testing.T) {
	clients, turns := 8, 12
	if os.Getenv("HOLDFAST_FULL") != "" {
		clients, turns = 24, 60
	}
	for _, workflow := range []string{"default", "strict", "wait"} {
		t.Run(workflow, func(t *testing.T) {
			r := newRig(t, func(c *rigConfig) { // what one key's failure means to the others is the nest's own matter
				c.yaml = strings.ReplaceAll(c.yaml, "retry: {max_attempts: 1}", "breaker: {failure_threshold: 1000}, retry: {max_attempts: 1}")
			})
			keys := clients * turns / 8
			r.failures(keys)
			history := r.repeat(clients, turns, keys, workflow)
			if !porcupine.CheckOperations(keyRegister, history) {
				t.Errorf("the history of %d calls is not linearizable", len(history))
			}
			won := 0
			for _, o := range history {
				if o.Output.(keyAnswer).ok {
					won++
				}
			}
			if won == 0 || won == len(history) {
				t.Errorf("%d of %d calls won: the history tries nothing", won, len(history))
			}
			r.atRest()
		})
	}
}

// failures has the first calls of some keys fail.
func (r *rig) failures(keys int) {
	rng := rand.New(rand.NewPCG(7, 7))
	for i := range keys {
		steps := make([]string, rng.IntN(4))
		for j := range steps {
			steps[j] = []string{`{"status":429}`, "500", "reply_lost", "overloaded"}[rng.IntN(4)]
		}
		r.script(fmt.Sprint("h", i), append(steps, "ok")...)
	}
}

// repeat has clients ask in turns for few keys each, neighbours for the same, and returns what they saw.
func (r *rig) repeat(clients, turns, keys int, workflow string) (history []porcupine.Operation) {
	var mu sync.Mutex
	began := time.Now()
	var all sync.WaitGroup
	for c := range clients {
		rng := rand.New(rand.NewPCG(uint64(c), 9))
		all.Go(func() {
			for turn := range turns {
				key := fmt.Sprint("h", (turn*keys/turns+rng.IntN(max(keys/turns, 1)))%keys)
				q := chat(key)
				if c%2 == 0 {
					q = chat(key, `,"metadata":{"client":"`+fmt.Sprint(c)+`"}`) // means the same
				}
				call := time.Since(began)
				a := r.do(q.key(key).workflow(workflow))
				mu.Lock()
				history = append(history, porcupine.Operation{ClientId: c, Input: keyCall{key}, Call: int64(call),
					Output: keyAnswer{ok: a.status == 200, body: string(a.body), mark: a.header.Get("Idempotency-Replayed") == "true"},
					Return: int64(time.Since(began))})
				mu.Unlock()
			}
		})
	}
	all.Wait()
	return history
}
