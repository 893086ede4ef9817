package holdfast

import (
	"context"
	"encoding/json"
	"errors"
	"math"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/holdfast-ai/holdfast/ledger"
)

type receipt struct {
	Number int64
	Order  string
	At     time.Time
}

func refund(order string) Operation {
	return Operation{Key: "refund:" + order, Name: "refund", Workflow: "refund", Arguments: map[string]any{"order": order, "cents": 500}}
}

func TestDoRunsOnceAndReplays(t *testing.T) {
	s := open(t)
	var calls atomic.Int64
	do := func(info *Info) (receipt, error) {
		op := refund("17")
		op.Info = info
		return Do(t.Context(), s.Engine, op, func(ctx context.Context) (receipt, error) {
			a, ok := AttemptFrom(ctx)
			if !ok || a.Number != 1 || len(a.Key) != 36 {
				t.Errorf("attempt %+v", a)
			}
			if r := s.record(a.Intent); r.State != ledger.Dispatched {
				t.Errorf("the function runs before its dispatch is durable: %v", r.State)
			}
			return receipt{Number: calls.Add(1) + 9007199254740992, Order: "17", At: time.Unix(1, 5).UTC()}, nil
		})
	}
	var first, second Info
	a, err := do(&first)
	if err != nil {
		t.Fatal(err)
	}
	b, err := do(&second)
	if err != nil || a != b || calls.Load() != 1 {
		t.Fatalf("%+v %+v %v, %d calls", a, b, err, calls.Load())
	}
	if first.Replayed || first.Attempts != 1 || first.Pending || !second.Replayed || second.Intent != first.Intent || second.At.IsZero() {
		t.Errorf("info %+v, then %+v", first, second)
	}
	s.stop()
	s.start()
	if c, err := do(nil); err != nil || c != a || calls.Load() != 1 {
		t.Errorf("after a restart: %+v %v, %d calls", c, err, calls.Load())
	}
}

// TestDoReplaysWhatItReturned holds results of every kind to one form, the first time as later.
func TestDoReplaysWhatItReturned(t *testing.T) {
	s := open(t)
	twice(t, s, "bytes", []byte("\x00\xff raw"))
	twice(t, s, "none", []byte{})
	twice(t, s, "text", "naïve \u2028 text")
	twice(t, s, "json", json.RawMessage(`{"a":1}`))
	twice[any](t, s, "any", "a string")
	twice[any](t, s, "nil", nil)
	twice(t, s, "pointer", &receipt{Number: 4})
}

func twice[T any](t *testing.T, s *shop, key string, v T) {
	t.Helper()
	var forms [2][]byte
	for i := range forms {
		got, err := Do(t.Context(), s.Engine, Operation{Key: key, Workflow: "refund"}, func(context.Context) (T, error) { return v, nil })
		if err != nil {
			t.Errorf("%s: %v", key, err)
			return
		}
		forms[i], _ = json.Marshal(got)
	}
	want, _ := json.Marshal(v)
	if string(forms[0]) != string(want) || string(forms[1]) != string(want) {
		t.Errorf("%s: %s, then %s, want %s", key, forms[0], forms[1], want)
	}
}

