package holdfast

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"github.com/holdfast-ai/holdfast/ledger"
)

// TestReconcileFunction asks a program's own function what became of an operation of its own.
func TestReconcileFunction(t *testing.T) {
	for name, c := range map[string]struct {
		found   Evidence
		err     error
		outcome ledger.Outcome
		result  string
		again   error
	}{
		"it happened":             {HappenedWith("receipt 7", "refund 7"), nil, ledger.OutcomeSuccess, "receipt 7", nil},
		"it happened, no result":  {Happened("refund 7"), nil, ledger.OutcomeSuccess, "", ErrAnswerGone},
		"it did not happen":       {DidNotHappen("no refund"), nil, ledger.OutcomeFailed, "new", nil},
		"the bank cannot be read": {Evidence{}, errors.New("bank: secret-address unreachable"), ledger.OutcomeUnknown, "", ErrUnknown},
		"nobody can tell":         {CannotTell("the bank is closed"), nil, ledger.OutcomeUnknown, "", ErrUnknown},
	} {
		t.Run(name, func(t *testing.T) {
			func() {
				s := openEmbedded(t)
				// Before there is anything to ask about: the first check is at once, and else the configuration's own.
				var mu sync.Mutex
				var seen []Unknown
				if err := s.Reconcile("hasty", func(_ context.Context, u Unknown) (Evidence, error) {
					mu.Lock()
					defer mu.Unlock()
					seen = append(seen, u)
					return c.found, c.err
				}); err != nil {
					t.Fatal(err)
				}
				op := Operation{Key: "k", Workflow: "hasty"}
				var key string
				_, err := Do(t.Context(), s, op, func(ctx context.Context) (string, error) {
					a, _ := AttemptFrom(ctx)
					key = a.Key
					return "", errors.New("connection lost")
				})
				if !errors.Is(err, ErrUnknown) {
					t.Fatal(err)
				}
				id := intentOf(t, err)
				eventually(t, func() bool {
					r, err := s.ledger.Get(t.Context(), id)
					mu.Lock()
					defer mu.Unlock()
					return err == nil && (r.State == ledger.Settled || c.outcome == ledger.OutcomeUnknown && len(seen) == 5)
				})
				r, err := s.ledger.Get(t.Context(), id)
				if err != nil || r.Outcome != c.outcome {
					t.Errorf("%+v %v", r.Status, err)
				}
				mu.Lock()
				if len(seen) == 0 || seen[0].Key != key || seen[0].Intent != id || seen[0].Workflow != "hasty" {
					t.Errorf("asked with %+v, the function's key was %s", seen, key)
				}
				mu.Unlock()
				v, err := Do(t.Context(), s, op, func(context.Context) (string, error) { return "new", nil })
				if v != c.result || !errors.Is(err, c.again) {
					t.Errorf("again: %q %v", v, err)
				}
			}()
		})
	}
}

// TestReconcileReturnsOutboxRows does a row again whose effect did not take place, and only that one.
func TestReconcileReturnsOutboxRows(t *testing.T) {
	func() {
		e, db := openEmbedded(t), orders(t)
		var mu sync.Mutex
		done := map[string]int{}
		e.Handle("confirm", func(_ context.Context, arguments json.RawMessage) (any, error) {
			mu.Lock()
			defer mu.Unlock()
			if done[string(arguments)]++; done[string(arguments)] == 1 {
				return nil, errors.New("connection lost")
			}
			return "confirmed", nil
		})
		if err := e.Reconcile("hasty", func(_ context.Context, u Unknown) (Evidence, error) {
			if string(u.Arguments) == `{"order":"happened"}` {
				return Happened("it is in the list"), nil
			}
			return DidNotHappen("it is not in the list"), nil
		}); err != nil {
			t.Fatal(err)
		}
		hasty := func(op *Operation) { op.Workflow = "hasty" }
		place(t, db, "happened", true, hasty)
		place(t, db, "lost", true, hasty)
		outbox, err := e.Outbox(db, OutboxConfig{})
		if err != nil {
			t.Fatal(err)
		}
		outbox.Notify()
		eventually(t, func() bool {
			all, err := e.ledger.List(t.Context(), ledger.Filter{Workflow: "hasty", Outcomes: []ledger.Outcome{ledger.OutcomeSuccess}})
			return err == nil && len(all) == 2
		})
		mu.Lock()
		defer mu.Unlock()
		if done[`{"order":"happened"}`] != 1 || done[`{"order":"lost"}`] != 2 {
			t.Errorf("done %v", done)
		}
		all, err := e.ledger.List(t.Context(), ledger.Filter{Workflow: "hasty"})
		if err != nil || len(all) != 2 {
			t.Fatalf("%d operations, %v", len(all), err)
		}
		for _, r := range all {
			if r.State != ledger.Settled || r.Outcome != ledger.OutcomeSuccess {
				t.Errorf("%s, %s after %d attempts", r.State, r.Outcome, r.Attempt)
			}
		}
	}()
}

func configured(t *testing.T, text string) string {
	t.Helper()
	name := filepath.Join(t.TempDir(), "holdfast.yaml")
	if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return name
}

// openEmbedded starts an engine whose workflow is looked after often.
func openEmbedded(t *testing.T) *Engine {
	t.Helper()
	e, err := New(Config{File: configured(t, "env: test\nworkflows:\n  hasty: {timeouts: {attempt: 5s, total: 6s, request: 7s}, reconcile: {sql: \"SELECT id FROM t\", dsn: \"sqlite:none.db\", happened: \"len(result) > 5\", every: 50ms, quiet: 300ms}}\n"),
		Store: "sqlite:" + t.TempDir() + "/h.db", Embedded: true})
	if err == nil {
		err = e.Start(t.Context())
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := e.Stop(context.Background()); err != nil {
			t.Error(err)
		}
	})
	return e
}

func TestReconcileUnknownWorkflow(t *testing.T) {
	e, err := New(Config{File: configured(t, "env: test\n"), Embedded: true})
	if err != nil {
		t.Fatal(err)
	}
	if err := e.Reconcile("nobody", nil); !errors.Is(err, ErrInvalid) {
		t.Error(err)
	}
	if err := e.Reconcile("", func(context.Context, Unknown) (Evidence, error) { return Evidence{}, nil }); err != nil {
		t.Error(err)
	}
}
