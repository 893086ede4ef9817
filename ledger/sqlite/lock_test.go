package sqlite_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/holdfast-ai/holdfast/ledger"
	"github.com/holdfast-ai/holdfast/ledger/sqlite"
)

// A link to a store is that store: whoever opens it by another name is a second engine.
func TestLinksAreOneStore(t *testing.T) {
	ctx, dir := context.Background(), t.TempDir()
	link, folder := filepath.Join(dir, "link.db"), filepath.Join(dir, "folder")
	if err := errors.Join(os.Symlink("real.db", link), os.Symlink(dir, folder)); err != nil {
		t.Fatal(err)
	}
	first, err := sqlite.Open(ctx, sqlite.Config{Path: filepath.Join(folder, "real.db"), Env: "test"})
	if err != nil {
		t.Fatal(err)
	}
	defer first.Close()
	for _, path := range []string{link, filepath.Join(dir, "real.db"), filepath.Join(folder, "real.db"), filepath.Join(folder, "link.db")} {
		second, err := sqlite.Open(ctx, sqlite.Config{Path: path, Env: "test"})
		if !errors.Is(err, ledger.ErrLocked) {
			t.Errorf("%s: %v, want ErrLocked", path, err)
		}
		if err == nil {
			second.Close()
		}
	}
}

// A second name of the file itself would have a log and a lock of its own: two engines on one store.
func TestHardLinkedStoreIsRefused(t *testing.T) {
	path := filepath.Join(t.TempDir(), "a.db")
	l, err := sqlite.Open(t.Context(), sqlite.Config{Path: path})
	if err != nil {
		t.Fatal(err)
	}
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	other := filepath.Join(filepath.Dir(path), "b.db")
	if err := os.Link(path, other); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{path, other} {
		if l, err := sqlite.Open(t.Context(), sqlite.Config{Path: name}); !errors.Is(err, ledger.ErrLocked) {
			t.Errorf("%s: %v", name, err)
			if err == nil {
				l.Close()
			}
		}
	}
}
