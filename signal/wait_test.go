package signal_test

import (
	"fmt"
	"math"
	"testing"

	"github.com/holdfast-ai/holdfast/signal"
)

func waitOf(t *testing.T, s signal.Signal) string {
	t.Helper()
	if s.RetryAfterMS == nil {
		return "none"
	}
	return fmt.Sprint(*s.RetryAfterMS)
}

func TestRetryAfterForms(t *testing.T) {
	for value, want := range map[string]string{
		"0": "0", "5": "5000", "  5 ": "5000", "\t7": "7000", "0.001": "1", "1.0000001": "1001", "1.5": "1500", "007": "7000",
		"18.642": "18642", "86400": "86400000", "9999999999": "9999999999000",
		"99999999999999999999":          fmt.Sprint(math.MaxInt64),
		"18446744073709551616":          fmt.Sprint(math.MaxInt64),
		"9223372036854775.807":          "9223372036854775807",
		"9223372036854775.808":          fmt.Sprint(math.MaxInt64),
		"0.0000000000000000000000001":   "1",
		"Sun, 29 Nov 2026 20:01:30 GMT": "90000", "Sunday, 29-Nov-26 20:01:30 GMT": "90000", "Sun Nov 29 20:01:30 2026": "90000",
		"Thu, 01 Jan 1970 00:00:00 GMT": "0", "Fri, 31 Dec 9999 23:59:59 GMT": "251606318399000",

		"": "none", " ": "none", "-0": "none", "-43": "none", "+5": "none", "NaN": "none", "Infinity": "none", "1e3": "none", "1e400": "none",
		"0x10": "none", "abc": "none", "soon": "none", "5s": "none", "5, 10": "none", "60, 60": "none", "5;x": "none", ".5": "none", "3.": "none",
		"1.5.2": "none", "1_000": "none", "1,000": "none", "\u0663": "none", "5\x00": "none", "Wed, 31 Feb 2027 99:99:99 GMT": "none",
		"Sun, 29 Nov 2026 20:01:30 +0000": "none", "2026-11-29T20:01:30Z": "none", "29 Nov": "none",
	} {
		if got := waitOf(t, signal.Classify(answer(429, `{}`, "retry-after", value))); got != want {
			t.Errorf("Retry-After %q = %s ms, want %s", value, got, want)
		}
	}
}

// Two headers of one name are a list, unless they agree.
func TestRetryAfterTwice(t *testing.T) {
	for want, values := range map[string][]string{"5000": {"5", "5"}, "none": {"5", "10"}} {
		a := answer(429, `{}`)
		a.Header["Retry-After"] = values
		if got := waitOf(t, signal.Classify(a)); got != want {
			t.Errorf("%q = %s ms, want %s", values, got, want)
		}
	}
}

func TestWaitSources(t *testing.T) {
	const text = `{"error":{"message":"Rate limit reached for requests. Please try again in 7m12s.","type":"requests"}}`
	for _, c := range []struct {
		name, body, want string
		header           []string
	}{
		{"milliseconds first", text, "644", []string{"retry-after", "1", "retry-after-ms", "644"}},
		{"Azure's milliseconds", text, "800", []string{"retry-after", "1", "x-ms-retry-after-ms", "800"}},
		{"invalid falls through", text, "1000", []string{"retry-after", "1", "retry-after-ms", "-1"}},
		{"fractions of milliseconds", text, "2", []string{"retry-after-ms", "1.2"}},
		{"text", text, "432000", nil},
		{"text before reset", text, "432000", []string{"x-ratelimit-remaining-requests", "0", "x-ratelimit-reset-requests", "1s"}},
		{"RetryInfo before text", `{"error":{"code":429,"message":"Please retry in 9s","details":[{"@type":"type.googleapis.com/google.rpc.RetryInfo","retryDelay":"3.000000001s"}]}}`, "3001", nil},
		{"RetryInfo as object", `{"error":{"code":429,"message":"x","details":[{"@type":"type.googleapis.com/google.rpc.RetryInfo","retryDelay":{"seconds":"12","nanos":1}}]}}`, "12001", nil},
		{"RetryInfo negative", `{"error":{"code":429,"message":"x","details":[{"@type":"type.googleapis.com/google.rpc.RetryInfo","retryDelay":"-1.5s"}]}}`, "none", nil},
		{"OpenRouter's number", `{"error":{"code":429,"message":"x","metadata":{"retry_after_seconds":16.007}}}`, "16007", nil},
		{"a number too large", `{"error":{"code":429,"message":"x","retry_after_ms":99999999999999999999999}}`, fmt.Sprint(math.MaxInt64), nil},
		{"an exponent", `{"error":{"code":429,"message":"x","retry_after":1e400}}`, "none", nil},
		{"an upstream's header", `{"error":{"code":429,"message":"x","metadata":{"headers":{"Retry-After":"17"}}}}`, "17000", nil},
		{"words", `{"error":{"message":"Too busy, wait about 2 minutes and 5 seconds","type":"requests"}}`, "125000", nil},
		{"days", `{"error":{"message":"usage limit reached, resets in 16 days"}}`, "1382400000", nil},
		{"words without a number", `{"error":{"message":"please wait before trying again in a few minutes"}}`, "none", nil},
		{"a number without a unit", `{"error":{"message":"try again in 5"}}`, "none", nil},
		{"a cut text", `{"error":{"message":"Please try again in 1m`, "none", nil}, // of 1m30s
		{"a huge text", `{"error":{"message":"try again in 99999999999999999999999h 99999999999999w"}}`, fmt.Sprint(math.MaxInt64), nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			a := answer(429, c.body, c.header...)
			s := signal.Classify(a)
			mustHold(t, a, s)
			if got := waitOf(t, s); got != c.want {
				t.Errorf("%s ms, want %s", got, c.want)
			}
		})
	}
}

