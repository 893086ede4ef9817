package sqlite

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/holdfast-ai/holdfast/ledger"
)

// told is what a ledger has acknowledged of one intent.
type told struct {
	id, key string
	version int64
	body    string // of the answer, once it is settled
}

// witness remembers everything that was acknowledged, as a client of the ledger would.
type witness struct {
	mu   sync.Mutex
	told map[string]*told
}

func newWitness() *witness { return &witness{told: map[string]*told{}} }

func (w *witness) hears(t told) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.told[t.id] = &t
}

// dispatchedWrite and its followers are a lawful life: claim and dispatch, confirm, settle.
func dispatchedWrite(l *Ledger, key string) *ledger.Write {
	w := benchClaim(l)
	w.Insert.Key, w.ClaimKey = key, key
	w.Events = []ledger.Event{
		{At: l.Now(), Kind: "transition", To: ledger.Created},
		{At: l.Now(), Kind: "transition", From: ledger.Created, To: ledger.Dispatched},
		{At: l.Now(), Kind: "attempt", Attempt: 1, Route: "r"},
	}
	return w
}

func confirmedWrite(l *Ledger, w *ledger.Write) *ledger.Write {
	c := &ledger.Write{ID: w.Insert.ID, Version: 1, Status: w.Status, HeldKey: w.ClaimKey, Events: []ledger.Event{
		{At: l.Now(), Kind: "attempt_end", Attempt: 1, End: ledger.AttemptSuccess, Status: 200},
		{At: l.Now(), Kind: "transition", From: ledger.Dispatched, To: ledger.Confirmed},
	}}
	c.Status.Version, c.Status.State, c.Status.Outcome, c.Status.UpdatedAt = 2, ledger.Confirmed, ledger.OutcomeSuccess, l.Now()
	return c
}

func settledWrite(l *Ledger, c *ledger.Write, body string) *ledger.Write {
	s := &ledger.Write{ID: c.ID, Version: 2, Status: c.Status, HeldKey: c.HeldKey, Settle: true,
		Claim: ledger.ClaimKeep, ClaimUntil: l.Now().Add(time.Hour),
		Answer: &ledger.Answer{HTTPStatus: 200, HasBody: true},
		Bodies: []ledger.Body{{Kind: ledger.BodyAnswer, Data: []byte(body)}},
		Events: []ledger.Event{{At: l.Now(), Kind: "transition", From: ledger.Confirmed, To: ledger.Settled}},
	}
	s.Status.Version, s.Status.State, s.Status.UpdatedAt = 3, ledger.Settled, l.Now()
	return s
}

// live runs lives on l until the disk fails them or the rounds are over; w hears what is acknowledged.
func live(l *Ledger, w *witness, worker, rounds int) error {
	for round := range rounds {
		d := dispatchedWrite(l, fmt.Sprintf("key-%d-%d-%p", worker, round, l))
		if <-l.Enqueue(d); d.Err != nil {
			return d.Err
		}
		w.hears(told{id: d.Insert.ID, key: d.ClaimKey, version: 1})
		c := confirmedWrite(l, d)
		c.Relaxed = round%2 == 0
		body := fmt.Sprintf("answer of %s", d.Insert.ID)
		s := settledWrite(l, c, body)
		s.Relaxed = round%3 == 0
		confirmed, settled := l.Enqueue(c), l.Enqueue(s)
		if <-confirmed; c.Err != nil {
			return c.Err
		}
		w.hears(told{id: d.Insert.ID, key: d.ClaimKey, version: 2})
		if <-settled; s.Err != nil {
			return s.Err
		}
		w.hears(told{id: d.Insert.ID, key: d.ClaimKey, version: 3, body: body})
	}
	return nil
}

// check compares a ledger with what was acknowledged, and returns how many intents are behind it.
func (w *witness) check(t testing.TB, l *Ledger) (lost int) {
	t.Helper()
	ctx := context.Background()
	for id, want := range w.told {
		rec, err := l.Get(ctx, id)
		if errors.Is(err, ledger.ErrNotFound) {
			lost++
			continue
		}
		if err != nil {
			t.Fatalf("Get: %v", err)
		}
		if rec.Version < want.version {
			lost++
			continue
		}
		if h, err := l.Holder(ctx, want.key); err != nil || h.ID != id {
			t.Errorf("the claim of %s is gone: %v", id, err)
		}
		if want.version == 3 {
			if b, err := l.Body(ctx, id, ledger.BodyAnswer); err != nil || string(b.Data) != want.body {
				t.Errorf("the answer of %s came back as %v, %v", id, b, err)
			}
		}
	}
	return lost
}

// lawful fails the test for every violation that Verify finds.
func lawful(t testing.TB, cfg Config) {
	t.Helper()
	cfg.Hook, cfg.Logger = nil, nil
	found, err := check(context.Background(), cfg)
	if err != nil {
		t.Fatalf("verify: %v", err)
	}
	for _, v := range found {
		t.Error(v)
	}
}
