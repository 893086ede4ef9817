package sqlite

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/holdfast-ai/holdfast/ledger"
)

func TestSeqLists(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		seqs := rapid.SliceOfNDistinct(rapid.Int64Range(1, 1<<60-1), 1, 50, rapid.ID).Draw(t, "seqs")
		slices.Sort(seqs)
		more := appendSeqs(nil, seqs)
		if back, ok := readSeqs(seqs[0], more); !ok || !slices.Equal(back, seqs) {
			t.Fatalf("%v came back as %v, %t", seqs, back, ok)
		}
		if len(more) == 0 {
			return
		}
		if back, ok := readSeqs(seqs[0], append(more[:len(more)-1:len(more)-1], 0x80)); ok {
			t.Fatalf("a list that was cut came back as %v", back)
		}
	})
}

// TestSweepIsExact: lists are kept by the second, and nothing in them goes before its own time, however small the
// batches are and whatever shares the second.
func TestSweepIsExact(t *testing.T) {
	path := tempPath(t)
	l := mustOpen(t, Config{Path: path})
	second := l.Now().Truncate(time.Second).Add(-time.Hour)
	const n = 10
	var last <-chan struct{}
	for i := range n {
		d := dispatchedWrite(l, fmt.Sprint("key-", i))
		c := confirmedWrite(l, d)
		s := settledWrite(l, c, "answer")
		s.ClaimUntil = second.Add(time.Duration(i) * 100 * time.Millisecond)
		for _, w := range []*ledger.Write{d, c, s} {
			w.Relaxed = true
			last = l.Enqueue(w)
		}
	}
	if err := l.Beat(t.Context(), ledger.Owner{ID: "engine", Until: l.Now()}); err != nil { // all settle in one commit, on one list
		t.Fatal(err)
	}
	<-last
	for i := range n {
		now := second.Add(time.Duration(i)*100*time.Millisecond + 50*time.Millisecond)
		for _, want := range []ledger.Swept{{Claims: 1, Bodies: min(int64(i), 1)}, {}} {
			p := ledger.Retention{Now: now, Answers: 100 * time.Millisecond, Batch: n}
			if got, _, err := l.Sweep(t.Context(), p); err != nil || got != want {
				t.Errorf("%d: Sweep = %+v, %v; want %+v", i, got, err, want)
			}
		}
	}
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	if found, err := Verify(t.Context(), path); err != nil || len(found) > 0 {
		t.Errorf("Verify = %v, %v", found, err)
	}
}
