package spread

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-ai/holdfast/ledger"
)

// away puts a store out of reach.
type away struct {
	ledger.Ledger
	gone bool
}

var errAway = fmt.Errorf("cut off: %w", ledger.ErrUnavailable)

func (a *away) Enqueue(w *ledger.Write) <-chan struct{} {
	if a.gone {
		w.Err = errAway
		return over
	}
	return a.Ledger.Enqueue(w)
}

func (a *away) Get(ctx context.Context, id string) (*ledger.Record, error) {
	if a.gone {
		return nil, errAway
	}
	return a.Ledger.Get(ctx, id)
}

func (a *away) Holder(ctx context.Context, key string) (*ledger.Record, error) {
	if a.gone {
		return nil, errAway
	}
	return a.Ledger.Holder(ctx, key)
}

func (a *away) List(ctx context.Context, f ledger.Filter) ([]*ledger.Record, error) {
	if a.gone {
		return nil, errAway
	}
	return a.Ledger.List(ctx, f)
}

func (a *away) Open(ctx context.Context, after string, limit int) ([]*ledger.Record, error) {
	if a.gone {
		return nil, errAway
	}
	return a.Ledger.Open(ctx, after, limit)
}

func (a *away) Owners(ctx context.Context) ([]ledger.Owner, error) {
	if a.gone {
		return nil, errAway
	}
	return a.Ledger.Owners(ctx)
}

func (a *away) Beat(ctx context.Context, o ledger.Owner) error {
	if a.gone {
		return errAway
	}
	return a.Ledger.Beat(ctx, o)
}

func (a *away) Healthy() error {
	if a.gone {
		return errAway
	}
	return a.Ledger.Healthy()
}

func (a *away) Note(ctx context.Context, name, was, value string) (string, error) {
	return a.Ledger.(ledger.Noter).Note(ctx, name, was, value)
}

// insertion is that of a new intent; n counts within a test.
func insertion(l ledger.Ledger, n int, key, owner string) *ledger.Write {
	now := l.Now()
	return &ledger.Write{
		Insert: &ledger.Intent{ID: fmt.Sprintf("%08x-%04x-7%03x-8000-%012x", now.UnixMilli()>>16, now.UnixMilli()&0xffff, n&0xfff, n), Tenant: "main", Workflow: "chat",
			Effect: ledger.EffectGeneration, Key: key, Method: "POST", Path: "/v1", Provider: "openai", Endpoint: "chat", MaxAttempts: 1, CreatedAt: now},
		ClaimKey: key,
		Status: ledger.Status{Version: 1, State: ledger.Dispatched, Outcome: ledger.OutcomePending, Visibility: ledger.VisBefore, Attempt: 1,
			LeaseOwner: owner, UpdatedAt: now},
		Events: []ledger.Event{{At: now, Kind: "transition", To: ledger.Dispatched}},
	}
}

// moved is the change that follows an insertion.
func moved(w *ledger.Write, owner string) *ledger.Write {
	n := &ledger.Write{ID: w.Insert.ID, Version: 1, Status: w.Status, HeldKey: w.ClaimKey}
	n.Status.Version, n.Status.LeaseOwner = 2, owner
	return n
}

// keyOf returns a key whose home is the given store, the n-th.
func keyOf(l *Ledger, at, n int) string {
	for i := 0; ; i++ {
		if key := fmt.Sprintf("key-%d-%d", n, i); l.home(key).at == at {
			return key
		}
	}
}

// breakable is a ledger over three stores, each of which can be put out of reach.
func breakable(t *testing.T) (*Ledger, []*away) {
	var stores []ledger.Ledger
	var parts []*away
	for _, s := range files(t, t.TempDir(), 3) {
		parts = append(parts, &away{Ledger: s})
		stores = append(stores, parts[len(parts)-1])
	}
	return spreadOver(t, stores...), parts
}

func commit(t *testing.T, l ledger.Ledger, w *ledger.Write) {
	t.Helper()
	if err := ledger.Commit(t.Context(), l, w); err != nil {
		t.Fatal(err)
	}
}

