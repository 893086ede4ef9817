package ledgertest

import (
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/anishathalye/porcupine"

	"github.com/holdfast-ai/holdfast/ledger"
)

// refused commits a claim of key that must be refused in favour of holder.
func (f *fixture) refused(key, holder string) {
	f.Helper()
	w := f.dispatched(key)
	if err := ledger.Commit(f.ctx, f.Ledger, w); !errors.Is(err, ledger.ErrClaimed) {
		f.Fatalf("claim of %q: %v, want ErrClaimed", key, err)
	}
	if w.Holder != holder {
		f.Errorf("claim of %q: holder %q, want %q", key, w.Holder, holder)
	}
	if _, err := f.Get(f.ctx, w.Insert.ID); !errors.Is(err, ledger.ErrNotFound) {
		f.Errorf("the refused insertion is there: %v", err)
	}
}

func claimHeld(t *testing.T, f *fixture) {
	w := f.commit(f.created("k"))
	f.refused("k", w.Insert.ID)
	d := f.next(w, ledger.Dispatched)
	d.Claim, d.ClaimUntil = ledger.ClaimRelease, f.Now() // ignored while unsettled
	f.commit(d)
	f.refused("k", w.Insert.ID)
	f.commit(f.next(d, ledger.Unknown))
	f.refused("k", w.Insert.ID)
	if h, err := f.Holder(f.ctx, "k"); err != nil || h.ID != w.Insert.ID || h.State != ledger.Unknown {
		t.Errorf("Holder = %+v, %v", h, err)
	}
}

func claimKept(t *testing.T, f *fixture) {
	s := f.commit(f.settled(f.commit(f.dispatched("k")), time.Hour))
	f.refused("k", s.ID)
	if h, err := f.Holder(f.ctx, "k"); err != nil || h.ID != s.ID || h.Answer == nil {
		t.Errorf("Holder = %+v, %v", h, err)
	}
}

// unclaimedSettle: acting on a key that the intent never claimed touches nothing.
func unclaimedSettle(t *testing.T, f *fixture) {
	w := f.dispatched("")
	w.Insert.Key = "d"
	f.commit(w)
	owner := f.commit(f.dispatched("d"))
	s := f.settled(w, time.Hour)
	s.HeldKey = "d"
	f.commit(s)
	f.refused("d", owner.Insert.ID)
	if rec := f.get(s.ID); !rec.ClaimUntil.IsZero() {
		t.Errorf("an intent without a claim has one until %v", rec.ClaimUntil)
	}
}

func claimReleased(t *testing.T, f *fixture) {
	s := f.settled(f.commit(f.dispatched("k")), time.Hour)
	s.Claim = ledger.ClaimRelease
	f.commit(s)
	if _, err := f.Holder(f.ctx, "k"); !errors.Is(err, ledger.ErrNotFound) {
		t.Errorf("Holder of a released key: %v, want ErrNotFound", err)
	}
	f.commit(f.dispatched("k"))
}

func claimTakeover(t *testing.T, f *fixture) {
	s := f.settled(f.commit(f.dispatched("k")), time.Hour)
	s.ClaimUntil = f.Now().Add(-time.Second)
	f.commit(s)
	if _, err := f.Holder(f.ctx, "k"); !errors.Is(err, ledger.ErrNotFound) {
		t.Errorf("Holder of an expired key: %v, want ErrNotFound", err)
	}
	heir := f.commit(f.dispatched("k"))
	f.refused("k", heir.Insert.ID)
	if old := f.get(s.ID); old.State != ledger.Settled || old.Answer == nil {
		t.Errorf("the takeover changed the old intent: %+v", old)
	}
}

// lateSettleLeavesSuccessor: releasing acts on the claim only while it is the intent's own.
func lateSettleLeavesSuccessor(t *testing.T, f *fixture) {
	s := f.settled(f.commit(f.dispatched("k")), time.Hour)
	s.ClaimUntil = f.Now().Add(-time.Second)
	f.commit(s)
	heir := f.commit(f.dispatched("k"))
	stranger := f.settled(f.commit(f.dispatched("other")), time.Hour)
	stranger.HeldKey, stranger.Claim = "k", ledger.ClaimRelease
	f.commit(stranger)
	f.refused("k", heir.Insert.ID)
}

