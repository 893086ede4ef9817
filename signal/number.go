package signal

import (
	"math"
	"math/bits"
	"strings"
)

// unit is a length of time in nanoseconds.
type unit uint64

const (
	nanosecond  unit = 1
	microsecond      = 1000 * nanosecond
	millisecond      = 1000 * microsecond
	second           = 1000 * millisecond
	minute           = 60 * second
	hour             = 60 * minute
	day              = 24 * hour
	week             = 7 * day
)

var units = map[string]unit{
	"ns": nanosecond, "us": microsecond, "µs": microsecond, "μs": microsecond,
	"ms": millisecond, "msec": millisecond, "msecs": millisecond, "millisecond": millisecond, "milliseconds": millisecond,
	"s": second, "sec": second, "secs": second, "second": second, "seconds": second,
	"m": minute, "min": minute, "mins": minute, "minute": minute, "minutes": minute,
	"h": hour, "hr": hour, "hrs": hour, "hour": hour, "hours": hour,
	"d": day, "day": day, "days": day, "w": week, "week": week, "weeks": week,
}

// number scans digits with an optional fraction at the start of s. No sign, no exponent, no hex: RFC 9110
// knows digits only, and what lenient parsers make of the rest differs.
func number(s string) (whole, frac, rest string) {
	n := digits(s)
	whole, rest = s[:n], s[n:]
	if n > 0 && len(rest) > 1 && rest[0] == '.' {
		if n = digits(rest[1:]); n > 0 {
			frac, rest = rest[1:1+n], rest[1+n:]
		}
	}
	return whole, frac, rest
}

func digits(s string) int {
	n := 0
	for n < len(s) && s[n] >= '0' && s[n] <= '9' {
		n++
	}
	return n
}

// millis is whole.frac units in milliseconds, rounded up, saturating; exact, unlike a float64.
func millis(whole, frac string, u unit) int64 {
	w := parseSaturating(whole)
	f, sticky := fraction(frac)
	if u < millisecond {
		per := uint64(millisecond / u)
		ms := w / per
		if w%per != 0 || f > 0 || sticky {
			ms++
		}
		return saturate(ms)
	}
	per := uint64(u / millisecond)
	hi, lo := bits.Mul64(w, per)
	if hi != 0 {
		return math.MaxInt64
	}
	fh, fl := bits.Mul64(f, per) // f < 1e12, per < 2^30: the quotient fits
	part, rem := bits.Div64(fh, fl, 1e12)
	if rem != 0 || sticky {
		part++
	}
	sum, carry := bits.Add64(lo, part, 0)
	if carry != 0 {
		return math.MaxInt64
	}
	return saturate(sum)
}

func parseSaturating(s string) uint64 {
	var n uint64
	for i := 0; i < len(s); i++ {
		if n > (math.MaxUint64-9)/10 {
			return math.MaxUint64
		}
		n = n*10 + uint64(s[i]-'0')
	}
	return n
}

// fraction is the first twelve decimals as an integer; sticky if anything follows.
func fraction(s string) (f uint64, sticky bool) {
	for i := range 12 {
		f *= 10
		if i < len(s) {
			f += uint64(s[i] - '0')
		}
	}
	return f, len(s) > 12 && strings.Trim(s[12:], "0") != ""
}

func saturate(n uint64) int64 { return int64(min(n, math.MaxInt64)) }

func addSaturating(a, b int64) int64 {
	if a > math.MaxInt64-b {
		return math.MaxInt64
	}
	return a + b
}

// plain reads a bare number of u's, and nothing else.
func plain(s string, u unit) (int64, bool) {
	whole, frac, rest := number(strings.TrimSpace(s))
	if whole == "" || rest != "" {
		return 0, false
	}
	return millis(whole, frac, u), true
}

// duration reads "7m12s", "18.642s", "1 hour 3 minutes" at the start of s; every number needs a unit.
func duration(s string) (ms int64, rest string, ok bool) {
	rest = s
	for range 8 {
		whole, frac, after := number(strings.TrimLeft(rest, " "))
		if whole == "" {
			break
		}
		after = strings.TrimLeft(after, " ")
		n := 0
		for n < len(after) && (isWord(after[n]) && digits(after[n:n+1]) == 0 || after[n] >= 0x80) {
			n++
		}
		u, known := units[strings.ToLower(after[:n])]
		if !known {
			break
		}
		ms, ok = addSaturating(ms, millis(whole, frac, u)), true
		rest = after[n:]
		next := strings.TrimLeft(rest, " ,")
		rest = strings.TrimPrefix(next, "and ")
	}
	return ms, rest, ok
}

// wholeDuration is a duration and nothing else: "6m0s". Go's own form, kept apart from words.
func wholeDuration(s string) (int64, bool) {
	ms, rest, ok := duration(strings.TrimSpace(s))
	return ms, ok && rest == ""
}