func TestDoRefusesBeforeItActs(t *testing.T) {
	s := open(t)
	never := func(context.Context) (int, error) { t.Error("the function ran"); return 0, nil }
	over, cancel := context.WithCancel(t.Context())
	cancel()
	for name, c := range map[string]struct {
		ctx  context.Context
		op   Operation
		want Code
	}{
		"no key":         {t.Context(), Operation{Workflow: "refund"}, ErrInvalid},
		"derive":         {t.Context(), Operation{Workflow: "hasty_words", Arguments: 1}, ErrInvalid},
		"key form":       {t.Context(), Operation{Key: "a b", Workflow: "refund"}, ErrInvalidKey},
		"workflow":       {t.Context(), Operation{Key: "k", Workflow: "absent"}, ErrInvalid},
		"tenant":         {t.Context(), Operation{Key: "k", Tenant: "A:B"}, ErrInvalid},
		"arguments":      {t.Context(), Operation{Key: "k", Arguments: math.NaN()}, ErrInvalid},
		"template":       {t.Context(), Operation{Workflow: "templated", Arguments: map[string]int{"other": 1}}, ErrInvalid},
		"past deadline":  {t.Context(), Operation{Key: "k", Deadline: -1}, ErrDeadline},
		"ended context":  {over, Operation{Key: "k"}, ErrDeadline},
		"too large name": {t.Context(), Operation{Key: "k", Name: string(make([]byte, 200))}, ErrInvalid},
	} {
		if _, err := Do(c.ctx, s.Engine, c.op, never); !errors.Is(err, c.want) {
			t.Errorf("%s: %v, want %v", name, err, c.want)
		}
	}
	if _, err := Do(t.Context(), s.Engine, Operation{Key: "k"}, func(context.Context) (chan int, error) { t.Error("ran"); return nil, nil }); !errors.Is(err, ErrInvalid) {
		t.Errorf("a channel: %v", err)
	}
	if _, err := Do(t.Context(), s.Engine, Operation{Key: "k"}, func(context.Context) (error, error) { t.Error("ran"); return nil, nil }); !errors.Is(err, ErrInvalid) {
		t.Errorf("an interface: %v", err)
	}
	if n, err := s.ledger.Counts(t.Context()); err != nil || len(n) != 0 {
		t.Errorf("rows were written: %v %v", n, err)
	}
	if _, err := Do(t.Context(), &Engine{}, Operation{Key: "k"}, never); !errors.Is(err, ErrDraining) {
		t.Errorf("an engine that was not started: %v", err)
	}
}

func TestDoOtherOperationUnderTheKey(t *testing.T) {
	s := open(t)
	ok := func(context.Context) (int, error) { return 1, nil }
	if _, err := Do(t.Context(), s.Engine, refund("17"), ok); err != nil {
		t.Fatal(err)
	}
	for name, change := range map[string]func(*Operation){
		"arguments": func(o *Operation) { o.Arguments = map[string]any{"order": "17", "cents": 501} },
		"name":      func(o *Operation) { o.Name = "charge" },
		"owner":     func(o *Operation) { o.Owner = "bob" },
	} {
		op := refund("17")
		change(&op)
		var e *Error
		if _, err := Do(t.Context(), s.Engine, op, ok); !errors.Is(err, ErrKeyReused) || !errors.As(err, &e) || e.Intent == "" || e.SafeToRetry != Unsafe {
			t.Errorf("%s: %v", name, err)
		}
	}
	op, info := refund("17"), Info{}
	op.Arguments, op.Info = json.RawMessage(`{"cents":5.00e2,"order":"17"}`), &info
	if _, err := Do(t.Context(), s.Engine, op, ok); err != nil || !info.Replayed {
		t.Errorf("the same arguments, written otherwise: %v %+v", err, info)
	}
	op, info = refund("17"), Info{}
	op.Tenant, op.Info = "other", &info
	if _, err := Do(t.Context(), s.Engine, op, ok); err != nil || info.Replayed {
		t.Errorf("another tenant's key: %v %+v", err, info)
	}
}

func TestDoDerivesItsKey(t *testing.T) {
	s := open(t)
	var calls atomic.Int64
	do := func(order string, extra int) {
		t.Helper()
		_, err := Do(t.Context(), s.Engine, Operation{Workflow: "templated", Arguments: map[string]any{"order": order, "n": extra}},
			func(context.Context) (int64, error) { return calls.Add(1), nil })
		if err != nil && !errors.Is(err, ErrKeyReused) {
			t.Error(err)
		}
	}
	do("a", 1)
	do("a", 1)
	do("b", 1)
	do("a", 2)
	if calls.Load() != 2 {
		t.Errorf("%d calls for two orders", calls.Load())
	}
}

