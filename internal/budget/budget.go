// Package budget counts bytes held in memory against a bound.
package budget

import "sync/atomic"

// Bytes is how many bytes of bodies are held, and how many may be. It is safe for concurrent use.
type Bytes struct {
	used atomic.Int64
	max  int64
}

// New makes a count of at most max bytes; 0 is no bound.
func New(max int64) *Bytes { return &Bytes{max: max} }

// Take counts n more bytes if there is room for them, and reports whether there was.
func (b *Bytes) Take(n int) bool {
	if b.used.Add(int64(n)) > b.max && b.max > 0 {
		b.used.Add(-int64(n))
		return false
	}
	return true
}

// Hold counts n more bytes that are there already, whether there is room or not: others find less of it.
func (b *Bytes) Hold(n int) { b.used.Add(int64(n)) }

// Give gives back what Take or Hold counted.
func (b *Bytes) Give(n int) { b.used.Add(-int64(n)) }

// Used is how many bytes are counted now.
func (b *Bytes) Used() int64 { return b.used.Load() }

// Over reports whether more is held than may be.
func (b *Bytes) Over() bool { return b.max > 0 && b.used.Load() > b.max }
