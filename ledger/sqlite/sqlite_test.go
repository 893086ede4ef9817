package sqlite

import (
	"path/filepath"
	"testing"

	"go.uber.org/goleak"

	"github.com/holdfast-ai/holdfast/ledger"
	"github.com/holdfast-ai/holdfast/ledger/ledgertest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func mustOpen(t testing.TB, cfg Config) *Ledger {
	t.Helper()
	l, err := Open(t.Context(), cfg)
	if err != nil {
		t.Fatalf("Open: %v", err)
	}
	t.Cleanup(func() {
		if err := l.Close(); err != nil {
			t.Errorf("Close: %v", err)
		}
	})
	return l
}

func TestConformance(t *testing.T) {
	ledgertest.Run(t, func(t *testing.T) ledger.Ledger {
		return mustOpen(t, Config{Path: filepath.Join(t.TempDir(), "holdfast.db")})
	})
	ledgertest.RunReopen(t, func(t *testing.T) func() ledger.Ledger {
		path := filepath.Join(t.TempDir(), "holdfast.db")
		return func() ledger.Ledger { return mustOpen(t, Config{Path: path}) }
	})
}
