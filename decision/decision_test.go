package decision_test

import (
	"encoding/json"
	"math"
	"reflect"
	"testing"
	"time"

	"github.com/holdfast-ai/holdfast/decision"
	"github.com/holdfast-ai/holdfast/retry"
	"github.com/holdfast-ai/holdfast/signal"
)

// plain is the default policy of interface.md §5.
func plain() decision.Policy {
	return decision.Policy{On: []string{"429", "500", "502", "503", "504", "529", "connection_error"},
		Backoff: retry.Policy{MaxAttempts: 3, Base: 500 * time.Millisecond, Max: 8 * time.Second}, MaxAttempts: 3, MaxWait: 8 * time.Second}
}

// busy is the failure of a provider that asks for a wait of ms; below 0 it asks for none.
func busy(status int, ms int64) decision.Facts {
	s := signal.Signal{HTTPStatus: status, Class: signal.RateLimited, Retryable: true, OutcomeKnown: true}
	if ms >= 0 {
		s.RetryAfterMS = &ms
	}
	return decision.Facts{Signal: s, Status: status, End: decision.Failed, Attempt: 1, Remaining: time.Minute, Roll: 0.5}
}

func with(f decision.Facts, change func(*decision.Facts)) decision.Facts {
	change(&f)
	return f
}

// refused is a failure that the same request meets again.
func refused(c signal.Class) decision.Facts {
	return decision.Facts{Signal: signal.Signal{Class: c, OutcomeKnown: true}, Status: 400, End: decision.Failed, Attempt: 1, Remaining: time.Minute}
}

// Every rule in the order in which it is asked: each case also breaks all rules below its own.
func TestRulesInOrder(t *testing.T) {
	const day = 24 * 3600 * 1000
	worst := func(f *decision.Facts) {
		f.End, f.Hold, f.Visible, f.Left, f.Signal.Retryable, f.Status = decision.Unknown, true, true, true, false, 418
		f.Broken, f.Attempt, f.Spent, f.Remaining = true, 99, true, 0
		long := int64(math.MaxInt64)
		f.Signal.RetryAfterMS = &long
	}
	f := with(busy(429, 0), worst)
	for _, c := range []struct {
		mend      func(*decision.Facts) // the rule before is kept
		action    decision.Action
		rule      string
		condition string
	}{
		{func(*decision.Facts) {}, decision.Hold, "semantics 22", decision.PartialOutputCommitted},
		{func(f *decision.Facts) { f.Hold = false }, decision.Fail, "semantics 22", decision.PartialOutputCommitted},
		{func(f *decision.Facts) { f.Hold, f.Visible = true, false }, decision.Hold, "on_unknown", decision.NotIdempotent},
		{func(f *decision.Facts) { f.End = decision.Failed }, decision.Fail, "semantics 25", ""},
		{func(f *decision.Facts) { f.Left = false }, decision.Fail, "signal.retryable", ""},
		{func(f *decision.Facts) { f.Signal.Retryable = true }, decision.Fail, "retry.on", ""},
		{func(f *decision.Facts) { f.Status = 429 }, decision.Fail, "breaker", ""},
		{func(f *decision.Facts) { f.Broken = false }, decision.Fail, "retry.max_attempts", decision.MaxAttemptsExhausted},
		{func(f *decision.Facts) { f.Attempt = 2 }, decision.Fail, "retry.share", ""},
		{func(f *decision.Facts) { f.Spent = false }, decision.Fail, "semantics 34", decision.RetryAfterExceedsDeadline},
		{func(f *decision.Facts) { *f.Signal.RetryAfterMS = day }, decision.Fail, "timeouts.total", decision.RetryAfterExceedsDeadline},
		{func(f *decision.Facts) { f.Remaining = 48 * time.Hour }, decision.Fail, "lanes.interactive_admission.max_wait_ms", decision.RetryAfterExceedsDeadline},
		{func(f *decision.Facts) { f.Async = true }, decision.Queue, "semantics 36", ""},
		{func(f *decision.Facts) { f.Async = false; *f.Signal.RetryAfterMS = 3000 }, decision.Wait, "semantics 36", ""},
		{func(f *decision.Facts) { f.Signal.RetryAfterMS = nil; f.Attempt = 1 }, decision.Retry, "retry.on", ""},
		{func(f *decision.Facts) { worst(f); f.End = decision.Success }, decision.Done, "semantics 1", ""},
	} {
		c.mend(&f)
		d := decision.Decide(f, plain())
		if d.Action != c.action || d.Rule != c.rule || d.Condition != c.condition || d.Reason == "" {
			t.Errorf("%s by %s expected, with %q: %+v", c.action, c.rule, c.condition, d)
		}
	}
}

