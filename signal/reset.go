package signal

import (
	"strings"
	"time"
)

// bucket is one limit as its headers describe it.
type bucket struct{ remaining, reset string }

// bucketNames are the words by which header names tell a limit, the narrow ones first.
var bucketNames = []struct {
	limit Limit
	any   []string
}{
	{InputTokens, []string{"input-tokens"}},
	{OutputTokens, []string{"output-tokens"}},
	{RequestsPerDay, []string{"requests-day", "requests-per-day"}},
	{TokensPerDay, []string{"tokens-day", "tokens-per-day"}},
	{Concurrency, []string{"concurren"}},
	{Tokens, []string{"token"}},
	{Requests, []string{"req"}},
}

func limitOf(name string) Limit {
	for _, b := range bucketNames {
		if containsAny(name, b.any) {
			return b.limit
		}
	}
	return ""
}

// buckets reads …ratelimit-remaining-tokens, anthropic-ratelimit-tokens-remaining, x-rate-limit-reset and the like.
func (h headers) buckets() map[Limit]bucket {
	out := map[Limit]bucket{}
	for _, name := range h.names() {
		if !strings.Contains(name, "ratelimit") && !strings.Contains(name, "rate-limit") {
			continue
		}
		l := limitOf(name)
		b := out[l]
		switch {
		case strings.HasSuffix(name, "-status"): // Anthropic's subscription windows
			b.remaining = ""
			if strings.TrimSpace(h[name]) == "rejected" {
				b.remaining = "0"
			}
		case strings.Contains(name, "remaining"):
			b.remaining = strings.TrimSpace(h[name])
		case strings.Contains(name, "reset"):
			b.reset = strings.TrimSpace(h[name])
		default:
			continue
		}
		out[l] = b
	}
	return out
}

// exhausted is the limit whose headers say that nothing is left; of several the one that resets last.
func (h headers) exhausted(c clock) (found Limit) {
	longest := int64(-1)
	bs := h.buckets()
	for _, n := range bucketNames {
		b := bs[n.limit]
		if b.remaining != "0" || b.reset == "0" {
			continue
		}
		wait, _ := resetValue(b.reset, c)
		if wait > longest {
			found, longest = n.limit, wait
		}
	}
	return found
}

// resetWait is the reset of the exhausted limit: the last resort, as at OpenAI it is the time until the bucket
// is full, which is longer than needed.
func resetWait(h headers, limit Limit, c clock) (int64, bool) {
	if len(h) == 0 {
		return 0, false
	}
	bs := h.buckets()
	for _, l := range []Limit{limit, ""} {
		b, ok := bs[l]
		if !ok || b.reset == "" || l == "" && b.remaining != "0" {
			continue
		}
		if ms, ok := resetValue(b.reset, c); ok {
			return ms, true
		}
	}
	return 0, false
}

// resetValue reads the forms seen in the wild: a Go duration (OpenAI), RFC 3339 (Anthropic), seconds (Azure),
// unix seconds (GitHub, Anthropic's unified limits) and unix milliseconds (OpenRouter). 0 is "unknown".
func resetValue(s string, c clock) (int64, bool) {
	if ms, ok := plain(s, second); ok {
		switch {
		case ms == 0:
			return 0, false
		case ms >= 1e15: // beyond the year 33000 in seconds: milliseconds
			return c.until(time.UnixMilli(ms / 1000)), true
		case ms >= 1e12: // beyond 2001 in seconds: a date
			return c.until(time.UnixMilli(ms)), true
		}
		return ms, true
	}
	if ms, ok := wholeDuration(s); ok {
		return ms, true
	}
	if t, err := time.Parse(time.RFC3339, s); err == nil {
		return c.until(t), true
	}
	return 0, false
}
