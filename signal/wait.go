package signal

import (
	"net/http"
	"strings"
	"time"
)

// clock reads dates: a date in an answer is relative to the answer's own date, so that a skewed clock at
// either side does no harm.
type clock struct {
	now  time.Time
	date string
}

func (c clock) server() time.Time {
	if t, err := http.ParseTime(strings.TrimSpace(c.date)); err == nil {
		return t
	}
	return c.now
}

// until is the time to t in milliseconds, 0 for the past; a far future saturates.
func (c clock) until(t time.Time) int64 {
	now := c.server()
	if !t.After(now) {
		return 0
	}
	s := t.Unix() - now.Unix() // not Sub: it saturates at 292 years
	ns := int64(t.Nanosecond() - now.Nanosecond())
	if s > 1<<53 {
		return 1 << 62
	}
	ms := s*1000 + ns/1e6
	if ns%1e6 > 0 {
		ms++
	}
	return ms
}

// statedWait asks the sources in the corpus's order; the first valid one wins.
func statedWait(h headers, f *fault, v verdict, c clock) (int64, bool) {
	if ms, ok := headerWait(h, c); ok {
		return ms, true
	}
	for _, w := range f.waits {
		if ms, ok := wholeDuration(w); ok {
			return ms, true
		}
	}
	if ms, ok := headerWait(f.headers, c); ok {
		return ms, true
	}
	switch v.class {
	case RateLimited, QuotaExhausted, Overloaded, ServerError:
	default:
		return 0, false // "wait a moment" in another error is advice to people
	}
	if !f.textCut { // of a cut text no number is whole
		if ms, ok := textWait(f.message + "\n" + f.page); ok {
			return ms, true
		}
	}
	if ms, ok := resetWait(h, v.limit, c); ok {
		return ms, true
	}
	return resetWait(f.headers, v.limit, c)
}

func headerWait(h headers, c clock) (int64, bool) {
	for _, name := range []string{"retry-after-ms", "x-ms-retry-after-ms"} {
		if ms, ok := plain(h.get(name), millisecond); ok {
			return ms, true
		}
	}
	return retryAfter(h.get("retry-after"), c)
}

// retryAfter reads RFC 9110 10.2.3, with the fractions that providers send. A list, a sign, an exponent, hex
// or a word is no value: better our own back-off than a guess.
func retryAfter(s string, c clock) (int64, bool) {
	s = strings.TrimSpace(s)
	if s == "" {
		return 0, false
	}
	if ms, ok := plain(s, second); ok {
		return ms, true
	}
	if t, err := http.ParseTime(s); err == nil {
		return c.until(t), true
	}
	return 0, false
}

// readWaits notes the waits that an object states in members of its own.
func (f *fault) readWaits(o map[string]any) {
	f.addWait(o["retry_after_ms"], "ms")
	for _, k := range []string{"retry_after_seconds", "retry_after", "retryAfter", "retryAfterSeconds", "resets_in_seconds"} {
		f.addWait(o[k], "s")
	}
}

// addWait takes "34.07s", 17 or "17" of unit u, and protobuf's {seconds, nanos}.
func (f *fault) addWait(v any, u string) {
	if len(f.waits) > 8 {
		return
	}
	if o, ok := v.(map[string]any); ok {
		s, n := scalar(o["seconds"]), scalar(o["nanos"])
		if s != "" && digits(s) == len(s) {
			f.waits = append(f.waits, s+"s")
			if n != "" && n != "0" && digits(n) == len(n) {
				f.waits[len(f.waits)-1] += n + "ns"
			}
		}
		return
	}
	s := strings.TrimSpace(scalar(v))
	if s == "" || len(s) > 64 {
		return
	}
	if _, ok := plain(s, second); ok && u != "" {
		s += u
	}
	f.waits = append(f.waits, s)
}

// triggers introduce a wait in words.
var triggers = []string{
	"try again in", "retry in", "retry after", "try again after", "retry again in", "resets in", "reset in", "reset after",
	"resets after", "available in", "available again in", "wait for", "wait at least", "wait",
}

var fillers = []string{"about ", "approximately ", "another ", "at least ", "~", "`", "'", "\"", ":"}

// textWait finds "Please try again in 7m12s" and its kin.
func textWait(message string) (int64, bool) {
	msg := strings.ToLower(message)
	for _, t := range triggers {
		for from := 0; ; {
			i := strings.Index(msg[from:], t)
			if i < 0 {
				break
			}
			from += i + len(t)
			if ms, _, ok := duration(skipFillers(msg[from:])); ok {
				return ms, true
			}
		}
	}
	return 0, false
}

func skipFillers(s string) string {
	for range 4 {
		s = strings.TrimLeft(s, " ")
		for _, f := range fillers {
			s = strings.TrimPrefix(s, f)
		}
	}
	return s
}
