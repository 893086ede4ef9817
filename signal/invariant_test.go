package signal_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"pgregory.net/rapid"

	"github.com/holdfast-ai/holdfast/signal"
)

var now = time.Date(2026, 11, 29, 20, 0, 0, 0, time.UTC)

// answer is a chat completion that failed with this status, body and pairs of header name and value.
func answer(status int, body string, header ...string) signal.Answer {
	h := http.Header{"Date": {now.Format(http.TimeFormat)}, "Content-Type": {"application/json"}}
	for i := 0; i+1 < len(header); i += 2 {
		h.Set(header[i], header[i+1])
	}
	return signal.Answer{
		Provider: "openai", Endpoint: "POST /v1/chat/completions", ReceivedAt: now,
		Status: status, Header: h, Body: []byte(body), Phase: signal.BeforeFirstToken,
	}
}

var classes = []signal.Class{
	signal.None, signal.RateLimited, signal.QuotaExhausted, signal.Overloaded, signal.ServerError, signal.Timeout,
	signal.Connection, signal.Unknown, signal.InvalidRequest, signal.ContextLength, signal.TooLarge,
	signal.ContentFilter, signal.Auth, signal.Permission, signal.NotFound,
}

type failer interface {
	Helper()
	Fatalf(format string, args ...any)
}

// mustHold fails t unless s is a value that every caller can rely on.
func mustHold(t failer, a signal.Answer, s signal.Signal) {
	t.Helper()
	if s.RetryAfterMS != nil && *s.RetryAfterMS < 0 {
		t.Fatalf("retry_after_ms = %d", *s.RetryAfterMS)
	}
	if d, ok := s.RetryAfter(); d < 0 || ok && s.RetryAfterMS == nil {
		t.Fatalf("RetryAfter = %v, %v", d, ok)
	}
	if !slices.Contains(classes, s.Class) {
		t.Fatalf("class %q is none of ours", s.Class)
	}
	if a.Phase == signal.MidStream && s.Class != signal.None && (s.Retryable || s.OutcomeKnown) {
		t.Fatalf("mid_stream: retryable = %v, outcome_known = %v", s.Retryable, s.OutcomeKnown)
	}
	allowed := []signal.Lane{signal.Fail, signal.OwnerReview, signal.DeadLetter}
	switch {
	case s.Class == signal.None:
		allowed = []signal.Lane{""}
	case s.Retryable:
		allowed = []signal.Lane{signal.RetryInPlace, signal.BackgroundRetry, signal.OwnerReview}
	}
	if !slices.Contains(allowed, s.SuggestedLane) {
		t.Fatalf("lane %q with retryable = %v", s.SuggestedLane, s.Retryable)
	}
	if s.SuggestedLane == signal.RetryInPlace && s.RetryAfterMS != nil && *s.RetryAfterMS > 30_000 {
		t.Fatalf("retried in place after %d ms", *s.RetryAfterMS)
	}
	if s.Class != signal.None && s.ProviderErrorType == "" {
		t.Fatalf("a failure without a type: %+v", s)
	}
	if len(s.Message) > 1024 || len(s.ProviderErrorType) > 1024 || !utf8.ValidString(s.Message) {
		t.Fatalf("message of %d bytes, type of %d", len(s.Message), len(s.ProviderErrorType))
	}
}