// An attempt is never followed by another one while its breaker is open, or when it was the probe (semantics 34).
func TestBreakerEndsInnerRetries(t *testing.T) {
	for _, f := range []decision.Facts{busy(503, -1), busy(429, 100), busy(429, 3000)} {
		if d := decision.Decide(f, plain()); d.Action == decision.Fail {
			t.Fatalf("closed: %+v", d)
		}
		f.Broken = true
		if d := decision.Decide(f, plain()); d.Action != decision.Fail || d.Rule != "breaker" {
			t.Errorf("open: %+v", d)
		}
	}
}

// What ends a call in its nest only puts a job off: its next attempt comes from its lane (semantics 37).
func TestJobRestsInItsLane(t *testing.T) {
	p := plain()
	p.MaxPass, p.MaxAttempts, p.Bound, p.MaxWait = 2, 5, "lanes.background_retry.max_attempts", 0
	for _, c := range []struct {
		change func(*decision.Facts)
		action decision.Action
		rule   string
	}{
		{func(f *decision.Facts) { f.Pass = 1 }, decision.Retry, "retry.on"},
		{func(f *decision.Facts) { f.Pass = 2 }, decision.Queue, "retry.max_attempts"},
		{func(f *decision.Facts) { f.Broken = true }, decision.Queue, "breaker"},
		{func(f *decision.Facts) { f.Spent = true }, decision.Queue, "retry.share"},
		{func(f *decision.Facts) { f.Attempt = 5 }, decision.Fail, "lanes.background_retry.max_attempts"},
		{func(f *decision.Facts) { f.Visible = true }, decision.Fail, "semantics 22"},
	} {
		f := busy(503, -1)
		f.Async, f.Attempt = true, 1
		c.change(&f)
		d := decision.Decide(f, p)
		if d.Action != c.action || d.Rule != c.rule {
			t.Errorf("%s by %s expected: %+v", c.action, c.rule, d)
		}
		if d.Action == decision.Queue && d.Delay < decision.NestWait {
			t.Errorf("back in its lane for %s only", d.Delay)
		}
	}
}

func TestConditions(t *testing.T) {
	for class, want := range map[signal.Class]string{signal.QuotaExhausted: decision.QuotaOrSpendExhausted, signal.Auth: decision.PermissionDenied,
		signal.Permission: decision.PermissionDenied, signal.InvalidRequest: "", signal.ContentFilter: "", "": ""} {
		if d := decision.Decide(refused(class), plain()); d.Rule != "signal.retryable" || d.Condition != want {
			t.Errorf("%q: %+v, want the condition %q", class, d, want)
		}
	}
	// Without a wait of the provider's own, the deadline alone is in the way.
	if d := decision.Decide(with(busy(503, -1), func(f *decision.Facts) { f.Remaining = 50 * time.Millisecond }), plain()); d.Rule != "timeouts.total" || d.Condition != "" || d.Delay != 0 {
		t.Errorf("%+v", d)
	}
}

func TestTriggers(t *testing.T) {
	for _, c := range []struct {
		status int
		class  signal.Class
		end    decision.End
		want   string
	}{
		{429, signal.RateLimited, decision.Failed, "429"},
		{529, signal.Overloaded, decision.Failed, "529"},
		{504, signal.Timeout, decision.Unknown, "504"},
		{0, signal.Timeout, decision.Unknown, "timeout"},
		{0, signal.Timeout, decision.NotSent, "connection_error"},
		{0, signal.Connection, decision.NotSent, "connection_error"},
		{200, signal.Unknown, decision.Unknown, "connection_error"},
		{200, signal.Timeout, decision.Unknown, "timeout"},
	} {
		f := decision.Facts{Signal: signal.Signal{Class: c.class, Retryable: true}, Status: c.status, End: c.end, Attempt: 1, Remaining: time.Minute}
		if got := f.Trigger(); got != c.want {
			t.Errorf("%+v: %s", c, got)
		}
		for _, on := range [][]string{nil, {c.want}} {
			d := decision.Decide(f, decision.Policy{On: on, MaxAttempts: 2, MaxWait: time.Minute})
			if (d.Action == decision.Fail) != (on == nil) {
				t.Errorf("%+v with on: %v: %+v", c, on, d)
			}
		}
	}
}