// TestOneStoreAway: its keys are unavailable and never not found; every other key is served.
func TestOneStoreAway(t *testing.T) {
	l, parts := breakable(t)
	ctx := t.Context()
	var before []*ledger.Write
	for i := range parts {
		before = append(before, insertion(l, i, keyOf(l, i, 0), ""))
		commit(t, l, before[i])
	}
	parts[1].gone = true
	l.places = places{} // as a replica that has seen none of them
	for i, w := range before {
		want := error(nil)
		if i == 1 {
			want = ledger.ErrUnavailable
		}
		_, get := l.Get(ctx, w.Insert.ID)
		_, holder := l.Holder(ctx, w.ClaimKey)
		_, list := l.List(ctx, ledger.Filter{Key: w.ClaimKey})
		for what, err := range map[string]error{"Get": get, "Holder": holder, "List of a key": list, "move": ledger.Commit(ctx, l, moved(w, "")),
			"claim": ledger.Commit(ctx, l, insertion(l, 100+i, keyOf(l, i, 1), ""))} {
			if !errors.Is(err, want) {
				t.Errorf("store %d, %s: %v, want %v", i, what, err, want)
			}
		}
	}
	_, list := l.List(ctx, ledger.Filter{})
	_, unseen := l.Get(ctx, insertion(l, 999, "", "").Insert.ID)
	_, owners := l.Owners(ctx)
	for what, err := range map[string]error{"a listing": list, "an id that no store has that is there": unseen, "who is alive": owners} {
		if !errors.Is(err, ledger.ErrUnavailable) {
			t.Errorf("%s: %v, want ErrUnavailable", what, err)
		}
	}
	if open, err := l.Open(ctx, "", 100); err != nil || len(open) != 4 {
		t.Errorf("Open has %d, %v; want what the others hold", len(open), err)
	}
	if l.Healthy() != nil || l.Away() != 1 {
		t.Errorf("Healthy() = %v with %d away", l.Healthy(), l.Away())
	}
	if near, far := l.HealthOf(before[0].Insert.ID), l.HealthOf("unseen"); near != nil || far == nil {
		t.Errorf("where the others are kept: %v; who knows where: %v", near, far)
	}
	parts[1].gone = false
	commit(t, l, moved(before[1], ""))
}

// TestHeartbeatOfEachStore: an owner takes nothing on, and sends nothing, for what a store keeps that does not have its heartbeat; it goes on elsewhere.
func TestHeartbeatOfEachStore(t *testing.T) {
	l, parts := breakable(t)
	ctx := t.Context()
	const me = "gw-1"
	if err := l.Beat(ctx, ledger.Owner{ID: me, Until: l.Now().Add(time.Minute)}); err != nil {
		t.Fatal(err)
	}
	mine := []*ledger.Write{insertion(l, 0, keyOf(l, 0, 0), me), insertion(l, 1, keyOf(l, 1, 0), me)}
	for _, w := range mine {
		commit(t, l, w)
		if !l.Holds(me, w.Insert.ID) {
			t.Error("a current heartbeat does not hold")
		}
	}
	parts[1].gone = true
	ended := ledger.Owner{ID: me, Until: l.Now().Add(-time.Hour)}
	l.stores[1].beats[me] = beat{owner: ended, began: time.Now().Add(-time.Hour), good: time.Minute} // an hour later
	if err := l.Beat(ctx, ledger.Owner{ID: me, Until: l.Now().Add(time.Minute)}); err != nil {
		t.Fatalf("one store away: %v", err)
	}
	parts[1].gone = false // it is back, and has an old heartbeat
	if !l.Holds(me, mine[0].Insert.ID) || l.Holds(me, mine[1].Insert.ID) {
		t.Errorf("holds %t where its heartbeat is, %t where it is not", l.Holds(me, mine[0].Insert.ID), l.Holds(me, mine[1].Insert.ID))
	}
	if err := ledger.Commit(ctx, l, moved(mine[1], me)); !errors.Is(err, ledger.ErrUnavailable) {
		t.Errorf("a move without a heartbeat: %v, want ErrUnavailable", err)
	}
	commit(t, l, moved(mine[0], me))
	l.work.Wait() // what was refused has brought the heartbeat there
	if !l.Holds(me, mine[1].Insert.ID) {
		t.Fatal("the heartbeat was not brought to the store that came back")
	}
	commit(t, l, moved(mine[1], me))
	for _, p := range parts {
		p.gone = true
	}
	if err := l.Beat(ctx, ledger.Owner{ID: me, Until: l.Now().Add(time.Minute)}); !errors.Is(err, ledger.ErrUnavailable) {
		t.Errorf("no store took it: %v", err)
	}
}

