//go:build !race

package idempotency_test

const race = false
