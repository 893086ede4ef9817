// Package ledgertest is the contract of ledger.Ledger as tests that every driver has to pass.
package ledgertest

import (
	"context"
	"crypto/rand"
	"encoding/binary"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/holdfast-ai/holdfast/ledger"
)

// fixture makes intents and follows their versions against one ledger.
type fixture struct {
	testing.TB
	ledger.Ledger
	ctx context.Context
	seq atomic.Uint64
}

func newFixture(t testing.TB, l ledger.Ledger) *fixture {
	return &fixture{TB: t, Ledger: l, ctx: t.Context()}
}

// id returns a UUIDv7; ids of one fixture rise.
func (f *fixture) id() string {
	var b [16]byte
	if _, err := rand.Read(b[8:]); err != nil {
		f.Fatal(err)
	}
	v := f.rise(uint64(f.Now().UnixMilli()) << 12)
	binary.BigEndian.PutUint64(b[:8], v>>12<<16|0x7000|v&0xfff)
	b[8] = b[8]&0x3f | 0x80
	return fmt.Sprintf("%x-%x-%x-%x-%x", b[:4], b[4:6], b[6:8], b[8:10], b[10:])
}

// rise returns v, or one more than it returned last.
func (f *fixture) rise(v uint64) uint64 {
	for {
		last := f.seq.Load()
		if v <= last {
			v = last + 1
		}
		if f.seq.CompareAndSwap(last, v) {
			return v
		}
	}
}

// created returns the insertion of a new intent that claims key (none when empty).
func (f *fixture) created(key string) *ledger.Write {
	now := f.Now()
	return &ledger.Write{
		Insert: &ledger.Intent{
			ID: f.id(), Tenant: "main", Workflow: "chat", Effect: ledger.EffectExternal, Hold: true, Key: key,
			Explicit: key != "", Method: "POST", Path: "/v1/chat/completions", Provider: "openai",
			Endpoint: "chat.completions", RequestedModel: "gpt-5", MaxAttempts: 3, CreatedAt: now,
		},
		ClaimKey: key,
		Status: ledger.Status{
			Version: 1, State: ledger.Created, Outcome: ledger.OutcomePending, Visibility: ledger.VisBefore, UpdatedAt: now,
		},
		Events: []ledger.Event{{At: now, Kind: "transition", To: ledger.Created, Actor: "gateway"}},
	}
}

// dispatched returns the insertion of an intent with its first attempt, as a direct call writes it.
func (f *fixture) dispatched(key string) *ledger.Write {
	w := f.created(key)
	w.Status.State, w.Status.Attempt = ledger.Dispatched, 1
	w.Events = append(w.Events, f.dispatch(1)...)
	return w
}

func (f *fixture) dispatch(attempt int) []ledger.Event {
	now := f.Now()
	return []ledger.Event{
		{At: now, Kind: "transition", From: ledger.Created, To: ledger.Dispatched},
		{At: now, Kind: "attempt", Attempt: attempt, Route: "openai/gpt-5", Tier: "pro"},
	}
}

// next returns the change that follows w, to state.
func (f *fixture) next(w *ledger.Write, state ledger.State) *ledger.Write {
	n := &ledger.Write{ID: w.ID, Version: w.Status.Version, Status: w.Status, HeldKey: w.HeldKey}
	if w.Insert != nil {
		n.ID, n.HeldKey = w.Insert.ID, w.ClaimKey
	}
	n.Status.Version++
	n.Status.State, n.Status.UpdatedAt = state, f.Now()
	n.Events = []ledger.Event{{At: f.Now(), Kind: "transition", From: w.Status.State, To: state, Reason: "test"}}
	return n
}

// settled returns the settling after w with success, keeping the claim for ttl.
func (f *fixture) settled(w *ledger.Write, ttl time.Duration) *ledger.Write {
	n := f.next(w, ledger.Settled)
	n.Settle, n.Status.Outcome, n.Status.Visibility = true, ledger.OutcomeSuccess, ledger.VisComplete
	n.Claim, n.ClaimUntil = ledger.ClaimKeep, f.Now().Add(ttl)
	n.Answer = &ledger.Answer{
		HTTPStatus: 200, Header: map[string][]string{"Content-Type": {"application/json"}}, Source: "pro", HasBody: true,
	}
	n.Bodies = []ledger.Body{{Kind: ledger.BodyAnswer, ContentType: "application/json", Data: []byte(`{"ok":true}`)}}
	if w.Status.Attempt > 0 {
		n.Events = append([]ledger.Event{{At: f.Now(), Kind: "attempt_end", Attempt: w.Status.Attempt,
			End: ledger.AttemptSuccess, Status: 200}}, n.Events...)
	}
	return n
}

// commit commits w and fails the test on an error.
func (f *fixture) commit(w *ledger.Write) *ledger.Write {
	f.Helper()
	if err := ledger.Commit(f.ctx, f.Ledger, w); err != nil {
		f.Fatalf("commit: %v", err)
	}
	return w
}

func (f *fixture) get(id string) *ledger.Record {
	f.Helper()
	rec, err := f.Get(f.ctx, id)
	if err != nil {
		f.Fatalf("Get(%s): %v", id, err)
	}
	return rec
}

// same compares what was written with what is read. Stores keep microseconds.
func (f *fixture) same(what string, want, got any) {
	f.Helper()
	near := cmpopts.EquateApproxTime(time.Microsecond)
	if d := cmp.Diff(want, got, near, cmpopts.EquateEmpty()); d != "" {
		f.Errorf("%s differs (-want +got):\n%s", what, d)
	}
}

// together returns a key of key's kind that stands in the same store as anchor, where the ledger is one over several.
func (f *fixture) together(anchor, key string) string {
	several, ok := f.Ledger.(interface{ Together(a, b string) bool })
	for n := 0; ok && !several.Together(anchor, key); n++ {
		key = fmt.Sprintf("%s-%d", key, n)
	}
	return key
}

func ids(recs []*ledger.Record) []string {
	out := make([]string, len(recs))
	for i, r := range recs {
		out[i] = r.ID
	}
	return out
}
