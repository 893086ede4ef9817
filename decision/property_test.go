package decision_test

import (
	"encoding/json"
	"math"
	"reflect"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/holdfast-ai/holdfast/decision"
	"github.com/holdfast-ai/holdfast/retry"
	"github.com/holdfast-ai/holdfast/signal"
)

var triggers = []string{"429", "500", "502", "503", "504", "529", "connection_error", "timeout", "418", ""}

// hostile durations are those at which arithmetic breaks.
var hostile = []int64{0, 1, -1, math.MaxInt64, math.MinInt64, math.MaxInt64 / 1_000_000, math.MaxInt64/1_000_000 + 1, int64(24 * time.Hour), int64(24*time.Hour) + 1, 1e9, 2e9, 2e9 + 1}

func number(t *rapid.T, label string) int64 {
	if rapid.Bool().Draw(t, label+" is hostile") {
		return rapid.SampledFrom(hostile).Draw(t, label)
	}
	return rapid.Int64Range(-1000, 100_000_000_000).Draw(t, label)
}

func anyFacts(t *rapid.T) decision.Facts {
	flag := func(name string) bool { return rapid.IntRange(0, 4).Draw(t, name) == 0 }
	f := decision.Facts{
		Status: rapid.SampledFrom([]int{0, 200, 400, 418, 429, 500, 503, 529, -1}).Draw(t, "status"),
		End:    rapid.SampledFrom([]decision.End{decision.Success, decision.Failed, decision.Failed, decision.Unknown, decision.NotSent, ""}).Draw(t, "end"),
		Hold:   flag("hold"), Visible: flag("visible"), Left: flag("left"), Async: flag("async"), Broken: flag("broken"), Spent: flag("spent"), Unaffordable: flag("unaffordable"), Pass: rapid.IntRange(0, 3).Draw(t, "pass"),
		Attempt: int(rapid.SampledFrom([]int64{1, 1, 1, 2, 3, 64, 65, math.MaxInt32, 0, -1}).Draw(t, "attempt")), Remaining: time.Duration(number(t, "remaining")),
		Roll: rapid.SampledFrom([]float64{0, 0.1, 0.5, 0.999999999, 1, -1, 7, math.MaxFloat64, -math.MaxFloat64}).Draw(t, "roll"),
	}
	f.Signal = signal.Signal{Class: rapid.SampledFrom([]signal.Class{signal.RateLimited, signal.Timeout, signal.Unknown, signal.Connection, signal.Auth, ""}).Draw(t, "class"),
		Retryable: rapid.IntRange(0, 3).Draw(t, "retryable") > 0}
	if rapid.Bool().Draw(t, "stated") {
		ms := max(0, number(t, "retry after")) // as signal promises
		f.Signal.RetryAfterMS = &ms
	}
	return f
}

func anyPolicy(t *rapid.T) decision.Policy {
	return decision.Policy{On: rapid.SliceOf(rapid.SampledFrom(triggers)).Draw(t, "on"), MaxAttempts: rapid.IntRange(-1, 100).Draw(t, "max attempts"), MaxPass: rapid.IntRange(0, 3).Draw(t, "max pass"),
		MaxWait: time.Duration(number(t, "max wait")), Backoff: retry.Policy{Base: time.Duration(number(t, "base")), Max: time.Duration(number(t, "max"))}}
}

func sends(d decision.Decision) bool {
	return d.Action == decision.Retry || d.Action == decision.Wait || d.Action == decision.Queue
}

// What holds of every decision, whatever the far side says and whatever the policy.
func TestLaws(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		f, p := anyFacts(t), anyPolicy(t)
		d := decision.Decide(f, p)
		if again := decision.Decide(f, p); again != d {
			t.Fatalf("the same facts gave %+v, then %+v", d, again)
		}
		if d.Rule == "" || d.Reason == "" || d.Delay < 0 {
			t.Fatalf("%+v", d)
		}
		stated, _ := f.Signal.RetryAfter()
		if sends(d) {
			lawsOfSending(t, f, p, d, stated)
		}
		switch {
		case (d.Action == decision.Done) != (f.End == decision.Success):
			t.Fatalf("%s after %q", d.Action, f.End)
		case d.Action == decision.Hold && !(f.End == decision.Unknown && f.Hold), d.Action == decision.Fail && f.End == decision.Unknown && f.Hold:
			t.Fatalf("%+v", d)
		}
	})
}

