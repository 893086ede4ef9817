package holdfast

import (
	"context"
	"errors"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/holdfast-ai/holdfast/internal/policy"
	"github.com/holdfast-ai/holdfast/ledger"
)

func intentOf(t *testing.T, err error) string {
	t.Helper()
	var e *Error
	if !errors.As(err, &e) || e.Intent == "" {
		t.Fatalf("no intent in %v", err)
	}
	return e.Intent
}

// TestDoOutlives: a function that does not return in time is unknown, and what it returns later is evidence.
func TestDoOutlives(t *testing.T) {
	s := open(t)
	release, returned := make(chan struct{}), make(chan struct{})
	op := Operation{Key: "k", Workflow: "hasty"}
	_, err := Do(t.Context(), s.Engine, op, func(ctx context.Context) (string, error) {
		defer close(returned)
		<-ctx.Done()
		<-release
		return "done after all", nil
	})
	if !errors.Is(err, ErrUnknown) || !errors.Is(err, context.DeadlineExceeded) {
		t.Fatal(err)
	}
	id := intentOf(t, err)
	_, again := Do(t.Context(), s.Engine, op, func(context.Context) (string, error) { t.Error("ran again"); return "", nil })
	if !errors.Is(again, ErrUnknown) || intentOf(t, again) != id {
		t.Errorf("again: %v", again)
	}
	close(release)
	<-returned
	eventually(t, func() bool { return s.record(id).State == ledger.Settled })
	r := s.record(id)
	if r.Outcome != ledger.OutcomeSuccess || r.BilledMaybe != 1 {
		t.Errorf("the late result did not end the unknown: %+v", r.Status)
	}
	v, err := Do(t.Context(), s.Engine, op, func(context.Context) (string, error) { t.Error("ran again"); return "", nil })
	if err != nil || v != "done after all" {
		t.Errorf("after its late result: %q %v", v, err)
	}
}

// TestDoObeysInTime: a function that obeys its context may still say what happened.
func TestDoObeysInTime(t *testing.T) {
	s := open(t)
	for name, c := range map[string]struct {
		err  error
		want error
	}{
		"nothing happened": {NotSent(errors.New("gave up while waiting for a connection")), ErrFailed},
		"it is done":       {nil, nil},
		"who knows":        {context.DeadlineExceeded, ErrUnknown},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			v, err := Do(t.Context(), s.Engine, Operation{Key: strings.ReplaceAll(name, " ", "-"), Workflow: "hasty"},
				func(ctx context.Context) (int, error) { <-ctx.Done(); return 1, c.err })
			if c.want == nil && (err != nil || v != 1) || c.want != nil && !errors.Is(err, c.want) {
				t.Errorf("%d %v", v, err)
			}
		})
	}
	_, err := Do(t.Context(), s.Engine, Operation{Key: "w", Workflow: "hasty_words"},
		func(ctx context.Context) (int, error) { <-ctx.Done(); return 0, ctx.Err() })
	var e *Error
	if !errors.Is(err, ErrDeadline) || !errors.As(err, &e) || e.SafeToRetry != Safe {
		t.Errorf("a generation: %v", err)
	}
}

// TestDoDeadlines: the function's time ends before its caller's does.
func TestDoDeadlines(t *testing.T) {
	s := open(t)
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	callers, _ := ctx.Deadline()
	for key, op := range map[string]Operation{"ctx": {}, "deadline": {Deadline: time.Minute}} {
		op.Key, op.Workflow = key, "refund"
		_, err := Do(ctx, s.Engine, op, func(ctx context.Context) (int, error) {
			if d, ok := ctx.Deadline(); !ok || !d.Before(callers) {
				t.Errorf("%s: the function may run to %v, its caller waits to %v", key, d, callers)
			}
			return 0, nil
		})
		if err != nil {
			t.Error(err)
		}
	}
}

