package sim

import (
	"context"
	"testing"
)

// Whoever is told of a change at a gate finds the call that waits there: one who looked a moment earlier is not left
// asleep.
func TestGateTellsOfWhoWaits(t *testing.T) {
	told := make(chan int, 1)
	var g *gates
	g = newGates(func() { told <- g.waiting()["a"] })
	go g.wait("a", context.Background())
	if n := <-told; n != 1 {
		t.Errorf("%d calls wait, want 1", n)
	}
	if n := g.release("a"); n != 1 {
		t.Errorf("%d calls released, want 1", n)
	}
}
