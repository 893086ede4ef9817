package gateway

import (
	"sync"
	"testing"
)

// TestInflight has many begin and end work while several wait, and has no wait return before the end of what had begun before it.
func TestInflight(t *testing.T) {
	for range 200 {
		i := newInflight()
		held := make(chan struct{})
		ended := false
		i.begin()
		var all sync.WaitGroup
		for range 4 {
			all.Go(func() {
				for range 50 {
					i.begin()
					i.end()
				}
			})
		}
		all.Go(func() { <-held; ended = true; i.end() })
		for n := range 3 {
			all.Go(func() {
				if n == 0 {
					close(held)
				}
				i.wait()
				if !ended {
					t.Error("it did not wait")
				}
			})
		}
		all.Wait()
	}
}