func TestDoPanics(t *testing.T) {
	s := open(t)
	type mine struct{ n int }
	op := Operation{Key: "k", Workflow: "refund"}
	func() {
		defer func() {
			if p := recover(); p != (mine{7}) {
				t.Errorf("the caller got %v", p)
			}
		}()
		_, _ = Do(t.Context(), s.Engine, op, func(context.Context) (int, error) { panic(mine{7}) })
		t.Error("no panic")
	}()
	if _, err := Do(t.Context(), s.Engine, op, func(context.Context) (int, error) { t.Error("ran again"); return 0, nil }); !errors.Is(err, ErrUnknown) {
		t.Error(err)
	}
	_, err := Do(t.Context(), s.Engine, Operation{Key: "exit", Workflow: "refund"}, func(context.Context) (int, error) { runtime.Goexit(); return 0, nil })
	if !errors.Is(err, ErrUnknown) {
		t.Errorf("Goexit: %v", err)
	}
}

// TestDoCallerLeaves: under finish the function goes on, and who comes back finds the result; under cancel it is told.
func TestDoCallerLeaves(t *testing.T) {
	s := open(t)
	for _, workflow := range []string{"refund", "tied"} {
		ctx, cancel := context.WithCancel(t.Context())
		release := make(chan struct{})
		op := Operation{Key: workflow, Workflow: workflow}
		_, err := Do(ctx, s.Engine, op, func(inner context.Context) (string, error) {
			cancel()
			if workflow == "tied" {
				<-inner.Done()
				return "", NotSent(context.Cause(inner))
			}
			<-release
			return "finished", inner.Err()
		})
		if !errors.Is(err, ErrDeadline) || !errors.Is(err, context.Canceled) || intentOf(t, err) == "" {
			t.Errorf("%s: %v", workflow, err)
		}
		close(release)
		v, err := Do(t.Context(), s.Engine, op, func(context.Context) (string, error) { return "anew", nil })
		want := map[string]string{"refund": "finished", "tied": "anew"}[workflow]
		if workflow == "tied" && errors.Is(err, ErrFailed) { // it joined the one that was just being told
			v, err = Do(t.Context(), s.Engine, op, func(context.Context) (string, error) { return "anew", nil })
		}
		if err != nil || v != want {
			t.Errorf("%s: %q %v, want %q", workflow, v, err, want)
		}
	}
}

// TestDoUnrecorded: a result that cannot be stored reaches its caller, and nobody runs it again.
func TestDoUnrecorded(t *testing.T) {
	s := open(t, "limits: {max_response_bytes: 100B}")
	var info Info
	op := Operation{Key: "k", Workflow: "refund", Info: &info}
	v, err := Do(t.Context(), s.Engine, op, func(context.Context) (string, error) { return strings.Repeat("x", 101), nil })
	if err != nil || len(v) != 101 || !info.Unrecorded {
		t.Fatalf("%d bytes, %v %+v", len(v), err, info)
	}
	op.Info = nil
	if _, err := Do(t.Context(), s.Engine, op, func(context.Context) (string, error) { t.Error("ran again"); return "", nil }); !errors.Is(err, ErrAnswerGone) {
		t.Error(err)
	}
	op = Operation{Key: "typed", Workflow: "refund"}
	if _, err := Do(t.Context(), s.Engine, op, func(context.Context) (string, error) { return "x", nil }); err != nil {
		t.Fatal(err)
	}
	if _, err := Do(t.Context(), s.Engine, op, func(context.Context) (int, error) { t.Error("ran again"); return 0, nil }); !errors.Is(err, ErrAnswerGone) {
		t.Errorf("as another type: %v", err)
	}
}

func TestDoStoreAway(t *testing.T) {
	s := open(t)
	if err := s.ledger.Close(); err != nil {
		t.Fatal(err)
	}
	var e *Error
	_, err := Do(t.Context(), s.Engine, refund("17"), func(context.Context) (int, error) { t.Error("ran unwritten"); return 0, nil })
	if !errors.Is(err, ErrStoreUnavailable) || !errors.As(err, &e) || e.SafeToRetry != Safe || e.RetryAfter <= 0 || !errors.Is(err, ledger.ErrClosed) {
		t.Error(err)
	}
}

