package idempotency

import "time"

// Span is how long a key lasts (semantics 13). Zero fields mean the defaults.
type Span struct {
	Window time.Duration // from the first sighting: how long a derived key marks a repetition; 5m
	TTL    time.Duration // from settlement: how long a caller's key gets the stored answer; 30m
}

// Defaults of [Span].
const (
	DefaultWindow = 5 * time.Minute
	DefaultTTL    = 30 * time.Minute
)

// WithDefaults fills what is zero.
func (s Span) WithDefaults() Span {
	if s.Window <= 0 {
		s.Window = DefaultWindow
	}
	if s.TTL <= 0 {
		s.TTL = DefaultTTL
	}
	return s
}

// Tight tells that the answer may be gone while its key can still be repeated by clients that retry late: ttl below
// six windows. check warns of it.
func (s Span) Tight() bool {
	s = s.WithDefaults()
	return s.TTL < 6*s.Window
}

// Explicit is when a caller's key ends: ttl after settlement. A zero settled is an operation in flight, unknown,
// in review or in the dead letter: it holds its key however old it is, and the result is the zero time.
func (s Span) Explicit(settled time.Time) time.Time {
	if settled.IsZero() {
		return time.Time{}
	}
	return settled.Add(s.WithDefaults().TTL)
}

// Derived is when a derived key ends under derive: always: window after the first sighting, but not before
// settlement. Unsettled as for Explicit.
func (s Span) Derived(seen, settled time.Time) time.Time {
	if settled.IsZero() {
		return time.Time{}
	}
	if end := seen.Add(s.WithDefaults().Window); end.After(settled) {
		return end
	}
	return settled
}

// Adoptable tells whether a request at now may adopt an operation first seen at seen, settled or not, under derive:
// retries (interface §4).
func (s Span) Adoptable(seen, now time.Time) bool {
	return now.Before(seen.Add(s.WithDefaults().Window))
}
