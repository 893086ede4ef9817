//go:build race

package idempotency_test

// race: the detector drops pooled buffers at random and slows single-threaded work tenfold for nothing.
const race = true
