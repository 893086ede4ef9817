package route

import (
	"testing"

	"github.com/holdfast-ai/holdfast/breaker"
)

// A call that began before a reload does not bring its configuration back.
func TestReloadIsForLaterCalls(t *testing.T) {
	table := New(Config{})
	defer table.Close()
	table.Get("a/b/c/d", breaker.Config{FailureThreshold: 9}, 0.2)
	old := table.Epoch()
	now := table.Reload()
	fail := func(epoch uint64, threshold int) bool {
		r := table.GetAt(epoch, "a/b/c/d", breaker.Config{FailureThreshold: threshold}, 0.2)
		ticket, refused := r.Enter()
		if refused != nil {
			return false
		}
		ticket.Done(breaker.Failure)
		return true
	}
	for n, c := range []struct {
		epoch     uint64
		threshold int
		goes      bool
	}{{old, 1, true}, {now, 3, true}, {old, 9, true}, {old, 9, false}} {
		if fail(c.epoch, c.threshold) != c.goes {
			t.Fatalf("call %d: goes %v", n, !c.goes)
		}
	}
}
