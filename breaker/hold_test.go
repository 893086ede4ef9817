package breaker

import (
	"testing"
	"time"
)

// Any number of calls are in progress through one breaker at once: nothing is held while they are.
func TestCallsAtOnce(t *testing.T) {
	b := New(Config{})
	done := make(chan struct{})
	go func() {
		defer close(done)
		first, _ := b.Acquire()
		second, _ := b.Acquire()
		second.Done(Success)
		first.Done(Success)
	}()
	select {
	case <-done:
	case <-time.After(30 * time.Second):
		t.Fatal("a second call waits for the end of the first")
	}
}