// oneOfFifty: of concurrent claims of one key exactly one is granted, and all the others learn whose it is.
func oneOfFifty(t *testing.T, f *fixture) {
	for round := range 20 {
		key := fmt.Sprintf("key-%d", round)
		writes := make([]*ledger.Write, 50)
		var start, end sync.WaitGroup
		start.Add(1)
		for i := range writes {
			w := f.dispatched(key)
			writes[i] = w
			end.Go(func() {
				start.Wait()
				<-f.Enqueue(w)
			})
		}
		start.Done()
		end.Wait()
		winner := ""
		for _, w := range writes {
			switch {
			case w.Err == nil && winner != "":
				t.Fatalf("round %d: two claims of one key were granted", round)
			case w.Err == nil:
				winner = w.Insert.ID
			case !errors.Is(w.Err, ledger.ErrClaimed):
				t.Fatalf("round %d: %v", round, w.Err)
			}
		}
		for _, w := range writes {
			if w.Err != nil && w.Holder != winner {
				t.Errorf("round %d: loser was told holder %q, want %q", round, w.Holder, winner)
			}
		}
		if h, err := f.Holder(f.ctx, key); err != nil || h.ID != winner {
			t.Errorf("round %d: Holder = %v, %v; want %s", round, h, err, winner)
		}
	}
}

// op is one call on one key as porcupine sees it.
type op struct {
	key  string
	kind string // claim, settle, release, look
	id   string
}

type opResult struct {
	holder  string // "" for none
	granted bool
	settled bool
}

// keyState is the model: who holds the key, and whether that one is settled.
type keyState struct {
	holder  string
	settled bool
}

var claimModel = porcupine.Model{
	Partition: func(history []porcupine.Operation) [][]porcupine.Operation {
		byKey := map[string][]porcupine.Operation{}
		for _, o := range history {
			k := o.Input.(op).key
			byKey[k] = append(byKey[k], o)
		}
		var out [][]porcupine.Operation
		for _, p := range byKey {
			out = append(out, p)
		}
		return out
	},
	Init: func() any { return keyState{} },
	Step: func(state, input, output any) (bool, any) {
		s, in, out := state.(keyState), input.(op), output.(opResult)
		switch in.kind {
		case "claim":
			if s.holder == "" {
				return out.granted, keyState{holder: in.id}
			}
			return !out.granted && out.holder == s.holder, s
		case "settle":
			return s.holder == in.id && !s.settled, keyState{in.id, true}
		case "release":
			return s.holder == in.id && !s.settled, keyState{}
		}
		return out.holder == s.holder && out.settled == s.settled, s
	},
	DescribeOperation: func(input, output any) string { return fmt.Sprintf("%+v -> %+v", input, output) },
}

// linearizable records claim → dispatched → result per key from many callers and has the history judged.
func linearizable(t *testing.T, f *fixture) {
	const clients, rounds, keys = 8, 40, 5
	var mu sync.Mutex
	var history []porcupine.Operation
	start := time.Now()
	record := func(client int, in op, call func() opResult) opResult {
		begin := time.Since(start).Nanoseconds()
		out := call()
		end := time.Since(start).Nanoseconds()
		mu.Lock()
		defer mu.Unlock()
		history = append(history, porcupine.Operation{ClientId: client, Input: in, Call: begin, Output: out, Return: end})
		return out
	}
	var wg sync.WaitGroup
	for client := range clients {
		wg.Go(func() {
			for round := range rounds {
				f.oneLife(t, client, round, fmt.Sprintf("lin-%d", (client+round)%keys), record)
			}
		})
	}
	wg.Wait()
	if res := porcupine.CheckOperationsTimeout(claimModel, history, 30*time.Second); res != porcupine.Ok {
		t.Errorf("history of %d operations: %v", len(history), res)
	}
}

// oneLife claims key and, when it is granted, finishes the intent; else it looks who holds it.
func (f *fixture) oneLife(t *testing.T, client, round int, key string, record func(int, op, func() opResult) opResult) {
	w := f.dispatched(key)
	got := record(client, op{key: key, kind: "claim", id: w.Insert.ID}, func() opResult {
		<-f.Enqueue(w)
		return opResult{holder: w.Holder, granted: w.Err == nil}
	})
	if !got.granted {
		record(client, op{key: key, kind: "look"}, func() opResult {
			h, err := f.Holder(f.ctx, key)
			if err != nil {
				return opResult{}
			}
			return opResult{holder: h.ID, settled: h.State == ledger.Settled}
		})
		return
	}
	s, kind := f.settled(w, time.Hour), "release"
	s.Relaxed = round%2 == 0
	s.Claim = ledger.ClaimRelease
	if round%10 == 9 {
		s.Claim, kind = ledger.ClaimKeep, "settle"
	}
	record(client, op{key: key, kind: kind, id: s.ID}, func() opResult {
		<-f.Enqueue(s)
		if s.Err != nil {
			t.Errorf("settling an own intent: %v", s.Err)
		}
		return opResult{}
	})
}