// TestStopWaitsThenInterrupts: what returns in time is recorded; the rest is interrupted, and recovery agrees.
func TestStopWaitsThenInterrupts(t *testing.T) {
	s := open(t)
	began := make(chan struct{}, 3)
	release := make(chan struct{})
	results := map[string]error{}
	var mu sync.Mutex
	var all sync.WaitGroup
	run := func(key, workflow string, fn func(context.Context) (int, error)) {
		all.Go(func() {
			_, err := Do(context.Background(), s.Engine, Operation{Key: key, Workflow: workflow}, func(ctx context.Context) (int, error) {
				began <- struct{}{}
				return fn(ctx)
			})
			mu.Lock()
			results[key] = err
			mu.Unlock()
		})
	}
	run("obeys", "refund", func(ctx context.Context) (int, error) { <-ctx.Done(); return 0, context.Cause(ctx) })
	run("deaf", "refund", func(context.Context) (int, error) { <-release; return 0, nil })
	run("words", "words", func(ctx context.Context) (int, error) { <-ctx.Done(); return 0, context.Cause(ctx) })
	for range 3 {
		<-began
	}
	engine := s.Engine
	ctx, cancel := context.WithCancel(t.Context())
	stopped := make(chan struct{})
	go func() { defer close(stopped); _ = engine.Stop(ctx) }()
	eventually(t, func() bool {
		_, err := Do(t.Context(), engine, Operation{Key: "new", Workflow: "refund"}, func(context.Context) (int, error) { return 0, nil })
		return errors.Is(err, ErrDraining)
	})
	cancel()
	<-stopped
	all.Wait()
	close(release)
	s.start()
	for key, want := range map[string]Code{"obeys": ErrUnknown, "deaf": ErrUnknown, "words": ErrFailed} {
		if !errors.Is(results[key], want) {
			t.Errorf("%s: %v, want %v", key, results[key], want)
		}
	}
	ran := false
	if _, err := Do(t.Context(), s.Engine, Operation{Key: "words", Workflow: "words"}, func(ctx context.Context) (int, error) {
		a, _ := AttemptFrom(ctx)
		ran = a.Number == 2
		return 0, nil
	}); err != nil || !ran {
		t.Errorf("the interrupted generation is taken over as its second attempt: %v %v", ran, err)
	}
	if _, err := Do(t.Context(), s.Engine, Operation{Key: "deaf", Workflow: "refund"}, func(context.Context) (int, error) { t.Error("ran again"); return 0, nil }); !errors.Is(err, ErrUnknown) {
		t.Error(err)
	}
}

func TestDoReadAndObserve(t *testing.T) {
	s := open(t)
	for _, workflow := range []string{"looking", "watched"} {
		calls := 0
		for range 2 {
			v, err := Do(t.Context(), s.Engine, Operation{Key: "k", Workflow: workflow}, func(context.Context) (int, error) { calls++; return calls, nil })
			if err != nil || v != calls {
				t.Errorf("%s: %d %v", workflow, v, err)
			}
		}
		if calls != 2 {
			t.Errorf("%s: %d calls", workflow, calls)
		}
	}
	rows, err := s.ledger.List(t.Context(), ledger.Filter{})
	if err != nil || len(rows) != 2 || rows[0].Workflow != "watched" {
		t.Errorf("%d rows: a read is none, a watched call one each: %v", len(rows), err)
	}
	broken := errors.New("broken")
	if _, err := Do(t.Context(), s.Engine, Operation{Key: "e", Workflow: "watched"}, func(context.Context) (int, error) { return 0, broken }); !errors.Is(err, broken) {
		t.Error(err)
	}
	if s.Engine.config().Workflow("watched").Mode != policy.Observe {
		t.Error("the workflow does not observe")
	}
}