func TestResetForms(t *testing.T) {
	for value, want := range map[string]string{
		"1s": "1000", "120ms": "120", "6m0s": "360000", "1h2m3.5s": "3723500", "55": "55000", "0": "none", "-1": "none", "0s": "0",
		"2026-11-29T20:00:37Z": "37000", "2026-11-29T19:59:58Z": "0", "2026-11-29T21:00:37+01:00": "37000",
		"1795982430": "30000", "1795982430000": "30000", "1795982399": "0",
		"abc": "none", "1m30": "none", "NaN": "none", "": "none",
	} {
		a := answer(429, `{"error":{"message":"Too Many Requests"}}`, "x-ratelimit-remaining-requests", "0", "x-ratelimit-reset-requests", value)
		s := signal.Classify(a)
		mustHold(t, a, s)
		if got := waitOf(t, s); got != want {
			t.Errorf("reset %q = %s ms, want %s", value, got, want)
		}
	}
	a := answer(429, `{}`, "x-ratelimit-remaining-requests", "0", "x-ratelimit-reset-requests", "99999999999999999999")
	if s := signal.Classify(a); s.RetryAfterMS == nil || *s.RetryAfterMS < 1e15 {
		t.Errorf("a huge reset became %s ms", waitOf(t, s))
	}
}

// Without a date of the answer's own, a date is relative to the local clock.
func TestDateWithoutDate(t *testing.T) {
	for _, own := range []string{"", "yesterday"} {
		a := answer(429, `{}`, "date", own, "retry-after", "Sun, 29 Nov 2026 20:01:30 GMT")
		if got := waitOf(t, signal.Classify(a)); got != "90000" {
			t.Errorf("date %q: %s ms, want 90000", own, got)
		}
	}
}

// The lanes change just beyond 30 s and 24 h.
func TestWaitLanes(t *testing.T) {
	for value, want := range map[string]signal.Lane{
		"30": signal.RetryInPlace, "30.0001": signal.BackgroundRetry, "86400": signal.BackgroundRetry, "86400.0001": signal.OwnerReview,
	} {
		if s := signal.Classify(answer(429, `{}`, "retry-after", value)); s.SuggestedLane != want {
			t.Errorf("%s s: %s, want %s", value, s.SuggestedLane, want)
		}
	}
}

// Of several exhausted limits the one that resets last governs; one that is not exhausted never does.
func TestExhaustedLimit(t *testing.T) {
	a := answer(429, `{"error":{"message":"slow"}}`,
		"x-ratelimit-remaining-requests", "0", "x-ratelimit-reset-requests", "8s",
		"x-ratelimit-remaining-tokens", "0", "x-ratelimit-reset-tokens", "31s",
		"x-ratelimit-remaining-input-tokens", "5", "x-ratelimit-reset-input-tokens", "90s")
	s := signal.Classify(a)
	if s.LimitDimension != signal.Tokens || waitOf(t, s) != "31000" {
		t.Errorf("%s after %s ms, want tokens after 31000", s.LimitDimension, waitOf(t, s))
	}
	a = answer(429, `{}`, "anthropic-ratelimit-unified-status", "rejected", "anthropic-ratelimit-unified-reset", "1795982430")
	if got := waitOf(t, signal.Classify(a)); got != "30000" {
		t.Errorf("unified reset = %s ms, want 30000", got)
	}
}