// A policy that was never filled in makes one attempt and no more.
func TestZeroPolicy(t *testing.T) {
	f := busy(429, -1)
	if d := decision.Decide(f, decision.Policy{On: []string{"429"}}); d.Action != decision.Fail || d.Rule != "retry.max_attempts" {
		t.Errorf("%+v", d)
	}
}

func TestRouteEffects(t *testing.T) {
	ms := func(n int64) *int64 { return &n }
	for _, c := range []struct {
		s         signal.Signal
		unhealthy bool
		cool      time.Duration
	}{
		{signal.Signal{Class: signal.RateLimited, Retryable: true, RetryAfterMS: ms(3000)}, false, 3 * time.Second},
		{signal.Signal{Class: signal.RateLimited, Retryable: true}, false, 0},
		{signal.Signal{Class: signal.RateLimited, Retryable: true, RetryAfterMS: ms(math.MaxInt64)}, false, 24 * time.Hour},
		{signal.Signal{Class: signal.Overloaded, Retryable: true, RetryAfterMS: ms(1)}, true, time.Millisecond},
		{signal.Signal{Class: signal.QuotaExhausted, Retryable: true, RetryAfterMS: ms(3000)}, false, 0},
		{signal.Signal{Class: signal.TooLarge, RetryAfterMS: ms(3000)}, false, 0},
		{signal.Signal{Class: signal.ServerError, Retryable: true, RetryAfterMS: ms(3000)}, true, 0},
		{signal.Signal{Class: signal.Timeout}, true, 0},
		{signal.Signal{Class: signal.Connection}, true, 0},
		{signal.Signal{Class: signal.Unknown}, true, 0},
		{signal.Signal{Class: signal.Auth}, false, 0},
		{signal.Signal{Class: signal.None}, false, 0},
	} {
		if got := decision.Unhealthy(c.s); got != c.unhealthy {
			t.Errorf("%+v: counts for the breaker: %v", c.s, got)
		}
		if got := decision.Cooldown(c.s); got != c.cool {
			t.Errorf("%+v: cool-down %v, want %v", c.s, got, c.cool)
		}
	}
}

// The names under which the log keeps facts: another policy is asked about rows that an older program wrote.
func TestFactsAreKeptAs(t *testing.T) {
	const row = `{"signal":{"http_status":429,"provider_error_type":"tokens","class":"rate_limited","retryable":true,"retry_after_ms":3000,` +
		`"limit_dimension":"tokens","route_key":"openai","visibility_state":"before_first_token","outcome_known":true,"suggested_lane":"retry_in_place"},` +
		`"status":429,"end":"failed","hold":true,"visible":true,"elsewhere":true,"left":true,"async":true,"pass":1,"broken":true,"spent":true,"unaffordable":true,"attempt":2,"life":3,"remaining_ns":5000000000,"roll":0.25}`
	var f decision.Facts
	if err := json.Unmarshal([]byte(row), &f); err != nil {
		t.Fatal(err)
	}
	again, err := json.Marshal(f)
	if err != nil || string(again) != row {
		t.Errorf("%v\n%s\n%s", err, again, row)
	}
	if v := reflect.ValueOf(f); v.NumField() != 16 {
		t.Errorf("%d facts: the row above lacks some", v.NumField())
	}
	for i := range reflect.TypeFor[decision.Facts]().NumField() {
		if reflect.ValueOf(f).Field(i).IsZero() {
			t.Errorf("%s was not read", reflect.TypeFor[decision.Facts]().Field(i).Name)
		}
	}
}