// TestOwnerIsAsAliveAsAnyStoreSays: an owner that could not reach one store is dead for nobody.
func TestOwnerIsAsAliveAsAnyStoreSays(t *testing.T) {
	l, parts := breakable(t)
	for i, d := range []time.Duration{-time.Hour, time.Hour, -2 * time.Hour} {
		if err := parts[i].Beat(t.Context(), ledger.Owner{ID: "gw", Until: l.Now().Add(d)}); err != nil {
			t.Fatal(err)
		}
	}
	if owners, err := l.Owners(t.Context()); err != nil || len(owners) != 1 || owners[0].Until.Before(l.Now()) {
		t.Errorf("Owners = %+v, %v", owners, err)
	}
}

// TestOrderDoesNotMatter: a replica that lists the stores in another order finds every claim.
func TestOrderDoesNotMatter(t *testing.T) {
	dir := t.TempDir()
	l := spreadOver(t, files(t, dir, 3)...)
	salt, err := l.Secret(t.Context(), "salt")
	if err != nil {
		t.Fatal(err)
	}
	var keys []string
	for i := range 30 {
		keys = append(keys, fmt.Sprintf("k%d", i))
		commit(t, l, insertion(l, i, keys[i], ""))
	}
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	stores := files(t, dir, 3)
	slices.Reverse(stores)
	l = spreadOver(t, stores...)
	for i, key := range keys {
		if err := ledger.Commit(t.Context(), l, insertion(l, 100+i, key, "")); !errors.Is(err, ledger.ErrClaimed) {
			t.Errorf("claim of %s again: %v, want ErrClaimed", key, err)
		}
	}
	if again, err := l.Secret(t.Context(), "salt"); err != nil || string(again) != string(salt) {
		t.Errorf("the secret is another's, %v", err)
	}
}

// TestSetIsKept: stores that belong together are opened together or not at all.
func TestSetIsKept(t *testing.T) {
	dir := t.TempDir()
	stores := files(t, dir, 4)
	refused := func(what string, err error) {
		t.Helper()
		var set *SetError
		if !errors.As(err, &set) {
			t.Errorf("%s: %v, want a *SetError", what, err)
		}
	}
	ctx := t.Context()
	if _, err := New(ctx, stores[:2], nil); err != nil {
		t.Fatal(err)
	}
	_, err := New(ctx, stores[:3], nil)
	refused("one more", err)
	_, err = New(ctx, stores[1:3], nil)
	refused("another", err)
	for i := range 2 {
		_, err = New(ctx, stores[i:i+1], nil)
		refused("one less", err)
	}
	_, err = New(ctx, []ledger.Ledger{stores[0], stores[1], stores[1]}, nil)
	refused("one twice", err)
	refused("one alone", Alone(ctx, stores[0]))
	refused("the other alone", Alone(ctx, stores[1]))
	if _, err := New(ctx, []ledger.Ledger{stores[1], stores[0]}, nil); err != nil {
		t.Errorf("the same in another order: %v", err)
	}
	for range 2 {
		if err := Alone(ctx, stores[3]); err != nil {
			t.Errorf("alone: %v", err)
		}
	}
	_, err = New(ctx, stores[2:], nil)
	refused("with one that served alone", err)
	full := files(t, t.TempDir(), 2)
	commit(t, full[1], insertion(full[1], 1, "claimed here", ""))
	_, err = New(ctx, full, nil)
	refused("with one that holds operations", err)
	if err != nil && !strings.Contains(err.Error(), "store 2 of the list holds operations") {
		t.Error(err)
	}
	if _, err := New(ctx, []ledger.Ledger{full[0], files(t, t.TempDir(), 1)[0]}, nil); err != nil {
		t.Errorf("what was refused has left something behind: %v", err)
	}
}

// TestKeysLieEvenly, and of n+1 stores the new one takes its share and nothing else moves.
func TestKeysLieEvenly(t *testing.T) {
	names := []string{"5f1a90c2b7e34d68", "00c4d2e1f3a5b697", "e29b8a7d6c5f4e30", "7777777777777777"}
	const keys = 20_000
	held := map[string]int{}
	for i := range keys {
		key := fmt.Sprintf("idem:production:main:key:%d", i)
		before, after := homeOf(names[:3], key), homeOf(names, key)
		held[after]++
		if before != after && after != names[3] {
			t.Fatalf("%s moves from %s to %s", key, before, after)
		}
	}
	for _, name := range names {
		if share := float64(held[name]) / keys; share < 0.23 || share > 0.27 {
			t.Errorf("%s holds %.3f of the keys, want a quarter", name, share)
		}
	}
}
