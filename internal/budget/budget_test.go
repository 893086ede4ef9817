package budget

import (
	"sync"
	"testing"
)

func TestBytes(t *testing.T) {
	b := New(10)
	if !b.Take(10) || b.Take(1) || b.Over() || b.Used() != 10 {
		t.Errorf("%d used", b.Used())
	}
	b.Hold(5)
	if !b.Over() || b.Take(1) || b.Used() != 15 {
		t.Errorf("%d used", b.Used())
	}
	b.Give(15)
	if b.Over() || b.Used() != 0 || !b.Take(1) {
		t.Errorf("%d used", b.Used())
	}
	if free := New(0); !free.Take(1<<40) || free.Over() {
		t.Error("no bound is one")
	}
}

// What is refused is not counted, however many try at once.
func TestBytesAtOnce(t *testing.T) {
	b := New(100)
	var all sync.WaitGroup
	for range 50 {
		all.Go(func() {
			for range 200 {
				if b.Take(7) {
					b.Give(7)
				}
			}
		})
	}
	all.Wait()
	if b.Used() != 0 {
		t.Errorf("%d are left", b.Used())
	}
}