func lawsOfSending(t *rapid.T, f decision.Facts, p decision.Policy, d decision.Decision, stated time.Duration) {
	switch {
	case (f.Broken || f.Spent) && !(f.Async && d.Action == decision.Queue): // a job is put off
		t.Fatalf("sent again: %+v", d)
	case f.Visible, f.Left, f.Unaffordable, !f.Signal.Retryable, f.End == decision.Unknown && f.Hold:
		t.Fatalf("sent again: %+v", d)
	case f.Attempt >= max(p.MaxAttempts, 1):
		t.Fatalf("attempt %d of %d is followed by %+v", f.Attempt, p.MaxAttempts, d)
	case d.Delay < stated:
		t.Fatalf("a wait of %v where %v were asked for", d.Delay, stated)
	case d.Delay > 2*retry.Longest:
		t.Fatalf("an endless wait: %v", d.Delay)
	}
	switch d.Action {
	case decision.Queue:
		if !f.Async {
			t.Fatal("queued for a client that waits")
		}
		return
	case decision.Retry:
		if d.Delay > decision.NestWait {
			t.Fatalf("a slot is held for %v", d.Delay)
		}
	case decision.Wait:
		if d.Delay <= decision.NestWait || d.Delay > p.MaxWait {
			t.Fatalf("a wait of %v, at most %v", d.Delay, p.MaxWait)
		}
	}
	if d.Delay >= f.Remaining {
		t.Fatalf("%v of %v", d.Delay, f.Remaining)
	}
}

// More attempts allowed, more time left, a longer wait allowed: never a reason to send less.
func TestMonotone(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		f, p := anyFacts(t), anyPolicy(t)
		d := decision.Decide(f, p)
		if !sends(d) {
			return
		}
		more, longer := p, p
		more.MaxAttempts++
		if got := decision.Decide(f, more); got != d {
			t.Fatalf("%+v, with one more attempt %+v", d, got)
		}
		if longer.MaxWait < math.MaxInt64 {
			longer.MaxWait++
		}
		if f.Remaining < math.MaxInt64 {
			f.Remaining++
		}
		if got := decision.Decide(f, longer); !sends(got) || got.Delay != d.Delay {
			t.Fatalf("%+v, with more time %+v", d, got)
		}
	})
}

// What the log keeps is what was decided on.
func TestFactsRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		f, p := anyFacts(t), anyPolicy(t)
		text, err := json.Marshal(f)
		if err != nil {
			t.Fatal(err)
		}
		var back decision.Facts
		if err := json.Unmarshal(text, &back); err != nil || !reflect.DeepEqual(back, f) {
			t.Fatalf("%v\n%+v\n%+v", err, f, back)
		}
		if a, b := decision.Decide(f, p), decision.Decide(back, p); a != b {
			t.Fatalf("%+v, read back %+v", a, b)
		}
	})
}

// Providers' headers go all the way to the decision: nothing in them makes a wait negative, endless or nothing.
func TestHostileHeaders(t *testing.T) {
	values := []string{"-1", "0", "-0", "1e9", "NaN", "Infinity", "-9223372036854775808", "9223372036854775807", "18446744073709551616",
		"99999999999999999999999999999999", "Fri, 31 Dec 9999 23:59:59 GMT", "Thu, 01 Jan 1970 00:00:00 GMT", "3, 4", "0x10", "\x00", "3"}
	for _, name := range []string{"Retry-After", "Retry-After-Ms", "X-Ms-Retry-After-Ms"} {
		for _, value := range values {
			s := signal.Classify(signal.Answer{Status: 429, Header: map[string][]string{name: {value}}, ReceivedAt: time.Unix(1.8e9, 0), Phase: signal.BeforeFirstToken})
			for _, remaining := range []time.Duration{0, time.Second, time.Hour, math.MaxInt64} {
				f := decision.Facts{Signal: s, Status: 429, End: decision.Failed, Attempt: 1, Remaining: remaining, Roll: 0.5}
				d := decision.Decide(f, decision.Policy{On: []string{"429"}, MaxAttempts: 3, MaxWait: math.MaxInt64})
				if stated, _ := s.RetryAfter(); d.Delay < 0 || sends(d) && (d.Delay < stated || d.Delay > 2*retry.Longest || d.Delay >= remaining) {
					t.Errorf("%s: %q with %v left: %+v", name, value, remaining, d)
				}
			}
		}
	}
}
