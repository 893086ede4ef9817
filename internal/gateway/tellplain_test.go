package gateway

import (
	"bytes"
	"testing"

	"github.com/holdfast-ai/holdfast/internal/budget"
)

// An answer that takes another's place is counted by its own length, whichever is longer, and given back with the rest.
func TestReplacedAnswersAreCounted(t *testing.T) {
	for _, size := range []int{10, smallBlock, largeBlock, 300_000} {
		mem := budget.New(1 << 20)
		r := newRecording(mem)
		for range 3 {
			p, ok := r.space()
			if !ok {
				t.Fatal("there is no room")
			}
			r.wrote(len(p))
		}
		r.replace(bytes.Repeat([]byte("a"), size))
		if got := mem.Used(); got != int64(size) {
			t.Errorf("%d bytes are counted of %d", got, size)
		}
		r.free()
		if got := mem.Used(); got != 0 {
			t.Errorf("%d bytes are counted of nothing", got)
		}
	}
}
