package route

import (
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-ai/holdfast/breaker"
	"github.com/holdfast-ai/holdfast/ledger/sqlite"
)

// life is one process: a table over the real ledger.
func life(t *testing.T, path string, f func(*Table, *sqlite.Ledger)) {
	t.Helper()
	l, err := sqlite.Open(t.Context(), sqlite.Config{Path: path})
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := l.Close(); err != nil {
			t.Error(err)
		}
	}()
	table := New(Config{Cooldowns: l})
	defer table.Close()
	if err := table.Load(t.Context()); err != nil {
		t.Fatal(err)
	}
	f(table, l)
}

func TestRestartForgetsNoCooldown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		path := filepath.Join(t.TempDir(), "holdfast.db")
		var until time.Time
		life(t, path, func(table *Table, l *sqlite.Ledger) {
			until = table.Get(key, breaker.Config{}, 0.2).Cool(time.Hour, "429")
			table.Get("other", breaker.Config{}, 0.2).Cool(time.Minute, "429")
			if got := until.Sub(l.Now()); got < 59*time.Minute || got > time.Hour {
				t.Errorf("until is %v ahead in ledger time", got)
			}
		})
		time.Sleep(30 * time.Minute)
		life(t, path, func(table *Table, l *sqlite.Ledger) {
			r := table.Get(key, breaker.Config{}, 0.2)
			_, refusal := r.Enter()
			if refusal == nil || refusal.Kind != Cooling {
				t.Fatalf("after the restart: %+v", refusal)
			}
			if d := until.Sub(l.Now().Add(refusal.Wait)).Abs(); d > time.Millisecond {
				t.Errorf("%v remain, which is off by %v", refusal.Wait, d)
			}
			if _, refusal := table.Get("other", breaker.Config{}, 0.2).Enter(); refusal != nil {
				t.Errorf("a cool-down that is past holds: %+v", refusal)
			}
			r.Cool(time.Minute, "a shorter one after the restart")
			time.Sleep(refusal.Wait)
			if _, refusal := r.Enter(); refusal != nil {
				t.Fatalf("no probe: %+v", refusal)
			}
			if _, refusal := r.Enter(); refusal == nil {
				t.Error("two probes after a cool-down that a restart took over")
			}
		})
	})
}

func TestResetRemovesTheRow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		path := filepath.Join(t.TempDir(), "holdfast.db")
		life(t, path, func(table *Table, l *sqlite.Ledger) {
			table.Get(key, breaker.Config{}, 0.2).Cool(time.Hour, "429")
			table.Get("kept", breaker.Config{}, 0.2).Cool(time.Hour, "429")
			if _, err := l.Cooldown(t.Context(), "openai/of-another-life", l.Now().Add(time.Hour), ""); err != nil {
				t.Fatal(err)
			}
			must(t)(table.Reset(t.Context(), "openai/*"))
			rows, err := l.Cooldowns(t.Context())
			if err != nil || len(rows) != 1 || rows["kept"].IsZero() {
				t.Errorf("rows %v, %v", rows, err)
			}
		})
		life(t, path, func(table *Table, _ *sqlite.Ledger) {
			if _, refusal := table.Get(key, breaker.Config{}, 0.2).Enter(); refusal != nil {
				t.Errorf("refused: %+v", refusal)
			}
		})
	})
}

// TestRowBeyondADayIsCut: a row written by a clock that was wrong closes no route for longer than a provider could.
func TestRowBeyondADayIsCut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		path := filepath.Join(t.TempDir(), "holdfast.db")
		life(t, path, func(_ *Table, l *sqlite.Ledger) {
			if _, err := l.Cooldown(t.Context(), key, l.Now().Add(10_000*time.Hour), ""); err != nil {
				t.Fatal(err)
			}
		})
		life(t, path, func(table *Table, _ *sqlite.Ledger) {
			if _, refusal := table.Get(key, breaker.Config{}, 0.2).Enter(); refusal == nil || refusal.Wait > maxCooldown {
				t.Errorf("refused with %+v", refusal)
			}
		})
	})
}