func FuzzClassify(f *testing.F) {
	for _, c := range corpus(f) {
		_, a, err := signal.ParseAnswer(c.line)
		if err != nil {
			f.Fatal(err)
		}
		h := http.Header(a.Header)
		lower := func(name string) string { return strings.Join(h[name], ",") }
		errText, sent := "", ""
		if a.Transport != nil {
			errText, sent = a.Transport.Error, string(a.Transport.RequestBytesSent)
		}
		f.Add(a.Status, string(a.Phase), a.Body, lower("retry-after"), lower("retry-after-ms"), lower("date"),
			"x-ratelimit-reset-requests", lower("x-ratelimit-reset-requests"), lower("content-type"), lower("content-encoding"), errText, sent)
	}
	f.Fuzz(func(t *testing.T, status int, phase string, body []byte, after, afterMS, date, name, value, ctype, coding, errText, sent string) {
		kept := bytes.Clone(body)
		a := signal.Answer{
			Provider: "p", Endpoint: "POST /x", ReceivedAt: now, Status: status, Phase: signal.Phase(phase), Body: body,
			Header: map[string][]string{
				"Retry-After": {after}, "retry-after-ms": {afterMS}, "Date": {date}, "x-ratelimit-remaining-requests": {"0"},
				name: {value}, "Content-Type": {ctype}, "content-encoding": {coding},
			},
			Transport: &signal.Transport{Error: errText, RequestBytesSent: signal.Sent(sent)},
		}
		s := signal.Classify(a)
		mustHold(t, a, s)
		if !bytes.Equal(kept, body) {
			t.Fatal("the body was changed")
		}
		first, err := json.Marshal(s)
		if err != nil {
			t.Fatal(err)
		}
		if again, _ := json.Marshal(signal.Classify(a)); !bytes.Equal(first, again) {
			t.Fatalf("not a function of the answer:\n%s\n%s", first, again)
		}
	})
}

// Semantics 22: whatever the corpus's answer, once something was visible nothing is sent again.
func TestMidStreamIsNeverRetried(t *testing.T) {
	for _, c := range corpus(t) {
		_, a, err := signal.ParseAnswer(c.line)
		if err != nil {
			t.Fatal(err)
		}
		a.Phase = signal.MidStream
		s := signal.Classify(a)
		mustHold(t, a, s)
		if s.VisibilityState != "partial_output" {
			t.Errorf("%s: visibility_state = %q", c.ID, s.VisibilityState)
		}
	}
}

// A stated wait is kept exactly, whatever its size, name's case and surrounding space.
func TestStatedSecondsProperty(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.Uint64().Draw(t, "seconds")
		name := rapid.SampledFrom([]string{"Retry-After", "retry-after", "RETRY-AFTER"}).Draw(t, "name")
		pad := rapid.SampledFrom([]string{"", " ", "\t", "  "}).Draw(t, "pad")
		a := answer(429, `{}`)
		a.Header[name] = []string{pad + fmt.Sprint(n) + pad}
		s := signal.Classify(a)
		mustHold(t, a, s)
		want := int64(math.MaxInt64)
		if n <= math.MaxInt64/1000 {
			want = int64(n) * 1000
		}
		if s.RetryAfterMS == nil || *s.RetryAfterMS != want {
			t.Fatalf("%d s became %v ms", n, s.RetryAfterMS)
		}
	})
}

// A longer stated wait never leads to an earlier lane.
func TestLaneIsMonotoneInWait(t *testing.T) {
	rank := map[signal.Lane]int{signal.RetryInPlace: 0, signal.BackgroundRetry: 1, signal.OwnerReview: 2}
	rapid.Check(t, func(t *rapid.T) {
		a, b := rapid.Int64Range(0, math.MaxInt64).Draw(t, "a"), rapid.Int64Range(0, math.MaxInt64).Draw(t, "b")
		a, b = min(a, b), max(a, b)
		lane := func(ms int64) int {
			return rank[signal.Classify(answer(503, `{}`, "retry-after-ms", fmt.Sprint(ms))).SuggestedLane]
		}
		if lane(a) > lane(b) {
			t.Fatalf("%d ms goes further than %d ms", a, b)
		}
	})
}

// A date means the wait from the answer's own date, however wrong both clocks are.
func TestDateProperty(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		skew := rapid.Int64Range(-1e9, 1e9).Draw(t, "skew")
		wait := rapid.Int64Range(-1e6, 1e9).Draw(t, "wait")
		server := now.Add(time.Duration(skew) * time.Second)
		a := answer(429, `{}`, "date", server.Format(http.TimeFormat),
			"retry-after", server.Add(time.Duration(wait)*time.Second).Format(http.TimeFormat))
		s := signal.Classify(a)
		if want := max(wait, 0) * 1000; s.RetryAfterMS == nil || *s.RetryAfterMS != want {
			t.Fatalf("%d s became %v ms", wait, s.RetryAfterMS)
		}
	})
}
