package signal_test

import (
	"testing"
	"time"

	"github.com/holdfast-ai/holdfast/signal"
)

// BR-024: waits above a ceiling were replaced by a much shorter back-off. Too long to wait is a reason to stop.
func TestBR024LongWaitIsKept(t *testing.T) {
	s := signal.Classify(answer(429, openAI("Rate limit reached", "requests", "rate_limit_exceeded"), "retry-after", "90"))
	if d, ok := s.RetryAfter(); !ok || d != 90*time.Second || s.SuggestedLane != signal.BackgroundRetry || !s.Retryable {
		t.Errorf("wait %v, %s, retryable %v; want 1m30s in the background", d, s.SuggestedLane, s.Retryable)
	}
}

// BR-026: a huge Retry-After overflowed the sleep, others were negative or no number at all.
func TestBR026HostileRetryAfter(t *testing.T) {
	for value, want := range map[string]string{
		"9999999999": "9999999999000", "99999999999999999999": "9223372036854775807", "  5 ": "5000",
		"-43": "none", "NaN": "none", "1e400": "none", "5, 10": "none", "abc": "none", "": "none",
		"Wed, 31 Feb 2027 99:99:99 GMT": "none",
	} {
		a := answer(429, `{}`, "retry-after", value)
		s := signal.Classify(a)
		mustHold(t, a, s)
		if got := waitOf(t, s); got != want {
			t.Errorf("%q: %s ms, want %s", value, got, want)
		}
		if d, ok := s.RetryAfter(); ok && want != "5000" && (d < 24*time.Hour || s.SuggestedLane != signal.OwnerReview) {
			t.Errorf("%q: %v in %s, want an absurd wait for the owner", value, d, s.SuggestedLane)
		}
	}
}

// Semantics 3: what is definite for a call that acts in the world.
func TestDefinite(t *testing.T) {
	none, all := &signal.Transport{Error: "ECONNREFUSED", RequestBytesSent: signal.SentNone}, &signal.Transport{Error: "EOF", RequestBytesSent: signal.SentAll}
	for _, status := range []int{400, 401, 403, 404, 405, 410, 411, 413, 414, 415, 422, 428, 431, 501} {
		if !signal.Definite(answer(status, "")) {
			t.Errorf("%d is definite", status)
		}
	}
	for _, status := range []int{200, 202, 302, 402, 408, 409, 423, 424, 425, 429, 499, 500, 502, 503, 504, 521, 529} {
		if signal.Definite(answer(status, "")) {
			t.Errorf("%d is not definite", status)
		}
	}
	mid := answer(400, "")
	mid.Phase = signal.MidStream
	for name, c := range map[string]struct {
		a    signal.Answer
		want bool
	}{
		"429 with a wait":         {answer(429, "", "retry-after", "3"), true},
		"503 with a date":         {answer(503, "", "retry-after", "Sun, 29 Nov 2026 20:01:30 GMT"), true},
		"503 with nonsense":       {answer(503, "", "retry-after", "-3"), false},
		"500 with a wait":         {answer(500, "", "retry-after", "3"), false},
		"refused":                 {signal.Answer{Phase: signal.NoResponse, Transport: none}, true},
		"all sent":                {signal.Answer{Phase: signal.NoResponse, Transport: all}, false},
		"a part sent":             {signal.Answer{Phase: signal.NoResponse, Transport: &signal.Transport{Error: "EPIPE", RequestBytesSent: signal.SentPartial}}, false},
		"nothing known":           {signal.Answer{Phase: signal.NoResponse}, false},
		"after something visible": {mid, false},
	} {
		if got := signal.Definite(c.a); got != c.want {
			t.Errorf("%s: %v, want %v", name, got, c.want)
		}
	}
}

// A body may be whole while its connection broke: then it is no success.
func TestSuccessOnABrokenConnection(t *testing.T) {
	a := answer(200, `{"object":"list","data":[]}`)
	a.Transport = &signal.Transport{Error: "unexpected EOF", RequestBytesSent: signal.SentAll, ResponseBytes: 27}
	if s := signal.Classify(a); s.Class != signal.Unknown || s.OutcomeKnown || s.HTTPStatus != 200 {
		t.Errorf("%+v", s)
	}
}

// The route key never carries a query, which may hold a key.
func TestRouteKey(t *testing.T) {
	a := answer(500, "")
	a.Endpoint = "POST /v1beta/models/x:generateContent?key=secret"
	if s := signal.Classify(a); s.RouteKey != "openai POST /v1beta/models/x:generateContent" {
		t.Errorf("route_key = %q", s.RouteKey)
	}
	a.Route = "openai/gpt-4o/chat/k1"
	if s := signal.Classify(a); s.RouteKey != a.Route {
		t.Errorf("route_key = %q, want the caller's", s.RouteKey)
	}
}

// BR-030: an exhausted plan looked like a burst limit.
func TestBR030QuotaIsNotARateLimit(t *testing.T) {
	runs := map[string]signal.Answer{
		"A": answer(429, openAI("Rate limit reached for requests", "requests", "rate_limit_exceeded"), "retry-after", "2"),
		"B": answer(429, openAI("You exceeded your current quota, please check your plan and billing details.", "insufficient_quota", "insufficient_quota")),
		"C": answer(429, `{"error":{"message":"usage limit reached, resets in 16 days"}}`, "retry-after", "1382400"),
		"D": answer(400, anthropic("invalid_request_error", "Your credit balance is too low to access the Anthropic API.")),
	}
	if s := signal.Classify(runs["A"]); s.Class != signal.RateLimited || !s.Retryable || waitOf(t, s) != "2000" || s.SuggestedLane != signal.RetryInPlace {
		t.Errorf("A: %+v", s)
	}
	for _, run := range []string{"B", "C", "D"} {
		s := signal.Classify(runs[run])
		if s.Class != signal.QuotaExhausted || s.Retryable || s.SuggestedLane != signal.OwnerReview {
			t.Errorf("%s: %s, retryable %v, %s", run, s.Class, s.Retryable, s.SuggestedLane)
		}
	}
	if s := signal.Classify(runs["D"]); s.ProviderErrorType != "invalid_request_error" {
		t.Errorf("D: type %q is not the provider's own", s.ProviderErrorType)
	}
	if s := signal.Classify(answer(400, anthropic("invalid_request_error", "messages: field required"))); s.Class != signal.InvalidRequest || s.SuggestedLane != signal.Fail {
		t.Errorf("an ordinary 400: %s, %s", s.Class, s.SuggestedLane)
	}
}
