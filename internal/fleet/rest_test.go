package fleet

import (
	"testing"
	"time"
)

func TestRestsGrow(t *testing.T) {
	r := rests{of: map[string]rest{}}
	now := time.Unix(1e9, 0)
	for range 2 {
		if !r.may("p", now) {
			t.Fatal("nothing is known against it")
		}
	}
	r.silent("p", now)
	r.silent("p", now) // of the other call that was on its way
	for _, want := range []time.Duration{1, 2, 4, 8, 16, 30, 30} {
		want *= time.Second
		if r.may("p", now.Add(want-1)) {
			t.Fatalf("called within %s", want)
		}
		now = now.Add(want)
		if !r.may("p", now) {
			t.Fatalf("rests longer than %s", want)
		}
		if r.may("p", now) {
			t.Fatal("two find out at once")
		}
		r.silent("p", now)
	}
	if r.may("q", now) == false {
		t.Error("another one rests with it")
	}
	now = now.Add(longestRest)
	if !r.may("p", now) {
		t.Fatal("rests for ever")
	}
	r.undecided("p")
	if !r.may("p", now) {
		t.Fatal("the caller that left has kept the place of the one that finds out")
	}
	r.answered("p")
	for range 2 {
		if !r.may("p", now) || len(r.of) != 0 {
			t.Error("it answered, and rests on")
		}
	}
}

func TestRestsAreBounded(t *testing.T) {
	r := rests{of: map[string]rest{}}
	now := time.Unix(1e9, 0)
	for i := range 3 * maxRests {
		r.silent(time.Duration(i).String(), now)
		now = now.Add(time.Second)
	}
	if len(r.of) > maxRests+1 {
		t.Errorf("%d remembered", len(r.of))
	}
}
