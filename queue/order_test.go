package queue

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/holdfast-ai/holdfast/ledger"
)

// drawJob is a job as it waits; the times are close together, so that much of it is alike.
func drawJob(t *rapid.T, n int) *ledger.Record {
	at := func(name string) time.Time {
		return time.UnixMilli(rapid.Int64Range(0, 5000).Draw(t, name))
	}
	r := &ledger.Record{}
	r.ID = fmt.Sprintf("job-%04d", n)
	r.Priority = rapid.SampledFrom([]string{"low", "normal", "high", ""}).Draw(t, "priority")
	r.CreatedAt, r.ReadyAt, r.ExpiresAt = at("created"), at("ready"), at("expires")
	r.Attempt = rapid.IntRange(0, 3).Draw(t, "attempt")
	return r
}

// Whatever release_order names, it orders all jobs in one way, and a heap releases them so.
func TestReleaseOrder(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		order := rapid.SliceOfNDistinct(rapid.SampledFrom([]string{"ready_at", "priority", "created_at", "expires_at", "attempt"}), 1, 5,
			rapid.ID[string]).Draw(t, "order")
		q := New(Config{Rules: func(*ledger.Intent) Rules { return Rules{Order: order} }})
		l := q.lineOf(&ledger.Intent{}, 0)
		var all []*entry
		for i := range rapid.IntRange(0, 40).Draw(t, "jobs") {
			e := entryOf(drawJob(t, i))
			all = append(all, e)
			q.push(l, e)
		}
		now := time.UnixMilli(rapid.Int64Range(0, 6000).Draw(t, "now"))
		q.ring(now)
		var got []*entry
		for !l.ready.empty() {
			got = append(got, l.first())
			q.pull(l.first())
		}
		var want []*entry
		for _, e := range all {
			if !time.UnixMicro(e.readyAt).After(now) {
				want = append(want, e)
			}
		}
		slices.SortFunc(want, func(a, b *entry) int {
			if less(order, a, b) {
				return -1
			}
			return 1
		})
		if !slices.Equal(got, want) {
			t.Fatalf("released %v, want %v", ids(got), ids(want))
		}
		for _, e := range l.later.list {
			if !time.UnixMicro(e.readyAt).After(now) {
				t.Fatalf("%s is ready and was kept", e.id)
			}
		}
	})
}

func ids(list []*entry) (names []string) {
	for _, e := range list {
		names = append(names, e.id)
	}
	return names
}

// Priority decides within a second, and not beyond it (semantics 38).
func TestPriorityDecidesWithinASecond(t *testing.T) {
	job := func(id, priority string, ready, created int64) *entry {
		r := &ledger.Record{}
		r.ID, r.Priority, r.ReadyAt, r.CreatedAt = id, priority, time.UnixMilli(ready), time.UnixMilli(created)
		return entryOf(r)
	}
	h := waiting(func(a, b *entry) bool { return less(defaultOrder, a, b) })
	for _, e := range []*entry{job("late high", "high", 2001, 1), job("low", "low", 1000, 1), job("high", "high", 1999, 9),
		job("normal, older", "normal", 1500, 2), job("normal", "", 1400, 3)} {
		h.add(e)
	}
	var got []string
	for !h.empty() {
		got = append(got, h.first().id)
		h.remove(h.first())
	}
	if want := []string{"high", "normal, older", "normal", "low", "late high"}; !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
}

// Review goes before dead letter, and a condition that neither names leads nowhere (semantics 37).
func TestLanes(t *testing.T) {
	r := Rules{Review: []string{"a", "b"}, Dead: []string{"b", "c"}}
	for condition, want := range map[string]string{"a": "owner_review", "b": "owner_review", "c": "dead_letter", "d": "", "": ""} {
		if got := r.Lane(condition); got != want {
			t.Errorf("%q leads to %q, want %q", condition, got, want)
		}
	}
}