// TestDoAtOnce is a crowd of duplicates: one execution, one result.
func TestDoAtOnce(t *testing.T) {
	s := open(t)
	var calls, replays atomic.Int64
	release := make(chan struct{})
	var all sync.WaitGroup
	for range 50 {
		all.Go(func() {
			var info Info
			op := refund("17")
			op.Info = &info
			v, err := Do(t.Context(), s.Engine, op, func(context.Context) (int64, error) {
				<-release
				return calls.Add(1), nil
			})
			if err != nil || v != 1 {
				t.Errorf("%d %v", v, err)
			}
			if info.Replayed {
				replays.Add(1)
			}
		})
	}
	eventually(t, func() bool { return s.functions.waiting("refund:17") == 50 })
	close(release)
	all.Wait()
	if calls.Load() != 1 || replays.Load() != 49 {
		t.Errorf("%d calls, %d replays", calls.Load(), replays.Load())
	}
}

// waiting counts the callers of whatever runs.
func (f *functions) waiting(string) int {
	f.mu.Lock()
	defer f.mu.Unlock()
	n := 0
	for _, fl := range f.flights {
		n += fl.attached()
	}
	return n
}

func TestDoConflict(t *testing.T) {
	s := open(t)
	op := Operation{Key: "k", Workflow: "crowd"}
	_, err := Do(t.Context(), s.Engine, op, func(ctx context.Context) (int, error) {
		var e *Error
		_, err := Do(ctx, s.Engine, op, func(context.Context) (int, error) { t.Error("ran twice"); return 0, nil })
		if !errors.Is(err, ErrInFlight) || !errors.As(err, &e) || e.RetryAfter <= 0 || e.SafeToRetry != Safe || e.Intent == "" {
			t.Errorf("within itself: %v", err)
		}
		return 1, nil
	})
	if err != nil {
		t.Error(err)
	}
}

func TestDoFailures(t *testing.T) {
	broken := errors.New("connection reset by peer, secret=hunter2")
	for name, c := range map[string]struct {
		workflow string
		err      error
		want     Code
		again    bool // the next call runs the function
		outcome  ledger.Outcome
	}{
		"external, anything":    {"refund", broken, ErrUnknown, false, ledger.OutcomeUnknown},
		"external, definite":    {"refund", Definite(broken), ErrFailed, true, ledger.OutcomeFailed},
		"external, not sent":    {"refund", NotSent(broken), ErrFailed, true, ledger.OutcomeDiscarded},
		"external, own type":    {"refund", &declined{}, ErrFailed, true, ledger.OutcomeFailed},
		"generation, anything":  {"words", broken, ErrFailed, true, ledger.OutcomeFailed},
		"generation, not sent":  {"words", NotSent(broken), ErrFailed, true, ledger.OutcomeDiscarded},
		"external, wrapped nil": {"refund", errors.Join(broken, nil), ErrUnknown, false, ledger.OutcomeUnknown},
	} {
		t.Run(name, func(t *testing.T) {
			s := open(t)
			calls := 0
			op := Operation{Key: "k", Workflow: c.workflow}
			fn := func(context.Context) (int, error) { calls++; return 7, c.err }
			v, err := Do(t.Context(), s.Engine, op, fn)
			var e *Error
			if v != 0 || !errors.Is(err, c.want) || !errors.As(err, &e) || !errors.Is(err, c.err) {
				t.Fatalf("%d %v", v, err)
			}
			r := s.record(e.Intent)
			if r.Outcome != c.outcome {
				t.Errorf("outcome %v, want %v", r.Outcome, c.outcome)
			}
			history, err := s.ledger.History(t.Context(), e.Intent)
			if err != nil {
				t.Fatal(err)
			}
			text, _ := json.Marshal(history)
			if contains(text, "hunter2") {
				t.Errorf("the error's text is in the log: %s", text)
			}
			_, err = Do(t.Context(), s.Engine, op, fn)
			if !errors.Is(err, c.want) || (calls == 2) != c.again {
				t.Errorf("again: %d calls, %v", calls, err)
			}
		})
	}
	if Definite(nil) != nil || NotSent(nil) != nil {
		t.Error("no error became one")
	}
}

type declined struct{}

func (*declined) Error() string  { return "declined" }
func (*declined) Definite() bool { return true }

func contains(b []byte, s string) bool {
	for i := 0; i+len(s) <= len(b); i++ {
		if string(b[i:i+len(s)]) == s {
			return true
		}
	}
	return false
}
