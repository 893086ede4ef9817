//go:build unix

package sqlite

import (
	"errors"
	"os"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/holdfast-ai/holdfast/ledger"
)

// watched opens a store whose monotonic clock the test moves.
func watched(t *testing.T) (*Ledger, string, func(time.Duration)) {
	path, ahead := tempPath(t), &atomic.Int64{}
	start := time.Now()
	l := mustOpen(t, Config{Path: path, Mono: func() time.Duration { return time.Since(start) + time.Duration(ahead.Load()) }})
	return l, path, func(d time.Duration) { ahead.Add(int64(d)) }
}

func (l *Ledger) mustWrite(t *testing.T, key string) *ledger.Write {
	t.Helper()
	w := dispatchedWrite(l, key)
	if <-l.Enqueue(w); w.Err != nil {
		t.Fatal(w.Err)
	}
	return w
}

// TestFilesVanish: a log or a lock that is deleted or replaced under the engine is noticed before anything more is
// acknowledged; what was acknowledged before is not lost; and the engine goes on by itself.
func TestFilesVanish(t *testing.T) {
	replace := func(name string) error {
		return errors.Join(os.Remove(name), os.WriteFile(name, nil, 0o600))
	}
	for name, c := range map[string]struct {
		suffix string
		damage func(string) error
	}{
		"log deleted":   {"-wal", os.Remove},
		"log moved":     {"-wal", func(name string) error { return os.Rename(name, name+".old") }},
		"log replaced":  {"-wal", replace},
		"lock deleted":  {".lock", os.Remove},
		"lock replaced": {".lock", replace},
	} {
		t.Run(name, func(t *testing.T) {
			l, path, pass := watched(t)
			before := l.mustWrite(t, "before")
			if _, err := l.Get(t.Context(), before.Insert.ID); err != nil { // a reader has the old log open
				t.Fatal(err)
			}
			pass(2 * time.Second)
			l.mustWrite(t, "look")
			if err := c.damage(path + c.suffix); err != nil {
				t.Fatal(err)
			}
			pass(2 * time.Second)
			during := dispatchedWrite(l, "during")
			if <-l.Enqueue(during); !errors.Is(during.Err, ledger.ErrUnavailable) || !strings.Contains(during.Err.Error(), path+c.suffix) {
				t.Fatalf("acknowledged into nowhere: %v", during.Err)
			}
			after := recovered(t, l)
			if _, err := Open(t.Context(), Config{Path: path}); !errors.Is(err, ledger.ErrLocked) {
				t.Errorf("a second engine: %v", err)
			}
			if err := l.Close(); err != nil {
				t.Fatal(err)
			}
			if found, err := Verify(t.Context(), path); err != nil || len(found) > 0 {
				t.Errorf("Verify = %v, %v", found, err)
			}
			l = mustOpen(t, Config{Path: path})
			for _, w := range []*ledger.Write{before, after} {
				if _, err := l.Get(t.Context(), w.Insert.ID); err != nil {
					t.Errorf("what was acknowledged is gone: %v", err)
				}
			}
			if _, err := l.Get(t.Context(), during.Insert.ID); !errors.Is(err, ledger.ErrNotFound) {
				t.Errorf("what was refused is there: %v", err)
			}
		})
	}
}

// TestStoreVanishes: nothing is acknowledged while the database itself is away, no other is begun in its place, and
// the same file put back is the store again.
func TestStoreVanishes(t *testing.T) {
	l, path, pass := watched(t)
	before := l.mustWrite(t, "before")
	if err := os.Rename(path, path+".away"); err != nil {
		t.Fatal(err)
	}
	pass(2 * time.Second)
	for range 3 {
		w := dispatchedWrite(l, "during")
		if <-l.Enqueue(w); !errors.Is(w.Err, ledger.ErrUnavailable) {
			t.Fatalf("acknowledged into nowhere: %v", w.Err)
		}
	}
	if err := l.reopenFails(t); !errors.Is(err, ledger.ErrUnavailable) || !strings.Contains(err.Error(), "put the store back") {
		t.Errorf("Healthy() = %v", err)
	}
	if _, err := os.Stat(path); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("another store was begun: %v", err)
	}
	if err := os.Rename(path+".away", path); err != nil {
		t.Fatal(err)
	}
	recovered(t, l)
	if _, err := l.Get(t.Context(), before.Insert.ID); err != nil {
		t.Error(err)
	}
}

// reopenFails waits for the first attempt to open the file again.
func (l *Ledger) reopenFails(t *testing.T) error {
	t.Helper()
	for {
		if err := l.Healthy(); err == nil || strings.Contains(err.Error(), "put the store back") {
			return err
		}
		if err := t.Context().Err(); err != nil {
			return err
		}
		<-time.After(time.Millisecond)
	}
}
