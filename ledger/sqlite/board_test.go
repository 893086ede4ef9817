package sqlite

import (
	"errors"
	"path/filepath"
	"testing"

	"github.com/holdfast-ai/holdfast/ledger"
)

// What comes while a transaction is written is in the same commit, each with its own verdict; one that has to be undone
// takes nobody with it.
func TestWhatComesMeanwhileIsCommittedToo(t *testing.T) {
	commits := 0
	var while func()
	cfg := Config{Path: filepath.Join(t.TempDir(), "holdfast.db"), Hook: func(point string) {
		switch point {
		case "commit.before":
			if f := while; f != nil {
				while = nil
				f()
			}
		case "commit.after":
			commits++
		}
	}}
	l := mustOpen(t, cfg)
	first := dispatchedWrite(l, "key")
	good, claimed, twin := dispatchedWrite(l, "other"), dispatchedWrite(l, "key"), dispatchedWrite(l, "third")
	twin.Insert.ID = first.Insert.ID // found when the rows are written: the whole is undone, and runs again without it
	next := confirmedWrite(l, first)
	next.Relaxed = true
	stale := confirmedWrite(l, good)
	stale.Version, stale.Status.Version = 5, 6
	var done []<-chan struct{}
	while = func() {
		for _, w := range []*ledger.Write{good, claimed, twin, next, stale} {
			done = append(done, l.Enqueue(w))
		}
	}
	if err := ledger.Commit(t.Context(), l, first); err != nil {
		t.Fatal(err)
	}
	for _, d := range done {
		<-d
	}
	for name, c := range map[string]struct{ got, want error }{"good": {good.Err, nil}, "claimed": {claimed.Err, ledger.ErrClaimed},
		"twin": {twin.Err, ledger.ErrStale}, "next": {next.Err, nil}, "stale": {stale.Err, ledger.ErrStale}} {
		if !errors.Is(c.got, c.want) || c.want == nil && c.got != nil {
			t.Errorf("%s: %v, want %v", name, c.got, c.want)
		}
	}
	if claimed.Holder != first.Insert.ID {
		t.Errorf("the key is held by %q", claimed.Holder)
	}
	rec, err := l.Get(t.Context(), first.Insert.ID)
	if err != nil || rec.Version != 2 {
		t.Errorf("%+v, %v", rec, err)
	}
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	if commits != 1 {
		t.Errorf("%d commits", commits)
	}
	lawful(t, cfg)
}
